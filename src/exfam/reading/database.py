"""One DuckDB connection a reading, and the relation that every source becomes in it."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import duckdb
import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError, ExfamError, ExfamWarning, check_choice, check_whole
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.parts import Origin, Part
from exfam.files import scratch_folder

MOST_THREADS = 1024
_SIZE = re.compile(r"\s*\d+(\.\d+)?\s*([KMGT]i?B|B|bytes?)\s*", re.IGNORECASE | re.ASCII)
# DuckDB starts with 80% of the memory that it may use, container limits included.
HALF = 0.5 / 0.8
UNITS = {"bytes": 0, "byte": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


@dataclass(frozen=True)
class ReadingOptions:
    """How a source is read; see `exfam.read`."""

    duplicates: str = "error"
    database: str | None = None
    memory_limit: str | None = None
    threads: int | None = None
    dialect: Dialect = BY_LOOKING

    def __post_init__(self) -> None:
        check_choice("duplicates", self.duplicates, ("error", "drop", "keep"))
        if self.threads is not None:
            check_whole("threads", self.threads)
            if self.threads > MOST_THREADS:
                raise ExfamError(f"`threads` must be at most {MOST_THREADS}, got {self.threads}.")
        if self.memory_limit is not None and not _SIZE.fullmatch(str(self.memory_limit)):
            raise ExfamError(
                f"`memory_limit` must be a size such as '2GB', got {self.memory_limit!r}."
            )


@dataclass(frozen=True)
class ReadingFacts:
    """What reading a source came across.

    `rows`: rows of the source; `groups`, `items`: groups and item labels of the result; `ties`:
    elements whose `order` is that of the element before them in the group; `duplicates`:
    rows dropped because an earlier one is equal; `unobserved`: elements without one of their
    values; `unknown`: rows with an item that the given vocabulary does not hold.
    """

    rows: int
    groups: int
    items: int = 0
    ties: int = 0
    duplicates: int = 0
    unobserved: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class Note:
    """What looking at a file has found, in words and as parameters."""

    name: str
    words: str
    parameters: tuple[tuple[str, str], ...]


def warn_of_notes(notes: Sequence[Note]) -> None:
    """One ExfamWarning that says how files are read, and by which parameters to say so."""
    if not notes:
        return
    names = list(dict.fromkeys(note.name for note in notes))
    words = ", ".join(dict.fromkeys(note.words for note in notes))
    parameters = dict(pair for note in notes for pair in note.parameters)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    said = [f"{name}={value!r}" for name, value in parameters.items()]
    if "encoding" in parameters:
        said[0] += " (of a model file_encoding)"
    advice = f"Say so by {', '.join(said)}, or otherwise if that is wrong." if said else ""
    warnings.warn(
        f"{names[0]}{more}: read as {words}. {advice}".rstrip(),
        ExfamWarning,
        stacklevel=2,
    )


@runtime_checkable
class Sql(Protocol):
    """What answers queries: DuckDB on one machine, others on several."""

    def row(self, query: str) -> tuple[Any, ...]:
        """The first row of a query."""

    def table(self, query: str) -> pa.Table:
        """All rows of a query."""

    def register(self, name: str, table: pa.Table) -> None:
        """Make a table known by a name."""


@dataclass(frozen=True, eq=False)
class Database:
    """A DuckDB connection, a folder for files that live as long as it, and the user's database.

    `dialect`: how text files are written; `notes`: what looking at them has found.
    """

    con: duckdb.DuckDBPyConnection
    folder: Path
    connection: str | None
    dialect: Dialect
    notes: list[Note] = field(default_factory=list)

    def note(self, name: str, words: str, **parameters: str) -> None:
        """Keep what was found of a file: in words, and as the parameters that would say it."""
        self.dialect.remember(**parameters)
        self.notes.append(Note(name, words, tuple(parameters.items())))

    def row(self, query: str) -> tuple[Any, ...]:
        """The first row of a query."""
        return self.con.execute(query).fetchall()[0]

    def table(self, query: str) -> pa.Table:
        """All rows of a query."""
        try:
            return self.con.sql(query).to_arrow_table()
        except UnicodeDecodeError as error:  # in a message of DuckDB's that quotes the file
            raise duckdb.Error("Invalid Input Error: text that is not UTF-8") from error

    def register(self, name: str, table: pa.Table) -> None:
        """Make a table known by a name, where it is."""
        self.con.register(name, table)

    def batches(self, query: str, *, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a query, some at a time; no other query may run before they are closed."""
        with closing(self.con.sql(query).to_arrow_reader(rows)) as reader:
            try:
                yield from reader
            except OSError as error:  # as Arrow passes on an error of DuckDB's
                is_memory = str(error).startswith("Out of Memory")
                kind = duckdb.OutOfMemoryException if is_memory else duckdb.Error
                raise kind(str(error)) from error


@contextmanager
def open_database(options: ReadingOptions) -> Iterator[Database]:
    """A connection by `options`; its temporary files are gone when it closes.

    It spills into a folder of its own and downloads nothing.
    """
    with scratch_folder() as folder:
        con = duckdb.connect(":memory:")
        try:
            _configure(con, options, folder)
            yield Database(con, folder, options.database, options.dialect)
        except duckdb.OutOfMemoryException as error:
            raise DataError(
                "`memory_limit` must leave room for the work, and the temporary folder for what "
                f"does not fit, got {first_line(error)}. Raise the limit, or set TMPDIR to a "
                "larger disk."
            ) from error
        finally:
            con.close()


def _configure(con: duckdb.DuckDBPyConnection, options: ReadingOptions, folder: Path) -> None:
    con.execute("SET autoinstall_known_extensions = false")
    con.execute("SET autoload_known_extensions = false")
    # A query must not pick up Python variables that happen to have a table's name.
    con.execute("SET python_enable_replacements = false")
    con.execute(f"SET temp_directory = {literal(str(folder / 'spilled'))}")
    limit = options.memory_limit
    if not limit:
        ((most,),) = con.execute("SELECT current_setting('memory_limit')").fetchall()
        size, unit = most.split()
        limit = f"{int(float(size) * 1024 ** UNITS[unit] * HALF)}B"
    try:
        con.execute(f"SET memory_limit = {literal(str(limit))}")
    except duckdb.Error as error:
        raise ExfamError(
            f"`memory_limit` must be a size such as '2GB', got {limit!r}: {first_line(error)}."
        ) from error
    # Labels that are numbers of a small range are counted in a plain array, of a few MB a thread.
    con.execute("SET perfect_ht_threshold = 18")
    if options.threads is not None:
        con.execute(f"SET threads = {int(options.threads)}")


@contextmanager
def explained(explain: Callable[[duckdb.Error], DataError]) -> Iterator[None]:
    """Within it, an error of DuckDB's but for want of memory is what `explain` makes of it."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise explain(error) from error


def first_line(error: Exception) -> str:
    """What an error says, in short."""
    return str(error).strip().splitlines()[0].rstrip(".:!")


def unreadable(error: Exception, where: str) -> DataError:
    """The error for a source that could be opened, and not be read to its end."""
    return DataError(f"`source` must be readable, got {first_line(error)}{where}.")


def identifier(name: str) -> str:
    """A column or table name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class SqlColumn:
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
    columns: Mapping[Part, SqlColumn]
    origin: Origin
    typed: bool = True

    def first(self, database: Sql, sql: str, *, where: str) -> tuple[int, pa.Array]:
        """The first row where a condition holds, and what the expression `sql` is there."""
        query = f"SELECT row, {sql} AS got FROM {self.relation} WHERE {where}"
        rows = database.table(f"SELECT * FROM ({query}) ORDER BY row LIMIT 1")
        return rows["row"][0].as_py(), rows["got"].combine_chunks()


def staged(
    database: Database, scan: str, columns: Mapping[Part, SqlColumn], origin: Origin
) -> Table:
    """The columns of something that FROM can read, kept by DuckDB in the order they come."""
    listed = ", ".join(f"{column.sql} AS p{k}" for k, column in enumerate(columns.values()))
    database.con.execute(f"CREATE TEMP TABLE staged AS SELECT {listed} FROM {scan}")
    kept = {
        part: SqlColumn(f"p{k}", column.type) for k, (part, column) in enumerate(columns.items())
    }
    return Table("(SELECT *, rowid AS row FROM staged)", kept, origin)


def restored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as its column's type, where DuckDB gave whole numbers or another unit of time."""
    if not types.is_temporal(kind) or array.type == kind:
        return array
    if types.is_integer(array.type):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return array.cast(kind, safe=False)
