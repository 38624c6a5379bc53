"""What a field holds and what it lacks, in numbers."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from exfam.fields.data.field_checks import is_observed, own_sites
from exfam.groups import Groups

MOST_LISTED = 5


@dataclass(frozen=True)
class FieldFacts:
    """Counts of the cells of a field: every time step at every site.

    `n_rows`: rows of the source, one an element; `n_observed`: those with a value; `n_missing`:
    those without, NaN or empty; `n_sentinel`: those with a value that was declared to stand for a
    missing one; `n_absent`: pairs of a time step and a site without a row. `times_without_values`
    and `sites_without_values` are labels: such time steps and sites are kept. `new_sites` are
    labels that the known sites do not hold.

    >>> print(FieldFacts(n_rows=5, n_times=3, n_sites=2, n_observed=4, n_missing=1, n_absent=1))
    3 times x 2 sites: 5 rows, 1 absent
    4 values observed, 1 missing
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


def field_facts(groups: Groups) -> FieldFacts:
    """What the groups of a field hold: own elements alone, those of earlier maps do not count.

    Values that were declared missing count as missing. New sites at one place count as one.
    Raises DataError for groups that are no field.

    >>> from exfam.fields.data.read import read_field
    >>> frame = {"day": [1, 1, 2], "city": ["Oslo", "Bonn", "Oslo"], "x": [0, 1, 0], "t": [5, 6, 7]}
    >>> columns = dict(time="day", site="city", coordinates=["x"], value="t", metric="euclidean")
    >>> field_facts(read_field(frame, **columns)).n_absent
    1
    """
    sites = own_sites(groups)
    observed = is_observed(groups)[groups.elements()]
    time = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    times = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    facts = count_facts(time, sites.codes, observed, times=times, sites=sites.names)
    return replace(facts, new_sites=tuple(sites.names[sites.n_known :].tolist()))


def count_facts(
    time: Int64[np.ndarray, "rows"],
    site: Int64[np.ndarray, "rows"],
    observed: Bool[np.ndarray, "rows"],
    *,
    times: np.ndarray,
    sites: np.ndarray,
) -> FieldFacts:
    """The facts of rows of times and sites, both as indices of their labels, and values.

    Sites without a row are none of the field.
    """
    silent_times = np.bincount(time[observed], minlength=len(times)) == 0
    there = np.bincount(site, minlength=len(sites)) > 0
    silent_sites = there & (np.bincount(site[observed], minlength=len(sites)) == 0)
    n_sites, n_observed = int(there.sum()), int(observed.sum())
    return FieldFacts(
        n_rows=len(time),
        n_times=len(times),
        n_sites=n_sites,
        n_observed=n_observed,
        n_missing=len(time) - n_observed,
        n_absent=len(times) * n_sites - len(time),
        times_without_values=tuple(times[silent_times].tolist()),
        sites_without_values=tuple(sites[silent_sites].tolist()),
    )
