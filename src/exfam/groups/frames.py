"""Frames to Groups and back."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64

from exfam.checks import DataError, UnknownItemError, check_choice
from exfam.groups.columns import (
    Labels,
    check_column,
    holds_labels,
    open_frame,
    read_labels,
    read_numbers,
    read_order,
)
from exfam.groups.groups import CONTEXT, Groups
from exfam.groups.ordering import check_date_format
from exfam.groups.unknown import UnknownLabels

__all__ = ["ROWS", "FrameColumns", "read_frame", "to_frame"]

# As `order`: rows come in an order that means something.
ROWS = "rows"
Names = str | Sequence[str] | None
Rows = Int64[np.ndarray, "rows"]


@dataclass(frozen=True)
class FrameColumns:
    """Which columns of a frame play which part; a part with several columns takes a list.

    `order` may also be the word "rows": the rows come in an order that means something.

    >>> FrameColumns(group="user", item="movie", value="stars").value
    'stars'
    """

    group: str
    order: Names = None
    item: str | None = None
    value: Names = None
    attributes: Names = ()
    group_attributes: Names = ()
    position: Names = None

    @property
    def order_columns(self) -> list[str]:
        """The columns to sort by: none where rows come in order.

        >>> FrameColumns(group="user", order="rows").order_columns
        []
        """
        return [] if self.order == ROWS else _listed(self.order)

    @property
    def ordered(self) -> bool:
        """Whether groups read with these columns are in an order that means something.

        >>> FrameColumns(group="user", order="rows").ordered
        True
        """
        return bool(_listed(self.order))

    def check_rows(self, names: Iterable[Any], where: str = "") -> None:
        """Raise DataError if order="rows" might also mean a column of that name.

        >>> FrameColumns(group="user", order="rows").check_rows(["user", "movie"])
        """
        if self.order == ROWS and ROWS in names:
            raise DataError(
                "`order` must not be 'rows' where a column has that name, got a column 'rows'"
                f"{where}. Pass order=['rows'] in Python to sort by the column, or rename it."
            )


@dataclass(frozen=True)
class _Encoder:
    """Turns labels into codes by the vocabularies given, or by sorted order.

    `found`: labels that they lack
    """

    vocabulary: Mapping[str, Any]
    unknown: str
    found: list[UnknownLabels] = field(default_factory=list)

    def encode(self, argument: str, name: str, labels: Labels) -> tuple[Rows, np.ndarray]:
        """The code of every row and the vocabulary; -1 for an unknown label that is allowed.

        >>> labels = Labels(np.array([0, 1]), np.array(["b", "a"], dtype=object))
        >>> _Encoder({}, "error").encode("attributes", "genre", labels)[0]
        array([1, 0])
        """
        if name not in self.vocabulary:
            order = np.argsort(labels.names)
            return np.argsort(order)[labels.codes], labels.names[order]
        known = np.asarray(self.vocabulary[name])
        lookup = {label: code for code, label in enumerate(known.tolist())}
        codes = np.array([lookup.get(label, -1) for label in labels.names.tolist()], dtype=np.int64)
        lost = np.flatnonzero(codes < 0)
        codes = codes[labels.codes]
        if self.unknown == "error" and len(lost):
            raise _unknown(argument, name, labels, codes, len(known))
        if len(lost):
            rows, example = int((codes < 0).sum()), labels.names.tolist()[lost[0]]
            self.found.append(UnknownLabels(argument, name, rows, len(lost), example))
        return codes, known


def _unknown(
    argument: str, name: str, labels: Labels, codes: Rows, n_known: int
) -> DataError | UnknownItemError:
    rows = np.flatnonzero(codes < 0)
    got = labels.names.tolist()[labels.codes[rows[0]]]
    where = "" if argument == name else f" of {name!r}"
    error = UnknownItemError if argument == "item" else DataError
    return error(
        f"`{argument}` must be in the vocabulary{where} ({n_known} labels), got {got!r} at row "
        f"{rows[0]} ({rows.size} of {codes.size} rows). Choose unknown='ignore' or unknown='unk'."
    )


def read_frame(
    frame: Any,
    columns: FrameColumns,
    *,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    date_format: str | None = None,
    found: list[UnknownLabels] | None = None,
) -> Groups:
    """The rows of `frame` as Groups; see `Groups.from_frame`.

    `found`: a list that takes what labels the vocabularies lack (default None)

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"]}
    >>> read_frame(frame, FrameColumns(group="user", item="movie"))
    Groups(2 groups, 3 elements, 2 items)
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    check_date_format(date_format)
    table = open_frame(frame)
    columns.check_rows(table)
    group = read_labels(table, "group", columns.group)
    _check_lengths(table, columns, len(group.codes))
    encoder = _Encoder(dict(vocabulary or {}), unknown, [] if found is None else found)
    item, labels = _read_item(table, columns.item, encoder)
    values, observed = _read_values(table, _listed(columns.value))
    attributes, more = _read_attributes(table, "attributes", columns.attributes, encoder)
    by_group, most = _read_attributes(table, "group_attributes", columns.group_attributes, encoder)
    position = [
        read_numbers(table, "position", name, date_format=date_format)
        for name in _listed(columns.position)
    ]
    keys = [read_order(table, name, date_format=date_format) for name in columns.order_columns]
    rows = np.lexsort((*reversed(keys), group.codes))
    kept, ignored = (rows, None) if unknown != "ignore" else _known_rows(rows, item, group)
    lengths = np.bincount(group.codes[kept], minlength=len(group.names))
    return Groups(
        start=np.cumsum(lengths) - lengths,
        stop=np.cumsum(lengths),
        item=None if item is None else item[kept],
        values={name: column[kept] for name, column in values.items()},
        attributes={name: column[kept] for name, column in attributes.items()},
        group_attributes=_by_group(by_group, group),
        position=_stacked(position, kept),
        observed=None if observed.all() else observed[kept],
        source_row=kept,
        vocabulary=labels | more | most,
        group_names=group.names,
        ignored=ignored,
        ordered=columns.ordered,
        tied=_tied([key[kept] for key in keys], group.codes[kept]) if keys else None,
    )


def _tied(
    keys: Sequence[np.ndarray], group: Int64[np.ndarray, "rows"]
) -> Bool[np.ndarray, "rows"] | None:
    """Which of some sorted rows equal the one before them in group and keys; None if none does.

    >>> _tied([np.array([3, 3, 3])], np.array([0, 0, 1]))
    array([False,  True, False])
    """
    tied = np.zeros(len(group), dtype=bool)
    tied[1:] = np.all([key[1:] == key[:-1] for key in (*keys, group)], axis=0)
    return tied if tied.any() else None


def _listed(names: Names) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _check_lengths(table: Mapping[str, Any], columns: FrameColumns, n_rows: int) -> None:
    if n_rows == 0:
        raise DataError("`frame` must have at least one row, got none.")
    for argument in fields(columns):
        is_order = argument.name == "order"
        for name in columns.order_columns if is_order else _listed(getattr(columns, argument.name)):
            check_column(table, argument.name, name)
            if len(table[name]) != n_rows:
                raise DataError(
                    f"`{argument.name}` must have as many rows as {columns.group!r}, {n_rows}, "
                    f"got {len(table[name])} in column {name!r}."
                )


def _read_item(
    table: Mapping[str, Any], name: str | None, encoder: _Encoder
) -> tuple[Rows | None, dict[str, np.ndarray]]:
    if name is None:
        return None, {}
    codes, known = encoder.encode("item", "item", read_labels(table, "item", name))
    return codes, {"item": known}


def _read_values(
    table: Mapping[str, Any], names: list[str]
) -> tuple[dict[str, np.ndarray], Bool[np.ndarray, "rows"]]:
    values = {name: read_numbers(table, "value", name, missing=True) for name in names}
    missing = [np.isnan(column) for column in values.values()]
    return values, ~np.any(missing, axis=0) if missing else np.ones(1, dtype=bool)


def _read_attributes(
    table: Mapping[str, Any], argument: str, names: Names, encoder: _Encoder
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    columns, vocabulary = {}, {}
    for name in _listed(names):
        if name in encoder.vocabulary or holds_labels(table, argument, name):
            labels = read_labels(table, argument, name)
            columns[name], vocabulary[name] = encoder.encode(argument, name, labels)
        else:
            columns[name] = read_numbers(table, argument, name).astype(np.float64, copy=False)
    return columns, vocabulary


def _known_rows(
    rows: Rows, item: Rows | None, group: Labels
) -> tuple[Int64[np.ndarray, "known"], Int64[np.ndarray, "groups"]]:
    unknown = np.zeros(len(rows), dtype=bool) if item is None else item < 0
    return rows[~unknown[rows]], np.bincount(group.codes[unknown], minlength=len(group.names))


def _by_group(columns: Mapping[str, np.ndarray], group: Labels) -> dict[str, np.ndarray]:
    """The value that each column has in a group, or DataError where it has two."""
    first = np.unique(group.codes, return_index=True)[1]
    for name, column in columns.items():
        differs = column != column[first][group.codes]
        if differs.any():
            row = int(np.flatnonzero(differs)[0])
            raise DataError(
                f"`group_attributes` must be constant within a group, got a second value of "
                f"{name!r} in group {group.names[group.codes[row]]!r} at row {row}. "
                f"List it in `attributes` if it belongs to the elements."
            )
    return {name: column[first] for name, column in columns.items()}


def _stacked(columns: list[np.ndarray], rows: np.ndarray) -> np.ndarray | None:
    if len(columns) < 2:
        return columns[0][rows] if columns else None
    return np.stack([column[rows] for column in columns], axis=1)


def to_frame(groups: Groups, kind: str = "pandas") -> Any:
    """One row an own element, labels written out; see `Groups.to_frame`.

    >>> groups = Groups(start=[0], stop=[2], item=[1, 0], vocabulary={"item": ["a", "b"]})
    >>> to_frame(groups, "arrow")["item"].to_pylist()
    ['b', 'a']
    """
    check_choice("kind", kind, ("pandas", "polars", "arrow"))
    _check_free(groups)
    table = pa.table(_frame_columns(groups))
    if kind == "arrow":
        return table
    if kind == "pandas":
        return table.to_pandas()
    return importlib.import_module("polars").from_arrow(table)


def _frame_columns(groups: Groups) -> dict[str, pa.Array]:
    rows = groups.elements()
    own = groups.stop - groups.start
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    hidden = None if groups.observed is None else ~groups.observed[rows]
    columns = {"group": pa.array(np.repeat(names, own))}
    if groups.item is not None:
        columns["item"] = _decoded(groups, "item", groups.item[rows])
    for name, column in groups.values.items():
        columns[name] = pa.array(column[rows], mask=hidden, from_pandas=True)
    for name, column in groups.attributes.items():
        columns[name] = _decoded(groups, name, column[rows])
    for name, column in groups.group_attributes.items():
        columns[name] = _decoded(groups, name, np.repeat(column, own, axis=0))
    if groups.position is not None:
        columns["position"] = _decoded(groups, "position", groups.position[rows])
    if groups.role is not None:
        columns["role"] = pa.array(np.where(groups.role[rows] == CONTEXT, "context", "target"))
    return columns


def _check_free(groups: Groups) -> None:
    """Raise if a value or attribute has the name of a column that the frame needs for itself."""
    held = {"position": groups.position, "role": groups.role}
    taken = {"group", *(name for name, column in held.items() if column is not None)}
    for kind in ("values", "attributes", "group_attributes"):
        for name in taken.intersection(getattr(groups, kind)):
            raise DataError(
                f"`{kind}` must not be named {name!r} in a frame, which has a column of that name "
                "for itself. Rename it, or use to_arrow."
            )


def _decoded(groups: Groups, name: str, column: np.ndarray) -> pa.Array:
    if column.ndim == 2:
        return pa.array(list(column))
    if name not in groups.vocabulary:
        return pa.array(column)
    labels = pa.array(groups.vocabulary[name])
    return labels.take(pa.array(column, mask=column < 0))
