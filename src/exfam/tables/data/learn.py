"""The schema of training tables."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from exfam.checks import DataError, check_choice, check_whole
from exfam.tables.data.columns import LABEL_KINDS, Column, label_array
from exfam.tables.data.dates import find_dates, with_date_parts
from exfam.tables.data.encode import check_cells, finite_codes
from exfam.tables.data.kinds import DeclaredKinds, check_kinds, infer_kind, split_kinds
from exfam.tables.data.knots import bin_edges, location_and_spread, quantile_knots
from exfam.tables.data.raw import RawColumn, RawTable, cell_error
from exfam.tables.data.schema import TableSchema
from exfam.tables.data.union import pooled_columns

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

    >>> from exfam.tables.data import read_table
    >>> table = read_table({"age": [31.5, 40.0, 62.0], "smokes": [True, False, None]})
    >>> schema = learn_schema(table, kinds=None, numeric="continuous", n_bins=2)
    >>> [(column.kind, column.n_tokens) for column in schema.columns]
    [('numeric', 2), ('boolean', 2)]
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
