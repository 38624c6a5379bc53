"""Values of one column as tokens: what a drawn or filled value is encoded to."""

import numpy as np
from jaxtyping import Float32, Float64, Int32

from exfam.tables.data.columns import FINITE, Column
from exfam.tables.data.encode import hat

__all__ = ["encode_values"]


def encode_values(
    column: Column, values: Float64[np.ndarray, " cells"]
) -> tuple[Int32[np.ndarray, " cells"], Float32[np.ndarray, " cells"]]:
    """Code and fraction of each of `values`, which are codes of labels or numbers; -1, 0 for NaN.

    >>> column = Column("age", "numeric", knots=np.array([20.0, 40.0, 80.0]))
    >>> encode_values(column, np.array([30.0, 40.0, 99.0, np.nan]))
    (array([ 0,  1,  2, -1], dtype=int32), array([0.5, 0. , 0. , 0. ], dtype=float32))
    """
    absent = np.isnan(values)
    number = np.where(absent, 0.0, values)
    fraction = np.zeros(len(number), dtype=np.float32)
    if column.kind in FINITE:
        code = number.astype(np.int64)
    else:
        assert column.knots is not None
        code = np.searchsorted(column.knots, number, side="left")
        if not column.binned:
            code, fraction = hat(column.knots, number)
    return np.where(absent, -1, code).astype(np.int32), np.where(absent, np.float32(0), fraction)
