"""Where items lie: their vectors in a plane, and each one's nearest neighbors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int64

from exfam.checks import DataError, check_positive

__all__ = ["Neighbors", "Plane", "nearest_items", "principal_plane"]

_ENTRIES_AT_ONCE = 4_000_000


class Plane(NamedTuple):
    """Points in the plane of largest variance, and the share of all variance in it."""

    points: Float[np.ndarray, "items 2"]
    share: float


class Neighbors(NamedTuple):
    """The nearest other items of some, nearest first, and the cosines between their vectors."""

    items: Int64[np.ndarray, "of k"]
    cosine: Float[np.ndarray, "of k"]


def principal_plane(vectors: Float[np.ndarray, "items dim"]) -> Plane:
    """The two leading principal components of the vectors, each scaled to length 1 before.

    Signs are such that the largest coordinate of each axis is positive. Raises DataError for fewer
    than 3 vectors.

    >>> plane = principal_plane(np.array([[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0]]))
    >>> plane.points.shape, round(plane.share, 6)
    ((3, 2), 1.0)
    """
    if len(vectors) < 3:
        raise DataError(f"`vectors` must be 3 or more to lie in a plane, got {len(vectors)}.")
    unit = _unit(vectors)
    centered = unit - unit.mean(axis=0)
    left, scale, _ = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    kept = min(2, len(scale))
    points[:, :kept] = left[:, :kept] * scale[:kept]
    farthest = np.abs(points).argmax(axis=0)
    points *= np.where(points[farthest, [0, 1]] < 0, -1.0, 1.0)
    total = (scale**2).sum()
    return Plane(points, float((scale[:kept] ** 2).sum() / total) if total else 1.0)


def nearest_items(
    vectors: Float[np.ndarray, "items dim"], of: Int[np.ndarray, "of"], *, k: int
) -> Neighbors:
    """The `k` items with the largest cosine to each of `of`, or all others if there are fewer.

    >>> nearest_items(np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]), np.array([0]), k=1).items
    array([[1]])
    """
    check_positive("k", k)
    unit = _unit(vectors)
    k = min(k, len(unit) - 1)
    items, cosines = [], []
    at_once = max(1, _ENTRIES_AT_ONCE // len(unit))
    for first in range(0, len(of), at_once):
        own = of[first : first + at_once]
        cosine = unit[own] @ unit.T
        cosine[np.arange(len(own)), own] = -np.inf
        best = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
        items.append(best)
        cosines.append(np.take_along_axis(cosine, best, axis=1))
    none = np.empty((0, k))
    return Neighbors(
        np.concatenate([none.astype(np.int64), *items]), np.concatenate([none, *cosines])
    )


def _unit(vectors: Float[np.ndarray, "items dim"]) -> Float[np.ndarray, "items dim"]:
    """Vectors of length 1; those of length 0 stay."""
    vectors = vectors.astype(np.float64)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length == 0, 1.0, length)
