"""Theorem 2 of "Exponential Family Attention": what it says of a model, and what is measured.

With probability 1 - xi over F groups drawn alike, the minimizer of the training loss over all
models of the class with norm at most B has

    L(fitted) <= inf L + O(rate),
    rate = B_y^2 sqrt((43 L (L (3 M D^2 + 2 D D') + K' (K + tau)) iota + log(1 / xi)) / F),
    iota = log(2 + max(B, R, 1 / (2 B_y))),

where the loss of a group of I elements is 1/(2 I) sum_i (y_i - prediction)^2. The rate is a term
and no bound: O() hides a constant. The theorem is about `ClippedFieldNetwork` alone.
Source: section 5.2 and appendix D of the paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.stats
import torch
from jaxtyping import Float, Int
from torch import Tensor

from exfam.checks import DataError, ExfamError
from exfam.groups import Groups
from exfam.scores.metrics import Interval
from exfam_studies.common.statements import ERRORS, Check, unmet
from exfam_studies.efa.clipped_attention import ClippedFieldNetwork, ClippedFieldSizes

# xi, the probability with which the theorem may be wrong.
CHANCE = 0.05
# A minimizer found in finite time may miss the least loss by this share of the loss.
_SLACK = 1e-6


@dataclass(frozen=True)
class ModelClass:
    """The set Theta of the theorem: the sizes of its models, and B, the bound of their norm."""

    sizes: ClippedFieldSizes
    norm_bound: float

    @property
    def n_numbers(self) -> int:
        """L (3 M D^2 + 2 D D') + K' (K + tau), D = K + 1: how many numbers a model has."""
        of, dim = self.sizes, self.sizes.place_dim + 1
        layer = 3 * of.n_heads * dim**2 + 2 * dim * of.feed_forward_dim
        return of.n_layers * layer + of.place_hidden_dim * (of.place_dim + of.n_dims)

    @property
    def iota(self) -> float:
        """log(2 + max(B, R, 1 / (2 B_y)))."""
        of = self.sizes
        return math.log(2 + max(self.norm_bound, of.token_bound, 0.5 / of.value_bound))

    @property
    def log_covering(self) -> float:
        """log(4 + 4 (L + 1) B_H^L B_Theta B / B_y), for which the theorem has 43 L iota.

        B_H = (1 + B^2)(1 + B^2 R^3), B_Theta = B R (1 + B R^2 + B^3 R^2). Source: appendix D.
        """
        b, r, n = self.norm_bound, self.sizes.token_bound, self.sizes.n_layers
        of_layer = math.log1p(b**2) + math.log1p(b**2 * r**3)
        of_norm = math.log(b * r) + math.log1p(b * r**2 + b**3 * r**2)
        rest = math.log(4 * (n + 1) * b / self.sizes.value_bound) + n * of_layer + of_norm
        return float(np.logaddexp(math.log(4), rest))

    def rate_term(self, n_groups: int) -> float:
        """The theorem's rate at F groups, in squared units of the value, up to a constant."""
        inside = 43 * self.sizes.n_layers * self.n_numbers * self.iota + math.log(1 / CHANCE)
        return self.sizes.value_bound**2 * math.sqrt(inside / n_groups)


def model_class(model: object, *, norm_bound: float | None = None) -> ModelClass:
    """The class that a model is of, with its own norm as B unless a larger bound is given.

    Raises ExfamError for any model but a `ClippedFieldNetwork`, and for a bound below its norm.
    """
    network = getattr(model, "members_", [model])[0]
    if not isinstance(network, ClippedFieldNetwork):
        raise ExfamError(
            "`model` must be of the class of theorem 2, a ClippedFieldNetwork (ReLU attention / n, "
            "no biases, no layer norm, tokens and predictions that are clipped), got "
            f"{type(network).__name__}. The theorem says nothing of it."
        )
    norm = float(parameter_norm(network).detach())
    bound = norm if norm_bound is None else float(norm_bound)
    if bound < norm:
        raise ExfamError(
            f"`norm_bound` must be at least the model's own norm {norm:.4g}, got {bound:.4g}."
        )
    return ModelClass(network.sizes, norm_bound=bound)


def parameter_norm(network: ClippedFieldNetwork) -> Float[Tensor, ""]:
    """|||theta|||, a tensor with a gradient: the largest layer's norms plus those of G1 and G2.

    max over layers of {max over heads of |Q|, |K| + sum over heads of |V| + |W1| + |W2|}
    + |G1| + |G2|, all operator norms. Source: section 5.2.2.
    """
    norm, layers = partial(torch.linalg.matrix_norm, ord=2), []
    for layer in network.layers:
        scores = torch.maximum(norm(layer.query).max(), norm(layer.key).max())
        layers.append(scores + norm(layer.value).sum() + (norm(layer.first) + norm(layer.second)))
    place = norm(network.place.first) + norm(network.place.second)
    return torch.stack(layers).max() + place


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


def measure_fit(
    fitted: ClippedFieldNetwork, known: ClippedFieldNetwork, *, train: Groups, held_out: Groups
) -> MeasuredFit:
    """Excess loss of a fitted model on groups that it has not seen, and what the theorem assumes.

    Raises DataError for values that are not observed.
    """
    value, mean = _values_and_means(fitted, held_out)
    best_mean = _values_and_means(known, held_out)[1]
    excess = _group_means(0.5 * (mean - best_mean) ** 2, held_out)
    sampled = _group_means(0.5 * ((value - mean) ** 2 - (value - best_mean) ** 2), held_out)
    training, of_best = group_losses(fitted, train).mean(), group_losses(known, train).mean()
    values = [groups.values[known.column][groups.elements()] for groups in (train, held_out)]
    return MeasuredFit(
        n_groups=len(train),
        excess=float(excess.mean()),
        sampled=float(sampled.mean()),
        sampled_error=float((sampled - excess).std() / math.sqrt(len(held_out))),
        training_gap=float(training - of_best),
        training_loss=float(of_best),
        norm=float(parameter_norm(fitted).detach()),
        known_norm=float(parameter_norm(known).detach()),
        largest=max(float(np.abs(own).max(initial=0.0)) for own in values),
    )


def group_losses(model: ClippedFieldNetwork, groups: Groups) -> Float[np.ndarray, "groups"]:
    """l(theta; Z) of each group: half the mean squared error of its elements."""
    value, mean = _values_and_means(model, groups)
    return _group_means(0.5 * (value - mean) ** 2, groups)


@torch.no_grad()
def _values_and_means(
    model: ClippedFieldNetwork, groups: Groups
) -> tuple[Float[np.ndarray, "elements"], Float[np.ndarray, "elements"]]:
    own = groups.elements()
    hidden = 0 if groups.observed is None else int((~groups.observed[own]).sum())
    if hidden:
        raise DataError(
            "`groups` must have every value observed, as in the theorem, got "
            f"{hidden} that are not."
        )
    batch = groups.pad(np.arange(len(groups)))
    mean = model.eta(batch)[..., 0][batch.present].double().numpy()
    return groups.values[model.column][own].astype(np.float64), mean


def _group_means(
    values: Float[np.ndarray, "elements"], groups: Groups
) -> Float[np.ndarray, "groups"]:
    group = np.repeat(np.arange(len(groups)), groups.lengths)
    return np.bincount(group, weights=values, minlength=len(groups)) / groups.lengths


def fit_slope(n_groups: Int[np.ndarray, "fits"], excess: Float[np.ndarray, "fits"]) -> Interval:
    """Slope of log excess over log F by least squares, with Student's 95% interval.

    Raises DataError for fewer than three fits or two sizes, or an excess that is not above 0.
    """
    n_sizes = len(set(n_groups.tolist()))
    if len(n_groups) < 3 or n_sizes < 2 or not (excess > 0).all():
        raise DataError(
            "`n_groups` must hold at least 3 fits of 2 sizes for a slope, with an excess > 0, got "
            f"{len(n_groups)} of {n_sizes}, the least excess {excess.min():g}."
        )
    fitted = scipy.stats.linregress(np.log(n_groups), np.log(excess))
    wide = float(scipy.stats.t.ppf(0.975, len(n_groups) - 2)) * fitted.stderr
    return Interval(float(fitted.slope), float(fitted.slope - wide), float(fitted.slope + wide))


def check_theorem_2(fits: Sequence[MeasuredFit], of: ModelClass) -> Check:
    """Theorem 2: the excess loss falls with F at least as the rate does, as F^(-1/2).

    Assumes |y| <= B_y (assumption 5), norms of at most B, fits that minimize the training loss, and
    a known model that is the best of all. Concludes that the slope of log excess over log F is at
    most -1/2, within its interval, and that the logarithm in appendix D is at most 43 L iota.
    """
    n_groups = np.array([fit.n_groups for fit in fits])
    slope = fit_slope(n_groups, np.array([fit.excess for fit in fits]))
    over_rate = max(fit.excess / of.rate_term(fit.n_groups) for fit in fits)
    step, bound = 43 * of.sizes.n_layers * of.iota, of.sizes.value_bound
    largest = max(fit.largest for fit in fits)
    norm = max(max(fit.norm, fit.known_norm) for fit in fits)
    above = [fit for fit in fits if fit.training_gap > _SLACK * fit.training_loss]
    worst = max(fits, key=lambda fit: fit.training_gap)
    apart = [abs(fit.sampled - fit.excess) - ERRORS * fit.sampled_error for fit in fits]
    off = fits[int(np.argmax(apart))]
    values = f"assumption 5: |y| <= B_y = {bound:g}, got {largest:.3g}"
    norms = f"section 5.2.2: |||theta||| <= B = {of.norm_bound:g}, got {norm:.3g}"
    minima = (
        f"section 5.2.2: fits must minimize the training loss, got {len(above)} of {len(fits)} "
        f"above the known model's, one of {worst.n_groups} groups by {worst.training_gap:.2g}"
    )
    best = (
        "the known model must be the best one, got losses that differ from its by "
        f"{off.sampled:.3g} where predictions differ by {off.excess:.3g}"
    )
    steep = f"a slope of at most -1/2, got {slope.mean:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
    covering = f"appendix D: a logarithm <= {step:.3g}, got {of.log_covering:.3g}"
    return Check(
        statement="Theorem 2",
        measured={
            "slope": slope.mean,
            "slope from": slope.low,
            "slope to": slope.high,
            "log covering": of.log_covering,
            "largest excess over rate": over_rate,
        },
        expected={"slope at most": -0.5, "log covering at most": step},
        failed_assumptions=unmet(
            (largest <= bound, values),
            (norm <= of.norm_bound * (1 + _SLACK), norms),
            (not above, minima),
            (max(apart) <= 1e-12, best),
        ),
        failed_conclusions=unmet(
            (slope.low <= -0.5, f"theorem 2: {steep}"), (of.log_covering <= step, covering)
        ),
    )
