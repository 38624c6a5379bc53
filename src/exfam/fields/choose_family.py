"""Which family a base takes: what makes values of held-out blocks of time likeliest."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.families import (
    CensoredStudentT,
    Family,
    LogStudentT,
    RoundedRootStudentT,
    StudentT,
    scaled_to,
)
from exfam.fields.base.complete import COURSE, completed
from exfam.fields.base.maps import Maps, some_sites
from exfam.fields.base.panel import panel_of
from exfam.fields.base.trials import MapNats, Trials, WholeRows, best_settings, map_nats, prior_of
from exfam.fields.data.facts import observed_own
from exfam.fields.field_base import is_local, maps_of
from exfam.fields.networks.links import log_slopes
from exfam.fields.plan import FieldPlan

# Maps below which blocks held out would say nothing.
FEWEST_MAPS = 20
# Families are tried on some of many sites, with a few settings.
MOST_SITES, SHRINKAGES, NEAR = 40, (0.1, 0.3, 0.6), (15,)
# Of more zeros than this share a density makes no sense: they have a probability.
FEW_ZEROS = 0.02
# What a family without a mean must add, in nats a value.
WITHOUT_MEAN = 0.03
ROOTS = (1, 2, 3)
# Whole numbers from 0 on whose median is at most this are counts.
FEW_COUNTS = 30
# Kelly's skewness, (q90 + q10 - 2 q50) / (q90 - q10), up to which values are not skewed.
SKEWED = 0.1


class TriedFamily(NamedTuple):
    """A family, and what it makes of held-out maps."""

    family: Family
    nats: MapNats


def with_chosen_family(plan: FieldPlan, *, period: float) -> FieldPlan:
    """The plan with the family that its training maps choose.

    Student's t where some values are below 0, where their distribution is not skewed to the right,
    unless many are 0, and of more sites than one matrix has the covariances of. Otherwise a root or
    the logarithm where that makes values of held-out blocks likelier by more than chance; small
    whole numbers are counts.
    """
    (column,) = plan.train.values.values()
    values = column[observed_own(plan.train)].astype(np.float64)
    candidates = [StudentT()] if is_local(plan.shape) else candidates_for(values)
    if len(candidates) < 2 or len(plan.train) < FEWEST_MAPS:
        return _with_family(plan, candidates[0], values)
    plain = plan.with_lags(0)
    first = _with_family(plain, candidates[0], values)
    best = _tried(first, period=period)
    for family in candidates[1:]:
        other = _tried(_with_family(plain, family, values), period=period)
        least = 0.0 if family.has_mean else WITHOUT_MEAN
        if other.nats.gain_on(best.nats).low > least:
            best = other
    return _with_family(plan, best.family, values)


def candidates_for(values: Float64[np.ndarray, "values"]) -> list[Family]:
    """Families that the values may have, the usual one first."""
    zeros = float((values == 0).mean())
    if (values < 0).any() or not (values > 0).any():
        return [StudentT()]
    if zeros > 0 and not (values % 1).any() and np.median(values) <= FEW_COUNTS:
        return [RoundedRootStudentT()]
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    if zeros <= FEW_ZEROS and low + high - 2 * middle <= SKEWED * (high - low):
        return [StudentT()]
    roots = [CensoredStudentT(root) for root in ROOTS]
    if zeros > FEW_ZEROS:
        return [*roots[1:2], *roots[:1], *roots[2:]]
    return [StudentT(), *roots[1:], *([LogStudentT()] if zeros == 0 else [])]


def _with_family(
    plan: FieldPlan, family: Family, values: Float64[np.ndarray, "values"]
) -> FieldPlan:
    return replace(plan, family=scaled_to(family, torch.from_numpy(values)))


def _maps(plan: FieldPlan, *, period: float) -> Maps:
    return completed(maps_of(plan.standardized(), period=period)[0].of_sites(MOST_SITES))


def _tried(plan: FieldPlan, *, period: float) -> TriedFamily:
    """Nats of held-out maps in the unit of the value, other settings being the best of a few."""
    maps = _maps(plan, period=period)
    trials = Trials(WholeRows(maps, prior_of(maps, COURSE)), COURSE)
    settings = best_settings(trials, shrinkages=SHRINKAGES, near=NEAR)[1]
    found = map_nats(trials, settings)
    slopes = _slopes(plan)
    return TriedFamily(plan.family, found._replace(nats=found.nats + slopes[found.row]))


def _slopes(plan: FieldPlan) -> Float64[Tensor, "times"]:
    """Of each map: what brings nats of what models see to those of values."""
    panel = panel_of(plan.train, n_lags=0, step=plan.shape.step)
    panel = panel.of_sites(some_sites(panel.values.shape[1], MOST_SITES))
    return torch.where(panel.shown, log_slopes(panel.values, plan.family), 0.0).sum(1)
