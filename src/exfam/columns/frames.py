"""Frames of any library, column by column, as Arrow arrays."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Shaped

from exfam.checks import DataError, is_utf8
from exfam.columns.parts import Part, check_named
from exfam.columns.rules import plain_type


def open_frame(frame: Any, *, argument: str = "frame", index: bool = True) -> Mapping[Any, Any]:
    """The columns of a pandas or polars frame, an Arrow table or a mapping, by name.

    Anything else that speaks the Arrow stream protocol is read as an Arrow table. A lazy frame of
    polars is collected.

    `argument`: what errors call the frame (default "frame")
    `index`: whether levels of a pandas index that have a name are columns too (default True)
    """
    if isinstance(frame, Mapping):
        return frame
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        # pandas column by column: others of its columns may be of types unknown to Arrow.
        held = _by_name(argument, frame.items())
        return _named_levels(frame.index) | held if index else held
    frame = collected(frame)
    speaks_arrow = hasattr(frame, "__arrow_c_stream__")
    if speaks_arrow:
        _check_names(argument, [*getattr(frame, "columns", ()), getattr(frame, "name", None)])
    try:
        table = pa.table(frame) if speaks_arrow else None
    except pa.ArrowInvalid:  # a single column speaks Arrow too
        table = None
    if table is None:
        raise DataError(
            f"`{argument}` must be a pandas or polars frame, an Arrow table or a mapping of "
            f"columns such as {{'column': [1, 2]}}, got {type(frame).__name__}."
        )
    return _by_name(argument, zip(table.column_names, table.columns, strict=True))


def is_lazy(frame: Any) -> bool:
    """Whether this is a lazy frame of polars."""
    return hasattr(frame, "collect_schema") and not hasattr(frame, "__arrow_c_stream__")


def collected(frame: Any) -> Any:
    """The rows of a lazy frame of polars; anything else as it is."""
    return frame.collect() if is_lazy(frame) else frame


def _named_levels(index: Any) -> dict[Any, Any]:
    """The levels of a pandas index that have a name, as columns."""
    return {
        name: index.get_level_values(level)
        for level, name in enumerate(index.names)
        if name is not None
    }


def _check_names(argument: str, names: Iterable[Any]) -> None:
    """Raise DataError for a name with a NUL, at which polars ends the process."""
    for name in names:
        if isinstance(name, str) and "\0" in name:
            raise DataError(f"`{argument}` must have names without NUL, got {name!r}. Rename it.")


def _by_name(argument: str, columns: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    named: dict[Any, Any] = {}
    for name, column in columns:
        if name in named:
            raise DataError(f"`{argument}` must have one column of each name, got {name!r} twice.")
        named[name] = column
    return named


def frame_columns(frame: Any, parts: Sequence[Part]) -> dict[Part, pa.Array]:
    """The columns that `parts` name, all of one length."""
    opened = open_frame(frame)
    check_named(parts, list(opened), what="frame")
    arrays = {part: read_array(opened[part.name], part.argument, part.name) for part in parts}
    n_rows = len(arrays[parts[0]])
    for part, array in arrays.items():
        if len(array) != n_rows:
            raise DataError(
                f"`{part.argument}` must have as many rows as {parts[0].name!r}, {n_rows}, got "
                f"{len(array)} in column {part.name!r}."
            )
    return arrays


def read_array(column: Any, argument: str, name: str) -> pa.Array:
    """A column of a frame as one Arrow array: text of any kind as large strings, NaN as missing."""
    is_one = isinstance(column, str | bytes) or getattr(column, "ndim", 1) == 0
    if is_one or not hasattr(column, "__iter__") or not hasattr(column, "__len__"):
        raise DataError(
            f"`{argument}` must name a column of values, got {type(column).__name__} as column "
            f"{name!r}. Give a list or an array, a value a row."
        )
    return plain_array(_as_arrow(column, argument, name))


def plain_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An Arrow column in the types that rules speak of, NaN as missing."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = _as_plain(array.dictionary).take(array.indices)
    array = _as_plain(array)
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.fill_null(pc.is_nan(array), False), None, array)
    return array


def _as_plain(array: pa.Array) -> pa.Array:
    kind = plain_type(array.type)
    return array if kind == array.type else array.cast(kind)


def _as_arrow(column: Any, argument: str, name: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    if hasattr(column, "to_arrow"):
        _check_names("frame", [getattr(column, "name", None)])
        return column.to_arrow()
    if isinstance(column, list | tuple) or getattr(column, "dtype", None) == np.dtype(object):
        column = _of_plain_types(column, argument, name)
    if type(getattr(column, "dtype", None)).__name__ == "SparseDtype":  # of pandas
        column = np.asarray(column)
    if type(getattr(column, "dtype", None)).__name__ == "PeriodDtype":  # of pandas: its start
        column = getattr(column, "dt", column).to_timestamp()
    try:
        return pa.array(column, from_pandas=True)
    except UnicodeError as error:
        raise DataError(_unwritable(list(column), argument, name)) from error
    except (pa.ArrowException, TypeError, OverflowError) as error:
        if not len(column):
            return pa.nulls(0)
        raise DataError(_mixture(list(column), argument, name)) from error


def _of_plain_types(column: Any, argument: str, name: str) -> Any:
    """Objects that Arrow can look at: a list of NumPy's numbers as an array.

    Raises DataError for times of NumPy beside its numbers, at which Arrow ends the process.
    """
    kinds = set(map(type, column)) - {type(None)}
    of_numpy = {kind for kind in kinds if issubclass(kind, np.generic)}
    if len(of_numpy) > 1 and of_numpy & {np.datetime64, np.timedelta64}:
        raise DataError(_mixture(list(column), argument, name))
    is_array = isinstance(column, list | tuple) and of_numpy and of_numpy == kinds
    return np.asarray(column) if is_array else column


def _unwritable(values: list[Any], argument: str, name: str) -> str:
    row = next(row for row, value in enumerate(values) if not is_utf8(str(value)))
    return (
        f"`{argument}` must hold text that UTF-8 can write, got {values[row]!r} at row {row} of "
        f"column {name!r}. Read the file with its own encoding."
    )


def _mixture(values: list[Any], argument: str, name: str) -> str:
    rows = [row for row, value in enumerate(values) if value is not None]
    first = values[rows[0]]
    odd = next((row for row in rows if type(values[row]) is not type(first)), rows[0])
    return (
        f"`{argument}` must hold values of one plain type, got {values[odd]!r} "
        f"({type(values[odd]).__name__}) at row {odd} of column {name!r}, where row {rows[0]} has "
        f"{first!r} ({type(first).__name__}). Convert the column first."
    )


def with_columns(frame: Any, columns: Mapping[str, Shaped[np.ndarray, " rows"]]) -> Any:
    """A copy of a frame, of the kind that was given: columns of these names replaced, or added."""
    if isinstance(frame, Mapping):
        keys = {str(key): key for key in frame}
        return {**frame, **{keys.get(name, name): column for name, column in columns.items()}}
    frame = collected(frame)
    if hasattr(frame, "iloc"):
        return _with_columns_of_pandas(frame, columns)
    if hasattr(frame, "with_columns"):
        return _with_columns_of_polars(frame, columns)
    table = pa.table(frame)
    for name, column in columns.items():
        index, array = table.schema.get_field_index(name), pa.array(column, from_pandas=True)
        change = table.append_column if index < 0 else partial(table.set_column, index)
        table = change(name, array)
    return table


def _with_columns_of_pandas(frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    copied, keys = frame.copy(), [str(key) for key in frame.columns]
    for name, column in columns.items():
        if name not in keys:
            copied[name] = column
            continue
        before = frame.iloc[:, keys.index(name)]
        after = type(before)(column, index=frame.index, name=before.name)
        if not isinstance(before.dtype, np.dtype):
            with contextlib.suppress(TypeError, ValueError):  # fractions among whole numbers
                after = after.astype(before.dtype)
        copied.isetitem(keys.index(name), after)
    return copied


def _with_columns_of_polars(frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    import polars as pl

    changed = []
    for name, column in columns.items():
        series = pl.Series(name, column.tolist() if column.dtype.kind == "O" else column)
        kept = isinstance(frame.schema.get(name), pl.Categorical | pl.Enum)
        changed.append(series.cast(frame.schema[name]) if kept else series)
    return frame.with_columns(changed)
