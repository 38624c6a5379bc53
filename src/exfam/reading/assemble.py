"""From a checked table to Groups."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError
from exfam.columns.parts import Part
from exfam.groups import Groups
from exfam.groups.frames import varying_error
from exfam.reading.checks import Checked
from exfam.reading.database import Database
from exfam.reading.duplicates import DuplicateFinder, Pairs
from exfam.reading.fill import Allocate, ElementColumns, Encodings, GroupColumns
from exfam.reading.options import ReadingFacts
from exfam.reading.stream import Rows, sorted_rows
from exfam.reading.table import restored


@dataclass(frozen=True, eq=False)
class Source:
    """What is read: a checked table, and the codes of its labels.

    `ignores`: whether rows of unknown items are left out; `ordered`: whether elements of a group
    come in an order that means something.
    """

    database: Database
    checked: Checked
    encodings: Encodings
    ignores: bool
    ordered: bool

    @property
    def group(self) -> Part:
        """The part that groups are read from."""
        return next(iter(self.checked.table.columns))

    def rows(self) -> Generator[Rows, None, None]:
        """All rows in final order, anew each time."""
        labels = {part: encoding.labels for part, encoding in self.encodings.items()}
        return sorted_rows(self.database, self.checked, labels)

    def unknown(self, rows: Rows) -> np.ndarray:
        """Which of some rows are left out as unknown."""
        item = next((part for part in self.encodings if part.argument == "item"), None)
        if not self.ignores or item is None:
            return np.zeros(len(rows), dtype=bool)
        return self.encodings[item].codes[rows.columns[item]] < 0


def assemble(source: Source, *, duplicates: str, allocate: Allocate) -> tuple[Groups, ReadingFacts]:
    """The Groups of a source, and what was met on the way.

    Raises DataError for equal rows if `duplicates` is "error", and for group attributes that are
    not constant within a group.
    """
    checked, encodings = source.checked, source.encodings
    nothing = np.zeros(0, dtype=np.int64)
    dropped = _positions_of_duplicates(source) if duplicates == "drop" else nothing
    n_unknown = sum(
        encoding.n_unknown for part, encoding in encodings.items() if part.argument == "item"
    )
    n_elements = checked.n_rows - n_unknown * source.ignores - len(dropped)
    elements = ElementColumns(checked, encodings, n_elements, allocate)
    groups = GroupColumns(checked, encodings, len(encodings[source.group].codes))
    finder = DuplicateFinder() if duplicates == "error" else None
    for rows in _kept(source, groups, finder, dropped):
        groups.count(rows)
        elements.put(rows)
    read = _as_groups(source, elements, groups)
    return read, ReadingFacts(
        rows=checked.n_rows,
        groups=len(read),
        items=read.n_items,
        ties=0 if read.tied is None else int(read.tied.sum()),
        duplicates=len(dropped),
        unobserved=elements.unobserved,
        unknown=n_unknown,
    )


def _kept(
    source: Source,
    groups: GroupColumns,
    finder: DuplicateFinder | None,
    dropped: Int64[np.ndarray, "dropped"],
) -> Generator[Rows, None, None]:
    """The rows that become elements; `dropped` counts positions among those that are known."""
    start = 0
    with closing(source.rows()) as stream:
        for rows in stream:
            if (part := groups.see(rows)) is not None:
                stream.close()
                raise _varying(source, part)
            unknown = source.unknown(rows)
            if unknown.any():
                groups.ignore(rows[unknown])
                rows = rows[~unknown]
            if finder is not None and len((pairs := finder.add(rows))[0]):
                stream.close()
                raise _repeated(source, pairs)
            first, last = np.searchsorted(dropped, [start, start + len(rows)])
            kept = np.delete(np.arange(len(rows)), dropped[first:last] - start)
            start += len(rows)
            yield rows if first == last else rows[kept]
    if finder is not None and len((pairs := finder.finish())[0]):
        raise _repeated(source, pairs)


def _positions_of_duplicates(source: Source) -> Int64[np.ndarray, "dropped"]:
    finder = DuplicateFinder()
    found = [finder.add(rows[~source.unknown(rows)])[0] for rows in source.rows()]
    return np.sort(np.concatenate([*found, finder.finish()[0]]))


def _repeated(source: Source, pairs: Pairs) -> DataError:
    """The error for the first of some duplicates."""
    place, later, earlier = pairs
    pair = int(place.argmin())
    places, columns = source.checked.table.places, source.checked.table.columns
    row, other = places.row(int(later[pair])), places.row(int(earlier[pair]))
    names = ", ".join(dict.fromkeys(repr(part.name) for part in columns))
    return DataError(
        f"`duplicates` must be 'drop' or 'keep' where rows are equal in all columns read, got "
        f"{row} equal to {other} in {names}. Choose one, or read a column "
        "in which they differ."
    )


def _varying(source: Source, part: Part) -> DataError:
    """The error for the first row whose group attribute is not that of its group's first row."""
    table = source.checked.table
    group, x = table.columns[source.group], table.columns[part].sql
    firsts = (
        f"(SELECT {group.sql} AS label, arg_min({x}, row) AS got FROM {table.relation} "
        "GROUP BY ALL)"
    )
    found = source.database.table(
        f"SELECT row, s.{group.sql} AS label FROM {table.relation} AS s JOIN {firsts} AS f "
        f"ON s.{group.sql} = f.label WHERE s.{x} <> f.got ORDER BY row LIMIT 1"
    )
    label = restored(found["label"].combine_chunks(), group.type)[0].as_py()
    return varying_error(part.name, label, table.places.row(found["row"][0].as_py()))


def _as_groups(source: Source, elements: ElementColumns, groups: GroupColumns) -> Groups:
    stop = np.cumsum(groups.lengths)
    vocabulary = {
        "item" if part.argument == "item" else part.name: encoding.known
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
        group_names=source.encodings[source.group].labels.names,
        ignored=groups.ignored if source.ignores else None,
        ordered=source.ordered,
        tied=elements.tied,
    )
