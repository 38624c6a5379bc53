"""Cells as tokens and numbers, and back."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64, Shaped

from exfam.checks import DataError, ExfamError, ExfamWarning, check_choice
from exfam.tables.data.dates import as_dates, with_date_parts
from exfam.tables.data.frames import RawColumn, RawTable, cell_error, read_table
from exfam.tables.data.schema import LABEL_KINDS, Column, TableSchema

UNKNOWN = ("unk", "error")
Codes = Int64[np.ndarray, " rows"]
Knots = Float64[np.ndarray, " knots"]
Numbers = Float64[np.ndarray, " rows"]

_FEW = 64  # knots that are sooner compared one by one than searched
_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))
_LISTED = 5  # columns that a warning names


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of all rows, by the columns of a schema; indexed by rows.

    `code`: the token of a cell; -1 where it is absent: missing, or a label unknown to training
    `fraction`: in [0, 1), how far the cell lies from its token towards the next one; 0 for labels
        and bins
    `value`: the number itself, in its own unit, or the code of a label; NaN where absent

    >>> code = np.array([[0, 1], [2, -1]], dtype=np.int32)
    >>> cells = Cells(code, np.zeros((2, 2), np.float32), np.array([[0.0, 1.0], [2.0, np.nan]]))
    >>> cells[1:].code, cells.hide([0]).present.tolist()
    (array([[ 2, -1]], dtype=int32), [[False, True], [False, False]])
    """

    code: Int32[np.ndarray, "rows columns"]
    fraction: Float32[np.ndarray, "rows columns"]
    value: Float64[np.ndarray, "rows columns"]

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray) -> "Cells":
        return _combined(lambda array: array[rows], self)

    @property
    def present(self) -> Bool[np.ndarray, "rows columns"]:
        return self.code >= 0

    def where(self, shown: np.ndarray) -> "Cells":
        return self.replaced(~shown, Cells.absent(1, self.code.shape[1]))

    def replaced(self, where: np.ndarray, other: "Cells") -> "Cells":
        """The same cells, where `where` is True those of `other`."""

        def chosen(theirs: np.ndarray, own: np.ndarray) -> np.ndarray:
            return np.where(where, theirs, own)

        return _combined(chosen, other, self)

    def hide(self, columns: Sequence[int] | np.ndarray) -> "Cells":
        """The same cells with those of the columns of these indices absent."""
        return self.where(~np.isin(np.arange(self.code.shape[1]), np.asarray(columns)))

    def columns(self, columns: Sequence[int]) -> "Cells":
        """The cells of the columns of these indices, in this order."""
        return _combined(lambda array: array[:, columns], self)

    @staticmethod
    def absent(n_rows: int, n_columns: int) -> "Cells":
        shape = (n_rows, n_columns)
        return Cells(
            np.full(shape, -1, np.int32), np.zeros(shape, np.float32), np.full(shape, np.nan)
        )

    @staticmethod
    def concatenate(parts: Sequence["Cells"]) -> "Cells":
        """The rows of all parts, one after another; all of one schema."""
        return _combined(lambda *arrays: np.concatenate(arrays), *parts)


def _combined(combine: Callable[..., np.ndarray], *cells: Cells) -> Cells:
    names = ("code", "fraction", "value")
    return Cells(*(combine(*(getattr(own, name) for own in cells)) for name in names))


def encode_table(
    schema: TableSchema, table: RawTable, *, unknown: str, becomes: Mapping[str, str] | None = None
) -> Cells:
    """The cells of a table by the columns of a schema; absent where the table lacks a column.

    `becomes`: by column, what the warning of unknown labels says of them
    """
    check_choice("unknown", unknown, UNKNOWN)
    new: dict[str, Bool[np.ndarray, " rows"]] = {}
    for name in table.names:
        if name not in schema.names:
            raise DataError(
                f"Column {name!r} must be one of training, which had "
                f"{', '.join(map(repr, schema.names))}. Drop it, or mend its name."
            )
    table = with_date_parts(table, schema.dates)
    cells = Cells.absent(table.n_rows, len(schema))
    code, fraction, value = cells.code, cells.fraction, cells.value
    for k, column in enumerate(schema.columns):
        raw = table.columns.get(column.name)
        if raw is None or raw.is_empty:
            continue
        check_cells(column, raw)
        if column.kind in LABEL_KINDS:
            codes = finite_codes(column, raw)
            code[:, k], value[:, k] = codes, np.where(codes < 0, np.nan, codes)
            new[column.name] = (codes < 0) & ~raw.missing
        else:
            number = raw.values.astype(np.float64)
            number[raw.missing] = np.nan
            code[:, k], fraction[:, k] = encode_values(column, number)
            value[:, k] = number
    new = {name: rows for name, rows in new.items() if rows.any()}
    if new and unknown == "error":
        name, rows = next(iter(new.items()))
        advice = 'Mend these cells, or pass unknown="unk" to take them as missing.'
        rule = "hold labels seen in training"
        raise cell_error(name, rule, table.columns[name], rows, advice=advice)
    if new:
        _warn_of_new_labels(table, new, becomes=becomes or {})
    return cells


def encode_all(schema: TableSchema, tables: Sequence[RawTable], *, unknown: str) -> Cells:
    """The rows of all tables, one after another."""
    return Cells.concatenate([encode_table(schema, table, unknown=unknown) for table in tables])


def encode_given(schema: TableSchema, given: Any, *, unknown: str) -> Cells:
    """Known cells by column: a mapping to one value each, a table, or None for a row without."""
    if given is None or (isinstance(given, Mapping) and not given):
        return Cells.absent(1, len(schema))
    if isinstance(given, Mapping) and all(
        isinstance(value, str) or not hasattr(value, "__len__") for value in given.values()
    ):
        given = {name: [value] for name, value in given.items()}
    return encode_table(schema, read_table(given), unknown=unknown)


def encode_values(
    column: Column, values: Float64[np.ndarray, " cells"]
) -> tuple[Int32[np.ndarray, " cells"], Float32[np.ndarray, " cells"]]:
    """Code and fraction of `values`, which are codes of labels or numbers; -1, 0 for NaN."""
    absent = np.isnan(values)
    fraction = np.zeros(len(values), dtype=np.float32)
    if column.kind in LABEL_KINDS:
        return np.where(absent, -1, values).astype(np.int32), fraction
    assert column.knots is not None
    if column.binned:
        code = _passed(column.knots, values, equal=False)
    else:
        code, fraction = _hat(column.knots, values)
    code[absent], fraction[absent] = -1, 0.0
    return code.astype(np.int32), fraction


def put_values(
    cells: Cells,
    rows: Int64[np.ndarray, " some"],
    *,
    schema: TableSchema,
    column: int,
    values: Float64[np.ndarray, " some"],
) -> Cells:
    """The cells with `values` in some rows of the column of this index, encoded as its tokens."""
    code, fraction, value = cells.code.copy(), cells.fraction.copy(), cells.value.copy()
    code[rows, column], fraction[rows, column] = encode_values(schema.columns[column], values)
    value[rows, column] = values
    return Cells(code, fraction, value)


def decode_all(schema: TableSchema, cells: Cells) -> dict[str, np.ndarray]:
    """All cells as labels and numbers, by column; without the parts of dates."""
    return {
        column.name: decode(schema, column.name, cells.value[:, k])
        for k, column in enumerate(schema.columns)
        if column.part_of is None
    }


def decode(
    schema: TableSchema, name: str, values: Float[np.ndarray, " rows"]
) -> Shaped[np.ndarray, " rows"]:
    """Values of `Cells` as labels or numbers of a column; NaN is a missing cell.

    Dates are datetime64 in microseconds. Missing labels read NaN among numbers and None among texts
    and booleans.
    """
    column = schema.column(name)
    if column.kind == "date":
        return as_dates(values)
    if column.labels is None:
        return np.array(values, dtype=np.float64)
    missing = np.isnan(values)
    codes = np.where(missing, 0.0, values)
    wrong = (codes != np.floor(codes)) | (codes < 0) | (codes >= len(column.labels))
    if wrong.any():
        raise ExfamError(
            f"`values` must be codes of the {len(column.labels)} labels of {name!r}, whole numbers "
            f"from 0, got {values[wrong][0]:g} at row {np.flatnonzero(wrong)[0]}. Round them first."
        )
    labels = column.labels[codes.astype(np.int64)]
    if not missing.any():
        return labels
    is_number = labels.dtype.kind in "if"
    labels = labels.astype(np.float64 if is_number else object)
    labels[missing] = np.nan if is_number else None
    return labels


def _hat(knots: Knots, number: Numbers) -> tuple[Codes, Float32[np.ndarray, " rows"]]:
    """The knot at or below each number, and how far towards the next one it lies, in [0, 1)."""
    code = _passed(knots[1:], number, equal=True)
    # Halved where the difference of two numbers may be more than float64 holds.
    half = 0.5 if max(-knots[0], knots[-1]) > np.finfo(np.float64).max / 2 else 1.0
    scaled = knots * half
    gaps = np.append(np.diff(scaled), np.inf)
    share = np.clip(number, knots[0], knots[-1])
    share *= half
    share -= scaled.take(code)
    share /= gaps.take(code)
    return code, np.minimum(share.astype(np.float32), _BELOW_ONE)


def _passed(knots: Knots, number: Numbers, *, equal: bool) -> Codes:
    """How many of the knots lie below each number, or are `equal` to it."""
    if len(knots) > _FEW:
        return np.searchsorted(knots, number, side="right" if equal else "left")
    # Six times as fast as a search: no branch depends on the number.
    reached = np.zeros(len(number), dtype=np.uint8)
    for knot in knots:
        reached += number >= knot if equal else number > knot
    return reached.astype(np.int64)


def check_cells(column: Column, raw: RawColumn) -> None:
    """Raise DataError, naming the first row, unless cells are of a type that the column holds."""
    texts = column.labels is not None and column.labels.dtype.kind == "O"
    if texts != (raw.type == "text") and not raw.is_empty:
        rule = "hold texts" if texts else "hold numbers"
        if column.kind == "boolean":
            rule = "hold booleans"
        advice = "Convert the column, or declare its kind in `kinds`."
        raise cell_error(column.name, rule, raw, ~raw.missing, advice=advice)
    if column.kind == "count" and raw.type != "boolean":
        wrong = ((raw.values < 0) | (raw.values != np.floor(raw.values))) & ~raw.missing
        if wrong.any():
            advice = "Mend these cells, or declare the column numeric."
            raise cell_error(column.name, "hold whole numbers from 0", raw, wrong, advice=advice)


def finite_codes(column: Column, raw: RawColumn) -> Codes:
    """The code of each label, -1 where it is missing or none of the column's."""
    labels = column.labels
    assert labels is not None
    if raw.is_empty or raw.type == "date":  # which is never a label
        return np.full(len(raw), -1)
    if raw.labels is not None:
        codes_of = {label: code for code, label in enumerate(labels.tolist())}
        codes = np.array([*(codes_of.get(label, -1) for label in raw.labels), -1])[raw.values]
    else:
        values = raw.values.astype(np.int8) if raw.type == "boolean" else raw.values
        named = labels.astype(np.int8) if labels.dtype.kind == "b" else labels
        order = np.argsort(named)
        index = np.searchsorted(named[order], values).clip(max=len(named) - 1)
        codes = np.where(named[order][index] == values, order[index], -1)
    return np.where(raw.missing, -1, codes)


def _warn_of_new_labels(
    table: RawTable, new: Mapping[str, Bool[np.ndarray, " rows"]], *, becomes: Mapping[str, str]
) -> None:
    parts = []
    for name, rows in new.items():
        first, count = int(np.argmax(rows)), int(rows.sum())
        label = table.columns[name].at(first)
        what = becomes.get(name, "are taken as missing")
        parts.append(f"{count} of column {name!r}, such as {label!r} at row {first}, {what}")
    n_rows = int(np.any(list(new.values()), axis=0).sum())
    more = f"; and so on, {len(parts)} columns in all" if len(parts) > _LISTED else ""
    warnings.warn(
        f"{n_rows} of {table.n_rows} rows hold labels that training did not have: "
        f"{'; '.join(parts[:_LISTED])}{more}. Pass unknown='error' to refuse them.",
        ExfamWarning,
        stacklevel=2,
    )
