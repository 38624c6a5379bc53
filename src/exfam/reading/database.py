"""One DuckDB connection a reading: it spills into a folder of its own and downloads nothing."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from exfam.checks import DataError, ExfamError
from exfam.files import scratch_folder
from exfam.reading.options import ReadingOptions
from exfam.reading.quoting import literal

# DuckDB starts with 80% of the memory that it may use, container limits included.
HALF = 0.5 / 0.8
UNITS = {"bytes": 0, "byte": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


@dataclass(frozen=True, eq=False)
class Database:
    """A DuckDB connection and a folder for files that live as long as it."""

    con: duckdb.DuckDBPyConnection
    folder: Path

    def run(self, statement: str) -> None:
        """Carry out a statement that gives no rows."""
        self.con.execute(statement)

    def row(self, query: str) -> tuple[Any, ...]:
        """The first row of a query."""
        return self.con.execute(query).fetchall()[0]

    def table(self, query: str) -> pa.Table:
        """All rows of a query."""
        try:
            return self.con.sql(query).to_arrow_table()
        except UnicodeDecodeError as error:  # in a message of DuckDB's that quotes the file
            raise duckdb.Error("Invalid Input Error: text that is not UTF-8") from error

    def batches(self, query: str, *, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a query, some at a time; no other query may run before they are closed."""
        with closing(self.con.sql(query).to_arrow_reader(rows)) as reader:
            try:
                yield from reader
            except OSError as error:  # as Arrow passes on an error of DuckDB's
                is_memory = str(error).startswith("Out of Memory")
                kind = duckdb.OutOfMemoryException if is_memory else duckdb.Error
                raise kind(str(error)) from error

    def stage(self, name: str, batches: Iterable[pa.Table]) -> None:
        """Put batches into the table `name`, which the first of them makes."""
        start = f"CREATE TEMP TABLE {name} AS"
        for batch in batches:
            self.con.register("arriving", batch)
            self.run(f"{start} SELECT * FROM arriving")
            self.con.unregister("arriving")
            start = f"INSERT INTO {name}"


@contextmanager
def open_database(options: ReadingOptions) -> Iterator[Database]:
    """A connection by `options`; its temporary files are gone when it closes.

    Raises ExfamError for a memory limit that is none, DataError where memory or disk run out.

    >>> with open_database(ReadingOptions(threads=1)) as database:
    ...     database.row("SELECT 42")
    (42,)
    """
    with scratch_folder() as folder:
        con = duckdb.connect(":memory:")
        try:
            _configure(con, options, folder)
            yield Database(con, folder)
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
    limit = options.memory_limit or _half_of_memory(con)
    try:
        con.execute(f"SET memory_limit = {literal(str(limit))}")
    except duckdb.Error as error:
        raise ExfamError(
            f"`memory_limit` must be a size such as '2GB', got {limit!r}: {first_line(error)}."
        ) from error
    if options.threads is not None:
        con.execute(f"SET threads = {int(options.threads)}")


def _half_of_memory(con: duckdb.DuckDBPyConnection) -> str:
    ((found,),) = con.execute("SELECT current_setting('memory_limit')").fetchall()
    size, unit = found.split()
    return f"{int(float(size) * 1024 ** UNITS[unit] * HALF)}B"


@contextmanager
def explained(explain: Callable[[duckdb.Error], DataError]) -> Iterator[None]:
    """Within it, an error of DuckDB's is what `explain` makes of it; want of memory stays as it is.

    >>> with explained(lambda error: DataError(f"`source` must be SQL: {first_line(error)}.")):
    ...     duckdb.connect().execute("SELECT what")
    Traceback (most recent call last):
    ...
    exfam.checks.DataError: `source` must be SQL: Binder Error: ...
    """
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise explain(error) from error


def first_line(error: Exception) -> str:
    """What an error says, in short.

    >>> first_line(ValueError("No.\\nNever."))
    'No'
    """
    return str(error).strip().splitlines()[0].rstrip(".:!")


def unreadable(error: Exception, where: str) -> DataError:
    """The error for a source that could be opened, and not be read to its end.

    >>> unreadable(ValueError("A page is damaged."), " in a.parquet")
    DataError('`source` must be readable, got A page is damaged in a.parquet.')
    """
    return DataError(f"`source` must be readable, got {first_line(error)}{where}.")
