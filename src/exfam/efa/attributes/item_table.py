"""A table keyed by item: what the user passes as attributes of items, checked and read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exfam.checks import DataError, shown
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.frames import open_frame
from exfam.columns.parts import Part
from exfam.reading.database import ReadingOptions, open_database
from exfam.reading.reader import open_columns, source_names

# What a column without a name for items is called: that of `Groups`.
ITEM = "item"


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Items by label, and a column of cells for each attribute, missing ones null."""

    labels: list[Any]
    columns: dict[str, pa.Array]

    def rows(self, chosen: np.ndarray) -> "ItemTable":
        """Some of the rows, in this order."""
        index = pa.array(chosen, pa.int64())
        columns = {name: column.take(index) for name, column in self.columns.items()}
        return ItemTable([self.labels[row] for row in chosen.tolist()], columns)


def read_item_table(
    source: Any,
    *,
    argument: str,
    item: str | None,
    labels: np.ndarray,
    dialect: Dialect = BY_LOOKING,
) -> ItemTable:
    """The table in a frame or file whose column `item` holds items, in the order of its rows.

    `argument`: what errors call it; `labels`: of items, which say how those of a file are read
    Raises DataError for a table without this column or any other, with an item in two rows or none.
    """
    key, options = item or ITEM, ReadingOptions(dialect=dialect)
    names = _names(source, argument, options)
    if key not in names:
        listed = ", ".join(map(repr, names))
        raise DataError(
            f"`{argument}` must have a column {key!r} that holds the items, got the columns "
            f"{listed}. Rename the column of items."
        )
    attributes = [name for name in names if name != key]
    if not attributes:
        raise DataError(
            f"`{argument}` must have a column beside {key!r}, got none: attributes are what "
            "items without history are known by."
        )
    parts = [Part("item", key), *(Part("attributes", name) for name in attributes)]
    try:
        opened = open_columns(source, parts, vocabulary={"item": labels}, options=options)
    except DataError as error:
        # What reads data of all kinds calls them by that name.
        raise DataError(str(error).replace("`data` ", f"`{argument}` ", 1)) from error
    table = ItemTable(
        opened.arrays[parts[0]].to_pylist(),
        {part.name: _cells(opened.arrays[part], argument, part.name) for part in parts[1:]},
    )
    _check_labels(table.labels, argument, key)
    return table


def _names(source: Any, argument: str, options: ReadingOptions) -> list[str]:
    if isinstance(source, str | os.PathLike):
        with open_database(options) as database:
            return list(source_names(database, str(source))[0])
    return list(open_frame(source, argument=argument))


def _check_labels(labels: list[Any], argument: str, key: str) -> None:
    """Raise DataError for a row without an item, or the rows of an item that has several."""
    first: dict[Any, int] = {}
    again: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        if label is None:
            raise DataError(
                f"`{argument}` must have an item in every row, got none at row {row} of column "
                f"{key!r}. Leave the row out."
            )
        if label in first:
            again.setdefault(label, [first[label]]).append(row)
        first.setdefault(label, row)
    if again:
        label, rows = next(iter(again.items()))
        raise DataError(
            f"`{argument}` must have one row for each item, got {shown(label)} at rows {rows} "
            f"({len(again)} items have several rows). Keep one of them."
        )


def _cells(column: pa.Array, argument: str, name: str) -> pa.Array:
    """Numbers in float64, or texts; those that are blank are missing."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.float64())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = column.cast(pa.float64())
        # Infinity is no number to standardize by.
        return pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
    if pa.types.is_null(kind):
        return column.cast(pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        blank = pc.equal(pc.utf8_trim_whitespace(column), "")
        return pc.if_else(blank, pa.scalar(None, kind), column).cast(pa.large_string())
    raise DataError(
        f"`{argument}` must hold texts, numbers or booleans, got {kind} in column {name!r}. Turn "
        "dates into numbers, and lists or vectors into one column for each of their numbers."
    )


def by_label(labels: list[Any], codes: Mapping[Any, int]) -> np.ndarray:
    """The code of each label, -1 for those that are not there."""
    return np.array([codes.get(label, -1) for label in labels], dtype=np.int64)
