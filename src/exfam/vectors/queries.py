"""What is asked for: words, vectors, or several of them for and against."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from exfam.checks import DataError, ExfamError
from exfam.vectors.neighbors import unit_rows

__all__ = ["Query", "as_queries", "direction", "mean_direction"]

# A known word, or a vector of its own.
Query = str | Float[np.ndarray, "_"]


def as_queries(given: Query | Sequence[Query]) -> list[Query]:
    """A list, also of a word or vector that is given alone.

    >>> as_queries("cat"), as_queries(("cat", "dog"))
    (['cat'], ['cat', 'dog'])
    """
    return [given] if isinstance(given, str | np.ndarray) else list(given)


def direction(vector: Float[np.ndarray, "_"], *, dim: int, name: str) -> Float32[np.ndarray, "dim"]:
    """The vector scaled to length 1; `name` is what messages call it.

    Raises DataError unless it has `dim` finite numbers that are not all 0.

    >>> direction(np.array([3.0, 4.0]), dim=2, name="'cat'")
    array([0.6, 0.8], dtype=float32)
    """
    if len(vector) != dim:
        raise DataError(f"{name} must have {dim} numbers as the vectors have, got {len(vector)}.")
    if not np.isfinite(vector).all():
        raise DataError(f"{name} must be finite, got nan or inf.")
    if not vector.any():
        raise DataError(
            f"{name} must have a vector that is not zero, got one without a direction. "
            "Leave that word out."
        )
    scaled = vector / np.abs(vector).max()
    return unit_rows(scaled[None].astype(np.float32))[0]


def mean_direction(
    positive: Sequence[Float[np.ndarray, "dim"]], negative: Sequence[Float[np.ndarray, "dim"]]
) -> Float32[np.ndarray, "dim"]:
    """The direction of the sum of all that is for less the sum of all that is against.

    Raises ExfamError if nothing is given, DataError if all cancels.

    >>> right, up = np.eye(2, dtype=np.float32)
    >>> mean_direction([right, up], [right])
    array([0., 1.], dtype=float32)
    """
    if not len(positive) and not len(negative):
        raise ExfamError("`positive` or `negative` must name a word or vector, got none.")
    parts = np.stack([*positive, *(-each for each in negative)]).astype(np.float64)
    total = parts.sum(axis=0)
    # Parts that cancel leave rounding errors of float32.
    if np.abs(total).max() <= 1e-6 * np.abs(parts).max():
        raise DataError(
            "`positive` and `negative` must not cancel out, got a sum without a direction."
        )
    return direction(total, dim=len(total), name="The sum of what is asked for")
