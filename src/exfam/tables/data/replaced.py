"""A table of the kind that was given, with some of its columns replaced."""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Shaped

from exfam.tables.data.frames import array_names


def as_frame_like(frame: Any, columns: Mapping[str, Shaped[np.ndarray, " rows"]]) -> Any:
    """A copy of a table with the columns of these names replaced, of the kind that was given.

    pandas and polars frames keep their index and, where the values allow it, columns' types.
    """
    if isinstance(frame, Mapping):
        return {key: columns.get(str(key), held) for key, held in frame.items()}
    if hasattr(frame, "iloc"):
        return _pandas(frame, columns)
    if hasattr(frame, "with_columns"):
        return _polars(frame, columns)
    if not hasattr(frame, "__arrow_c_stream__"):
        return _array(frame, columns)
    table = pa.table(frame)
    for index, name in enumerate(table.column_names):
        if name in columns:
            table = table.set_column(index, name, pa.array(columns[name], from_pandas=True))
    return table


def _pandas(frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    copied = frame.copy()
    for index, key in enumerate(frame.columns):
        if str(key) not in columns:
            continue
        before = frame.iloc[:, index]
        after = type(before)(columns[str(key)], index=frame.index, name=key)
        if not isinstance(before.dtype, np.dtype):
            with contextlib.suppress(TypeError, ValueError):  # fractions among whole numbers
                after = after.astype(before.dtype)
        copied.isetitem(index, after)
    return copied


def _polars(frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    import polars as pl

    replaced = []
    for name, values in columns.items():
        if name in frame.columns:
            kept = isinstance(frame.schema[name], pl.Categorical | pl.Enum)
            series = pl.Series(name, values.tolist() if values.dtype.kind == "O" else values)
            replaced.append(series.cast(frame.schema[name]) if kept else series)
    return frame.with_columns(replaced)


def _array(given: Any, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    before = np.asarray(given)
    if before.dtype.kind not in "fiub":
        before = np.array(given, dtype=object)
    parts = [columns.get(name, before[:, k]) for k, name in enumerate(array_names(before.shape[1]))]
    all_numbers = all(part.dtype.kind in "fiu" for part in parts)
    kind = np.result_type(*parts) if all_numbers else np.dtype(object)
    return np.stack([part.astype(kind) for part in parts], axis=1)
