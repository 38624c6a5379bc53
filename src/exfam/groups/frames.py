"""Frames to Groups and back."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int64

from exfam.checks import DataError, check_choice
from exfam.columns.columns import Columns, Labels
from exfam.columns.frames import open_frame
from exfam.columns.ordering import check_date_format
from exfam.columns.parts import Part
from exfam.columns.rules import holds_labels
from exfam.columns.unknown import UnknownLabels, look_up, vocabulary_key
from exfam.groups.groups import CONTEXT, Groups

# As `order`: rows come in an order that means something.
ROWS = "rows"
Names = str | Sequence[str] | None
Rows = Int64[np.ndarray, "rows"]
_ARGUMENTS = ("group", "item", "value", "attributes", "group_attributes", "position", "order")


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
    def parts(self) -> tuple[Part, ...]:
        """The parts that are named, group first, each of them once.

        >>> [part.name for part in FrameColumns(group="user", value=["a", "b"]).parts]
        ['user', 'a', 'b']
        """
        named = {argument: _listed(getattr(self, argument)) for argument in _ARGUMENTS}
        if self.order == ROWS:  # no column: the rows come in order
            named["order"] = []
        return tuple(dict.fromkeys(Part(key, name) for key in named for name in named[key]))

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
    """Reads columns; labels become codes by the vocabularies given, or by sorted order.

    `found`: labels that the vocabularies lack; `labels`: the labels of the codes, by column
    """

    columns: Columns
    vocabulary: Mapping[str, Any]
    unknown: str
    found: list[UnknownLabels]
    labels: dict[str, np.ndarray] = field(default_factory=dict)

    def read(self, part: Part, date_format: str | None) -> np.ndarray:
        """A column as Groups hold it; -1 for an unknown label that is allowed."""
        if holds_labels(part, self.columns.arrays[part].type, self.vocabulary):
            return self._encoded(part)
        if part.argument == "order":
            return self.columns.order(part, date_format=date_format)
        numbers = self.columns.numbers(part, date_format=date_format)
        is_attribute = part.argument in ("attributes", "group_attributes")
        return numbers.astype(np.float64, copy=False) if is_attribute else numbers

    def _encoded(self, part: Part) -> Rows:
        labels, key = self.columns.labels(part), vocabulary_key(part)
        if key not in self.vocabulary:
            order = np.argsort(labels.names)
            self.labels[key] = labels.names[order]
            return np.argsort(order)[labels.codes]
        known = self.labels[key] = np.asarray(self.vocabulary[key])
        codes = look_up(labels.names, known)
        lost = np.flatnonzero(codes < 0)
        codes = codes[labels.codes]
        if len(lost):
            rows = np.flatnonzero(codes < 0)
            got = labels.names.tolist()[labels.codes[rows[0]]]
            unknown = UnknownLabels(part.argument, key, rows.size, len(lost), got)
            if self.unknown == "error":
                raise unknown.error(f"row {rows[0]}", n_known=len(known), n_rows=codes.size)
            self.found.append(unknown)
        return codes


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
    opened = open_frame(frame)
    columns.check_rows(opened)
    held = Columns.of_frame(opened, columns.parts)
    if not held.n_rows:
        raise DataError("`frame` must have at least one row, got none.")
    group = held.labels(columns.parts[0])
    encoder = _Encoder(held, dict(vocabulary or {}), unknown, [] if found is None else found)
    read = {part: encoder.read(part, date_format) for part in columns.parts[1:]}

    def named(argument: str) -> dict[str, np.ndarray]:
        return {part.name: column for part, column in read.items() if part.argument == argument}

    item, values = next(iter(named("item").values()), None), named("value")
    missing = [np.isnan(column) for column in values.values()]
    observed = ~np.any(missing, axis=0) if missing else np.ones(1, dtype=bool)
    keys = list(named("order").values())
    rows = np.lexsort((*reversed(keys), group.codes))
    kept, ignored = (rows, None) if unknown != "ignore" else _known_rows(rows, item, group)
    lengths = np.bincount(group.codes[kept], minlength=len(group.names))
    return Groups(
        start=np.cumsum(lengths) - lengths,
        stop=np.cumsum(lengths),
        item=None if item is None else item[kept],
        values={name: column[kept] for name, column in values.items()},
        attributes={name: column[kept] for name, column in named("attributes").items()},
        group_attributes=_by_group(named("group_attributes"), group),
        position=_stacked(list(named("position").values()), kept),
        observed=None if observed.all() else observed[kept],
        source_row=kept,
        vocabulary=encoder.labels,
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
            raise varying_error(name, group.names[group.codes[row]], f"row {row}")
    return {name: column[first] for name, column in columns.items()}


def varying_error(name: str, group: Any, where: str) -> DataError:
    """The error for an attribute of groups that has two values in one.

    >>> print(varying_error("age", "zoe", "row 4"))
    `group_attributes` must be constant within a group, got a second value of 'age' in group 'zoe'
    at row 4. List it in `attributes` if it belongs to the elements.
    """
    return DataError(
        f"`group_attributes` must be constant within a group, got a second value of {name!r} "
        f"in group {group!r} at {where}. List it in `attributes` if it belongs to the elements."
    )


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
