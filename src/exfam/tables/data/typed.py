"""One column of any library as numbers, booleans or coded texts."""

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError
from exfam.groups.columns import read_array
from exfam.tables.data.columns import label_array
from exfam.tables.data.raw import RawColumn, cell_error

__all__ = ["read_column"]

_ADVICE = {
    "times": "Convert it to numbers, such as hours.",
    "complex": "Give its real and imaginary parts as two columns.",
    "others": "Convert it to numbers or texts first.",
}


def read_column(held: Any, name: str, *, order: list[str] | None = None) -> RawColumn:
    """A column as numpy knows it, and which cells are missing.

    `order`: its categories in order, if the frame declares one that Arrow does not know

    Raises DataError naming the column, and the row, of what is no text, boolean, date or finite
    number.

    >>> read_column([1.5, float("nan")], "age").missing.tolist()
    [False, True]
    >>> read_column(["b", None, "b"], "size").labels
    ['b']
    """
    dtype = getattr(held, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return _plain(np.asarray(held), name)
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _dates(np.asarray(held), name)
    if isinstance(dtype, np.dtype) and dtype.kind not in "OU":
        raise _unreadable(name, str(dtype))
    if type(dtype).__name__ == "SparseDtype":  # of a pandas column
        return read_column(np.asarray(held), name)
    if isinstance(held, np.ndarray) and held.dtype.kind == "U":
        held = held.astype(object)
    return _of_arrow(read_array({name: held}, "X", name), name, *_declared(held, order))


def _plain(array: np.ndarray, name: str) -> RawColumn:
    """Numbers and booleans that numpy holds; wider ones than 64 bits become float64."""
    if array.dtype.kind != "f":
        whole = array.astype(np.float64) if array.dtype == np.uint64 else array
        return RawColumn(whole, np.zeros(len(array), dtype=bool))
    if array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float64)
    column = RawColumn(array, np.isnan(array))
    infinite = np.isinf(array)
    if infinite.any():
        advice = "Drop or mend these rows, or mark the cell as missing."
        raise cell_error(name, "be finite", column, infinite, advice=advice)
    return column


def _dates(array: np.ndarray, name: str) -> RawColumn:
    """Dates that numpy holds, to the microsecond."""
    missing = np.isnat(array)
    years = array.astype("datetime64[Y]").astype(np.int64) + 1970
    wrong = ~missing & ((years < 1) | (years > _LAST_YEAR))
    if wrong.any():
        raise DataError(
            f"Column {name!r} must hold dates of the years 1 to {_LAST_YEAR}, got the year "
            f"{years[wrong][0]} at row {np.flatnonzero(wrong)[0]}. Mend these cells."
        )
    return RawColumn(array.astype("datetime64[us]"), missing)


_LAST_YEAR = 9999


def _declared(held: Any, order: list[str] | None) -> tuple[bool, np.ndarray | None]:
    """Whether a column is of categories, and their order if it has one."""
    if order is not None:
        return True, label_array(order)
    dtype: Any = getattr(held, "dtype", None)
    if hasattr(dtype, "ordered") and hasattr(dtype, "categories"):  # pandas
        return True, label_array(dtype.categories.tolist()) if dtype.ordered else None
    if isinstance(held, pa.ChunkedArray | pa.Array) and types.is_dictionary(held.type):
        whole = held.combine_chunks() if isinstance(held, pa.ChunkedArray) else held
        in_order = label_array(whole.dictionary.to_pylist()) if held.type.ordered else None
        return True, in_order
    return False, None


def _of_arrow(array: pa.Array, name: str, category: bool, order: np.ndarray | None) -> RawColumn:
    missing = array.is_null().to_numpy(zero_copy_only=False)
    kind = array.type
    if types.is_large_string(kind):
        coded = array.dictionary_encode()
        codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        labels = coded.dictionary.to_pylist()
        return RawColumn(codes, missing, labels=labels, category=category, order=order)
    if types.is_null(kind):
        return RawColumn(np.zeros(len(array)), missing, category=category, order=order)
    if types.is_date(kind) or types.is_timestamp(kind):
        # Arrow keeps moments with a zone in UTC.
        moments = array.cast(pa.timestamp("us"), safe=False).view(pa.int64()).fill_null(0)
        whole = moments.to_numpy(zero_copy_only=False).astype("datetime64[us]")
        return RawColumn(whole, missing, category=category, order=order)
    if not _is_real(kind):
        raise _unreadable(name, str(kind))
    if types.is_decimal(kind):
        array = array.cast(pa.float64())
    values = array.fill_null(False if types.is_boolean(kind) else 0)
    read = _plain(values.to_numpy(zero_copy_only=False), name)
    return RawColumn(read.values, missing, category=category, order=order)


def _is_real(kind: pa.DataType) -> bool:
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return is_number or types.is_boolean(kind)


def _unreadable(name: str, kind: str) -> DataError:
    if "complex" in kind:
        sort, told = "complex", "Complex data not supported: column"
    elif any(word in kind for word in ("date", "time", "duration")):
        sort, told = "times", "Column"
    else:
        sort, told = "others", "Column"
    return DataError(
        f"{told} {name!r} must hold numbers, texts, booleans or dates, got {kind}. {_ADVICE[sort]}"
    )
