"""Anything that can be read, as one table."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exfam.checks import DataError, is_utf8
from exfam.columns.parts import Part
from exfam.reading.database import Database
from exfam.reading.delimited import header_names, open_delimited
from exfam.reading.files import find_files, unpacked
from exfam.reading.frames import open_arrays
from exfam.reading.json_lines import key_names, open_json_lines
from exfam.reading.parquet import open_parquet, schema_names
from exfam.reading.queries import is_query, open_duckdb_query, open_remote_query, query_names
from exfam.reading.table import Table


@dataclass(frozen=True)
class SourceNames:
    """The names of a source's columns, and whether it says what is text and what is a number."""

    names: tuple[str, ...]
    typed: bool


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
    if (
        isinstance(source, str)
        and is_query(source)
        and is_utf8(source)
        and not os.path.exists(source)
    ):
        return open_duckdb_query(database, source, parts)
    files = find_files(source)
    if files.kind == "parquet":
        return open_parquet(files.paths, parts)
    if files.kind == "json":
        return open_json_lines(database, files.paths, parts)
    return open_delimited(database, files.paths, parts, vocabulary)


def source_names(database: Database, source: str) -> SourceNames:
    """The names of all columns of files or of a query in DuckDB's SQL, in their order.

    Of several files the first one's count: all must have the same.
    Raises DataError for what is no source.

    >>> from exfam.reading.database import open_database
    >>> from exfam.reading.options import ReadingOptions
    >>> with open_database(ReadingOptions()) as database:
    ...     source_names(database, "SELECT 3 AS age, 40 AS km").names
    ('age', 'km')
    """
    if is_query(source) and not os.path.exists(source):
        return SourceNames(tuple(query_names(database, source)), typed=True)
    files = find_files(source)
    if files.kind == "parquet":
        return SourceNames(tuple(schema_names(files.paths[0])), typed=True)
    if files.kind == "json":
        packed = [(str(path), unpacked(path, database.folder)) for path in files.paths]
        return SourceNames(tuple(key_names(database, packed)), typed=True)
    first = files.paths[0]
    return SourceNames(header_names(str(first), unpacked(first, database.folder)), typed=False)
