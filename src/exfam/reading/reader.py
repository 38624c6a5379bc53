"""Anything that can be read as one table, and that table as Groups or as columns."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import DataError, check_choice, is_utf8
from exfam.columns.columns import Columns
from exfam.columns.dialect import Dialect
from exfam.columns.frames import plain_array
from exfam.columns.parts import ROWS, FrameColumns, Names, Origin, Part, UnknownLabels
from exfam.columns.rules import broken_rule, is_time
from exfam.columns.suspects import warn_of_stand_ins, warn_of_twins
from exfam.groups import Groups
from exfam.reading.assemble import Allocate, CodedTable, assemble
from exfam.reading.checked import check_table, code_labels, with_sorted_text, without_marks
from exfam.reading.database import (
    Database,
    ReadingFacts,
    ReadingOptions,
    SqlColumn,
    Table,
    explained,
    open_database,
    restored,
    unreadable,
    warn_of_notes,
)
from exfam.reading.delimited import open_delimited
from exfam.reading.encodings import text_files
from exfam.reading.excel import excel_names, read_excel
from exfam.reading.paths import find_files
from exfam.reading.queries import open_duckdb_query, open_remote_query, query_names
from exfam.reading.sorting import sorted_rows
from exfam.reading.text_cells import header_names
from exfam.reading.typed_files import key_names, open_json_lines, open_parquet, schema_names

_NO_FILE = Origin()


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
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    date_format: str | None = None,
    missing: Any = None,
    sheet: str | None = None,
) -> Groups:
    """The rows of a file, a folder of files, a frame or a query as Groups.

    As `Groups.from_frame`, for sources that may be larger than memory: DuckDB sorts them, on disk
    where memory is short, and only the columns of Groups are held.

    `source`: a path of a CSV, TSV or JSON file (.csv, .tsv, .txt, .json with an array of objects,
        .jsonl or .ndjson with one a line; each also packed, with .gz or alone in a .zip), of an
        Excel file (.xlsx, with the extra excel) or of a Parquet file; a folder of files of one
        kind, read in the order of their names; a glob; a pandas or polars frame, lazy too, an
        Arrow table or a mapping of columns;
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
    `encoding`: of text files, such as "latin-1" or "utf-16"; None for UTF-8, what a byte order mark
        says, or latin-1 or cp1252 where all letters are as in Western languages (default None)
    `decimal`: "." or "," in text files; None for what all of a column fits (default None)
    `thousands`: ",", ".", " ", "'" or "" between thousands; None as for `decimal` (default None)
    `date_format`: how text of `order` and `position` writes dates: "iso" or a format of
        `datetime.strptime` such as "%d/%m/%Y"; None for the one that all of a column fits
        (default None)
    `missing`: numbers and texts that stand for a missing value or attribute, such as -999, beside
        empty cells; None for the words NA, NaN and null (default None)
    `sheet`: of an Excel file; None for the first (default None)

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
    columns = FrameColumns(group, order, item, value, attributes, group_attributes, position)
    dialect = Dialect(encoding, decimal, thousands, date_format, missing, sheet)
    options = ReadingOptions(duplicates, database, memory_limit, threads, dialect)
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
    """As `read`, and what reading came across.

    `allocate`: called once for each flat column, before rows come, with a name, a dtype and a
        shape, for zeros; columns are written from front to back and never held twice. Names are
        "item", "source_row", "observed", "tied", "position", "values.NAME", "attributes.NAME"
    `found`: a list that takes what labels the vocabularies lack (default None)
    """
    check_choice("unknown", unknown, ("error", "ignore", "unk"))
    known, parts = dict(vocabulary or {}), columns.parts
    check_column_names(columns)
    _check_rows(source, columns, options)
    with open_database(options) as database:
        table = open_source(database, source, parts, vocabulary=known)
        with explained(lambda error: unreadable(error, table.origin.where)):
            table = without_marks(table, options.dialect)
            table = with_sorted_text(database, table, dialect=options.dialect)
            checked = check_table(database, table, known)
            encodings = {}
            for k, part in enumerate(part for part in parts if part in checked.labels):
                encodings[part] = code_labels(
                    database, checked, part, known, unknown=unknown, table=f"labels{k}"
                )
            if found is not None:
                lacking = (encoding.unknown for encoding in encodings.values())
                found += [labels for labels in lacking if labels is not None]
            opened = CodedTable(
                database,
                checked,
                encodings,
                lambda twins: sorted_rows(database, checked, encodings, twins=twins),
                ignores=unknown == "ignore",
                ordered=columns.ordered,
            )
            assembled = assemble(opened, duplicates=options.duplicates, allocate=allocate)
    warn_of_notes(database.notes)
    for part, own in encodings.items():
        warn_of_twins(part.argument, part.name, own.names, own.known)
    if options.dialect.missing is None:
        warn_of_stand_ins(assembled[0].values)
    return assembled


def _check_rows(source: Any, columns: FrameColumns, options: ReadingOptions) -> None:
    """Raise if order="rows" might mean a column of the source."""
    if columns.order != ROWS:
        return
    with open_database(options) as database:
        try:
            open_source(database, source, [Part("order", ROWS)], vocabulary={})
        except DataError:  # no such column, which is as it should be
            return
    columns.check_rows([ROWS], " in the source")


def check_column_names(columns: FrameColumns) -> None:
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


def open_columns(
    data: Any,
    parts: Sequence[Part],
    *,
    vocabulary: Mapping[str, Any] | None = None,
    options: ReadingOptions | None = None,
) -> Columns:
    """The columns that `parts` name, of any frame, file, folder or query, in the order of its rows.

    `vocabulary`: known labels by column, which decide how a CSV file's labels are read (default
        None)
    `options`: how files and queries are read (default None)

    Raises DataError for what is no source, lacks a column or has no rows.
    """
    options = options or ReadingOptions()
    if isinstance(data, str | os.PathLike):
        opened = _columns_of(data, parts, dict(vocabulary or {}), options)
    else:
        opened = Columns.of_frame(data, parts)
    opened = opened.without_marks(options.dialect)
    if not opened.n_rows:
        raise DataError(f"`data` must have at least one row, got none{opened.origin.where}.")
    return opened


def _columns_of(
    source: str | os.PathLike[str],
    parts: Sequence[Part],
    vocabulary: Mapping[str, Any],
    options: ReadingOptions,
) -> Columns:
    with open_database(options) as database:
        table = open_source(database, source, parts, vocabulary=vocabulary)
        listed = ", ".join(f"{table.columns[part].sql} AS c{k}" for k, part in enumerate(parts))
        with explained(lambda error: unreadable(error, table.origin.where)):
            rows = database.table(f"SELECT {listed} FROM {table.relation} ORDER BY row")
            arrays = {
                part: plain_array(restored(column.combine_chunks(), table.columns[part].type))
                for part, column in zip(parts, rows.columns, strict=True)
            }
            files = table.origin.files
            # Rows of each file can be counted only while the database is open.
            counts = list(table.origin.counts()) if len(files) > 1 else []
    warn_of_notes(database.notes)
    return Columns(arrays, Origin(files, lambda: counts))


def is_query(source: Any) -> bool:
    """Whether a source is a text that begins as a query does, and no file."""
    begins = isinstance(source, str) and re.match(r"\s*(SELECT|WITH|FROM)\s", source, re.IGNORECASE)
    return bool(begins) and is_utf8(source) and not os.path.exists(source)


def open_source(
    database: Database, source: Any, parts: Sequence[Part], *, vocabulary: Mapping[str, Any]
) -> Table:
    """The source as a table with a column for each part; see `exfam.read` for what it may be."""
    if database.connection is not None:
        if not isinstance(source, str):
            raise DataError(
                "`source` must be a query or the name of a table where there is a database, "
                f"got {type(source).__name__}."
            )
        return open_remote_query(database, source, parts, connection=database.connection)
    if not isinstance(source, (str, os.PathLike)):
        return _open_frame(database, source, parts, vocabulary)
    if is_query(source):
        return open_duckdb_query(database, str(source), parts)
    kind, paths = find_files(source)
    if kind == "parquet":
        return open_parquet(paths, parts)
    if kind == "json":
        return open_json_lines(database, paths, parts)
    if kind == "excel":
        sheets = read_excel(database, paths, parts)
        return _open_frame(database, sheets.columns, parts, vocabulary, origin=sheets.origin)
    return open_delimited(database, paths, parts, vocabulary)


def _open_frame(
    database: Database,
    frame: Any,
    parts: Sequence[Part],
    known: Mapping[str, Any],
    *,
    origin: Origin = _NO_FILE,
) -> Table:
    """A frame as a table that DuckDB scans in place."""
    opened = Columns(Columns.of_frame(frame, parts).arrays, origin)
    columns, held = {}, {"row": pa.array(np.arange(opened.n_rows))}
    for k, (part, array) in enumerate(opened.arrays.items()):
        if opened.n_rows and broken_rule(part, array.type, known):
            array = opened.check(part, known)  # here, where DuckDB might not know its kind
        columns[part] = SqlColumn(f"c{k}", array.type)
        if is_time(array.type):  # as the whole numbers it is stored as: DuckDB knows fewer units
            array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        held[f"c{k}"] = array
    database.con.register("frame", pa.table(held))
    return Table("frame", columns, origin)


def source_names(database: Database, source: str) -> tuple[list[str], bool]:
    """The names of the columns of files, of the first of them, or of a query in DuckDB's SQL.

    And whether the source says what is text and what is a number.
    """
    if is_query(source):
        return query_names(database, source), True
    kind, paths = find_files(source)
    if kind == "parquet":
        return schema_names(paths[0]), True
    if kind == "excel":
        return excel_names(database, paths[0]), True
    paths = paths if kind == "json" else paths[:1]
    plain = text_files(database, paths)
    if kind == "json":
        return key_names(database, plain), True
    return header_names(*plain[0]), False
