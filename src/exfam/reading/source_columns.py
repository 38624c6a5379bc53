"""The columns of a frame or file in the order of its rows, and complaints that name the row."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import DataError
from exfam.groups.columns import open_frame, read_array
from exfam.reading.checks import complaint
from exfam.reading.database import explained, open_database, unreadable
from exfam.reading.kinds import restored
from exfam.reading.options import ReadingOptions
from exfam.reading.sources import open_source
from exfam.reading.table import Part, Places, Table

__all__ = ["SourceColumns", "open_columns"]


@dataclass(frozen=True, eq=False)
class SourceColumns:
    """Arrow columns of one length, and where their rows stand.

    Text of any kind is large strings, NaN is missing.
    """

    arrays: Mapping[Part, pa.Array]
    places: Places

    @property
    def n_rows(self) -> int:
        """How many rows every column has."""
        return len(next(iter(self.arrays.values())))

    def complain(
        self, part: Part, rule: str, wrong: pa.Array | np.ndarray, advice: str = ""
    ) -> None:
        """Raise DataError if any row is `wrong`, naming the first, its file and what stands there.

        >>> part = Part("value", "stars")
        >>> columns = SourceColumns({part: pa.array([1, 2])}, Places())
        >>> columns.complain(part, "be odd", np.array([False, False]))
        """
        rows = np.flatnonzero(np.asarray(wrong))
        if not rows.size:
            return
        first = int(rows[0])
        found = (first, self.arrays[part][first].as_py(), len(rows))
        table = Table("", {}, self.places)
        raise complaint(table, part, rule, found=found, n_rows=self.n_rows, advice=advice)

    def where(self, row: int) -> str:
        """A row in words, with its file if there is one.

        >>> SourceColumns({}, Places(("a.csv",))).where(4)
        'row 4 in a.csv'
        """
        number, file = self.places.of(row)
        return f"row {number}{file}"


def open_columns(
    data: Any, parts: Sequence[Part], *, vocabulary: Mapping[str, Any]
) -> SourceColumns:
    """The columns that `parts` name, of any frame, file, folder or DuckDB query.

    `vocabulary`: known labels by column, which decide how a CSV file's labels are read.
    Raises DataError for what is no source, lacks a column or has no rows.

    >>> part = Part("value", "stars")
    >>> open_columns({"stars": [1.5, None]}, [part], vocabulary={}).arrays[part].to_pylist()
    [1.5, None]
    """
    is_path = isinstance(data, str | os.PathLike)
    opened = _from_source(data, parts, vocabulary) if is_path else _from_frame(data, parts)
    if not opened.n_rows:
        raise DataError(f"`data` must have at least one row, got none{opened.places.where}.")
    return opened


def _from_frame(frame: Any, parts: Sequence[Part]) -> SourceColumns:
    opened = open_frame(frame)
    arrays = {part: read_array(opened, part.argument, part.name) for part in parts}
    n_rows = len(arrays[parts[0]])
    for part, array in arrays.items():
        if len(array) != n_rows:
            raise DataError(
                f"`{part.argument}` must have as many rows as {parts[0].name!r}, {n_rows}, got "
                f"{len(array)} in column {part.name!r}."
            )
    return SourceColumns(arrays, Places())


def _from_source(
    source: str | os.PathLike[str], parts: Sequence[Part], vocabulary: Mapping[str, Any]
) -> SourceColumns:
    with open_database(ReadingOptions()) as database:
        table = open_source(database, source, parts, connection=None, vocabulary=vocabulary)
        listed = ", ".join(f"{table.columns[part].sql} AS c{k}" for k, part in enumerate(parts))
        with explained(lambda error: unreadable(error, table.places.where)):
            found = database.table(f"SELECT {listed} FROM {table.relation} ORDER BY row")
            arrays = {}
            for part, column in zip(parts, found.columns, strict=True):
                kind = table.columns[part].type
                array = restored(column.combine_chunks(), kind)
                arrays[part] = read_array({part.name: array}, part.argument, part.name)
            files = table.places.files
            # Rows of each file can be counted only while the database is open.
            counts = list(table.places.counts()) if len(files) > 1 else []
    return SourceColumns(arrays, Places(files, lambda: counts))
