"""From what a user passes (a frame, a file or field groups) to maps that a fitted model knows."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError, ExfamWarning
from exfam.columns.frames import open_frame, with_columns
from exfam.fields.data import check_field, read_field_with_facts, with_lags
from exfam.fields.data.facts import is_observed, observed_own
from exfam.fields.declarations import FieldColumnNames
from exfam.geometry import check_coordinates
from exfam.groups import Groups
from exfam.scores.prediction import Prediction

# By how much a coordinate may differ from the training's, as numbers written to files do.
TOLERANCE = 1e-4
# Columns of a frame that an estimator must know by name.
REQUIRED = ("time", "site", "coordinates", "value")
REMEDY = "FieldGaussianProcess, FieldKriging and FieldEFA predict new places from those around them"


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

    def spread(self, flat: np.ndarray) -> np.ndarray:
        """What the flat columns hold in the user's order; of several draws the last axis is it."""
        out = np.empty((*flat.shape[:-1], len(self.rows)), dtype=flat.dtype)
        out[..., self.rows] = flat[..., self.groups.elements()]
        return out


def field_columns(columns: FieldColumnNames) -> dict[str, Any]:
    """The arguments of `read_field_with_facts` that an estimator has as parameters."""
    names = {name: getattr(columns, name) for name in (*REQUIRED, "metric")}
    return names | {
        "covariates": getattr(columns, "covariates", None),
        "dialect": columns.dialect,
    }


def read_field_inputs(
    data: Any, columns: FieldColumnNames, *, sites: np.ndarray | None = None
) -> FieldInputs:
    """The field that the user passed; sites that are not among `sites` have code -1."""
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
    groups, _ = read_field_with_facts(data, **field_columns(columns), sites=sites)
    assert groups.source_row is not None
    return FieldInputs(groups, groups.source_row[groups.elements()], groups)


def at_known_sites(groups: Groups) -> Groups:
    """The groups with a vocabulary of those sites that have an observed value; others are new."""
    assert groups.item is not None
    codes = np.unique(groups.item[observed_own(groups)])
    labels = groups.vocabulary.get("item", np.arange(groups.n_items))
    return _recoded(groups.with_(vocabulary={"item": labels}), labels[codes[codes >= 0]])


def _recoded(groups: Groups, sites: np.ndarray) -> Groups:
    assert groups.item is not None
    labels = groups.vocabulary.get("item", np.arange(groups.n_items))
    code_of = {label: code for code, label in enumerate(sites.tolist())}
    codes = np.array([code_of.get(label, -1) for label in labels.tolist()] + [-1], dtype=np.int32)
    return groups.with_(item=codes[groups.item], vocabulary={"item": sites})


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


def warn_of_new_sites(groups: Groups, seen: Bool[np.ndarray, "slots"], *, estimator: str) -> None:
    """Warn (ExfamWarning) of rows whose sites training did not observe, with their number.

    `seen`: by code, whether training observed a site often enough to learn from
    """
    assert groups.item is not None
    rows = groups.elements()
    codes = groups.item[rows]
    new = rows[(codes < 0) | ~seen[codes]]
    if not len(new):
        return
    n_places = len(np.unique(groups.attributes["coordinates"][new], axis=0))
    warnings.warn(
        f"{len(new)} of {len(rows)} rows are at {n_places} places that training observed less than "
        f"twice. {estimator} knows the other sites alone: it predicts these rows by what is normal "
        f"there, and their values say nothing of other rows. {REMEDY}.",
        ExfamWarning,
        stacklevel=4,
    )


def filled(
    frame: Any, inputs: FieldInputs, prediction: Prediction, *, column: str, level: float
) -> Any:
    """The frame with its missing values replaced, and columns that say where and how surely."""
    observed, values = inputs.spread(is_observed(inputs.groups)), inputs.spread(inputs.values)
    low, high = prediction.interval(level)
    columns = {
        column: np.where(observed, values, prediction.center),
        f"{column}_imputed": ~observed,
        f"{column}_low": np.where(observed, values, low),
        f"{column}_high": np.where(observed, values, high),
    }
    held = open_frame(frame)
    for name in columns:
        if name in held and name != column:
            raise DataError(
                f"`frame` must have no column {name!r}, which marks what was filled in. Rename it."
            )
    return with_columns(frame, columns)
