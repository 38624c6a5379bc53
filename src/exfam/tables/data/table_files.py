"""Tables in files: every column, or some, with missing cells as they are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exfam.checks import DataError
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.parts import Origin, Part
from exfam.columns.rules import GAPS
from exfam.reading.database import ReadingOptions, open_database
from exfam.reading.reader import open_columns, source_names


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
