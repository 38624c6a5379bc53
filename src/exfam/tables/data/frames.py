"""Tables of any kind as named columns with their missing cells: frames, mappings, arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.columns import Columns, zone_of
from exfam.columns.frames import collected, is_lazy, open_frame, with_columns
from exfam.columns.parts import Part
from exfam.columns.rules import FINITE, exact_rule, is_moment, is_number, is_text
from exfam.tables.data.schema import label_array


@dataclass(frozen=True, eq=False)
class RawColumn:
    """One column: numbers, booleans, dates, or texts as codes of `labels`; where missing anything.

    `category`: whether the frame says that its values are categories
    `order`: the categories in order, where the frame declares one
    `zone`: that of times; "" for none
    """

    values: Shaped[np.ndarray, " rows"]
    missing: Bool[np.ndarray, " rows"]
    labels: Sequence[str] | None = None
    category: bool = False
    order: np.ndarray | None = None
    zone: str = ""

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
        return bool(self.missing.all())

    def at(self, row: int) -> object:
        """The value in a row, as Python knows it."""
        value = self.values[row].item()
        return value if self.labels is None else self.labels[value]


@dataclass(frozen=True, eq=False)
class RawTable:
    """Columns by name, all of `n_rows` rows."""

    columns: Mapping[str, RawColumn]
    n_rows: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)


def cell_error(
    name: str, rule: str, column: RawColumn, wrong: Bool[np.ndarray, " rows"], *, advice: str
) -> DataError:
    """The error of a column in which the cells marked `wrong` break a rule; it names the first."""
    rows = np.flatnonzero(wrong)
    where = f"at row {rows[0]} ({len(rows)} of {len(wrong)} rows)"
    return DataError(
        f"Column {name!r} must {rule}, got {column.at(int(rows[0]))!r} {where}. {advice}"
    )


def read_column(held: Any, name: str, *, order: list[str] | None = None) -> RawColumn:
    """A column as numpy knows it, with `order` as that of its categories if Arrow knows none."""
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
        filled = np.where(missing, np.datetime64(0, "us"), moments)
        return RawColumn(filled, missing, zone=zone_of(kind))
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
    start, advice = "Column", "Convert it to numbers or texts first."
    if "complex" in kind:
        start = "Complex data not supported: column"
        advice = "Give its real and imaginary parts as two columns."
    elif any(word in kind for word in ("date", "time", "duration")):
        advice = "Convert it to numbers, such as hours."
    return DataError(
        f"{start} {name!r} must hold numbers, texts, booleans or dates, got {kind}. {advice}"
    )


def has_names(X: Any) -> bool:
    """Whether the columns of one table have names."""
    is_frame = hasattr(X, "iloc") or hasattr(X, "__arrow_c_stream__") or is_lazy(X)
    return is_frame or isinstance(X, Mapping)


def read_table(X: Any) -> RawTable:
    """The columns of a table by name, and which of their cells are missing.

    A pandas or polars frame, an Arrow table, a mapping of columns, or what numpy reads as a
    2-dimensional array, whose columns are "x0", "x1", …
    """
    X = collected(X)
    if hasattr(X, "tocsr") or hasattr(X, "tocsc"):
        raise DataError(
            f"`X` must be dense, got a sparse matrix, {type(X).__name__}. Pass X.toarray()."
        )
    if has_names(X):
        _check_dimensions(getattr(X, "shape", (0, 0)))
        columns = _of_frame(X)
    else:
        array = _as_array(X)
        _check_filled(array.shape)
        columns = {}
        for k, name in enumerate(array_names(array.shape[1])):
            column = array[:, k]
            read = read_column(np.asarray(np.ma.getdata(column)), name)
            columns[name] = replace(read, missing=read.missing | np.ma.getmaskarray(column))
    lengths = {name: len(column) for name, column in columns.items()}
    n_rows = next(iter(lengths.values()), 0)
    _check_filled((n_rows, len(columns)))
    for name, length in lengths.items():
        if length != n_rows:
            raise DataError(
                f"`X` must have columns of one length, got {n_rows} rows in {next(iter(columns))!r}"
                f" and {length} in {name!r}."
            )
    return RawTable(columns, n_rows)


def array_names(n_columns: int) -> tuple[str, ...]:
    """Names of columns that have none, as scikit-learn gives them."""
    return tuple(f"x{k}" for k in range(n_columns))


def _check_dimensions(shape: tuple[int, ...]) -> None:
    if len(shape) == 2:
        return
    advice = "Make each row flat."
    if len(shape) < 2:
        advice = "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
    raise DataError(f"`X` must be 2-dimensional, got an array with dim {len(shape)}. {advice}")


def _check_filled(shape: tuple[int, ...]) -> None:
    for count, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise DataError(
                f"`X` must hold a table, got {count} {what} (shape={shape}) while a minimum of 1 "
                "is required."
            )


def _of_frame(X: Any) -> dict[str, RawColumn]:
    schema = getattr(X, "schema", None)
    orders = {}
    if isinstance(schema, Mapping):
        # Of polars' Enum Arrow does not know the declared order.
        enums = {name: kind for name, kind in schema.items() if type(kind).__name__ == "Enum"}
        orders = {name: kind.categories.to_list() for name, kind in enums.items()}
    columns: dict[str, RawColumn] = {}
    for key, held in open_frame(X, argument="X", index=False).items():
        name = str(key)  # of pandas, names may be numbers
        if isinstance(held, str) or not hasattr(held, "__len__") or getattr(held, "ndim", 1) != 1:
            raise DataError(
                f"`X` must map names to flat columns of values, got {type(held).__name__} for "
                f"{name!r}. Pass a list or a 1-dimensional array."
            )
        if name in columns:
            raise DataError(f"`X` must have one column of each name, got {name!r} twice.")
        columns[name] = read_column(held, name, order=orders.get(name))
    return columns


def _as_array(X: Any) -> np.ndarray:
    if isinstance(X, str | bytes) or not (
        hasattr(X, "__array__") or hasattr(X, "__array_interface__") or isinstance(X, Sequence)
    ):
        raise DataError(
            "`X` must be a pandas or polars frame, an Arrow table, a mapping of columns or a "
            f"2-dimensional array, got {type(X).__name__}."
        )
    if isinstance(X, Sequence):
        lengths = {len(row) for row in X if hasattr(row, "__len__") and not isinstance(row, str)}
        if len(lengths) > 1:
            raise DataError(f"`X` must have rows of one length, got {sorted(lengths)}.")
    # As objects, so that a column of numbers beside one of texts stays one.
    array = np.array(X, dtype=object) if isinstance(X, Sequence) else np.asanyarray(X)
    _check_dimensions(array.shape)
    return array


def as_frame_like(table: Any, columns: Mapping[str, Shaped[np.ndarray, " rows"]]) -> Any:
    """A copy of a table with the columns of these names replaced, of the kind that was given."""
    if has_names(table):
        return with_columns(table, columns)
    before = np.asarray(table)
    if before.dtype.kind not in "fiub":
        before = np.array(table, dtype=object)
    parts = [columns.get(name, before[:, k]) for k, name in enumerate(array_names(before.shape[1]))]
    all_numbers = all(part.dtype.kind in "fiu" for part in parts)
    kind = np.result_type(*parts) if all_numbers else np.dtype(object)
    return np.stack([part.astype(kind) for part in parts], axis=1)
