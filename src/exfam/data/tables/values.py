"""Values of one column as tokens: what a drawn or filled value is encoded to."""

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64

from exfam.data.tables.columns import FINITE, Column

__all__ = ["encode_values"]


def encode_values(
    column: Column, values: Float64[np.ndarray, " cells"]
) -> tuple[Int32[np.ndarray, " cells"], Float32[np.ndarray, " cells"]]:
    """Code and fraction of each of `values`, which are codes of labels or numbers; -1, 0 for NaN.

    A number lies `fraction` of the way from the knot `code` to the next, clamped beyond the outer
    knots; of a binned column, in a bin whose upper edge belongs to it.

    >>> column = Column("age", "numeric", knots=np.array([20.0, 40.0, 80.0]))
    >>> encode_values(column, np.array([30.0, 40.0, 99.0, np.nan]))
    (array([ 0,  1,  2, -1], dtype=int32), array([0.5, 0. , 0. , 0. ], dtype=float32))
    """
    absent = np.isnan(values)
    filled = np.where(absent, 0.0, values)
    if column.kind in FINITE:
        code, fraction = filled.astype(np.int64), np.zeros(len(filled))
    else:
        assert column.knots is not None
        place = _in_bins if column.binned else _between_knots
        code, fraction = place(column.knots, filled)
    rounded = fraction.astype(np.float32)
    # A fraction just under 1 rounds to 1 in float32: the cell is then at the next knot.
    code, rounded = code + (rounded >= 1), np.where(rounded >= 1, np.float32(0), rounded)
    return np.where(absent, -1, code).astype(np.int32), np.where(absent, np.float32(0), rounded)


def _in_bins(
    edges: Float64[np.ndarray, " knots"], values: Float64[np.ndarray, " cells"]
) -> tuple[Int64[np.ndarray, " cells"], Float64[np.ndarray, " cells"]]:
    return np.searchsorted(edges, values, side="left"), np.zeros(len(values))


def _between_knots(
    knots: Float64[np.ndarray, " knots"], values: Float64[np.ndarray, " cells"]
) -> tuple[Int64[np.ndarray, " cells"], Float64[np.ndarray, " cells"]]:
    inside = values.clip(knots[0], knots[-1])
    code = np.searchsorted(knots, inside, side="right") - 1
    width = np.append(np.diff(knots), 1.0)
    return code, (inside - knots[code]) / width[code]
