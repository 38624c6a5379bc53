"""Columns of a source as they stand in it: the labels beside what a model says of its rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from exfam.groups.frames import FrameColumns
from exfam.reading.database import explained, open_database, unreadable
from exfam.reading.kinds import restored
from exfam.reading.options import ReadingOptions
from exfam.reading.sources import open_source
from exfam.reading.table import parts_of

__all__ = ["read_columns"]

SHOWN = ("group", "order", "item")


def read_columns(
    source: Any,
    columns: FrameColumns,
    *,
    options: ReadingOptions,
    vocabulary: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = SHOWN,
) -> pa.Table:
    """The columns of some parts, one row a row of the source, in its order.

    `arguments`: the parts to return (default ("group", "order", "item"))

    Raises DataError for what is no source, or lacks a column.

    >>> frame = {"user": ["b", "a"], "movie": ["x", "y"]}
    >>> columns = FrameColumns(group="user", item="movie")
    >>> read_columns(frame, columns, options=ReadingOptions())["user"].to_pylist()
    ['b', 'a']
    """
    parts = [part for part in parts_of(columns) if part.argument in arguments]
    with open_database(options) as database:
        table = open_source(
            database,
            source,
            parts,
            connection=options.database,
            vocabulary=dict(vocabulary or {}),
        )
        each = [f"{table.columns[part].sql} AS p{k}" for k, part in enumerate(parts)]
        with explained(lambda error: unreadable(error, table.places.where)):
            found = database.table(f"SELECT {', '.join(each)} FROM {table.relation} ORDER BY row")
        return pa.table(
            {
                part.name: restored(found[f"p{k}"].combine_chunks(), table.columns[part].type)
                for k, part in enumerate(parts)
            }
        )
