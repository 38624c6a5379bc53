"""Planes that vectors are drawn in: each is computed once, and the same every time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float64

from exfam.vectors.neighbors import row_slices, unit_rows

_ROWS = 1 << 14
_FROM_ZERO, _TOLERANCE = 1e-9, 1e-8
# Columns from which directions are found one by one.
_WIDE, _LEAST = 512, 3


@dataclass(frozen=True, eq=False)
class Plane:
    """Vectors of length 1 in two directions.

    `center`, `context`: where the vectors are; `context` is None without context vectors
    `share`: of the variance of the center vectors, what lies in the plane
    """

    center: Float64[np.ndarray, "rows 2"]
    context: Float64[np.ndarray, "_ 2"] | None
    share: float


def main_axes_plane(center: Any, context: Any = None) -> Plane:
    """The plane in which center vectors, dense or sparse, vary most."""
    if scipy.sparse.issparse(center) or center.shape[1] > _WIDE:
        return _wide_plane(center, context)
    mean, spread = _moments(center)
    axes, share = _largest(spread, 2)
    return Plane(_points(center, axes, mean), _points(context, axes, mean), share)


def mirror_plane(center: Any, reflected: Bool[np.ndarray, "dim"]) -> Plane:
    """Upwards the main direction of the reflected half, across it that of the other half.

    Context vectors, which are the center vectors reflected in that half, are then mirrored at the
    horizontal axis, each at the same distance from it as its word.
    """
    mean, spread = _moments(center)
    axes, shares = np.zeros((len(mean), 2)), 0.0
    for axis, own in enumerate((~reflected, reflected)):
        part, share = _largest(spread[np.ix_(own, own)], 1)
        axes[own, [axis] * int(own.sum())] = part[:, 0]
        shares += share * float(np.trace(spread[np.ix_(own, own)]))
    # Of the reflected half the mean stays, so that 0 is where the mirror is.
    points = _points(center, axes, np.where(reflected, 0.0, mean))
    total = float(np.trace(spread))
    return Plane(points, points * np.array([1.0, -1.0]), shares / total if total else 1.0)


def _moments(center: Any) -> tuple[Float64[np.ndarray, "dim"], Float64[np.ndarray, "dim dim"]]:
    """Mean and covariance of vectors of length 1, some rows at a time."""
    dim = center.shape[1]
    total, products = np.zeros(dim), np.zeros((dim, dim))
    for rows in row_slices(len(center), _ROWS):
        unit = unit_rows(center[rows]).astype(np.float64)
        total += unit.sum(0)
        products += unit.T @ unit
    mean = total / len(center)
    return mean, products / len(center) - np.outer(mean, mean)


def _largest(
    spread: Float64[np.ndarray, "dim dim"], k: int
) -> tuple[Float64[np.ndarray, "dim k"], float]:
    """The `k` directions of most variance, zeros where there are fewer, and their share."""
    values, vectors = np.linalg.eigh(spread)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    axes = np.zeros((len(spread), k))
    axes[:, : min(k, len(spread))] = _turned(vectors[:, :k])
    total = float(values.sum())
    return axes, float(values[:k].sum()) / total if total > _FROM_ZERO else 1.0


def _turned(axes: Float64[np.ndarray, "dim k"]) -> Float64[np.ndarray, "dim k"]:
    """The largest entry of each direction is positive."""
    farthest = np.abs(axes).argmax(0)
    return axes * np.where(axes[farthest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)


def _points(vectors: Any, axes: np.ndarray, mean: np.ndarray) -> Any:
    """Where vectors of length 1 are; None for none."""
    if vectors is None:
        return None
    points = np.empty((len(vectors), 2))
    for rows in row_slices(len(vectors), _ROWS):
        points[rows] = (unit_rows(vectors[rows]).astype(np.float64) - mean) @ axes
    return points


def _wide_plane(center: Any, context: Any) -> Plane:
    """Of many columns; sparse rows have length 1 already. The mean is taken off in products."""
    n, dim = center.shape
    unit = center if scipy.sparse.issparse(center) else unit_rows(center)
    mean = np.asarray(unit.mean(axis=0), dtype=np.float64).ravel()
    total = float(abs(unit).power(2).sum() if scipy.sparse.issparse(unit) else (unit**2).sum())
    total = total / n - float(mean @ mean)

    def spread(direction: np.ndarray) -> np.ndarray:
        own = direction.ravel()
        across = unit @ own.astype(unit.dtype)
        product: np.ndarray = (unit.T @ across).astype(np.float64) / n - mean * (mean @ own)
        return product

    if dim < _LEAST:
        values, vectors = np.linalg.eigh(np.stack([spread(own) for own in np.eye(dim)], 1))
    else:
        operator = scipy.sparse.linalg.LinearOperator((dim, dim), matvec=spread, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(dim)
        values, vectors = scipy.sparse.linalg.eigsh(operator, 2, v0=start, tol=_TOLERANCE)
    axes = np.zeros((dim, 2))
    axes[:, : min(2, dim)] = _turned(vectors[:, ::-1][:, :2])
    share = float(np.maximum(values[::-1][:2], 0.0).sum()) / total if total > _FROM_ZERO else 1.0
    points = unit @ axes - mean @ axes
    return Plane(points, _points(context, axes, mean), min(share, 1.0))
