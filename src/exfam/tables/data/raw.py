"""A table as it was read, before anything is learned of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.columns import Columns
from exfam.columns.parts import Part
from exfam.columns.rules import FINITE, exact_rule, is_moment, is_number, is_text
from exfam.tables.data.columns import label_array


@dataclass(frozen=True, eq=False)
class RawColumn:
    """One column: numbers, booleans, dates, or texts as codes of `labels`; where missing anything.

    `category`: whether the frame says that its values are categories
    `order`: the categories in order, where the frame declares one
    """

    values: Shaped[np.ndarray, " rows"]
    missing: Bool[np.ndarray, " rows"]
    labels: Sequence[str] | None = None
    category: bool = False
    order: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.missing)

    @property
    def type(self) -> str:
        """What its values are: "text", "boolean", "date" or "number"."""
        if self.labels is not None:
            return "text"
        return {"b": "boolean", "M": "date"}.get(self.values.dtype.kind, "number")

    @property
    def is_empty(self) -> bool:
        """Whether every cell is missing."""
        return bool(self.missing.all())

    def at(self, row: int) -> object:
        """The value in a row, as Python knows it."""
        value = self.values[row].item()
        return value if self.labels is None else self.labels[value]


@dataclass(frozen=True, eq=False)
class RawTable:
    """Columns by name, all of `n_rows` rows."""

    names: tuple[str, ...]
    columns: Mapping[str, RawColumn]
    n_rows: int


def cell_error(
    name: str, rule: str, column: RawColumn, wrong: Bool[np.ndarray, " rows"], *, advice: str
) -> DataError:
    """The error of a column in which the cells marked `wrong` break a rule; it names the first."""
    rows = np.flatnonzero(wrong)
    where = f"at row {rows[0]} ({len(rows)} of {len(wrong)} rows)"
    return DataError(
        f"Column {name!r} must {rule}, got {column.at(int(rows[0]))!r} {where}. {advice}"
    )


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
