"""Queries: DuckDB's own SQL, SQLite through the standard library, Postgres through ADBC."""

import importlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from exfam.checks import DataError, ExfamError
from exfam.columns.parts import Origin, Part, check_named
from exfam.columns.rules import plain_type
from exfam.reading.database import (
    Database,
    SqlColumn,
    Table,
    explained,
    first_line,
    identifier,
    staged,
)

ROWS_A_BATCH = 50_000
SQLITE, POSTGRES = "sqlite:///", ("postgresql://", "postgres://")
SQLITE_TYPES = {
    "integer": pa.int64(),
    "real": pa.float64(),
    "text": pa.large_string(),
    "blob": pa.binary(),
}


def open_duckdb_query(database: Database, query: str, parts: Sequence[Part]) -> Table:
    """The rows of a query in DuckDB's SQL, in the order it gives."""
    with explained(lambda error: DataError(_cannot_run(query, error))):
        names = query_names(database, query)
        check_named(parts, names, where=" in the query")
        scan = f"exfam_query AS t({', '.join(f'c{k}' for k in range(len(names)))})"
        listed = ", ".join(f"c{names.index(part.name)}" for part in parts)
        kinds = database.table(f"SELECT {listed} FROM {scan} LIMIT 0").schema.types
        columns = {
            part: SqlColumn(f"c{names.index(part.name)}", plain_type(kind))
            for part, kind in zip(parts, kinds, strict=True)
        }
        return staged(database, scan, columns, Origin())


def query_names(database: Database, query: str) -> list[str]:
    """The names of the columns of a query in DuckDB's SQL, which becomes the view `exfam_query`."""
    with explained(lambda error: DataError(_cannot_run(query, error))):
        statements = database.con.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise DataError(f"`source` must be one query, got {_short(query)}.")
        database.con.execute(f"CREATE TEMP VIEW exfam_query AS {statements[0].query}")
        return database.table("SELECT * FROM exfam_query LIMIT 0").column_names


def open_remote_query(
    database: Database, query: str, parts: Sequence[Part], *, connection: str
) -> Table:
    """The rows of a query, or of a table by name, in the database that `connection` names."""
    if connection.startswith(SQLITE):
        opened = _sqlite_batches(query, parts, Path(connection.removeprefix(SQLITE)))
    elif connection.startswith(POSTGRES):
        opened = _postgres_batches(query, parts, connection)
    else:
        scheme, mark, _ = connection.partition("://")  # what follows may hold a password
        raise ExfamError(
            "`database` must begin with sqlite:/// or postgresql://, got one that begins with "
            f"{scheme + mark if mark else 'neither'}."
        )
    start = "CREATE TEMP TABLE arrived AS"
    for batch in opened:
        database.con.register("arriving", batch)
        database.con.execute(f"{start} SELECT * FROM arriving")
        database.con.unregister("arriving")
        start = "INSERT INTO arrived"
    kinds = database.table("SELECT * FROM arrived LIMIT 0").schema.types
    columns = {part: SqlColumn(f"c{k}", plain_type(kinds[k])) for k, part in enumerate(parts)}
    return Table("(SELECT *, rowid AS row FROM arrived)", columns, Origin())


def _as_query(source: str) -> str:
    """The query itself, or one for all of the table that is named."""
    text = source.strip().rstrip(";").rstrip()
    if re.match(r"(SELECT|WITH|VALUES|TABLE)\b", text, re.IGNORECASE):
        return text
    return "SELECT * FROM " + ".".join(identifier(name) for name in text.split("."))


def _short(query: str) -> str:
    flat = " ".join(query.split())
    return repr(flat if len(flat) <= 60 else flat[:57] + "...")


def _cannot_run(query: str, why: Exception) -> str:
    return f"`source` must be a query that can be run, got {_short(query)}: {first_line(why)}."


@contextmanager
def _sqlite(query: str, path: Path) -> Iterator[sqlite3.Connection]:
    if not os.path.isfile(path):
        raise DataError(f"`database` must name a database file, got {str(path)!r}: not there.")
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as con:
        try:
            con.execute("BEGIN")  # both passes see the same rows
            yield con
        except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError) as error:
            raise DataError(_cannot_run(query, error)) from error


def _sqlite_batches(query: str, parts: Sequence[Part], path: Path) -> Iterator[pa.Table]:
    with _sqlite(query, path) as con:
        text = _as_query(query)
        with closing(con.execute(text)) as cursor:
            names = [column[0] for column in cursor.description or ()]
        check_named(parts, names, where=" in the query")
        index = [names.index(part.name) for part in parts]
        # SQLite ends queries that are under way, such as unions, when a view is made.
        schema = _sqlite_schema(con, text, parts, index)
        cursor = con.execute(text)
        yield schema.empty_table()
        while rows := cursor.fetchmany(ROWS_A_BATCH):
            columns = [[row[i] for row in rows] for i in index]
            for k, kind in enumerate(schema.types):
                if kind == pa.float64():
                    columns[k] = [None if x is None else float(x) for x in columns[k]]
            yield pa.table(columns, schema=schema)


def _sqlite_schema(
    con: sqlite3.Connection, text: str, parts: Sequence[Part], index: Sequence[int]
) -> pa.Schema:
    """The type of each column by what all its rows hold: SQLite has a type for every cell."""
    listed = ", ".join(f"typeof({identifier(part.name)})" for part in parts)
    con.execute(f"CREATE TEMP VIEW exfam_query AS {text}")
    kinds = con.execute(f"SELECT DISTINCT {listed} FROM exfam_query").fetchall()
    fields = []
    for k, part in enumerate(parts):
        held = {row[k] for row in kinds} - {"null"}
        if held == {"integer", "real"}:
            held = {"real"}
        if len(held) > 1:
            cells = ((row, found[index[k]]) for row, found in enumerate(con.execute(text)))
            there = [(row, value) for row, value in cells if value is not None]
            first, kind = there[0], _kind(there[0][1])
            odd = next(cell for cell in there if _kind(cell[1]) is not kind)
            raise DataError(
                f"`{part.argument}` must hold values of one plain type, got {odd[1]!r} at row "
                f"{odd[0]} of column {part.name!r}, where row {first[0]} has {first[1]!r}. CAST "
                "the column in a query."
            )
        fields.append((f"c{k}", SQLITE_TYPES[held.pop()] if held else pa.null()))
    return pa.schema(fields)


def _kind(value: Any) -> type:
    return float if isinstance(value, int) else type(value)


def _postgres_batches(query: str, parts: Sequence[Part], url: str) -> Iterator[pa.Table]:
    try:
        dbapi = importlib.import_module("adbc_driver_postgresql.dbapi")
    except ImportError as error:
        raise ExfamError(
            "`database` must have its driver installed, got none for Postgres. "
            "Run: pip install 'exfam[sql]'."
        ) from error
    try:
        with closing(dbapi.connect(url)) as con, closing(con.cursor()) as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(_as_query(query) + "\n")
            reader = cursor.fetch_record_batch()
            check_named(parts, reader.schema.names, where=" in the query")
            yield _as_scanned(reader.schema.empty_table(), parts)
            for batch in reader:
                yield _as_scanned(pa.Table.from_batches([batch]), parts)
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        raise DataError(_cannot_run(query, error)) from error


def _as_scanned(batch: pa.Table, parts: Sequence[Part]) -> pa.Table:
    """The columns that are read; Postgres' numeric, which arrives as text, as numbers."""
    columns = []
    for part in parts:
        column = batch[part.name].combine_chunks()
        if getattr(column.type, "type_name", None) == "numeric":
            column = column.storage.cast(pa.float64())
        elif getattr(column.type, "vendor_name", None):
            column = column.storage
        columns.append(column)
    return pa.table(columns, names=[f"c{k}" for k in range(len(columns))])
