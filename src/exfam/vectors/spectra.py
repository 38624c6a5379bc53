"""The shape of a cloud of word vectors: directions, a common one, and words near too many."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

from exfam.vectors.neighbors import nearest_rows, unit_rows


def singular_values(matrix: Float[np.ndarray, "rows dim"]) -> Float64[np.ndarray, "dim"]:
    """The singular values of a matrix, the largest first, from its columns' products.

    >>> singular_values(np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])).tolist()
    [4.0, 3.0]
    """
    wide = matrix.astype(np.float64)
    squares = np.linalg.eigvalsh(wide.T @ wide)[::-1]
    return np.sqrt(np.maximum(squares, 0.0))


def effective_dimensions(values: Float64[np.ndarray, "dim"]) -> float:
    """How many equal singular values would be spread as these are: exp of their squares' entropy.

    >>> effective_dimensions(np.ones(4))
    4.0
    """
    share = values**2 / (values**2).sum()
    share = share[share > 0]
    return float(np.exp(-(share @ np.log(share))).round(12))


def common_cosine(matrix: Float32[np.ndarray, "rows dim"]) -> float:
    """The mean cosine of two different rows drawn at random: 0 if they point everywhere alike."""
    unit = unit_rows(matrix).astype(np.float64)
    n, total = len(unit), unit.sum(axis=0)
    # Rows of zeros have no cosine with themselves.
    own = float((unit * unit).sum())
    return float((total @ total - own) / (n * (n - 1))) if n > 1 else 0.0


@dataclass(frozen=True, eq=False)
class Hubs:
    """How many rows have each row among their `k` nearest; `k` on the average."""

    count: Int64[np.ndarray, "rows"]
    k: int

    @property
    def largest(self) -> int:
        """The row that is near the most others."""
        return int(self.count.argmax())

    @property
    def share(self) -> float:
        """The share of all others that have it among their nearest."""
        return float(self.count.max()) / max(1, len(self.count) - 1)


def find_hubs(matrix: Float32[np.ndarray, "rows dim"], *, k: int = 10) -> Hubs:
    """Count how often each row is among the `k` nearest of another."""
    own = np.arange(len(matrix))[:, None]
    near = nearest_rows(matrix, matrix, k=k, excluded=own).rows
    return Hubs(np.bincount(near.ravel(), minlength=len(matrix)).astype(np.int64), near.shape[1])


def main_plane(
    matrix: Float[np.ndarray, "rows dim"],
) -> tuple[Float64[np.ndarray, "rows 2"], float]:
    """Unit rows in the plane in which they vary most, and the share of all variance in it.

    The largest coordinate of each axis is positive.

    >>> square = np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]], dtype=np.float32)
    >>> points, share = main_plane(square)
    >>> share, np.abs(points).max().round(3).item() <= 1
    (1.0, True)
    """
    unit = unit_rows(matrix.astype(np.float32)).astype(np.float64)
    left, scale, _ = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)
    points, total = np.zeros((len(matrix), 2)), float((scale**2).sum())
    kept = min(2, len(scale))
    points[:, :kept] = left[:, :kept] * scale[:kept]
    farthest = np.abs(points).argmax(axis=0)
    points *= np.where(points[farthest, [0, 1]] < 0, -1.0, 1.0)
    return points, round(float((scale[:kept] ** 2).sum()) / total, 12) if total else 1.0
