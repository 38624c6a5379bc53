"""Tables in files, every column or some, and marks of missing cells in any table."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exfam.checks import DataError
from exfam.columns.columns import OFFSET
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.parts import Origin, Part
from exfam.columns.rules import GAPS
from exfam.columns.suspects import warn_of_stand_ins, warn_of_twins
from exfam.dates import have_zones
from exfam.reading.database import ReadingOptions, open_database
from exfam.reading.reader import open_columns, source_names
from exfam.tables.data.frames import RawColumn, RawTable, read_table
from exfam.tables.data.schema import TableSchema


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table as it was read, and where its rows stand; `n_unnamed` columns were left out."""

    frame: pa.Table
    origin: Origin
    n_unnamed: int

    def __len__(self) -> int:
        return int(self.frame.num_rows)

    @property
    def n_missing(self) -> int:
        return sum(column.null_count for column in self.frame.columns)

    def where(self, row: int) -> str:
        """The row within its file, and the file if there is one."""
        number, file = self.origin.of(row)
        return f"row {number}{file}"


def read_table_file(
    source: str,
    *,
    names: Sequence[str] | None = None,
    ignore: Collection[str] = (),
    numbers: Collection[str] = (),
    labels: Mapping[str, Any] | None = None,
    dialect: Dialect = BY_LOOKING,
) -> TableFile:
    """The columns of a file, a folder or pattern of files, or a query in DuckDB's SQL.

    In CSV files a column is boolean, whole numbers or numbers if all its cells are (unless one has
    leading zeros), and else text; an empty cell, NA, NaN or null is missing, in texts as well.
    Columns without a name are left out.

    `names`: the columns to read, of which a file may lack some; None for all
    `ignore`: columns to leave out, which must be there
    `numbers`: columns of numbers, in which a text is an error that names its row
    `labels`: by column, labels that are known; a column with known texts is text, and a known NA is
        no missing cell
    `dialect`: how the file is written
    """
    options = ReadingOptions(dialect=dialect)
    with open_database(options) as database:
        held, is_typed = source_names(database, source)
    listed = f"Its columns: {', '.join(repr(name) for name in held)}."
    for name in ignore:
        if name not in held:
            raise DataError(f"`ignore` must name columns of {source}, got {name!r}. {listed}")
    wanted = [name for name in held if name and name not in ignore]
    wanted = [name for name in wanted if names is None or name in names]
    if not wanted:
        raise DataError(f"`source` must have a column to read, got none in {source}. {listed}")
    texts = {
        name: own
        for name, own in (labels or {}).items()
        if all(isinstance(label, str) for label in np.asarray(own, dtype=object).tolist())
    }
    parts = [Part("value" if name in numbers else "attributes", name) for name in wanted]
    opened = open_columns(source, parts, vocabulary=texts, options=options)
    gaps = pa.array(GAPS if dialect.missing != () else [""], pa.large_string())
    frame = pa.table({part.name: array for part, array in opened.arrays.items()})
    for k, (name, column) in enumerate(zip(frame.column_names, frame.columns, strict=True)):
        if not is_typed and pa.types.is_large_string(column.type):
            bare = pc.utf8_lower(pc.utf8_trim_whitespace(column))
            known = pa.array(list(texts.get(name, ())), pa.large_string())
            is_gap = pc.and_(
                pc.is_in(bare, gaps),
                pc.invert(pc.is_in(column, known)),
            )
            filled = pc.if_else(is_gap, pa.scalar(None, pa.large_string()), column)
            frame = frame.set_column(k, name, filled)
    return TableFile(frame, opened.origin, n_unnamed=held.count(""))


def table_of(
    X: Any, dialect: Dialect, *, schema: TableSchema | None = None, without: str | None = None
) -> Any:
    """The table in a file, folder or query that `X` names; what is no path as it is.

    `schema`: of a fitted model, whose columns are read as they were in training (default None)
    `without`: a column that is left out (default None)
    """
    if not isinstance(X, str | os.PathLike):
        return X
    file = os.fspath(X)
    if schema is None:
        return read_table_file(file, dialect=dialect).frame
    labels = {own.name: own.labels for own in schema.columns if own.labels is not None}
    numbers = [
        own.name
        for own in schema.columns
        if not own.input_only and (own.labels is None or own.labels.dtype.kind in "if")
    ]
    table = read_table_file(
        file,
        names=[name for name in schema.names if name != without],
        numbers=numbers,
        labels=labels,
        dialect=dialect,
    )
    return table.frame


def table_and_response_of(
    X: Any, y: Any, dialect: Dialect, *, schema: TableSchema | None = None
) -> tuple[Any, Any]:
    """The table in a file and its response, which `y` names; what is no path as it is."""
    if not isinstance(X, str | os.PathLike) or not isinstance(y, str):
        return table_of(X, dialect, schema=schema), y
    table = table_of(X, dialect, schema=schema)
    if y not in table.column_names:
        listed = ", ".join(map(repr, table.column_names))
        raise DataError(
            f"`y` must name a column of {os.fspath(X)}, got {y!r}. Its columns: {listed}."
        )
    return table.drop_columns([y]), table.select([y])


def read_marked(X: Any, dialect: Dialect) -> RawTable:
    """As `read_table`, with cells missing that are what the dialect says stands for missing.

    Raises DataError for times without a zone in a column that had one in training.
    """
    table = read_table(X)
    for name, column in table.columns.items():
        if column.labels:
            dialect.check_zone(name, OFFSET if have_zones(column.labels) else "")
        elif column.type == "date":
            dialect.check_zone(name, column.zone)
    if not dialect.missing:
        return table
    columns = {name: _without_marks(own, dialect) for name, own in table.columns.items()}
    return RawTable(columns, table.n_rows)


def _without_marks(column: RawColumn, dialect: Dialect) -> RawColumn:
    if column.labels is not None:
        codes = [k for k, label in enumerate(column.labels) if label.strip() in dialect.texts]
        marked = np.isin(column.values, codes)
    elif column.type == "number":
        marks = np.array(dialect.numbers, dtype=np.float64)
        kind = column.values.dtype
        marked = np.isin(column.values, marks.astype(kind) if kind.kind == "f" else marks)
    else:
        return column
    return replace(column, missing=column.missing | marked)


def warn_of_suspects(columns: Mapping[str, RawColumn], dialect: Dialect) -> None:
    """ExfamWarnings of labels that differ in white space alone, and of numbers such as -999."""
    for name, column in columns.items():
        if column.labels is not None:
            warn_of_twins("X", name, list(column.labels))
        elif column.type == "number" and dialect.missing is None:
            warn_of_stand_ins({name: column.values[~column.missing]})
