"""From the plan of a fit to its base, and to attention on it."""

from collections.abc import Sequence
from typing import Any

import torch

from exfam.checks import ExfamError
from exfam.estimator.gain import Gain
from exfam.fields.base.choose import MOST_LAGS as MOST_CHOSEN_LAGS
from exfam.fields.base.choose import choose_lags
from exfam.fields.base.columns import Frame, fit_frame
from exfam.fields.base.complete import completed
from exfam.fields.base.courses import Clock
from exfam.fields.base.fit import FieldBase, fit_base, sites_of
from exfam.fields.base.maps import Maps
from exfam.fields.base.panel import panel_of, tamed
from exfam.fields.base.part import FieldBasePart
from exfam.fields.correction.corrected import CorrectedFieldPart
from exfam.fields.correction.cross_fit import cross
from exfam.fields.correction.train import fit_corrections
from exfam.fields.covariates import covariates_of_sites
from exfam.fields.local.local_fit import fit_local_base
from exfam.fields.local.local_part import LocalBasePart
from exfam.fields.networks.assemble import FieldShape
from exfam.fields.networks.links import limit_of
from exfam.fields.plan import FieldPlan

# Sites of a map and of those before it whose covariance is held whole; of more, in blocks.
MOST_COLUMNS = 1000
# Maps below which nothing could judge what attention adds.
FEWEST_MAPS = 10


def is_local(shape: FieldShape) -> bool:
    """Whether sites are too many for one matrix of their covariances."""
    return shape.n_sites * (shape.lags + 1) > MOST_COLUMNS


def empty_field_base(
    shape: FieldShape, *, period: float, limit: float | None
) -> FieldBasePart | LocalBasePart:
    """A base of this shape, its numbers to be loaded."""
    if is_local(shape):
        return LocalBasePart(shape, period=period)
    return FieldBasePart(shape, period=period, limit=limit)


def maps_of(plan: FieldPlan, *, period: float) -> tuple[Maps, Frame]:
    """The training maps of a standardized plan as tables, and the frame of their sites."""
    shape = plan.shape
    places = torch.from_numpy(shape.placed(plan.places))
    frame = fit_frame(places, metric=shape.metric)
    points = frame.points(places, metric=shape.metric)
    panel = panel_of(
        plan.train,
        n_lags=shape.lags,
        step=shape.step,
        varying=shape.varying_covariates,
        limit=plan.limit,
    )
    panel = panel._replace(values=tamed(panel.values, panel.shown))
    more = covariates_of_sites(plan.train, shape)
    sites = sites_of(points, frame, n_lags=shape.lags, covariates=more)
    return Maps(panel, Clock(period, shape.step), sites), frame


def with_chosen_lags(plan: FieldPlan, lags: Any, *, period: float) -> FieldPlan:
    """The plan with the lags that its training maps choose where `lags` is "auto"."""
    if lags != "auto":
        return plan
    most = MOST_CHOSEN_LAGS
    if limit_of(plan.family) is not None:
        most = max(0, min(most, MOST_COLUMNS // plan.shape.n_sites - 1))
    maps, _ = maps_of(plan.standardized().with_lags(most), period=period)
    return plan.with_lags(choose_lags(completed(maps)))


def fit_field_base(plan: FieldPlan, *, period: float) -> FieldBasePart | LocalBasePart:
    """The base of the training maps of a standardized plan."""
    return _fitted(plan, period=period)[0]


def _fitted(plan: FieldPlan, *, period: float) -> tuple[FieldBasePart | LocalBasePart, FieldBase]:
    """The same, and what it has learned."""
    maps, frame = maps_of(plan, period=period)
    part = empty_field_base(plan.shape, period=period, limit=plan.limit)
    if isinstance(part, FieldBasePart):
        base = fit_base(maps)
    elif plan.limit is not None:
        n_columns = plan.shape.n_sites * (plan.shape.lags + 1)
        raise ExfamError(
            "`family` must be 'student-t' or 'log-student-t' for more than "
            f"{MOST_COLUMNS:,} sites, those of earlier maps counted again, got "
            f"one with zeros for {n_columns:,}. Take fewer lags or sites, or "
            'family="student-t".'
        )
    else:
        base = fit_local_base(maps)
    part.take(base, frame)
    return part, base


def fit_corrected_field(
    plan: FieldPlan, *, period: float, seeds: Sequence[int], most_epochs: int, progress: bool
) -> tuple[CorrectedFieldPart | FieldBasePart | LocalBasePart, Gain | None]:
    """The base with attention on its innovations, and what attention added.

    Of fewer than 10 maps the base alone: held-out blocks would say nothing.
    """
    part, base = _fitted(plan, period=period)
    if len(plan.train) < FEWEST_MAPS:
        return part, None
    members, gates, gain = fit_corrections(
        cross(base), seeds=seeds, most_epochs=most_epochs, progress=progress
    )
    return CorrectedFieldPart(part, n_members=len(members)).take(members, gates), gain
