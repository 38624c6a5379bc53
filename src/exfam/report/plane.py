"""Where items lie: their vectors in a plane."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError


class Plane(NamedTuple):
    """Points in the plane of largest variance, and the share of all variance in it."""

    points: Float[np.ndarray, "items 2"]
    share: float


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


def _unit(vectors: Float[np.ndarray, "items dim"]) -> Float[np.ndarray, "items dim"]:
    """Vectors of length 1; those of length 0 stay."""
    vectors = vectors.astype(np.float64)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length == 0, 1.0, length)
