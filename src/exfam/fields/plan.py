"""What a fit of a field works on: maps read and recoded, lags laid out, maps held out."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError, ExfamError
from exfam.estimator.members import choose_families
from exfam.estimator.rules import checkpoint_path
from exfam.estimator.schema import check_in_support
from exfam.families import Family
from exfam.fields.data.field_checks import observed_own
from exfam.fields.data.lags import time_step
from exfam.fields.inputs import (
    arranged,
    at_known_sites,
    check_places,
    read_field_inputs,
    site_places,
)
from exfam.fields.networks.assemble import FieldShape, field_shape
from exfam.fields.networks.links import check_field_family
from exfam.fields.units import (
    check_range,
    family_in_units,
    fitted_to,
    origin_and_length,
    standardized_maps,
    with_origin,
)
from exfam.groups import Groups

Weight = Float[np.ndarray, "elements"] | None


@dataclass(frozen=True, eq=False)
class FieldPlan:
    """What a fit works on, all choices made. `places`: coordinates of the known sites.

    Values are as they came; `family` says how they are standardized.
    """

    train: Groups
    validation: Groups | None
    shape: FieldShape
    family: Family
    places: Float[np.ndarray, "sites space"]
    checkpoint: Path | None
    weight: Weight = None
    validation_weight: Weight = None

    def standardized(self) -> "FieldPlan":
        """The plan with standardized values and their family, as models see them."""
        held_out = self.validation
        return replace(
            self,
            train=standardized_maps(self.train, self.family, self.shape),
            validation=None
            if held_out is None
            else standardized_maps(held_out, self.family, self.shape),
            family=family_in_units(self.family),
        )


def plan_field_fit(
    estimator: Any, X: Any, *, validation: Any, checkpoint: str | Path | None
) -> FieldPlan:
    """The plan of `estimator.fit(X)`.

    Raises DataError for data that are no field or have no value, ExfamError where data and
    parameters do not go together, SupportError for values that the family cannot produce.
    """
    groups = read_field_inputs(X, estimator).groups
    _check_observed(groups)
    groups = at_known_sites(groups)
    (family,) = choose_families(estimator.family, groups).values()
    check_field_family(family)
    (column,) = groups.values
    check_in_support(groups, {column: family})
    lags = int(estimator.lags)
    step = _step(estimator, groups)
    groups = arranged(groups, lags=lags, step=step)
    shape = _shape(groups, lags=lags, step=step, metric=estimator.metric)
    if validation is None:
        train, held_out = _hold_out(groups, fraction=float(estimator.validation_fraction))
    else:
        train, held_out = groups, _validation(estimator, validation, groups, shape)
        check_in_support(held_out, {column: family})
    family = fitted_to(family, train)
    check_range(train, family)
    return FieldPlan(
        train=train,
        validation=held_out,
        shape=shape,
        family=family,
        places=site_places(groups),
        checkpoint=checkpoint_path(checkpoint),
    )


def _check_observed(groups: Groups) -> None:
    if not len(observed_own(groups)):
        raise DataError("`X` must hold at least one observed value to fit, got none.")


def _step(estimator: Any, groups: Groups) -> float:
    if estimator.step is not None:
        return float(estimator.step)
    with np.errstate(over="ignore"):
        step = time_step(groups.group_attributes["time"].astype(np.float64))
    if step is not None and not 0 < step < math.inf:
        raise DataError(
            "`time` must hold times that differ in double precision, got a usual gap between "
            f"two of {step:g}. Count them from another day, or in another unit."
        )
    return 1.0 if step is None else step


def _shape(groups: Groups, *, lags: int, step: float, metric: str) -> FieldShape:
    """The shape of the groups, with the origin and the length of their places."""
    own = groups.attributes["coordinates"][groups.elements()]
    origin, length = origin_and_length(own, metric=metric)
    shape = field_shape(with_origin(groups, origin, length), lags=lags, step=step, metric=metric)
    return replace(shape, origin=origin, length=length)


def _validation(estimator: Any, data: Any, train: Groups, shape: FieldShape) -> Groups:
    groups = read_field_inputs(data, estimator, sites=train.vocabulary["item"]).groups
    _check_column(groups, train)
    if not len(observed_own(groups)):
        raise ExfamError("`validation` must hold at least one observed value, got none.")
    check_places(groups, site_places(train), length=shape.length)
    return arranged(groups, lags=shape.lags, step=shape.step)


def _check_column(groups: Groups, train: Groups) -> None:
    if list(groups.values) != list(train.values):
        raise ExfamError(
            f"`validation` must have the value column {next(iter(train.values))!r}, as the "
            f"training data have, got {next(iter(groups.values))!r}."
        )


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
