"""Files, frames and queries as Groups."""

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np

from exfam.checks import DataError, check_choice
from exfam.data.reading.assemble import Source, assemble
from exfam.data.reading.checks import check_table
from exfam.data.reading.database import first_line, open_database
from exfam.data.reading.fill import Allocate
from exfam.data.reading.labels import encode
from exfam.data.reading.options import ReadingFacts, ReadingOptions
from exfam.data.reading.sources import open_source
from exfam.data.reading.table import parts_of
from exfam.groups import Groups
from exfam.groups.frames import FrameColumns, Names

__all__ = ["read", "read_groups", "read_with_facts"]


def read(
    source: Any,
    *,
    group: str,
    order: Names = None,
    item: str | None = None,
    value: Names = None,
    attributes: Names = (),
    group_attributes: Names = (),
    position: Names = None,
    connection: str | None = None,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    duplicates: str = "error",
    memory_limit: str | None = None,
    threads: int | None = None,
) -> Groups:
    """The rows of a file, a folder of files, a frame or a query as Groups.

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"], "stars": [4, None, 2]}
    >>> read(frame, group="user", item="movie", value="stars")
    Groups(2 groups, 3 elements, 2 items, stars)
    """
    columns = FrameColumns(
        group=group,
        order=order,
        item=item,
        value=value,
        attributes=attributes,
        group_attributes=group_attributes,
        position=position,
    )
    options = ReadingOptions(duplicates, connection, memory_limit, threads)
    return read_groups(source, columns, options=options, vocabulary=vocabulary, unknown=unknown)


def read_groups(
    source: Any,
    columns: FrameColumns,
    *,
    options: ReadingOptions,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    allocate: Allocate | None = None,
) -> Groups:
    """As `read`, with the flat columns written into arrays that `allocate` makes.

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"]}
    >>> read_groups(frame, FrameColumns(group="user", item="movie"), options=ReadingOptions())
    Groups(2 groups, 3 elements, 2 items)
    """
    return read_with_facts(
        source,
        columns,
        options=options,
        vocabulary=vocabulary,
        unknown=unknown,
        allocate=allocate,
    )[0]


def read_with_facts(
    source: Any,
    columns: FrameColumns,
    *,
    options: ReadingOptions,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    allocate: Allocate | None = None,
) -> tuple[Groups, ReadingFacts]:
    """As `read_groups`, and what was met on the way.

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"]}
    >>> columns = FrameColumns(group="user", item="movie")
    >>> read_with_facts(frame, columns, options=ReadingOptions())[1].rows
    3
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    known, parts = dict(vocabulary or {}), parts_of(columns)
    _check_names(columns)
    with open_database(options) as database:
        table = open_source(
            database, source, parts, connection=options.connection, vocabulary=known
        )
        try:
            checked = check_table(database, table, known)
            encodings = {}
            for k, part in enumerate(part for part in parts if part in checked.labels):
                encodings[part] = encode(
                    database, checked, part, known, unknown=unknown, table=f"labels{k}"
                )
            found = Source(database, checked, encodings, unknown == "ignore")
            return assemble(found, duplicates=options.duplicates, allocate=allocate or _empty)
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            what = first_line(error)
            raise DataError(
                f"`source` must be readable, got {what}{table.places.where}."
            ) from error


def _empty(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, dtype)


def _check_names(columns: FrameColumns) -> None:
    """Raise before anything is read if columns of Groups would share a name."""
    zero = np.zeros(0, dtype=np.int64)

    def named(argument: str) -> dict[str, np.ndarray]:
        return {part.name: zero for part in parts_of(columns) if part.argument == argument}

    Groups(
        start=zero,
        stop=zero,
        item=None if columns.item is None else zero,
        values=named("value"),
        attributes=named("attributes"),
        group_attributes=named("group_attributes"),
    )
