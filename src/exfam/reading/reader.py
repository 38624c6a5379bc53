"""Files, frames and queries as Groups."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from exfam.checks import DataError, check_choice
from exfam.columns.parts import Part
from exfam.columns.unknown import UnknownLabels
from exfam.groups import Groups
from exfam.groups.frames import ROWS, FrameColumns, Names
from exfam.reading.assemble import Source, assemble
from exfam.reading.checks import check_table
from exfam.reading.database import explained, open_database, unreadable
from exfam.reading.fill import Allocate
from exfam.reading.labels import encode
from exfam.reading.options import ReadingFacts, ReadingOptions
from exfam.reading.sources import open_source
from exfam.reading.texts import with_sorted_text


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
    database: str | None = None,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    duplicates: str = "error",
    memory_limit: str | None = None,
    threads: int | None = None,
    date_format: str | None = None,
) -> Groups:
    """The rows of a file, a folder of files, a frame or a query as Groups.

    As `Groups.from_frame`, for sources that may be larger than memory: DuckDB sorts them, on disk
    where memory is short, and only the columns of Groups are held.

    `source`: a path of a CSV, TSV or JSON lines file (.csv, .tsv, .txt, .jsonl, .ndjson; each also
        packed, with .gz), or of a Parquet file; a folder of files of one kind, read in the order
        of their names; a glob; a pandas or polars frame, an Arrow table or a mapping of columns;
        or a query: DuckDB's SQL if it begins with SELECT, WITH or FROM, otherwise, as a query or
        the name of a table, in `database`
    `group`, `order`, `item`, `value`, `attributes`, `group_attributes`, `position`: names of
        columns, as for `Groups.from_frame`
    `database`: "sqlite:///shop.db" or "postgresql://user@host/shop", which needs the extra sql;
        nothing is written there (default None)
    `vocabulary`: labels by column, items under "item" (default None)
    `unknown`: what to do with labels that a given vocabulary lacks: "error", "ignore" or "unk"
        (default "error")
    `duplicates`: what to do with rows that equal an earlier one in all columns that are read:
        "error", "drop" or "keep" (default "error")
    `memory_limit`: what DuckDB may use before it spills into the temporary folder, such as "2GB";
        the columns returned come on top. None for half of the machine's memory (default None)
    `threads`: how many DuckDB uses; None for one a core (default None)
    `date_format`: how text of `order` and `position` writes dates: "iso" or a format of
        `datetime.strptime` such as "%d/%m/%Y"; None for the one that all of a column fits
        (default None)

    In CSV files, labels are whole numbers if all of a column are written as such (007 and 1.0 are
    not), booleans if all are true or false, otherwise text; a given vocabulary decides first.
    Values are numbers, or missing: an empty cell, NA, NaN, null. Attributes are numbers if all
    are, unless one has leading zeros. `order` is all numbers, all dates of one format, or all names
    with one number each, as t9 and t10; other text is refused. JSON lines and queries have types
    of their own.

    Without `order` groups are sets; order="rows" says that the order of the rows means something.
    Rows with equal `order` stay in the order of the source. `source_row`, and the rows that errors
    name, count rows of data from 0: headers and blank lines do not count. `source_row` goes on
    from file to file, errors count within the file they name; where a file is not even cut into
    cells, they name its line, from 1.

    Raises DataError naming the file and the row for missing groups or items, values that are not
    numbers, columns or files that are missing or broken; UnknownItemError for unknown items if
    `unknown` is "error".

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"], "stars": [4, None, 2]}
    >>> read(frame, group="user", item="movie", value="stars")
    Groups(2 groups, 3 elements, 2 items, stars)
    >>> read("SELECT i % 2 AS user, i AS movie FROM range(6) t(i)", group="user", item="movie")
    Groups(2 groups, 6 elements, 6 items)
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
    options = ReadingOptions(duplicates, database, memory_limit, threads, date_format)
    return read_with_facts(
        source, columns, options=options, vocabulary=vocabulary, unknown=unknown
    )[0]


def read_with_facts(
    source: Any,
    columns: FrameColumns,
    *,
    options: ReadingOptions,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    allocate: Allocate | None = None,
    found: list[UnknownLabels] | None = None,
) -> tuple[Groups, ReadingFacts]:
    """As `read`, and what was met on the way, with columns written into arrays of `allocate`.

    `allocate`: called once for each flat column, before rows come, with a name, a dtype and a
        shape; columns are written from front to back and never held twice. Names are "item",
        "source_row", "observed", "tied", "position", "values.NAME" and "attributes.NAME"
    `found`: a list that takes what labels the vocabularies lack (default None)

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"]}
    >>> columns = FrameColumns(group="user", item="movie")
    >>> read_with_facts(frame, columns, options=ReadingOptions())[1].rows
    3
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    known, parts = dict(vocabulary or {}), columns.parts
    _check_names(columns)
    _check_rows(source, columns, options)
    with open_database(options) as database:
        table = open_source(database, source, parts, connection=options.database, vocabulary=known)
        with explained(lambda error: unreadable(error, table.places.where)):
            table = with_sorted_text(database, table, date_format=options.date_format)
            checked = check_table(database, table, known)
            encodings = {}
            for k, part in enumerate(part for part in parts if part in checked.labels):
                encodings[part] = encode(
                    database, checked, part, known, unknown=unknown, table=f"labels{k}"
                )
            if found is not None:
                found += [
                    encoding.unknown
                    for encoding in encodings.values()
                    if encoding.unknown is not None
                ]
            opened = Source(
                database, checked, encodings, ignores=unknown == "ignore", ordered=columns.ordered
            )
            return assemble(opened, duplicates=options.duplicates, allocate=allocate or _empty)


def _empty(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, dtype)


def _check_rows(source: Any, columns: FrameColumns, options: ReadingOptions) -> None:
    """Raise if order="rows" might mean a column of the source."""
    if columns.order != ROWS:
        return
    with open_database(options) as database:
        try:
            part = Part("order", ROWS)
            open_source(database, source, [part], connection=options.database, vocabulary={})
        except DataError:  # no such column, which is as it should be
            return
    columns.check_rows([ROWS], " in the source")


def _check_names(columns: FrameColumns) -> None:
    """Raise before anything is read if columns of Groups would share a name."""
    zero = np.zeros(0, dtype=np.int64)

    def named(argument: str) -> dict[str, np.ndarray]:
        return {part.name: zero for part in columns.parts if part.argument == argument}

    Groups(
        start=zero,
        stop=zero,
        item=None if columns.item is None else zero,
        values=named("value"),
        attributes=named("attributes"),
        group_attributes=named("group_attributes"),
    )
