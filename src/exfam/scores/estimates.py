"""Means over elements that come in groups, with their standard errors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from exfam.checks import DataError


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
    if not len(number):
        raise DataError("`number` must hold at least one element, got none.")
    _, which = np.unique(group, return_inverse=True)
    total, count = np.bincount(which, weights=number), np.bincount(which)
    n, n_groups = int(count.sum()), len(count)
    mean = float(total.sum() / n)
    if n_groups < 2 or not np.isfinite(mean):
        return Estimate(mean, float("nan"), n, n_groups)
    rest = total - mean * count
    error = np.sqrt((rest**2).sum() * n_groups / (n_groups - 1)) / n
    return Estimate(mean, float(error), n, n_groups)
