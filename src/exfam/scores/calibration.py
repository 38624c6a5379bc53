"""Whether predicted probabilities come true: of values, by their cdf; of items, by how often."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from exfam.checks import DataError, ExfamError, check_inside, check_positive, check_whole
from exfam.families.mixtures import Mixture

# Items of lower probability share the last bin of a factor of two.
N_BINS = 20
# Rows whose distributions are searched for the jumps that an edge of a bar divides.
_MOST_SEARCHED = 500


Ends = Float[np.ndarray, "rows"]


def integral_ends(mixture: Mixture, value: Float[Tensor, "rows"]) -> tuple[Ends, Ends]:
    """The cdf below each value, P(Y < value), and at it, P(Y <= value): the same but for jumps."""
    at_most = mixture.cdf(value)
    jumps = mixture.has_jumps(value)
    before = torch.where(jumps, value - mixture.family.spacing / 2, value)
    below = torch.where(jumps, mixture.cdf(before), at_most)
    # Of a continuous family a value with a probability of its own.
    has_mass = mixture.family.has_mass(value, item=mixture.item) & ~jumps
    if bool(has_mass.any()):
        alone = (at_most - mixture.log_prob(value).exp()).clamp(min=0)
        below = torch.where(has_mass, alone, below)
    return below.double().numpy(), at_most.double().numpy()


def probability_integral(
    mixture: Mixture, value: Float[Tensor, "rows"], *, seed: int
) -> Float[np.ndarray, "rows"]:
    """The cdf of each value, in [0, 1]; uniform if all predicted distributions are right.

    Whole numbers jump: there a uniform draw between the cdf below the value and at it.
    Source: Czado, Gneiting & Held (2009), Predictive Model Assessment for Count Data, section 2.
    """
    below, at_most = integral_ends(mixture, value)
    uniform = np.random.default_rng(seed).random(len(at_most))
    return below + uniform * (at_most - below)


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


def share_between(below: Ends, at_most: Ends, *, low: float, high: float) -> Ends:
    """How probably a uniform draw between `below` and `at_most` is in [low, high), in [0, 1].

        (min(at_most, high) - max(below, low)) / (at_most - below), and 0 if that is negative

    These are the ends of `integral_ends`. Where the cdf does not jump they are equal, and the share
    is 1 if they are in [low, high), else 0; a `high` of 1 belongs to the interval. Shares of
    several intervals that make up [0, 1] sum to 1. Raises ExfamError unless 0 <= low < high <= 1.

    Source: Czado, Gneiting & Held (2009), Predictive Model Assessment for Count Data, eq. 2.

    >>> share_between(np.array([0.0, 0.4, 0.7]), np.array([0.2, 0.4, 1.0]), low=0.1, high=0.9)
    array([0.5       , 1.        , 0.66666667])
    """
    if not 0 <= low < high <= 1:
        raise ExfamError(f"`low` and `high` must be 0 <= low < high <= 1, got {low} and {high}.")
    width = at_most - below
    common = np.minimum(at_most, high) - np.maximum(below, low)
    sharp = (at_most >= low) & ((at_most < high) | (high == 1))
    jumps = width > 0
    return np.where(jumps, common.clip(0) / np.where(jumps, width, 1.0), sharp)


def central_share(below: Ends, at_most: Ends, *, level: float = 0.8) -> Ends:
    """How much of each value is in the central interval of probability `level`, in [0, 1].

    The share of the jump of its cdf, from `below` to `at_most`, between (1 - level) / 2 and
    (1 + level) / 2: see `share_between`; 0 or 1 where the cdf does not jump. If all distributions
    are right its mean is expected to be `level`, of whole numbers too, where closed intervals hold
    more. Raises ExfamError unless 0 < level < 1.

    >>> even = np.array([0.0, 0.25, 0.5, 0.75])  # the numbers 0 to 3, all as probable
    >>> central_share(even, even + 0.25, level=0.8)
    array([0.6, 1. , 1. , 0.6])
    """
    check_inside("level", level)
    return share_between(below, at_most, low=(1 - level) / 2, high=(1 + level) / 2)


@dataclass(frozen=True)
class Coverage:
    """A central interval of probability `level`, and what came of it.

    `observed`: share of values inside, the mean of `central_share`. `spread`: its standard
    deviation if all distributions are right and values independent.
    """

    level: float
    observed: float
    spread: float


def interval_coverage(
    mixture: Mixture, value: Float[Tensor, "rows"], *, levels: Sequence[float] = (0.5, 0.8, 0.9)
) -> list[Coverage]:
    """How many values lie in the central interval of each level: `level` of them, if calibrated.

    Where the cdf jumps a value may be inside in part: see `central_share`. Raises DataError without
    rows, and ExfamError unless 0 < level < 1.
    """
    _check_some(value)
    ends = integral_ends(mixture, value)
    coverages = []
    for level in levels:
        observed = float(central_share(*ends, level=level).mean())
        tail = (1 - level) / 2
        spread = _spreads(mixture, value, np.array([0.0, tail, 1 - tail, 1.0]))[1]
        coverages.append(Coverage(level, observed, float(spread)))
    return coverages


@dataclass(frozen=True, eq=False)
class IntegralShares:
    """Shares of `n` values in equal parts of [0, 1], by the cdf; all the same if calibrated.

    `spread`: the standard deviation of each share if all distributions are right and values
    independent.
    """

    share: Float[np.ndarray, "bars"]
    spread: Float[np.ndarray, "bars"]
    n: int


def integral_shares(
    mixture: Mixture, value: Float[Tensor, "rows"], *, n_bars: int = 20
) -> IntegralShares:
    """The histogram of `probability_integral` that is expected over its draws: without chance.

    A value whose cdf jumps is divided among the bars that the jump crosses: see `share_between`.
    Raises DataError without rows, and ExfamError unless `n_bars` is a whole number from 1.
    Source: Czado, Gneiting & Held (2009), Predictive Model Assessment for Count Data, the
    nonrandomized histogram of section 2.

    >>> from exfam.families import Bernoulli
    >>> even = Mixture(Bernoulli(), torch.zeros(1, 4, 1))
    >>> integral_shares(even, torch.tensor([0.0, 1.0, 1.0, 1.0]), n_bars=4).share
    array([0.125, 0.125, 0.375, 0.375])
    """
    check_whole("n_bars", n_bars)
    _check_some(value)
    ends = integral_ends(mixture, value)
    edges = np.arange(n_bars + 1) / n_bars
    shares = [
        share_between(*ends, low=float(low), high=float(high)).mean()
        for low, high in pairwise(edges)
    ]
    return IntegralShares(np.array(shares), _spreads(mixture, value, edges), len(value))


def _check_some(value: Float[Tensor, "rows"]) -> None:
    if not len(value):
        raise DataError("`value` must hold at least one row, got none.")


def _spreads(
    mixture: Mixture, value: Float[Tensor, "rows"], edges: Float[np.ndarray, "edges"]
) -> Float[np.ndarray, "intervals"]:
    """Standard deviations of mean shares between edges, 0 to 1, if all distributions are right.

    The square of a value's share has the mean high - low, less o (1 - o / w) for each jump of width
    w that is in the interval by o < w alone; at most two do, one at each edge. Jumps are looked for
    in at most _MOST_SEARCHED rows.
    """
    n, probability = len(value), np.diff(edges)
    rows = mixture.has_jumps(value).nonzero()[:, 0]
    whole_numbers = len(rows)
    rows = rows[:: max(1, -(-whole_numbers // _MOST_SEARCHED))]
    square = np.repeat(probability[:, None], len(rows), axis=1)
    if len(rows):
        part = mixture[rows]
        below, at_most = (np.zeros((len(edges), len(rows))) for _ in range(2))
        at_most[-1] = below[-1] = 1.0
        for number, edge in enumerate(edges[1:-1], start=1):
            below[number], at_most[number] = integral_ends(part, part.quantile(float(edge)))
        low, high = edges[:-1, None], edges[1:, None]
        square -= _missing(at_most[:-1] - low, at_most[:-1] - below[:-1])
        square -= _missing(high - below[1:], at_most[1:] - below[1:])
        around = at_most[:-1] >= high
        width = np.where(around, at_most[:-1] - below[:-1], 1.0)
        square = np.where(around, (high - low) ** 2 / width, square)
    of_jumps = whole_numbers / n
    mean = (1 - of_jumps) * probability + (of_jumps * square.mean(axis=1) if len(rows) else 0.0)
    return np.sqrt((mean - probability**2).clip(0) / n)


def _missing(
    inside: Float[np.ndarray, "intervals rows"], width: Float[np.ndarray, "intervals rows"]
) -> Float[np.ndarray, "intervals rows"]:
    """o - o^2 / w of jumps, 0 where there is none."""
    inside = np.minimum(inside, width).clip(0)
    return inside - inside**2 / np.where(width > 0, width, 1.0)


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
