"""From a checked table to Groups, whose columns are written as sorted rows come."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.parts import Part, varying_error
from exfam.groups import Groups
from exfam.reading.checked import Checked, LabelCodes
from exfam.reading.database import ReadingFacts, Sql, restored
from exfam.reading.rows import Rows

COLUMN_NAMES = {"item": "item", "value": "values.{}", "attributes": "attributes.{}"}
# (name, dtype, shape) -> zeros to be filled; names are these, "source_row", "observed", "tied" and
# "position".
Allocate = Callable[[str, np.dtype, tuple[int, ...]], np.ndarray]
Encodings = Mapping[Part, LabelCodes]
# (twins) -> all rows in their final order, anew each time; `twins`: whether equal ones are found.
Sorted = Callable[[bool], Generator[Rows, None, None]]


@dataclass(frozen=True, eq=False)
class CodedTable:
    """What is read: a checked table, and the codes of its labels.

    `ignores`: whether rows of unknown items are left out; `ordered`: whether elements of a group
    come in an order that means something.
    """

    database: Sql
    checked: Checked
    encodings: Encodings
    rows: Sorted
    ignores: bool
    ordered: bool

    @property
    def group(self) -> Part:
        """The part that groups are read from."""
        return next(iter(self.checked.table.columns))

    def unknown(self, rows: Rows) -> np.ndarray:
        """Which of some rows are left out as unknown."""
        item = next((part for part in self.encodings if part.argument == "item"), None)
        if not self.ignores or item is None:
            return np.zeros(len(rows), dtype=bool)
        return self.encodings[item].codes[rows.columns[item]] < 0


def assemble(
    source: CodedTable, *, duplicates: str, allocate: Allocate | None
) -> tuple[Groups, ReadingFacts]:
    """The Groups of a source, and what reading it came across."""
    checked, encodings = source.checked, source.encodings
    n_dropped = 0
    if duplicates == "drop":
        for rows in source.rows(True):
            n_dropped += int(((rows.twin >= 0) & ~source.unknown(rows)).sum())
    unknown = [codes.unknown for part, codes in encodings.items() if part.argument == "item"]
    n_unknown = sum(labels.rows for labels in unknown if labels is not None)
    n_elements = checked.n_rows - n_unknown * source.ignores - n_dropped
    elements = _ElementColumns(checked, encodings, n_elements, allocate)
    groups = _GroupColumns(checked, encodings, len(encodings[source.group].codes))
    for rows in _kept(source, groups, duplicates):
        _count(groups.lengths, rows)
        elements.put(rows)
    read = _as_groups(source, elements, groups)
    return read, ReadingFacts(
        rows=checked.n_rows,
        groups=len(read),
        items=read.n_items,
        ties=0 if read.tied is None else int(read.tied.sum()),
        duplicates=n_dropped,
        unobserved=elements.unobserved,
        unknown=n_unknown,
    )


def _kept(
    source: CodedTable, groups: "_GroupColumns", duplicates: str
) -> Generator[Rows, None, None]:
    """The rows that become elements."""
    with closing(source.rows(duplicates != "keep")) as stream:
        for rows in stream:
            if (part := groups.see(rows)) is not None:
                stream.close()
                raise _varying(source, part)
            unknown = source.unknown(rows)
            if unknown.any():
                _count(groups.ignored, rows[unknown])
                rows = rows[~unknown]
            repeats = rows.twin >= 0
            if not repeats.any():
                yield rows
            elif duplicates == "drop":
                yield rows[~repeats]
            else:
                stream.close()
                raise _repeated(source, rows[repeats])


def _repeated(source: CodedTable, rows: Rows) -> DataError:
    """The error for the first of some duplicates."""
    origin, columns = source.checked.table.origin, source.checked.table.columns
    row, other = origin.row(int(rows.source_row[0])), origin.row(int(rows.twin[0]))
    names = ", ".join(dict.fromkeys(repr(part.name) for part in columns))
    return DataError(
        f"`duplicates` must be 'drop' or 'keep' where rows are equal in all columns read, got "
        f"{row} equal to {other} in {names}. Choose one, or read a column "
        "in which they differ."
    )


def _varying(source: CodedTable, part: Part) -> DataError:
    """The error for the first row whose group attribute is not that of its group's first row."""
    table = source.checked.table
    group, x = table.columns[source.group], table.columns[part].sql
    firsts = (
        f"(SELECT {group.sql} AS label, min_by({x}, row) AS got FROM {table.relation} GROUP BY ALL)"
    )
    first = source.database.table(
        f"SELECT row, s.{group.sql} AS label FROM {table.relation} AS s JOIN {firsts} AS f "
        f"ON s.{group.sql} = f.label WHERE s.{x} <> f.got ORDER BY row LIMIT 1"
    )
    label = restored(first["label"].combine_chunks(), group.type)[0].as_py()
    return varying_error(part.name, label, table.origin.row(first["row"][0].as_py()))


def _as_groups(source: CodedTable, elements: "_ElementColumns", groups: "_GroupColumns") -> Groups:
    stop = np.cumsum(groups.lengths)
    vocabulary = {
        part.key: encoding.known
        for part, encoding in source.encodings.items()
        if part.argument != "group"
    }
    return Groups(
        start=stop - groups.lengths,
        stop=stop,
        item=next(iter(elements.named("item").values()), None),
        values=elements.named("value"),
        attributes=elements.named("attributes"),
        group_attributes={part.name: column for part, column in groups.columns.items()},
        position=elements.position,
        observed=elements.observed,
        source_row=elements.source_row,
        vocabulary=vocabulary,
        group_names=source.encodings[source.group].names,
        ignored=groups.ignored if source.ignores else None,
        ordered=source.ordered,
        tied=elements.tied,
    )


class _ElementColumns:
    """The flat columns, each allocated once, as zeros, and written from front to back.

    `unobserved` counts elements that lack a value.
    """

    def __init__(
        self, checked: Checked, encodings: Encodings, n_elements: int, allocate: Allocate | None
    ) -> None:
        self._encodings = encodings
        self._parts = {
            argument: [part for part in checked.table.columns if part.argument == argument]
            for argument in ("item", "value", "attributes", "position")
        }
        self._at, self._run = 0, -1
        self.unobserved = 0

        def column_of(name: str, dtype: Any, *width: int) -> np.ndarray:
            shape = (n_elements, *width)
            return allocate(name, np.dtype(dtype), shape) if allocate else np.zeros(shape, dtype)

        self.columns = {
            part: column_of(name.format(part.name), _dtype(part, checked))
            for argument, name in COLUMN_NAMES.items()
            for part in self._parts[argument]
        }
        self.source_row = column_of("source_row", np.int64)
        self.position = None
        if axes := self._parts["position"]:
            dtype = np.result_type(*(_dtype(part, checked) for part in axes))
            width = () if len(axes) < 2 else (len(axes),)
            self.position = column_of("position", dtype, *width)
        has_gaps = any(part in checked.gaps for part in self._parts["value"])
        self._observed = column_of("observed", np.bool_) if has_gaps else None
        has_order = any(part.argument == "order" for part in checked.table.columns)
        self._tied = column_of("tied", np.bool_) if has_order else None

    def put(self, rows: Rows) -> None:
        """Write rows behind those before them."""
        span = slice(self._at, self._at + len(rows))
        self.source_row[span] = rows.source_row
        for part, column in self.columns.items():
            column[span] = _coded(part, rows, self._encodings)
        for k, part in enumerate(self._parts["position"]):
            assert self.position is not None
            target = self.position if self.position.ndim == 1 else self.position[:, k]
            target[span] = rows.columns[part]
        if self._observed is not None:
            missing = [np.isnan(rows.columns[part]) for part in self._parts["value"]]
            self._observed[span] = ~np.all(missing, axis=0)
            self.unobserved += int(np.any(missing, axis=0).sum())
        if self._tied is not None:
            self._put_ties(span, rows.run)
        self._at, self._run = span.stop, int(rows.run[-1]) if len(rows) else self._run

    def _put_ties(self, span: slice, run: Int64[np.ndarray, "rows"]) -> None:
        assert self._tied is not None
        same = np.append(run[:1] == self._run, run[1:] == run[:-1])
        if same.any():  # memory that is not touched costs nothing
            self._tied[span] = same

    @property
    def tied(self) -> np.ndarray | None:
        """Which elements share group and order with the one before them; None if none does."""
        return self._tied if self._tied is not None and self._tied.any() else None

    @property
    def observed(self) -> np.ndarray | None:
        """Which elements have a value; None if all have one."""
        return None if self._observed is None or self._observed.all() else self._observed

    def named(self, argument: str) -> dict[str, np.ndarray]:
        """The columns of an argument by name."""
        return {part.name: self.columns[part] for part in self._parts[argument]}


class _GroupColumns:
    """One entry a group: how many elements it has, its attributes, how many it lost as unknown."""

    def __init__(self, checked: Checked, encodings: Encodings, n_groups: int) -> None:
        self._encodings = encodings
        self._group = -1
        self.lengths = np.zeros(n_groups, dtype=np.int64)
        self.ignored = np.zeros(n_groups, dtype=np.int64)
        self.columns = {
            part: np.empty(n_groups, dtype=_dtype(part, checked))
            for part in checked.table.columns
            if part.argument == "group_attributes"
        }

    def see(self, rows: Rows) -> Part | None:
        """Take the attributes of groups; the part that has two values within one, if any has."""
        begins = np.flatnonzero(np.diff(rows.group, prepend=self._group))
        for part, column in self.columns.items():
            values = _coded(part, rows, self._encodings)
            column[rows.group[begins]] = values[begins]
            if (column[rows.group] != values).any():
                return part
        self._group = int(rows.group[-1])
        return None


def _dtype(part: Part, checked: Checked) -> np.dtype:
    kind = checked.table.columns[part].type
    if part in checked.labels:
        return np.dtype(np.int32 if part.argument == "item" else np.int64)
    return np.dtype(np.float64 if types.is_temporal(kind) else kind.to_pandas_dtype())


def _coded(part: Part, rows: Rows, encodings: Encodings) -> np.ndarray:
    """A column as it is in Groups: labels as codes."""
    column, encoding = rows.columns[part], encodings.get(part)
    if encoding is None or encoding.known is encoding.names:  # in which case a label is its code
        return column
    return encoding.codes[column]


def _count(totals: Int64[np.ndarray, "groups"], rows: Rows) -> None:
    """Add the number of rows of each group."""
    if len(rows):
        first = int(rows.group[0])  # groups come sorted, so these are few of all
        counts = np.bincount(rows.group - first)
        totals[first : first + len(counts)] += counts
