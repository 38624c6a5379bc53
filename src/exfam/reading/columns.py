"""Columns of any source in the order of its rows, held in memory."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from exfam.checks import DataError
from exfam.columns.columns import Columns
from exfam.columns.frames import plain_array
from exfam.columns.parts import Part, Places
from exfam.reading.database import explained, open_database, unreadable
from exfam.reading.options import ReadingOptions
from exfam.reading.sources import open_source
from exfam.reading.table import restored


def open_columns(
    data: Any,
    parts: Sequence[Part],
    *,
    vocabulary: Mapping[str, Any] | None = None,
    options: ReadingOptions | None = None,
) -> Columns:
    """The columns that `parts` name, of any frame, file, folder or query, as `exfam.read` takes it.

    `vocabulary`: known labels by column, which decide how a CSV file's labels are read (default
        None)
    `options`: how files and queries are read (default None)

    Raises DataError for what is no source, lacks a column or has no rows.

    >>> part = Part("value", "stars")
    >>> open_columns({"stars": [1.5, None]}, [part]).arrays[part].to_pylist()
    [1.5, None]
    """
    if isinstance(data, str | os.PathLike):
        opened = _of_source(data, parts, dict(vocabulary or {}), options or ReadingOptions())
    else:
        opened = Columns.of_frame(data, parts)
    if not opened.n_rows:
        raise DataError(f"`data` must have at least one row, got none{opened.places.where}.")
    return opened


def _of_source(
    source: str | os.PathLike[str],
    parts: Sequence[Part],
    vocabulary: Mapping[str, Any],
    options: ReadingOptions,
) -> Columns:
    with open_database(options) as database:
        table = open_source(
            database, source, parts, connection=options.database, vocabulary=vocabulary
        )
        listed = ", ".join(f"{table.columns[part].sql} AS c{k}" for k, part in enumerate(parts))
        with explained(lambda error: unreadable(error, table.places.where)):
            found = database.table(f"SELECT {listed} FROM {table.relation} ORDER BY row")
            arrays = {
                part: plain_array(restored(column.combine_chunks(), table.columns[part].type))
                for part, column in zip(parts, found.columns, strict=True)
            }
            files = table.places.files
            # Rows of each file can be counted only while the database is open.
            counts = list(table.places.counts()) if len(files) > 1 else []
    return Columns(arrays, Places(files, lambda: counts))
