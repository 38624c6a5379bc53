"""Weights of rows, as a fit is given them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import DataError
from exfam.tables.data import RawTable

__all__ = ["read_weight"]


def read_weight(
    weight: Any, tables: Sequence[RawTable], *, several: bool
) -> Float64[np.ndarray, "rows"] | None:
    """The weight of every row of all tables, None if all weigh the same.

    `several`: whether `weight` is a list of one array a table, or None for weights of 1

    Raises DataError unless there is one finite weight >= 0 a row, above zero in some row.

    >>> from exfam.tables.data import read_table
    >>> read_weight([1, 2], [read_table({"a": [5.0, 6.0]})], several=False)
    array([1., 2.])
    """
    if weight is None:
        return None
    if several and not (isinstance(weight, list | tuple) and len(weight) == len(tables)):
        raise DataError(
            f"`sample_weight` must be a list of weights for each of {len(tables)} tables in `X`, "
            f"got {type(weight).__name__}. Pass None for a table whose rows weigh 1."
        )
    parts = [
        _one(each, n_rows=table.n_rows)
        for each, table in zip(weight if several else [weight], tables, strict=True)
    ]
    joined = np.concatenate(parts)
    if not (joined > 0).any():
        raise DataError("`sample_weight` must be above 0 in some row, got zero in all.")
    return joined


def _one(weight: Any, *, n_rows: int) -> Float64[np.ndarray, "rows"]:
    if weight is None:
        return np.ones(n_rows)
    try:
        array = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"`sample_weight` must be numbers, got {type(weight).__name__} of other things."
        ) from error
    if array.ndim == 0:
        array = np.full(n_rows, array)
    if array.ndim != 1:
        raise DataError(f"`sample_weight` must be 1D, got shape {array.shape}. Flatten it.")
    if len(array) != n_rows:
        raise DataError(
            f"`sample_weight` must have one number for each of {n_rows} rows, got {len(array)}."
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"`sample_weight` must be finite numbers >= 0, got {array[row]:g} at row {row} "
            f"({wrong.sum()} of {n_rows} rows)."
        )
    return array
