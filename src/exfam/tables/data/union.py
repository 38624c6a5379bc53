"""Several tables as one: columns matched by name."""

from collections.abc import Sequence

import numpy as np

from exfam.checks import DataError
from exfam.tables.data.raw import RawColumn, RawTable


def pooled_columns(tables: Sequence[RawTable]) -> dict[str, RawColumn]:
    """The columns of all tables by name, in order of first appearance, all values of each.

    Raises DataError naming both tables where a column is of another type in the second.

    >>> first = RawTable(("a",), {"a": RawColumn(np.array([1]), np.array([False]))}, n_rows=1)
    >>> pooled_columns([first, first])["a"].values
    array([1, 1])
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
