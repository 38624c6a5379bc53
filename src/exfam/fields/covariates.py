"""Covariates: numbers known at every element, of sites (an altitude) or of maps (a forecast)."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64

from exfam.checks import DataError, ExfamError
from exfam.columns.parts import Part
from exfam.estimator.rules import listed
from exfam.fields.data.facts import observed_own
from exfam.fields.networks.assemble import FieldShape
from exfam.geometry import check_coordinates
from exfam.groups import Groups
from exfam.reading.reader import open_columns

NAME = "covariates"
# Changes at a site smaller than this share of the spread are rounding.
TOLERANCE = 1e-9
# Of the spread in training, as for values.
MOST_SPREADS = 1e8


def without_covariates(groups: Groups) -> Groups:
    """The groups as models see them that know nothing of covariates."""
    attributes = {name: array for name, array in groups.attributes.items() if name != NAME}
    return groups if NAME not in groups.attributes else groups.with_(attributes=attributes)


def with_covariates(groups: Groups, shape: FieldShape) -> Groups:
    """The groups with the covariates of a shape, none if it has none; DataError if they lack."""
    n_wanted = len(shape.covariate_center)
    if not n_wanted:
        return without_covariates(groups)
    held = groups.attributes.get(NAME)
    n_held = 0 if held is None else held.shape[-1]
    if n_held != n_wanted:
        raise DataError(
            f"`X` must have {n_wanted} covariates, as in training, got {n_held}. Read it with "
            "read_field(…, covariates=…)."
        )
    _check_finite(groups)
    return groups


def _check_finite(groups: Groups) -> None:
    own = groups.elements()
    wrong = own[~np.isfinite(groups.attributes[NAME][own]).all(1)]
    if len(wrong):
        row = int(wrong[0] if groups.source_row is None else groups.source_row[wrong[0]])
        got = groups.attributes[NAME][wrong[0]].tolist()
        raise DataError(
            f"`covariates` must be finite numbers in every row, got {got} at row {row} "
            f"({len(wrong)} of {len(own)} rows). Drop or fill these rows."
        )


def with_covariate_facts(shape: FieldShape, groups: Groups) -> FieldShape:
    """The shape of training groups with the units of their covariates, and which of them change."""
    if NAME not in groups.attributes:
        return shape
    _check_finite(groups)
    numbers = groups.attributes[NAME][observed_own(groups)].astype(np.float64)
    center, scale = numbers.mean(0), numbers.std(0)
    scale = np.where(scale > TOLERANCE * np.abs(numbers).max(0), scale, 1.0)
    varies = _varies(groups, scale)
    return replace(
        shape,
        covariate_center=tuple(center.tolist()),
        covariate_scale=tuple(scale.tolist()),
        covariate_varies=tuple(varies.tolist()),
    )


def _varies(
    groups: Groups, scale: Float[np.ndarray, "covariates"]
) -> Bool[np.ndarray, "covariates"]:
    """Whether each covariate differs between rows of one site."""
    assert groups.item is not None
    own = groups.elements()
    own = own[groups.item[own] >= 0]
    site, numbers = groups.item[own], groups.attributes[NAME][own].astype(np.float64)
    order = np.argsort(site, kind="stable")
    site, numbers = site[order], numbers[order]
    first = np.flatnonzero(np.diff(site, prepend=-1))
    apart = np.maximum.reduceat(numbers, first) - np.minimum.reduceat(numbers, first)
    return np.any(apart > TOLERANCE * scale, axis=0)


def in_units(groups: Groups, shape: FieldShape) -> Groups:
    """The groups with covariates as models see them."""
    if not shape.covariate_center:
        return without_covariates(groups)
    center, scale = np.array(shape.covariate_center), np.array(shape.covariate_scale)
    numbers = (groups.attributes[NAME].astype(np.float64) - center) / scale
    far = np.flatnonzero(~(np.abs(numbers) <= MOST_SPREADS).all(1))
    if len(far):
        raise DataError(
            f"`covariates` must lie within {MOST_SPREADS:g} times the training's spread of its "
            f"mean, got {groups.attributes[NAME][far[0]].tolist()}. Mend such rows."
        )
    return groups.with_(attributes={**groups.attributes, NAME: numbers})


def covariates_of_sites(
    groups: Groups, shape: FieldShape
) -> Float64[torch.Tensor, "sites covariates"] | None:
    """Covariates of the vocabulary's sites that do not change; None without any."""
    if not shape.fixed_covariates:
        return None
    assert groups.item is not None
    own = groups.elements()
    own = own[groups.item[own] >= 0]
    found = np.zeros((groups.n_items, len(shape.fixed_covariates)))
    found[groups.item[own]] = groups.attributes[NAME][own][:, list(shape.fixed_covariates)]
    return torch.from_numpy(found)


def check_ahead(shape: FieldShape) -> None:
    """Raise ExfamError where maps to come need covariates that nobody gave."""
    if shape.varying_covariates:
        raise ExfamError(
            "`covariates` of maps to come must be known to forecast, got a model with some that "
            "change from map to map. Give rows of these times, their values missing, to "
            "predict_dist or sample."
        )


def places_of(
    at: Any, columns: Any, shape: FieldShape
) -> tuple[Float[np.ndarray, "places space"], Float[np.ndarray, "places covariates"] | None]:
    """Coordinates of the places `at` and their covariates; None without any.

    `columns`: the names of both, by which they are taken from a frame. Raises ExfamError for what
    is no such table, or for a model whose covariates change: of places alone they are not known.
    """
    n_more = len(shape.covariate_center)
    if shape.varying_covariates:
        raise ExfamError(
            "`at` must be left out for a model with covariates that change from map to map: those "
            "of further places are not known. Add rows of these places to `X`, values missing."
        )
    names = [*listed(columns.coordinates), *listed(getattr(columns, NAME, None))]
    if n_more and len(names) == shape.n_dims + n_more and not isinstance(at, np.ndarray | list):
        parts = [Part("at", name) for name in names]
        read = open_columns(at, parts)
        at = np.stack([read.numbers(part) for part in parts], axis=1)
    table = _as_table(at, shape.n_dims, n_more)
    places, more = table[:, : shape.n_dims], table[:, shape.n_dims :]
    check_coordinates(places, metric=shape.metric)
    if not np.isfinite(more).all():
        raise ExfamError("`at` must hold finite covariates, got others. Fill or drop these places.")
    return places, more if n_more else None


def _as_table(at: Any, n_dims: int, n_more: int) -> Float[np.ndarray, "places columns"]:
    try:
        table = np.asarray(at, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ExfamError(f"`at` must be coordinates, one row per place, got {error}.") from error
    if table.ndim != 2 or table.shape[1] != n_dims + n_more or not len(table):
        behind = f", then {n_more} of covariates" if n_more else ""
        raise ExfamError(
            f"`at` must be coordinates with {n_dims} columns{behind}, one row per place, got shape "
            f"{table.shape}."
        )
    return table
