"""What a fit of a field works on: maps read and recoded, lags, maps held out, and units.

A model of a field sees (value - center) / scale, with a center and a scale of the training values;
its family is mapped back exactly. Coordinates of plain space are shifted and divided by a length.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.checks import DataError, ExfamError, support_error
from exfam.estimator.members import choose_families
from exfam.estimator.rules import checkpoint_path
from exfam.estimator.schema import check_in_support
from exfam.families import Family, Scaled, scaled_to
from exfam.fields.covariates import (
    in_units,
    with_covariate_facts,
    with_covariates,
    without_covariates,
)
from exfam.fields.data.facts import observed_own, time_step
from exfam.fields.inputs import (
    arranged,
    at_known_sites,
    check_places,
    read_field_inputs,
    site_places,
)
from exfam.fields.networks.assemble import FieldShape, field_shape
from exfam.fields.networks.links import family_in_units, limit_of, to_units, unit_of
from exfam.groups import Groups

# Squares of larger coordinates are no numbers.
FARTHEST = 1e150
SMALLEST = 1e-150
MOST_LENGTHS = 1e9
MOST_SPREADS = 1e8
MOST_COUNT = 1e12


@dataclass(frozen=True, eq=False)
class FieldPlan:
    """What a fit works on, all choices made; values are as they came.

    `limit`: the standardized value, if any, that says no more than that it is at most this
    """

    train: Groups
    validation: Groups | None
    shape: FieldShape
    family: Family
    places: Float[np.ndarray, "sites space"]
    checkpoint: Path | None
    limit: float | None = None
    weight: Float[np.ndarray, "elements"] | None = None
    validation_weight: Float[np.ndarray, "elements"] | None = None

    def with_lags(self, lags: int) -> "FieldPlan":
        """The plan with so many earlier maps beside each."""
        shape = replace(self.shape, lags=lags)
        return replace(self._each(partial(arranged, lags=lags, step=shape.step)), shape=shape)

    def standardized(self) -> "FieldPlan":
        """The plan with standardized values and their family, as models see them."""
        in_units = partial(standardized_maps, family=self.family, shape=self.shape)
        family, limit = family_in_units(self.family), limit_of(self.family)
        return replace(self._each(in_units), family=family, limit=limit)

    def _each(self, change: Callable[[Groups], Groups]) -> "FieldPlan":
        """The plan with changed maps, those held out alike."""
        validation = None if self.validation is None else change(self.validation)
        return replace(self, train=change(self.train), validation=validation)


def plan_field_fit(
    estimator: Any, X: Any, *, validation: Any, checkpoint: str | Path | None
) -> FieldPlan:
    """The plan of `estimator.fit(X)`, whose docstring says when it raises."""
    family, held_out = estimator.fit_choices()
    groups = read_field_inputs(X, estimator).groups
    if not len(observed_own(groups)):
        raise DataError("`X` must hold at least one observed value to fit, got none.")
    groups = at_known_sites(groups)
    if not estimator._sees_covariates:
        groups = without_covariates(groups)
    (chosen,) = choose_families(family, groups).values()
    estimator.check_family(chosen)
    (column,) = groups.values
    check_in_support(groups, {column: chosen})
    shape = _shape(estimator, groups)
    groups = arranged(groups, lags=shape.lags, step=shape.step)
    if validation is None:
        train, kept = _hold_out(groups, fraction=held_out)
    else:
        train, kept = groups, _validation(estimator, validation, groups, shape)
        check_in_support(kept, {column: chosen})
    shown = train.values[column][observed_own(train)].astype(np.float64)
    scaled = scaled_to(chosen, torch.from_numpy(shown))
    check_range(train, scaled)
    path = checkpoint_path(checkpoint)
    return FieldPlan(train, kept, shape, scaled, site_places(groups), path)


def _shape(estimator: Any, groups: Groups) -> FieldShape:
    metric, step = estimator.metric, estimator.step
    if step is None:
        with np.errstate(over="ignore"):
            step = time_step(groups.group_attributes["time"].astype(np.float64))
        if step is not None and not 0 < step < math.inf:
            raise DataError(
                "`time` must hold times that differ in double precision, got a usual gap between "
                f"two of {step:g}. Count them from another day, or in another unit."
            )
    step = 1.0 if step is None else float(step)
    own = groups.attributes["coordinates"][groups.elements()]
    origin, length = origin_and_length(own, metric=metric)
    groups = with_origin(groups, origin, length)
    lags = 0 if estimator.lags == "auto" else int(estimator.lags)  # until the maps choose
    shape = field_shape(groups, lags=lags, step=step, metric=metric)
    return with_covariate_facts(replace(shape, origin=origin, length=length), groups)


def _validation(estimator: Any, data: Any, train: Groups, shape: FieldShape) -> Groups:
    groups = read_field_inputs(data, estimator, sites=train.vocabulary["item"]).groups
    if list(groups.values) != list(train.values):
        raise ExfamError(
            f"`validation` must have the value column {next(iter(train.values))!r}, as the "
            f"training data have, got {next(iter(groups.values))!r}."
        )
    groups = with_covariates(groups, shape)
    if not len(observed_own(groups)):
        raise ExfamError("`validation` must hold at least one observed value, got none.")
    check_places(groups, site_places(train), length=shape.length)
    return arranged(groups, lags=shape.lags, step=shape.step)


def _hold_out(groups: Groups, *, fraction: float) -> tuple[Groups, Groups | None]:
    """Maps to train on, and the last ones to choose the epoch by.

    Not drawn at random: maps that follow each other are alike, and would be in both parts.
    """
    able = groups
    if groups.observed is not None:
        bounds = zip(groups.start.tolist(), groups.stop.tolist(), strict=True)
        able = groups[np.array([groups.observed[start:stop].any() for start, stop in bounds])]
    n = min(math.ceil(fraction * len(able)), len(able) - 1)
    if n < 1:
        return able, None
    return able[: len(able) - n], able[len(able) - n :]


def check_range(groups: Groups, family: Family) -> None:
    """Raise for training values whose numbers would be cut in silence."""
    ((column, values),) = groups.values.items()
    own, unit = observed_own(groups), unit_of(family)
    if not SMALLEST <= unit <= 1 / SMALLEST:
        raise DataError(
            f"`{column}` must have a usual spread from {SMALLEST:g} to {1 / SMALLEST:g}, got "
            f"{unit:g}. Give it in another unit."
        )
    value = values[own].astype(np.float64)
    if isinstance(family, Scaled):
        wrong = own[np.abs(value - family.center) / unit > MOST_SPREADS]
        rule = f"within {MOST_SPREADS:g} times the usual spread of the column, {unit:g}, of its"
        rule, hint = f"{rule} median", "Mend such rows, or declare the number in missing."
    else:
        wrong = own[value > MOST_COUNT]
        rule = f"at most {MOST_COUNT:g} for a family of counts"
        hint = "Use Gaussian() for numbers this large."
    if len(wrong):
        row = int(wrong[0] if groups.source_row is None else groups.source_row[wrong[0]])
        got, counts = values[wrong[0]], (len(wrong), len(own))
        raise support_error(column, got, support=rule, row=row, counts=counts, hint=hint)


def standardized_maps(groups: Groups, family: Family, shape: FieldShape) -> Groups:
    """The groups with values, places and covariates as a model sees them."""
    groups = in_units(with_origin(groups, shape.origin, shape.length), shape)
    if family_in_units(family) is family:
        return groups
    ((name, column),) = groups.values.items()
    values = to_units(torch.from_numpy(column.astype(np.float64)), family).numpy()
    return groups.with_(values={name: values})


def with_origin(groups: Groups, origin: tuple[float, ...], length: float) -> Groups:
    """The groups with coordinates less `origin`, divided by `length`; as they are without one."""
    if not origin:
        return groups
    coordinates = groups.attributes["coordinates"]
    with np.errstate(over="ignore"):
        places = (coordinates - np.array(origin)) / length
    far = np.flatnonzero(~(np.abs(places) <= MOST_LENGTHS).all(1))
    if len(far):
        raise DataError(
            f"`coordinates` must lie within {MOST_LENGTHS:g} times the extent of the training "
            f"sites, {length:g}, got {tuple(coordinates[far[0]].tolist())}. Nothing is known so "
            "far away: leave such places out."
        )
    return groups.with_(attributes={**groups.attributes, "coordinates": places}, position=places)


def origin_and_length(
    places: Float[np.ndarray, "sites space"], *, metric: str
) -> tuple[tuple[float, ...], float]:
    """The middle of the sites and the largest distance of a coordinate from it.

    Models see single precision, in which sites that are close together and far from 0 would be one.
    """
    if metric != "euclidean":
        return (), 1.0
    if (far := np.abs(places).max()) > FARTHEST:
        raise DataError(
            f"`coordinates` must be at most {FARTHEST:g} in size, got {far:g}. Give them in "
            "another unit."
        )
    origin = places.min(0) / 2 + places.max(0) / 2
    length = float(np.abs(places - origin).max())
    return tuple(origin.tolist()), length or 1.0
