"""What every source becomes: a relation with one column a part, and a way to name its rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import pyarrow as pa

from exfam.checks import DataError
from exfam.groups.frames import FrameColumns, Names
from exfam.reading.database import Database

__all__ = ["Column", "Part", "Places", "Table", "check_named", "parts_of", "staged"]

ARGUMENTS = ("group", "item", "value", "attributes", "group_attributes", "position", "order")


@dataclass(frozen=True)
class Part:
    """One column of the source in one role.

    >>> Part("value", "stars").name
    'stars'
    """

    argument: str
    name: str


def parts_of(columns: FrameColumns) -> tuple[Part, ...]:
    """The parts that `columns` names, group first, each once.

    >>> [part.name for part in parts_of(FrameColumns(group="user", value=["a", "b"]))]
    ['user', 'a', 'b']
    """
    assert set(ARGUMENTS) == {field.name for field in fields(columns)}
    named = {each: _listed(getattr(columns, each)) for each in ARGUMENTS}
    named["order"] = columns.order_columns
    return tuple(dict.fromkeys(Part(each, name) for each in ARGUMENTS for name in named[each]))


def _listed(names: Names) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


@dataclass(frozen=True)
class Column:
    """An expression over a relation, and the type of what it holds.

    A temporal type may be stored as whole numbers, which sort alike.
    """

    sql: str
    type: pa.DataType


@dataclass(frozen=True, eq=False)
class Places:
    """Where a row of the source stands: which file, which row of it.

    `counts` says how many rows each file has; it is asked only for the sake of an error.
    """

    files: Sequence[str] = ()
    counts: Callable[[], Iterable[int]] = tuple

    @property
    def where(self) -> str:
        """Which file or files, as the end of a sentence; nothing for frames and queries."""
        if not self.files:
            return ""
        others = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f" in {self.files[0]}{others}"

    def of(self, row: int) -> tuple[int, str]:
        """The row within its file, and which file that is.

        >>> Places(("a.csv", "b.csv"), lambda: (3, 5)).of(4)
        (1, ' in b.csv')
        """
        if len(self.files) > 1:
            for file, count in zip(self.files, self.counts(), strict=False):
                if row < count:
                    return row, f" in {file}"
                row -= count
        return row, self.where


@dataclass(frozen=True, eq=False)
class Table:
    """A relation that has `row`, counted from 0 over the whole source, and a column a part.

    `typed`: whether the source itself says what is text and what is a number.
    """

    relation: str
    columns: Mapping[Part, Column]
    places: Places
    typed: bool = True

    def first(self, database: Database, sql: str, *, where: str) -> tuple[int, pa.Array]:
        """The first row where a condition holds, and what the expression `sql` is there."""
        query = f"SELECT row, {sql} AS got FROM {self.relation} WHERE {where}"
        found = database.table(f"SELECT * FROM ({query}) ORDER BY row LIMIT 1")
        return found["row"][0].as_py(), found["got"].combine_chunks()


def check_named(parts: Iterable[Part], names: Sequence[str], where: str = "") -> None:
    """Raise DataError unless each part names one column.

    >>> check_named([Part("group", "user")], ["user", "movie"])
    """
    for part in parts:
        if part.name not in names:
            listed = ", ".join(repr(each) for each in names)
            raise DataError(
                f"`{part.argument}` must name a column of the source, got {part.name!r}{where}. "
                f"Its columns: {listed}."
            )
        if list(names).count(part.name) > 1:
            raise DataError(
                f"`source` must have one column of each name, got {part.name!r} twice{where}."
            )


def staged(database: Database, scan: str, columns: Mapping[Part, Column], places: Places) -> Table:
    """The columns of something that FROM can read, kept by DuckDB in the order they come."""
    listed = ", ".join(f"{column.sql} AS p{k}" for k, column in enumerate(columns.values()))
    database.run(f"CREATE TEMP TABLE staged AS SELECT {listed} FROM {scan}")
    kept = {part: Column(f"p{k}", column.type) for k, (part, column) in enumerate(columns.items())}
    return Table("(SELECT *, rowid AS row FROM staged)", kept, places)
