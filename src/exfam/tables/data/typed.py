"""One column of any library as numbers, booleans, dates or coded texts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.columns import Columns
from exfam.columns.kinds import is_moment, is_number, is_text
from exfam.columns.parts import Part
from exfam.columns.rules import FINITE, exact_rule
from exfam.tables.data.columns import label_array
from exfam.tables.data.raw import RawColumn, cell_error

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
    if isinstance(dtype, np.dtype) and dtype.kind not in "fiubMOU":
        raise _unreadable(name, str(dtype))
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize not in (4, 8):
        held = np.asarray(held, dtype=np.float64)  # Arrow has no longer ones
    part = Part("X", name)
    read = _typed(Columns.of_frame({name: held}, [part]), part)
    category, declared = _declared(held, order)
    return replace(read, category=category, order=declared)


def _typed(columns: Columns, part: Part) -> RawColumn:
    array = columns.arrays[part]
    missing = array.is_null().to_numpy(zero_copy_only=False)
    kind = array.type
    if is_text(kind):
        coded = array.dictionary_encode()
        codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return RawColumn(codes, missing, labels=coded.dictionary.to_pylist())
    if is_moment(kind):
        moments = columns.moments(part)
        return RawColumn(np.where(missing, np.datetime64(0, "us"), moments), missing)
    if not is_number(kind):
        raise _unreadable(part.name, str(kind))
    if types.is_null(kind) or types.is_decimal(kind):
        array = array.cast(pa.float64())
    filled = array.fill_null(False if types.is_boolean(kind) else 0)
    read = RawColumn(filled.to_numpy(zero_copy_only=False), missing)
    rule = exact_rule(kind) if kind == pa.uint64() else FINITE
    if kind == pa.uint64() or types.is_floating(array.type):
        wrong = rule.wrong(filled).to_numpy(zero_copy_only=False)
        if wrong.any():
            raise cell_error(part.name, rule.text, read, wrong, advice=rule.advice)
    return replace(read, values=read.values.astype(np.float64)) if kind == pa.uint64() else read


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


def _unreadable(name: str, kind: str) -> DataError:
    if "complex" in kind:
        sort, start = "complex", "Complex data not supported: column"
    elif any(word in kind for word in ("date", "time", "duration")):
        sort, start = "times", "Column"
    else:
        sort, start = "others", "Column"
    return DataError(
        f"{start} {name!r} must hold numbers, texts, booleans or dates, got {kind}. {_ADVICE[sort]}"
    )
