"""Whether predicted probabilities come true: of values, by their cdf; of items, by how often."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from exfam.checks import DataError, ExfamError, check_positive
from exfam.families.mixtures import Mixture

# Items of lower probability share the last bin of a factor of two.
N_BINS = 20


@dataclass(frozen=True)
class Coverage:
    """A central interval of probability `level`, and what came of it.

    `promised`: mean probability that the model itself gives its intervals; above `level` where
    values are whole numbers. `observed`: share of values inside.
    """

    level: float
    promised: float
    observed: float


def probability_integral(
    mixture: Mixture, value: Float[Tensor, "rows"], *, seed: int
) -> Float[np.ndarray, "rows"]:
    """The cdf of each value, in [0, 1]; uniform if all predicted distributions are right.

    Whole numbers jump: there a uniform draw between the cdf below the value and at it.
    Source: Czado, Gneiting & Held (2009), Predictive Model Assessment for Count Data, section 2.
    """
    at = mixture.cdf(value).double().numpy()
    below = _cdf_below(mixture, value).double().numpy()
    uniform = np.random.default_rng(seed).random(len(at))
    return below + uniform * (at - below)


def distance_to_uniform(integral: Float[np.ndarray, "rows"]) -> float:
    """Largest distance between the shares below u and u itself, in [0, 1] (Kolmogorov-Smirnov).

    Of n uniform draws it stays below 1.36 / sqrt(n) in 95 of 100 cases. Raises DataError without
    rows.
    """
    n = len(integral)
    if not n:
        raise DataError("`integral` must hold at least one row, got none.")
    ordered, step = np.sort(integral), np.arange(n) / n
    return float(max((ordered - step).max(), (step + 1 / n - ordered).max()))


def interval_coverage(
    mixture: Mixture, value: Float[Tensor, "rows"], *, levels: Sequence[float] = (0.5, 0.8, 0.9)
) -> list[Coverage]:
    """How many values lie in the central interval of each level, ends included.

    Raises DataError without rows.
    """
    if not len(value):
        raise DataError("`value` must hold at least one row, got none.")
    coverages = []
    for level in levels:
        low, high = (mixture.quantile((1 + sign * level) / 2) for sign in (-1, 1))
        promised = mixture.cdf(high) - _cdf_below(mixture, low)
        inside = (value >= low) & (value <= high)
        coverages.append(
            Coverage(level, float(promised.double().mean()), float(inside.double().mean()))
        )
    return coverages


def _cdf_below(mixture: Mixture, value: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """P(Y < value): the cdf itself where Y is continuous."""
    return mixture.cdf(torch.where(mixture.has_jumps(value), value - 0.5, value))


@dataclass(frozen=True, eq=False)
class Reliability:
    """Probabilities of all items at all targets, in bins of a factor of two: from 1/2, from 1/4 …

    A bin's `predicted` is the number of targets expected to be the item in question, `observed`
    the number that were, `variance` that of the number if the probabilities are right and targets
    independent, `pairs` how many pairs of target and item it holds. Sums of two are sums of bins.
    """

    pairs: Int64[np.ndarray, "bins"]
    predicted: Float[np.ndarray, "bins"]
    observed: Float[np.ndarray, "bins"]
    variance: Float[np.ndarray, "bins"]

    def __add__(self, other: "Reliability") -> "Reliability":
        names = [field.name for field in fields(self)]
        return Reliability(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def error(self) -> float:
        """Expected calibration error over all items, in [0, 2].

        How far bins' mean probabilities are from their shares of hits, summed over pairs, a target.
        """
        targets = self.observed.sum()
        if not targets:
            raise DataError("`reliability` must hold at least one target, got none.")
        return float(np.abs(self.predicted - self.observed).sum() / targets)


def reliability(
    probability: Float[np.ndarray, "targets items"], item: Int[np.ndarray, "targets"]
) -> Reliability:
    """Bins of the probabilities of all items, and how often they were the target's item.

    Probabilities below 2^-19 share the last bin; pairs of exactly 0 (excluded items) are left out.
    Raises ExfamError for a target without an item.
    """
    if (item < 0).any():
        raise ExfamError("`item` must be known for every target, got code -1. Leave it out.")
    exponent = np.frexp(probability)[1]
    # frexp gives [1/2, 1) the exponent 0, and 1 itself 1.
    bins = np.where(probability > 0, np.clip(-exponent, 0, N_BINS - 1), N_BINS - 1)
    hits = np.take_along_axis(bins, item[:, None], axis=1)[:, 0]
    flat, bins = probability.ravel(), bins.ravel()
    if not flat.all():
        possible = flat > 0
        flat, bins = flat[possible], bins[possible]

    def sums(weights: Float[np.ndarray, "pairs"]) -> Float[np.ndarray, "bins"]:
        return np.bincount(bins, weights=weights, minlength=N_BINS).astype(np.float64)

    return Reliability(
        pairs=np.bincount(bins, minlength=N_BINS),
        predicted=sums(flat),
        observed=np.bincount(hits, minlength=N_BINS).astype(np.float64),
        variance=sums(flat * (1 - flat)),
    )


@dataclass(frozen=True, eq=False)
class TopItem:
    """The most probable item of each target: its probability, and whether it was the one."""

    confidence: Float[np.ndarray, "targets"]
    correct: Bool[np.ndarray, "targets"]

    def error(self, *, n_bins: int = 10) -> float:
        """Expected calibration error: mean distance of confidence and accuracy, in [0, 1].

        `n_bins`: bins with equally many targets, by confidence
        Source: Naeini, Cooper & Hauskrecht (2015), with bins of equal size.
        """
        check_positive("n_bins", n_bins)
        n = len(self.confidence)
        if not n:
            raise DataError("`confidence` must hold at least one target, got none.")
        order = np.argsort(self.confidence, kind="stable")
        gap = self.confidence[order] - self.correct[order]
        sums = [abs(part.sum()) for part in np.array_split(gap, n_bins)]
        return float(sum(sums) / n)


def top_item(
    probability: Float[np.ndarray, "targets items"], item: Int[np.ndarray, "targets"]
) -> TopItem:
    """The most probable item of each row and whether it was the row's own."""
    best = probability.argmax(axis=1)
    confidence = np.take_along_axis(probability, best[:, None], axis=1)[:, 0]
    return TopItem(confidence, best == item)
