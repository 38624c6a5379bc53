"""What is measured of theorem 2: excess loss on groups drawn anew, its slope, and the check.

Source: "Exponential Family Attention", section 5.2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats
import torch
from jaxtyping import Float, Int

from exfam.checks import DataError
from exfam.groups import Groups
from exfam.scores.metrics import Interval
from exfam_studies.common.statements import ERRORS, Check, unmet
from exfam_studies.efa.clipped_attention import ClippedFieldNetwork
from exfam_studies.efa.generalization.norms import (
    ModelClass,
    parameter_norm,
    rate_term,
    theorem_network,
)

# Groups whose conditionals are computed at once.
_AT_ONCE = 1 << 12
# A minimizer found in finite time may miss the least loss by this share of the loss.
_SLACK = 1e-6


def group_losses(model: object, groups: Groups) -> Float[np.ndarray, "groups"]:
    """l(theta; Z) of each group: half the mean squared error of its elements.

    Raises ExfamError for a model of another class, DataError for values that are not observed.

    >>> from exfam_studies.efa.clipped_attention import ClippedFieldSizes, known_clipped_field
    >>> sizes = ClippedFieldSizes(place_dim=2)
    >>> model = known_clipped_field(sizes, attraction=1.0, repulsion=0.0, column="t")
    >>> groups = Groups(start=[0], stop=[2], values={"t": [1.0, 2.0]},
    ...     attributes={"coordinates": np.array([[1.0, 0.0], [1.0, 0.0]])})
    >>> group_losses(model, groups)  # means 1 and 1/2
    array([0.5625])
    """
    value, mean = _values_and_means(theorem_network(model), groups)
    return _group_means(0.5 * (value - mean) ** 2, groups)


@dataclass(frozen=True)
class MeasuredFit:
    """What one fit of F groups came to, against the model that is known to be best.

    `excess`: half the mean squared difference of the two models' predictions on held-out groups,
    which is the excess loss where the known model's predictions are the conditional means;
    `sampled`: the mean difference of their losses there, and `sampled_error` the standard error of
    what the two differ by; `training_gap`: the fit's training loss less the known model's, at most
    0 of a minimizer; `training_loss`: of the known model; `norm`, `known_norm`: |||theta|||;
    `largest`: the largest absolute value in both sets.
    """

    n_groups: int
    excess: float
    sampled: float
    sampled_error: float
    training_gap: float
    training_loss: float
    norm: float
    known_norm: float
    largest: float


def measure_fit(fitted: object, known: object, *, train: Groups, held_out: Groups) -> MeasuredFit:
    """Excess loss of a fitted model on groups that it has not seen, and what the theorem assumes.

    Raises ExfamError for models of another class, DataError for values that are not observed.

    >>> from exfam_studies.efa.auto_normal import random_maps
    >>> from exfam_studies.efa.clipped_attention import ClippedFieldSizes, known_clipped_field
    >>> sizes = ClippedFieldSizes(place_dim=2)
    >>> known, other = (known_clipped_field(sizes, attraction=a, repulsion=0.0, column="value")
    ...     for a in (1.0, 0.5))
    >>> maps = random_maps(4, 3, seed=0)
    >>> measure_fit(other, known, train=maps, held_out=maps).excess
    0.0
    """
    model, best = theorem_network(fitted), theorem_network(known)
    value, mean = _values_and_means(model, held_out)
    best_mean = _values_and_means(best, held_out)[1]
    excess = _group_means(0.5 * (mean - best_mean) ** 2, held_out)
    sampled = _group_means(0.5 * ((value - mean) ** 2 - (value - best_mean) ** 2), held_out)
    training, of_best = group_losses(model, train).mean(), group_losses(best, train).mean()
    with torch.no_grad():
        norm, known_norm = float(parameter_norm(model)), float(parameter_norm(best))
    return MeasuredFit(
        n_groups=len(train),
        excess=float(excess.mean()),
        sampled=float(sampled.mean()),
        sampled_error=float((sampled - excess).std() / math.sqrt(len(held_out))),
        training_gap=float(training - of_best),
        training_loss=float(of_best),
        norm=norm,
        known_norm=known_norm,
        largest=max(_largest(train), _largest(held_out)),
    )


def fit_slope(
    n_groups: Int[np.ndarray, "fits"],
    excess: Float[np.ndarray, "fits"],
    *,
    level: float = 0.95,
) -> Interval:
    """Slope of log excess over log F by least squares, with Student's interval.

    `level`: of the interval, whose fits are taken as independent (default 0.95)

    Raises DataError for fewer than three fits or two sizes, or an excess that is not above 0.

    >>> n_groups = np.array([10, 100, 1000, 10_000])
    >>> [round(end, 2) for end in fit_slope(n_groups, 3.0 / n_groups)]
    [-1.0, -1.0, -1.0]
    """
    if len(n_groups) < 3 or len(set(n_groups.tolist())) < 2:
        raise DataError(
            "`n_groups` must hold at least 3 fits of 2 sizes for a slope, got "
            f"{len(n_groups)} of {len(set(n_groups.tolist()))}."
        )
    if not (excess > 0).all():
        raise DataError(f"`excess` must be above 0 for its logarithm, got {excess.min():g}.")
    fitted = scipy.stats.linregress(np.log(n_groups), np.log(excess))
    wide = float(scipy.stats.t.ppf(0.5 + level / 2, len(n_groups) - 2)) * fitted.stderr
    return Interval(float(fitted.slope), float(fitted.slope - wide), float(fitted.slope + wide))


def check_theorem_2(fits: Sequence[MeasuredFit], of: ModelClass) -> Check:
    """Theorem 2: the excess loss falls with F at least as the rate does, as F^(-1/2).

    Assumes |y| <= B_y (assumption 5), fits and known model of norm at most B, fits that minimize
    the training loss (whose loss is then at most the known model's), and, to measure the excess, a
    known model that is the best of all. That groups are drawn alike and independently is assumed
    unseen. Concludes that the slope of log excess over log F is at most -1/2, within its interval,
    and that the logarithm in appendix D is at most 43 L iota. The constant in O() is unknown, so
    that no single excess can contradict the theorem.
    Raises DataError where a slope cannot be fitted.

    >>> of = ModelClass(n_layers=1, n_heads=2, embed_dim=3, feed_forward_dim=2, place_hidden_dim=4,
    ...     n_dims=2, norm_bound=15.0, token_bound=50.0, value_bound=8.0)
    >>> fits = [MeasuredFit(n, excess=1 / n, sampled=1 / n, sampled_error=0.0, training_gap=-1 / n,
    ...     training_loss=0.5, norm=9.0, known_norm=6.0, largest=5.0) for n in (10, 100, 1000)]
    >>> check = check_theorem_2(fits, of)
    >>> check.applies, check.holds, round(check.measured["slope"], 3)
    (True, True, -1.0)
    """
    sizes = np.array([fit.n_groups for fit in fits])
    slope = fit_slope(sizes, np.array([fit.excess for fit in fits]))
    step = 43 * of.n_layers * of.iota
    largest = max(fit.excess / rate_term(of, fit.n_groups) for fit in fits)
    return Check(
        statement="Theorem 2",
        measured={
            "slope": slope.mean,
            "slope from": slope.low,
            "slope to": slope.high,
            "log covering": of.log_covering,
            "largest excess over rate": largest,
        },
        expected={"slope at most": -0.5, "log covering at most": step},
        failed_assumptions=_failed_assumptions(fits, of),
        failed_conclusions=unmet(
            (
                slope.low <= -0.5,
                f"theorem 2: a slope of at most -1/2, got {slope.mean:.2f} "
                f"[{slope.low:.2f}, {slope.high:.2f}]",
            ),
            (
                of.log_covering <= step,
                f"appendix D: a logarithm <= {step:.3g}, got {of.log_covering:.3g}",
            ),
        ),
    )


def _failed_assumptions(fits: Sequence[MeasuredFit], of: ModelClass) -> tuple[str, ...]:
    largest = max(fit.largest for fit in fits)
    norm = max(max(fit.norm, fit.known_norm) for fit in fits)
    above = [fit for fit in fits if fit.training_gap > _SLACK * fit.training_loss]
    worst = max(fits, key=lambda fit: fit.training_gap)
    apart = [abs(fit.sampled - fit.excess) - ERRORS * fit.sampled_error for fit in fits]
    off = fits[int(np.argmax(apart))]
    return unmet(
        (
            largest <= of.value_bound,
            f"assumption 5: |y| <= B_y = {of.value_bound:g}, got {largest:.3g}",
        ),
        (
            norm <= of.norm_bound * (1 + _SLACK),
            f"section 5.2.2: |||theta||| <= B = {of.norm_bound:g}, got {norm:.3g}",
        ),
        (
            not above,
            f"section 5.2.2: fits must minimize the training loss, got {len(above)} of {len(fits)} "
            f"above the known model's, one of {worst.n_groups} groups by {worst.training_gap:.2g}",
        ),
        (
            max(apart) <= 1e-12,
            "the known model must be the best one, got losses that differ from its by "
            f"{off.sampled:.3g} where predictions differ by {off.excess:.3g}",
        ),
    )


@torch.no_grad()
def _values_and_means(
    model: ClippedFieldNetwork, groups: Groups
) -> tuple[Float[np.ndarray, "elements"], Float[np.ndarray, "elements"]]:
    own = groups.elements()
    value = groups.values[model.column][own].astype(np.float64)
    hidden = 0 if groups.observed is None else int((~groups.observed[own]).sum())
    if hidden:
        raise DataError(
            "`groups` must have every value observed, as in the theorem, got "
            f"{hidden} that are not."
        )
    means = []
    for first in range(0, len(groups), _AT_ONCE):
        part = groups[first : first + _AT_ONCE]
        batch = part.pad(np.arange(len(part)))
        means.append(model.eta(batch)[..., 0][batch.present].double().numpy())
    return value, np.concatenate([*means, np.empty(0)])


def _group_means(
    values: Float[np.ndarray, "elements"], groups: Groups
) -> Float[np.ndarray, "groups"]:
    group = np.repeat(np.arange(len(groups)), groups.lengths)
    return np.bincount(group, weights=values, minlength=len(groups)) / groups.lengths


def _largest(groups: Groups) -> float:
    (value,) = groups.values.values()
    return float(np.abs(value[groups.elements()]).max(initial=0.0))
