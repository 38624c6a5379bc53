"""Cosine distances of one direction to many rows, exactly 0 to itself."""

import numpy as np
from jaxtyping import Float32, Int64

from exfam.vectors.neighbors import row_slices, unit_rows

# Rows that are scaled at once.
_ROWS = 1 << 14


def cosine_distances(
    unit: Float32[np.ndarray, "dim"], matrix: Float32[np.ndarray, "rows dim"]
) -> Float32[np.ndarray, "rows"]:
    """1 - cos of a vector of length 1 with each row, from 0 to 2; 1 for rows of zeros.

    Half the squared difference of unit vectors: near 0 it has digits that 1 - cos has lost.

    >>> plane = np.array([[3, 0], [0, 2], [-1, 0]], dtype=np.float32)
    >>> cosine_distances(plane[0] / 3, plane).tolist()
    [0.0, 1.0, 2.0]
    """
    out = np.empty(len(matrix), dtype=np.float32)
    for rows in row_slices(len(matrix), _ROWS):
        apart = unit_rows(matrix[rows]) - unit
        half = np.einsum("rd,rd->r", apart, apart) / np.float32(2)
        out[rows] = np.where(matrix[rows].any(axis=1), half, np.float32(1))
    return out


def closer_rows(
    distances: Float32[np.ndarray, "rows"], row: int, *, own: int | None
) -> Int64[np.ndarray, "closer"]:
    """Rows with a smaller distance than that of `row`, nearest first, without `own`."""
    closer = np.flatnonzero(distances < distances[row])
    closer = closer[closer != own] if own is not None else closer
    return closer[np.argsort(distances[closer], kind="stable")]
