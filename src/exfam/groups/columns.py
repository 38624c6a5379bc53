"""Columns of a user's frame as arrays; every complaint names the column and the row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64, Shaped

from exfam.checks import DataError, is_utf8
from exfam.groups.ordering import dates_in_text, sortable_text

__all__ = [
    "Labels",
    "check_column",
    "holds_labels",
    "open_frame",
    "read_array",
    "read_labels",
    "read_numbers",
    "read_order",
]

DAY = np.timedelta64(1, "D")
# All whole numbers that are smaller than this are floats of 64 bits, too.
EXACT_BELOW = 2**53


@dataclass(frozen=True, eq=False)
class Labels:
    """A column of labels: row i holds `names[codes[i]]`, names in order of first appearance."""

    codes: Int64[np.ndarray, "rows"]
    names: np.ndarray


@dataclass(frozen=True)
class _Column:
    """An Arrow column without nested types, and how to speak of it."""

    array: pa.Array
    argument: str
    name: str

    def complain(self, rule: str, wrong: pa.Array | np.ndarray, advice: str = "") -> None:
        """Raise DataError if any row is `wrong`, naming the first.

        >>> _Column(pa.array([1, 2]), "value", "stars").complain("be odd", np.array([False, False]))
        """
        rows = np.flatnonzero(np.asarray(wrong))
        if rows.size == 0:
            return
        got = _as_python(self.array[int(rows[0])])
        message = (
            f"`{self.argument}` must {rule}, got {'nothing' if got is None else repr(got)} at row "
            f"{rows[0]} of column {self.name!r} ({rows.size} of {len(self.array)} rows). {advice}"
        )
        raise DataError(message.rstrip())


def _as_python(cell: pa.Scalar) -> Any:
    try:
        return cell.as_py()
    except pa.ArrowInvalid:  # a time in a zone that this machine does not know
        return cell.cast(pa.timestamp(cell.type.unit)).as_py()


def open_frame(frame: Any) -> Mapping[str, Any]:
    """The columns of a pandas or polars frame, an Arrow table or a mapping, by name.

    Anything else that speaks the Arrow stream protocol is read as an Arrow table.

    >>> open_frame(pa.table({"user": [1, 2]}))["user"].to_pylist()
    [1, 2]
    """
    if isinstance(frame, Mapping):
        return frame
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        # pandas column by column: others of its columns may be of types unknown to Arrow.
        return _by_name(frame.columns, (frame.iloc[:, i] for i in range(len(frame.columns))))
    speaks_arrow = hasattr(frame, "__arrow_c_stream__")
    if speaks_arrow:
        _check_names([*getattr(frame, "columns", ()), getattr(frame, "name", None)])
    try:
        table = pa.table(frame) if speaks_arrow else None
    except pa.ArrowInvalid:  # a single column speaks Arrow too
        table = None
    if table is None:
        raise DataError(
            "`frame` must be a pandas or polars frame, an Arrow table or a mapping of columns, "
            f"got {type(frame).__name__}."
        )
    return _by_name(table.column_names, table.columns)


def _check_names(names: Iterable[Any]) -> None:
    """Raise DataError for a name with a NUL, at which polars ends the process."""
    for name in names:
        if isinstance(name, str) and "\0" in name:
            raise DataError(f"`frame` must have names without NUL, got {name!r}. Rename it.")


def _by_name(names: Iterable[Any], columns: Iterable[Any]) -> dict[Any, Any]:
    named: dict[Any, Any] = {}
    for name, column in zip(names, columns, strict=True):
        if name in named:
            raise DataError(f"`frame` must have one column of each name, got {name!r} twice.")
        named[name] = column
    return named


def holds_labels(columns: Mapping[str, Any], argument: str, name: str) -> bool:
    """Whether a column holds text or booleans rather than numbers.

    >>> holds_labels({"genre": ["war", None]}, "attributes", "genre")
    True
    """
    kind = _read(columns, argument, name).array.type
    return pa.types.is_boolean(kind) or pa.types.is_large_string(kind)


def check_column(columns: Mapping[str, Any], argument: str, name: str) -> None:
    """Raise unless a frame's column is there and of any number of values.

    >>> check_column({"user": ["b", "a"]}, "group", "user")
    """
    if name not in columns:
        listed = ", ".join(repr(each) for each in columns)
        raise DataError(
            f"`{argument}` must name a column of the frame, got {name!r}. Its columns: {listed}."
        )
    column = columns[name]
    if isinstance(column, str | bytes) or not np.iterable(column) or not hasattr(column, "__len__"):
        raise DataError(
            f"`{argument}` must name a column of values, got {type(column).__name__} as column "
            f"{name!r}. Give a list or an array, a value a row."
        )


def read_array(columns: Mapping[str, Any], argument: str, name: str) -> pa.Array:
    """A column as one Arrow array: text of any kind as large strings, NaN as missing.

    >>> read_array({"stars": [1.5, float("nan")]}, "value", "stars").null_count
    1
    """
    return _read(columns, argument, name).array


def read_labels(columns: Mapping[str, Any], argument: str, name: str) -> Labels:
    """A column of text, whole numbers, booleans or (for groups) times as codes and names.

    >>> read_labels({"user": ["b", "a", "b"]}, "group", "user").codes
    array([0, 1, 0])
    """
    column = _read(columns, argument, name)
    array, kind = column.array, column.array.type
    rule = "hold labels (text, whole numbers, booleans)"
    column.complain("not be missing", pc.is_null(array), "Drop or fill these rows.")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # pandas turns a column of whole numbers that once had a gap into floats.
        array = array.cast(pa.float64())
        column.complain(rule, pc.not_equal(pc.floor(array), array))
        too_large = np.abs(_to_numpy(array)) >= EXACT_BELOW
        column.complain(
            f"{rule}, which floats are below {EXACT_BELOW}", too_large, "Read them as text."
        )
        array = array.cast(pa.int64())
    elif pa.types.is_temporal(kind) and argument != "group" or not _is_plain(kind):
        column.complain(rule, np.ones(len(array), dtype=bool), "Convert the column first.")
        array = pa.nulls(0)
    encoded = array.dictionary_encode()
    names = encoded.dictionary
    is_text = pa.types.is_large_string(names.type)
    labels = np.array(names.to_pylist(), dtype=object) if is_text else _to_numpy(names)
    return Labels(_to_numpy(encoded.indices).astype(np.int64), labels)


def read_numbers(
    columns: Mapping[str, Any],
    argument: str,
    name: str,
    *,
    missing: bool = False,
    date_format: str | None = None,
) -> Shaped[np.ndarray, "rows"]:
    """A numeric column as int64 or floats; with `missing`, gaps read NaN instead of raising.

    A `position` may be a time, or a date in text: it reads as days since 1970 (durations as days).

    >>> read_numbers({"stars": [3, None]}, "value", "stars", missing=True)
    array([ 3., nan])
    """
    column = _read(columns, argument, name)
    array, kind = column.array, column.array.type
    if not missing:
        column.complain("not be missing", pc.is_null(array), "Drop or fill these rows.")
    if argument == "position" and pa.types.is_large_string(kind):
        dates = dates_in_text(array, name=name, date_format=date_format)
        array, kind = (array, kind) if dates is None else (dates, dates.type)
    if argument == "position" and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        times = _to_numpy(array).astype("datetime64[us]")
        return (times - np.datetime64(0, "us")) / DAY
    if argument == "position" and pa.types.is_duration(kind):
        return _to_numpy(array) / DAY
    if not _is_number(kind):
        column.complain("be numeric", pc.is_valid(array), "Convert the column to numbers first.")
        array, kind = pa.nulls(len(array), pa.float64()), pa.float64()
    is_whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if is_whole and array.null_count == 0 and kind != pa.uint64():
        return _to_numpy(array).astype(np.int64)
    if is_whole and not pa.types.is_boolean(kind):
        too_large = np.abs(_to_numpy(array.cast(pa.float64(), safe=False))) >= EXACT_BELOW
        column.complain(
            f"be smaller than {EXACT_BELOW} to be read as floats", too_large, "Subtract an offset."
        )
    if not pa.types.is_floating(kind):
        array = array.cast(pa.int8() if pa.types.is_boolean(kind) else kind).cast(pa.float64())
    numbers = _to_numpy(array)
    column.complain("be finite", np.isinf(numbers), "Drop or mend these rows.")
    return numbers


def read_order(
    columns: Mapping[str, Any], name: str, *, date_format: str | None = None
) -> Shaped[np.ndarray, "rows"]:
    """A column as numbers or times that sort as it should: numbers, times, text that writes such.

    Raises DataError for other text: see `sortable_text`.

    >>> read_order({"step": ["t9", "t10", "t1"]}, "step")
    array([ 9, 10,  1])
    """
    column = _read(columns, "order", name)
    kind = column.array.type
    column.complain("not be missing", pc.is_null(column.array), "Drop or fill these rows.")
    if _is_number(kind):
        return read_numbers(columns, "order", name)
    if pa.types.is_temporal(kind):
        return _to_numpy(column.array)
    if pa.types.is_large_string(kind):
        return _to_numpy(sortable_text(column.array, name=name, date_format=date_format))
    labels = read_labels(columns, "order", name)
    return np.argsort(np.argsort(labels.names))[labels.codes]


def _read(columns: Mapping[str, Any], argument: str, name: str) -> _Column:
    check_column(columns, argument, name)
    array = _as_arrow(columns[name], argument, name)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = _as_large_string(array.dictionary).take(array.indices)
    if array.type == pa.float16():
        array = array.cast(pa.float32())
    array = _as_large_string(array)
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.fill_null(pc.is_nan(array), False), None, array)
    return _Column(array, argument, name)


def _as_large_string(array: pa.Array) -> pa.Array:
    is_text = pa.types.is_string(array.type) or pa.types.is_string_view(array.type)
    return array.cast(pa.large_string()) if is_text else array


def _as_arrow(column: Any, argument: str, name: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    if hasattr(column, "to_arrow"):
        _check_names([getattr(column, "name", None)])
        return column.to_arrow()
    if isinstance(column, list | tuple) or getattr(column, "dtype", None) == np.dtype(object):
        column = _of_plain_types(column, argument, name)
    if type(getattr(column, "dtype", None)).__name__ == "SparseDtype":  # of pandas
        column = np.asarray(column)
    try:
        return pa.array(column, from_pandas=True)
    except UnicodeEncodeError as error:
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


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    is_real = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return is_real or types.is_boolean(kind) or types.is_null(kind)


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    is_label = types.is_large_string(kind) or types.is_integer(kind) or types.is_boolean(kind)
    return is_label or types.is_temporal(kind)


def _to_numpy(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)
