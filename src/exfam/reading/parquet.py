"""Parquet files."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from exfam.checks import DataError
from exfam.columns.kinds import plain_type
from exfam.columns.parts import Part, Places, check_named
from exfam.reading.database import first_line
from exfam.reading.files import scanned
from exfam.reading.table import Column, Table


def open_parquet(paths: Sequence[Path], parts: Sequence[Part]) -> Table:
    """Parquet files as one table, read again whenever it is asked.

    Raises DataError for a file that is none, or files whose columns differ.
    """
    files = [_parquet_file(path) for path in paths]
    schema, names = files[0].schema_arrow, files[0].schema_arrow.names
    check_named(parts, names, where=f" in {paths[0]}")
    for path, file in zip(paths, files, strict=True):
        _check_alike(paths[0], schema, path, file.schema_arrow, parts)
    columns = {
        part: Column(f"c{names.index(part.name)}", plain_type(schema.field(part.name).type))
        for part in parts
    }
    places = Places([str(path) for path in paths], lambda: [f.metadata.num_rows for f in files])
    return Table(_relation(paths, names), columns, places)


def schema_names(path: Path) -> list[str]:
    """The names of a Parquet file's columns. Raises DataError for a file that is none.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.parquet")
    >>> pq.write_table(pa.table({"age": [3], "km": [40]}), path)
    >>> schema_names(path)
    ['age', 'km']
    """
    return _parquet_file(path).schema_arrow.names


def _relation(paths: Sequence[Path], names: Sequence[str]) -> str:
    """A query for all columns, named by place: DuckDB ignores upper and lower case."""
    aliases = ", ".join(f"c{k}" for k in range(len(names)))
    if len(paths) == 1 and "file_row_number" not in {name.lower() for name in names}:
        return f"(FROM read_parquet({scanned(paths)}, file_row_number = true) AS t({aliases}, row))"
    # Numbering rows over several files takes one thread, a file's own numbers take none.
    scan = f"read_parquet({scanned(paths)}) AS t({aliases})"
    return f"(SELECT *, row_number() OVER () - 1 AS row FROM {scan})"


def _parquet_file(path: Path) -> pq.ParquetFile:
    try:
        with pq.ParquetFile(path) as file:
            return file
    except (pa.ArrowException, OSError) as error:
        message = f"`source` must be a Parquet file, got {path}: {first_line(error)}."
        raise DataError(message) from error


def _check_alike(
    first: Path, schema: pa.Schema, path: Path, other: pa.Schema, parts: Sequence[Part]
) -> None:
    if other.names != schema.names:
        raise DataError(
            f"`source` must be of files with the same columns, got {other.names} in {path}, where "
            f"{first} has {schema.names}."
        )
    for part in parts:
        ours, theirs = (plain_type(held.field(part.name).type) for held in (schema, other))
        if ours != theirs:
            raise DataError(
                f"`{part.argument}` must be of one type in all files, got {theirs} in column "
                f"{part.name!r} of {path}, where {first} has {ours}."
            )
