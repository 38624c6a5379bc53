"""The schema of training tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from exfam.checks import DataError, check_choice, check_whole
from exfam.tables.data.columns import COLUMN_KINDS, LABEL_KINDS, Column, label_array
from exfam.tables.data.dates import find_dates, with_date_parts
from exfam.tables.data.encode import check_cells, finite_codes
from exfam.tables.data.knots import bin_edges, location_and_spread, quantile_knots
from exfam.tables.data.raw import RawColumn, RawTable, cell_error
from exfam.tables.data.schema import TableSchema

DeclaredKinds = Mapping[str, str | Sequence[object]]


def check_kinds(kinds: DeclaredKinds, names: Iterable[str]) -> None:
    """Raise ExfamError unless `kinds` names columns, and of each a kind or labels in order."""
    columns = list(names)
    for name, given in kinds.items():
        if name not in columns:
            listed = ", ".join(map(repr, columns))
            raise DataError(f"`kinds` must name columns of the table, {listed}; got {name!r}.")
        if isinstance(given, str):
            check_choice(f"kinds[{name!r}]", given, COLUMN_KINDS)
        else:
            _check_labels(name, list(given))


def _check_labels(name: str, labels: list[object]) -> None:
    sorts = {str if isinstance(label, str) else _number_sort(label) for label in labels}
    if not labels or len(set(labels)) < len(labels) or len(sorts) > 1 or None in sorts:
        raise DataError(
            f"`kinds[{name!r}]` must be a kind or a list of distinct labels of one type (texts, "
            f"finite numbers or booleans), got {labels!r}."
        )


def _number_sort(label: object) -> type | None:
    if isinstance(label, bool | np.bool_):
        return bool
    is_number = isinstance(label, int | float | np.integer | np.floating)
    return float if is_number and np.isfinite(label) else None  # type: ignore[call-overload]


def split_kinds(kinds: DeclaredKinds, name: str) -> tuple[str | None, np.ndarray | None]:
    """The declared kind of a column and its declared labels, None for what is not declared."""
    given = kinds.get(name)
    if given is None or isinstance(given, str):
        return given, None
    return "ordinal", label_array(given)


def infer_kind(column: RawColumn) -> str:
    """The kind of a column that is not declared.

    Categories in an order are ordinal, other categories and texts categorical, truth values
    boolean, numbers numeric: whole numbers too, since others may come later. Only where training
    has 0 and 1 and no other whole number, as indicators do, these are labels (ordinal). Counts are
    never guessed.
    """
    if column.order is not None:
        return "ordinal"
    if column.category or column.type == "text":
        return "categorical"
    if column.type == "boolean":
        return "boolean"
    values = column.values[~column.missing]
    is_indicator = values.dtype.kind != "f" and len(values) > 0 and values.min() == 0
    return "ordinal" if is_indicator and values.max() == 1 else "numeric"


def pooled_columns(tables: Sequence[RawTable]) -> dict[str, RawColumn]:
    """The columns of all tables by name, in order of first appearance, all values of each.

    Raises DataError naming both tables where a column is of another type in the second.
    """
    if not tables:
        raise DataError("`tables` must hold at least one table, got none.")
    held: dict[str, list[tuple[int, RawColumn]]] = {}
    for number, table in enumerate(tables):
        for name in table.names:
            held.setdefault(name, []).append((number, table.columns[name]))
    return {name: _pooled(name, parts) for name, parts in held.items()}


def _pooled(name: str, parts: list[tuple[int, RawColumn]]) -> RawColumn:
    filled = [part for part in parts if not part[1].is_empty]
    if len(filled) < 2:
        return (filled or parts)[0][1]
    first, column = filled[0]
    for number, other in filled[1:]:
        if _sort(other) != _sort(column):
            raise DataError(
                f"Column {name!r} must be of one kind in all tables, got {_sort(column)} in table "
                f"{first} and {_sort(other)} in table {number}. Convert or rename one of them."
            )
    return _joined([column for _, column in filled])


def _sort(column: RawColumn) -> str:
    if column.order is not None:
        return f"categories in the order {column.order.tolist()}"
    if column.category and column.type != "text":
        return f"categories of {column.type}"
    return column.type


def _joined(columns: list[RawColumn]) -> RawColumn:
    missing = np.concatenate([column.missing for column in columns])
    first = columns[0]
    if first.labels is None:
        values = np.concatenate([column.values for column in columns])
        return RawColumn(values, missing, category=first.category, order=first.order)
    codes: dict[str, int] = {}
    moved = []
    for column in columns:
        assert column.labels is not None
        new_codes = [codes.setdefault(label, len(codes)) for label in column.labels]
        moved.append(np.array([*new_codes, 0])[column.values])
    return RawColumn(
        np.concatenate(moved),
        missing,
        labels=list(codes),
        category=first.category,
        order=first.order,
    )


NUMERIC = ("continuous", "binned")


def learn_schema(
    tables: RawTable | Sequence[RawTable],
    *,
    kinds: DeclaredKinds | None,
    numeric: str,
    n_bins: int,
    n_knots: int | None = None,
    date_format: Any = None,
) -> TableSchema:
    """What there is to know of the columns of training tables, matched by name.

    `kinds`: by column, one of "categorical", "ordinal", "boolean", "numeric", "count" and "date",
        or the labels of an ordinal column in order; the others are guessed by `infer_kind`
    `numeric`: "continuous" has at most `n_knots` knots a column, "binned" `n_bins` bins
    `n_knots`: None for as many as bins (default None)
    `date_format`: how dates in text are written, in all columns or by column; None for the one
        format that all of a column fits (default None)

    Raises DataError for a column without a value whose labels are not declared, for one that is of
    another kind in another table, and for cells that its kind cannot hold.
    """
    check_choice("numeric", numeric, NUMERIC)
    check_whole("n_bins", n_bins, least=2)
    n_knots = n_bins if n_knots is None else n_knots
    check_whole("n_knots", n_knots, least=2)
    listed = [tables] if isinstance(tables, RawTable) else list(tables)
    declared = {} if kinds is None else kinds
    check_kinds(declared, dict.fromkeys(name for table in listed for name in table.names))
    dates = find_dates(listed, declared, date_format)
    listed = [with_date_parts(table, dates) for table in listed]
    part_of = {name: date.name for date in dates for name in date.part_names}
    declared = {**declared, **{name: _WEEKDAYS for name in part_of if name.endswith(" weekday")}}
    declared |= {date.name: "date" for date in dates}
    columns = []
    for name, column in pooled_columns(listed).items():
        kind, labels = split_kinds(declared, name)
        kind = kind or infer_kind(column)
        parts = [table.columns[name] for table in listed if name in table.columns]
        if kind in LABEL_KINDS:
            learned = _finite(name, kind, column, labels=labels, parts=parts)
        else:
            binned = numeric == "binned" and kind == "numeric"
            n = n_bins if binned else n_knots
            learned = _number(name, kind, column, n=n, binned=binned, parts=parts)
        columns.append(replace(learned, part_of=part_of.get(name)))
    return TableSchema(tuple(columns), dates)


_WEEKDAYS = tuple(range(7))


def _finite(
    name: str,
    kind: str,
    column: RawColumn,
    *,
    labels: np.ndarray | None,
    parts: Sequence[RawColumn],
) -> Column:
    if labels is None:
        labels = np.array([False, True]) if kind == "boolean" else _labels(name, kind, column)
    learned = Column(name, kind, labels=labels)
    for part in parts:
        check_cells(learned, part)
        unknown = (finite_codes(learned, part) < 0) & ~part.missing
        if unknown.any():
            listed = ", ".join(map(repr, labels.tolist()))
            advice = "Mend these cells, or declare other labels or another kind in `kinds`."
            raise cell_error(name, f"be one of {listed}", part, unknown, advice=advice)
    return learned


def _labels(name: str, kind: str, column: RawColumn) -> np.ndarray:
    """The labels of a column in the order of its frame, or else sorted."""
    if column.order is not None and len(column.order):
        return column.order
    _check_filled(name, column)
    if column.labels is None:
        return label_array(np.unique(column.values[~column.missing]).tolist())
    if kind == "ordinal":
        raise DataError(
            f"Column {name!r} must have its texts in an order to be ordinal, got none. Declare it, "
            f"kinds={{{name!r}: [FIRST, …, LAST]}}, or give ordered categories."
        )
    seen = np.unique(column.values[~column.missing])
    return label_array(sorted(column.labels[code] for code in seen))


def _number(
    name: str, kind: str, column: RawColumn, *, n: int, binned: bool, parts: Sequence[RawColumn]
) -> Column:
    _check_filled(name, column)
    shape = Column(name, kind, knots=np.zeros(1))
    for part in parts:
        check_cells(shape, part)
    ordered = np.sort(column.values[~column.missing].astype(np.float64))
    center, scale = location_and_spread(ordered)
    knots = bin_edges(ordered, n) if binned else quantile_knots(ordered, n)
    return Column(name, kind, knots=knots, binned=binned, center=center, scale=scale)


def _check_filled(name: str, column: RawColumn) -> None:
    if column.is_empty:
        raise DataError(
            f"Column {name!r} must have a value in some row of training, got {len(column)} missing "
            f"cells. Drop it, or declare its labels, kinds={{{name!r}: [FIRST, …, LAST]}}."
        )
