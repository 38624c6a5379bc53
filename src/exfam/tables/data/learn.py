"""The schema of training tables: kinds, labels and knots of their columns, matched by name."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import DataError, check_choice, shown
from exfam.tables.data.cells import check_cells, finite_codes
from exfam.tables.data.dates import find_dates, with_date_parts
from exfam.tables.data.frames import RawColumn, RawTable, cell_error
from exfam.tables.data.schema import COLUMN_KINDS, LABEL_KINDS, Column, TableSchema, label_array

DeclaredKinds = Mapping[str, Any]
Ordered = Float64[np.ndarray, " values"]
NUMERIC = ("continuous", "binned")

_HUGE = 1e150  # from here on differences or squares may overflow
_CLOSE = 0.01
_WEEKDAYS = tuple(range(7))


def check_kinds(kinds: DeclaredKinds, columns: Collection[str]) -> None:
    """Raise ExfamError unless `kinds` names columns, and of each a kind or labels in order."""
    for name, given in kinds.items():
        if name not in columns:
            listed = ", ".join(map(repr, columns))
            raise DataError(f"`kinds` must name columns of the table, {listed}; got {name!r}.")
        if isinstance(given, str):
            check_choice(f"kinds[{name!r}]", given, COLUMN_KINDS)
            continue
        labels = list(given) if isinstance(given, Iterable) else []
        sorts = {str if isinstance(label, str) else _number_sort(label) for label in labels}
        if not labels or len(set(labels)) < len(labels) or len(sorts) > 1 or None in sorts:
            raise DataError(
                f"`kinds[{name!r}]` must be a kind or a list of distinct labels of one type (texts,"
                f" finite numbers or booleans), got {shown(given)}."
            )


def _number_sort(label: object) -> type | None:
    if isinstance(label, bool | np.bool_):
        return bool
    is_number = isinstance(label, int | float | np.integer | np.floating)
    return float if is_number and np.isfinite(label) else None  # type: ignore[call-overload]


def infer_kind(column: RawColumn) -> str:
    """The kind of a column that is not declared; counts are never guessed."""
    if column.order is not None:
        return "ordinal"
    if column.category or column.type == "text":
        return "categorical"
    if column.type == "boolean":
        return "boolean"
    values = column.values[~column.missing]
    # Other whole numbers may come later; 0 and 1 alone are labels, as of indicators.
    is_indicator = values.dtype.kind != "f" and len(values) > 0 and values.min() == 0
    return "ordinal" if is_indicator and values.max() == 1 else "numeric"


def quantile_knots(ordered: Ordered, n_knots: int) -> Float64[np.ndarray, " knots"]:
    """Quantiles of sorted values, from the least to the greatest, each once.

    No value counts for more than the share of one knot.
    """
    distinct, counts = np.unique(ordered, return_counts=True)
    if len(distinct) <= n_knots:
        return distinct
    weight = counts.astype(np.float64)
    for _ in range(n_knots):
        most = weight.sum() / n_knots
        if weight.max() <= most * (1 + _CLOSE):
            break
        weight = np.minimum(weight, most)
    middle = weight.cumsum() - weight / 2
    index = np.searchsorted(middle, np.linspace(0, weight.sum(), n_knots))
    return distinct[np.unique(np.append(index.clip(max=len(distinct) - 1), 0))]


def bin_edges(ordered: Ordered, n_bins: int) -> Float64[np.ndarray, " edges"]:
    """Inner edges of at most `n_bins` bins that hold about equally many of the sorted values."""
    far = max(abs(float(ordered[0])), abs(float(ordered[-1]))) > _HUGE
    unit = 4.0 if far else 1.0
    edges = np.unique(np.quantile(ordered / unit, np.arange(1, n_bins) / n_bins)) * unit
    edges = edges[edges < ordered[-1]]
    return edges if len(edges) else np.unique(ordered)[-2:][:1]


def location_and_spread(ordered: Ordered) -> tuple[float, float]:
    """Mean and standard deviation, the latter 1 where all values are equal."""
    if ordered[0] == ordered[-1]:
        return float(ordered[0]), 1.0
    unit = max(abs(float(ordered[0])), abs(float(ordered[-1])))
    shares = ordered / unit
    return float(shares.mean()) * unit, float(shares.std()) * unit or 1.0


def pooled_columns(tables: Sequence[RawTable]) -> dict[str, RawColumn]:
    """All values of each column, by name in order of first appearance."""
    columns: dict[str, list[tuple[int, RawColumn]]] = {}
    for number, table in enumerate(tables):
        for name in table.names:
            columns.setdefault(name, []).append((number, table.columns[name]))
    return {name: _pooled(name, parts) for name, parts in columns.items()}


def _pooled(name: str, parts: list[tuple[int, RawColumn]]) -> RawColumn:
    filled = [part for part in parts if not part[1].is_empty]
    if len(filled) < 2:
        return (filled or parts)[0][1]
    number, first = filled[0]
    for other_number, other in filled[1:]:
        if _sort(other) != _sort(first):
            raise DataError(
                f"Column {name!r} must be of one kind in all tables, got {_sort(first)} in table "
                f"{number} and {_sort(other)} in table {other_number}. Convert or rename one of "
                "them."
            )
    columns = [column for _, column in filled]
    codes: dict[str, int] = {}
    values = []
    for column in columns:
        if column.labels is None:
            values.append(column.values)
        else:
            own = [codes.setdefault(label, len(codes)) for label in column.labels]
            values.append(np.array([*own, 0])[column.values])
    return replace(
        first,
        values=np.concatenate(values),
        missing=np.concatenate([column.missing for column in columns]),
        labels=None if first.labels is None else list(codes),
    )


def _sort(column: RawColumn) -> str:
    if column.order is not None:
        return f"categories in the order {column.order.tolist()}"
    if column.category and column.type != "text":
        return f"categories of {column.type}"
    return column.type


def learn_schema(
    tables: Sequence[RawTable],
    *,
    kinds: DeclaredKinds,
    numeric: str,
    n_bins: int,
    n_knots: int,
    date_format: Any = None,
) -> TableSchema:
    """The columns of training tables, matched by name, by what estimators are given."""
    check_kinds(kinds, dict.fromkeys(name for table in tables for name in table.names))
    dates = find_dates(tables, kinds, date_format)
    tables = [with_date_parts(table, dates) for table in tables]
    part_of = {name: date.name for date in dates for name in date.part_names}
    weekdays = {name: _WEEKDAYS for name in part_of if name.endswith(" weekday")}
    declared = {**kinds, **weekdays, **{date.name: "date" for date in dates}}
    columns = []
    for name, column in pooled_columns(tables).items():
        kind = declared[name] if name in declared else infer_kind(column)
        parts = [table.columns[name] for table in tables if name in table.columns]
        if not isinstance(kind, str):
            learned = _finite(name, "ordinal", label_array(kind), parts)
        elif kind in LABEL_KINDS:
            learned = _finite(name, kind, _labels(name, kind, column), parts)
        else:
            binned = numeric == "binned" and kind == "numeric"
            n = n_bins if binned else n_knots
            learned = _number(name, kind, column, n=n, binned=binned, parts=parts)
        columns.append(replace(learned, part_of=part_of.get(name)))
    return TableSchema(tuple(columns), dates)


def _finite(name: str, kind: str, labels: np.ndarray, parts: Sequence[RawColumn]) -> Column:
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
    if kind == "boolean":
        return np.array([False, True])
    if column.order is not None and len(column.order):
        return column.order
    _check_filled(name, column)
    seen = np.unique(column.values[~column.missing]).tolist()
    if column.labels is None:
        return label_array(seen)
    if kind == "ordinal":
        raise DataError(
            f"Column {name!r} must have its texts in an order to be ordinal, got none. Declare it, "
            f"kinds={{{name!r}: [FIRST, …, LAST]}}, or give ordered categories."
        )
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
