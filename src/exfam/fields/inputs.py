"""From what a user passes (a frame, a file or field groups) to maps that a fitted model knows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError
from exfam.fields.data import check_field, read_field, with_lags
from exfam.fields.data.field_checks import observed_own
from exfam.fields.declarations import FieldColumnNames
from exfam.geometry import check_coordinates
from exfam.groups import Groups

# By how much a coordinate may differ from the training's, as numbers written to files do.
TOLERANCE = 1e-4
# Columns of a frame that an estimator must know by name.
REQUIRED = ("time", "site", "coordinates", "value")


@dataclass(frozen=True, eq=False)
class FieldInputs:
    """Maps as a model takes them, and the row of the user's data that each own element is.

    `given`: the same maps in the units of the data; those of `groups` are standardized
    """

    groups: Groups
    rows: Int64[np.ndarray, "own"]
    given: Groups

    @property
    def values(self) -> Float[np.ndarray, "elements"]:
        """The value of each element in the unit of the data."""
        (values,) = self.given.values.values()
        return values

    def spread(self, flat: Float[np.ndarray, "elements"]) -> Float[np.ndarray, "rows"]:
        """Numbers of the flat columns in the user's order."""
        out = np.empty(len(self.rows))
        out[self.rows] = flat[self.groups.elements()]
        return out


def field_columns(columns: FieldColumnNames) -> dict[str, Any]:
    """The arguments of `read_field` that an estimator has as parameters."""
    return {name: getattr(columns, name) for name in FieldColumnNames.declared}


def read_field_inputs(
    data: Any, columns: FieldColumnNames, *, sites: np.ndarray | None = None
) -> FieldInputs:
    """The field that the user passed; sites that are not among `sites` have code -1.

    Raises DataError for a frame or file that cannot be read or whose columns are not named, for
    groups that are no field, and for coordinates that the metric does not know.
    """
    if isinstance(data, Groups):
        check_field(data)
        check_coordinates(data.attributes["coordinates"][data.elements()], metric=columns.metric)
        groups = data if sites is None else _recoded(data, sites)
        return FieldInputs(groups, np.arange(groups.n_elements), groups)
    for name in REQUIRED:
        if getattr(columns, name) is None:
            raise DataError(
                f"`{name}` must name a column to read a frame or file, got None. Pass column names "
                "to the estimator (time=…, site=…, coordinates=…, value=…), or groups made with "
                "read_field."
            )
    groups = read_field(data, **field_columns(columns), sites=sites)
    assert groups.source_row is not None
    return FieldInputs(groups, groups.source_row[groups.elements()], groups)


def at_known_sites(groups: Groups) -> Groups:
    """The groups with a vocabulary of those sites that have an observed value; others are new.

    A model learns nothing of a site without any value in training.
    """
    assert groups.item is not None
    codes = np.unique(groups.item[observed_own(groups)])
    labels = groups.vocabulary.get("item", np.arange(groups.n_items))
    return _recoded(groups.with_(vocabulary={"item": labels}), labels[codes[codes >= 0]])


def arranged(groups: Groups, *, lags: int, step: float) -> Groups:
    """The groups with `lags` context ranges: their own, where they came with as many."""
    held = 0 if groups.context_start is None else groups.context_start.shape[1]
    return groups if held == lags else with_lags(groups, lags, step=step)


def site_places(groups: Groups) -> Float[np.ndarray, "sites space"]:
    """Coordinates of the vocabulary's sites; NaN for one without an own element."""
    assert groups.item is not None
    own = groups.elements()
    places = groups.attributes["coordinates"]
    of_sites = np.full((groups.n_items, places.shape[1]), np.nan)
    known = own[groups.item[own] >= 0]
    of_sites[groups.item[known]] = places[known]
    return of_sites


def check_places(
    groups: Groups, places: Float[np.ndarray, "sites space"], *, length: float
) -> None:
    """Raise DataError where a known site is not where it was in training, in units of `length`."""
    given = site_places(groups)
    if given.shape[1] != places.shape[1]:
        raise DataError(
            f"`coordinates` must be {places.shape[1]} numbers, as in training, got "
            f"{given.shape[1]}."
        )
    moved = np.flatnonzero((np.abs(given - places) > TOLERANCE * length).any(1))
    if len(moved):
        first = int(moved[0])
        label = groups.vocabulary["item"].tolist()[first]
        raise DataError(
            f"`coordinates` must be those of training, got site {label!r} at "
            f"{tuple(given[first].tolist())}, in training at {tuple(places[first].tolist())} "
            f"({len(moved)} such sites). Give a site that moved a name of its own."
        )


def _recoded(groups: Groups, sites: np.ndarray) -> Groups:
    """The groups with codes of `sites`; -1 for others."""
    assert groups.item is not None
    labels = groups.vocabulary.get("item", np.arange(groups.n_items))
    code_of = {label: code for code, label in enumerate(sites.tolist())}
    codes = np.array([code_of.get(label, -1) for label in labels.tolist()] + [-1], dtype=np.int32)
    return groups.with_(item=codes[groups.item], vocabulary={"item": sites})
