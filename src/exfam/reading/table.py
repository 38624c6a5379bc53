"""What every source becomes: a relation with one column for each part, and names of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from exfam.columns.parts import Part, Places
from exfam.reading.database import Database


@dataclass(frozen=True)
class Column:
    """An expression over a relation, and the type of what it holds.

    A temporal type may be stored as whole numbers, which sort alike.
    """

    sql: str
    type: pa.DataType


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


def staged(database: Database, scan: str, columns: Mapping[Part, Column], places: Places) -> Table:
    """The columns of something that FROM can read, kept by DuckDB in the order they come."""
    listed = ", ".join(f"{column.sql} AS p{k}" for k, column in enumerate(columns.values()))
    database.run(f"CREATE TEMP TABLE staged AS SELECT {listed} FROM {scan}")
    kept = {part: Column(f"p{k}", column.type) for k, (part, column) in enumerate(columns.items())}
    return Table("(SELECT *, rowid AS row FROM staged)", kept, places)


def restored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as its column's type, where DuckDB gave whole numbers or another unit of time.

    >>> restored(pa.array([1]), pa.date32()).to_pylist()
    [datetime.date(1970, 1, 2)]
    """
    if not types.is_temporal(kind) or array.type == kind:
        return array
    if types.is_integer(array.type):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return array.cast(kind, safe=False)
