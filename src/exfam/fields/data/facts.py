"""What makes Groups a field, and what a field holds and lacks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from exfam.checks import DataError
from exfam.groups import Groups

MOST_LISTED = 5


def check_field(groups: Groups) -> None:
    """Raise DataError unless the groups are a field, as `read_field` makes them."""
    coordinates = groups.attributes.get("coordinates")
    has = {
        "item": groups.item is not None,
        "coordinates": coordinates is not None and coordinates.ndim == 2,
        "position": groups.position is not None and groups.position.ndim == 2,
        "time": "time" in groups.group_attributes,
        "value": len(groups.values) == 1,
    }
    lacking = ", ".join(name for name, there in has.items() if not there)
    if lacking:
        raise DataError(
            "`groups` must be a field with item, coordinates, position, time and one value, got "
            f"none of {lacking}. Make them with read_field."
        )


def is_observed(groups: Groups) -> Bool[np.ndarray, "elements"]:
    """Whether elements of the flat columns have an observed value."""
    return np.ones(groups.n_rows, dtype=bool) if groups.observed is None else groups.observed


def observed_own(groups: Groups) -> Int64[np.ndarray, "own"]:
    """Own elements with an observed value."""
    own = groups.elements()
    return own[is_observed(groups)[own]]


@dataclass(frozen=True)
class FieldFacts:
    """Counts of the cells of a field: every time step at every site.

    `n_rows`: rows of the source, of which `n_observed` have a value, `n_missing` none and
    `n_sentinel` one that stands for a missing value; `n_absent`: pairs of a time step and a site
    without a row. Labels: time steps and sites without values, which are kept, and sites that are
    not known.
    """

    n_rows: int
    n_times: int
    n_sites: int
    n_observed: int
    n_missing: int = 0
    n_sentinel: int = 0
    n_absent: int = 0
    times_without_values: tuple[Any, ...] = ()
    sites_without_values: tuple[Any, ...] = ()
    new_sites: tuple[Any, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.n_times:,} times x {self.n_sites:,} sites: {self.n_rows:,} rows, "
            f"{self.n_absent:,} absent",
            f"{self.n_observed:,} values observed, {self.n_missing:,} missing"
            + (f", {self.n_sentinel:,} declared missing" if self.n_sentinel else ""),
        ]
        listed = {
            "times without values": self.times_without_values,
            "sites without values": self.sites_without_values,
            "new sites": self.new_sites,
        }
        return "\n".join(
            lines + [f"{what}: {_listed(labels)}" for what, labels in listed.items() if labels]
        )


def _listed(labels: tuple[Any, ...]) -> str:
    more = f" and {len(labels) - MOST_LISTED:,} more" if len(labels) > MOST_LISTED else ""
    return ", ".join(str(label) for label in labels[:MOST_LISTED]) + more
