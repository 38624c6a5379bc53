"""Scores of predictions made elsewhere: rankings, errors, means with their spread."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from exfam.checks import DataError, check_fraction, check_positive

_ENTRIES_AT_ONCE = 4_000_000


def ranks(
    scores: Float[np.ndarray, "targets items"], target: Int[np.ndarray, "targets"]
) -> Float[np.ndarray, "targets"]:
    """Rank of each row's target among all items, 1 for the highest score.

    Ties share the mean of their ranks. A target of -1 (an unknown item) has rank infinity.

    >>> ranks(np.array([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]]), np.array([2, 0]))
    array([2. , 1.5])
    """
    own = np.take_along_axis(scores, target[:, None], axis=1)
    higher = (scores > own).sum(axis=1)
    ties = (scores == own).sum(axis=1)
    return np.where(target < 0, np.inf, higher + (ties + 1) / 2)


def recall_at(rank: Float[np.ndarray, "targets"], *, k: int) -> float:
    """Share of targets among the first `k`, in [0, 1].

    >>> recall_at(np.array([1.0, 3.0, 20.0]), k=10)
    0.6666666666666666
    """
    check_positive("k", k)
    return _mean(rank <= k)


def ndcg_at(rank: Float[np.ndarray, "targets"], *, k: int) -> float:
    """Mean of 1 / log2(1 + rank), counted as 0 beyond rank `k`: 1 when every target comes first.

    This is the normalized discounted cumulative gain where each row has one relevant item.

    >>> ndcg_at(np.array([1.0, 3.0, 20.0]), k=10)
    0.5
    """
    return _mean(gain_at(rank, k=k))


def gain_at(rank: Float[np.ndarray, "targets"], *, k: int) -> Float[np.ndarray, "targets"]:
    """The terms of `ndcg_at`, in [0, 1]: 1 / log2(1 + rank), and 0 beyond rank `k`."""
    check_positive("k", k)
    return np.where(rank <= k, 1 / np.log2(1 + rank), 0.0)


def mrr(rank: Float[np.ndarray, "targets"]) -> float:
    """Mean reciprocal rank, in (0, 1]."""
    return _mean(1 / rank)


def mse(value: Num[np.ndarray, "elements"], mean: Float[np.ndarray, "elements"]) -> float:
    """Mean squared error of predicted means, or medians of families without a mean."""
    return _mean((value - mean) ** 2)


def rmse(value: Num[np.ndarray, "elements"], mean: Float[np.ndarray, "elements"]) -> float:
    """Root of the mean squared error, in the unit of the value."""
    return float(np.sqrt(mse(value, mean)))


class Interval(NamedTuple):
    """A mean with the ends of its interval."""

    mean: float
    low: float
    high: float


def paired_bootstrap(
    difference: Float[np.ndarray, "elements"],
    group: Int[np.ndarray, "elements"],
    *,
    seed: int,
    n: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Mean difference per element, with the percentile interval when whole groups are redrawn.

    `difference`: of two models' scores on the same elements
    `group`: which group each element belongs to; its elements are not independent of each other
    `n`: number of redrawings; `level`: share of redrawn means inside the interval
    Raises DataError without elements.

    >>> low_noise = np.repeat([0.9, 1.1], 500)
    >>> paired_bootstrap(low_noise, np.arange(1000), seed=0).low > 0.98
    True
    """
    check_positive("n", n)
    check_fraction("level", level)
    total, count = _sums("difference", difference, group)
    generator = np.random.default_rng(seed)
    even = np.full(len(count), 1 / len(count))
    at_once = max(1, _ENTRIES_AT_ONCE // len(count))
    means = []
    for first in range(0, n, at_once):
        drawn = generator.multinomial(len(count), even, size=min(at_once, n - first))
        means.append((drawn @ total) / (drawn @ count))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(total.sum() / count.sum()), float(low), float(high))


class Estimate(NamedTuple):
    """A mean, its standard error, and how many elements and groups it is of.

    The error is NaN of one group, and of a mean that is infinite.
    """

    mean: float
    error: float
    n: int
    n_groups: int


def mean_over_groups(
    number: Float[np.ndarray, "elements"], group: Int[np.ndarray, "elements"]
) -> Estimate:
    """Mean per element, with the standard error of a ratio of two sums over independent groups.

    Elements of a group are not independent of each other, so groups are what is counted.
    Raises DataError without elements.
    Source: Cochran (1977), Sampling Techniques, eq. 2.46 without finite population correction.

    >>> mean_over_groups(np.array([1.0, 3.0, 5.0, 7.0]), np.array([0, 0, 1, 1]))
    Estimate(mean=4.0, error=2.0, n=4, n_groups=2)
    """
    total, count = _sums("number", number, group)
    n, n_groups = int(count.sum()), len(count)
    mean = float(total.sum() / n)
    if n_groups < 2 or not np.isfinite(mean):
        return Estimate(mean, float("nan"), n, n_groups)
    rest = total - mean * count
    error = np.sqrt((rest**2).sum() * n_groups / (n_groups - 1)) / n
    return Estimate(mean, float(error), n, n_groups)


def _sums(
    name: str, number: Float[np.ndarray, "elements"], group: Int[np.ndarray, "elements"]
) -> tuple[Float[np.ndarray, "groups"], Int[np.ndarray, "groups"]]:
    """Sum and number of elements of each group; DataError without elements."""
    if not len(number):
        raise DataError(f"`{name}` must hold at least one element, got none.")
    _, which = np.unique(group, return_inverse=True)
    return np.bincount(which, weights=number), np.bincount(which)


def _mean(numbers: np.ndarray) -> float:
    if numbers.size == 0:
        raise DataError("`rank` or `value` must hold at least one element, got none.")
    return float(np.mean(numbers))
