"""Statistics of columns that come in pieces, so that no column is ever in memory as a whole."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

__all__ = ["MAX_SAMPLE", "Moments", "moments", "sampled"]

# Rows that stand for all where a statistic needs them at once, such as a median.
MAX_SAMPLE = 1 << 20


@dataclass(frozen=True, eq=False)
class Moments:
    """How many rows there are, their mean and their variance, of each number of a row."""

    n: int
    mean: np.ndarray
    variance: np.ndarray

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation.

        >>> moments([np.array([1.0, 3.0])]).spread
        array(1.)
        """
        return np.asarray(np.sqrt(self.variance))


def moments(pieces: Iterable[np.ndarray]) -> Moments:
    """Mean and variance of all rows, piece by piece; of one piece as NumPy has them, to the bit.

    Source: Chan, Golub & LeVeque (1983), eq. 2.1.

    >>> moments([np.array([1.0, 3.0]), np.array([8.0])]).mean
    array(4.)
    """
    total: Moments | None = None
    for piece in pieces:
        if len(piece):
            mean, variance = piece.mean(axis=0), piece.var(axis=0)
            own = Moments(len(piece), np.asarray(mean), np.asarray(variance))
            total = own if total is None else _merged(total, own)
    return Moments(0, np.zeros(()), np.zeros(())) if total is None else total


def _merged(one: Moments, two: Moments) -> Moments:
    n = one.n + two.n
    apart = two.mean - one.mean
    within = (one.n * one.variance + two.n * two.variance) / n
    between = apart**2 * (one.n / n) * (two.n / n)
    mean = one.mean + apart * (two.n / n)
    return Moments(n, np.asarray(mean), np.asarray(within + between))


def sampled(pieces: Iterable[np.ndarray], *, total: int, most: int | None = None) -> np.ndarray:
    """All rows if `total` is at most `most`, else about `most` of them, drawn alike.

    The same pieces give the same sample.

    `most`: 2 ** 20 if None (default None)

    >>> sampled([np.array([1.0, 3.0]), np.array([8.0])], total=3)
    array([1., 3., 8.])
    """
    draw = np.random.default_rng(0)
    share = (MAX_SAMPLE if most is None else most) / max(total, 1)
    kept = [piece if share >= 1 else piece[draw.random(len(piece)) < share] for piece in pieces]
    return np.concatenate(kept or [np.zeros(0)])
