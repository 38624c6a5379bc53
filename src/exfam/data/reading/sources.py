"""Anything that can be read, as one table."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from exfam.checks import DataError
from exfam.data.reading.database import Database
from exfam.data.reading.delimited import open_delimited
from exfam.data.reading.files import find_files
from exfam.data.reading.frames import open_arrays
from exfam.data.reading.json_lines import open_json_lines
from exfam.data.reading.parquet import open_parquet
from exfam.data.reading.queries import is_query, open_duckdb_query, open_remote_query
from exfam.data.reading.table import Part, Table

__all__ = ["open_source"]


def open_source(
    database: Database,
    source: Any,
    parts: Sequence[Part],
    *,
    connection: str | None,
    vocabulary: Mapping[str, Any],
) -> Table:
    """The source as a table with a column for each part; see `exfam.read` for what it may be.

    Raises DataError for what is no source, or lacks a column.
    """
    if connection is not None:
        if not isinstance(source, str):
            raise DataError(
                "`source` must be a query or the name of a table where there is a database, "
                f"got {type(source).__name__}."
            )
        return open_remote_query(database, source, parts, connection=connection)
    if not isinstance(source, (str, os.PathLike)):
        return open_arrays(database, source, parts, vocabulary)
    if isinstance(source, str) and is_query(source) and not os.path.exists(source):
        return open_duckdb_query(database, source, parts)
    files = find_files(source)
    if files.kind == "parquet":
        return open_parquet(files.paths, parts)
    if files.kind == "json":
        return open_json_lines(database, files.paths, parts)
    return open_delimited(database, files.paths, parts, vocabulary)
