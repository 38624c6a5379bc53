"""Excel files: one sheet of each, whose first row has the names of columns."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from exfam.checks import DataError, ExfamError
from exfam.columns.parts import Origin, Part, check_named
from exfam.columns.rules import GAPS
from exfam.reading.database import Database, first_line
from exfam.reading.paths import check_same_columns

# How Excel writes a value that is not there, or that a formula could not find.
_ERRORS = ("#n/a", "#value!", "#ref!", "#div/0!", "#num!", "#name?", "#null!")
_TEXTUAL = ("group", "item", "site", "attributes", "group_attributes")


@dataclass(frozen=True, eq=False)
class ExcelTable:
    """Columns of cells by name, of all files one after the other, and where their rows stand."""

    columns: dict[str, pa.Array]
    origin: Origin


def read_excel(database: Database, paths: Sequence[Path], parts: Sequence[Part]) -> ExcelTable:
    """The columns that `parts` name. Rows without a cell do not count.

    Raises DataError for what is no Excel file, has no such sheet, or holds cells of several types
    in a column of numbers or times.
    """
    names: list[str] = []
    cells: dict[Part, list[Any]] = {part: [] for part in parts}
    counts = []
    for path in paths:
        own, rows = _sheet(database, path)
        if not names:
            names = own
            check_named(parts, names, where=f" in {path}")
        check_same_columns(paths[0], names, path, own)
        index = {part: names.index(part.name) for part in parts}
        counts.append(0)
        for row in rows:
            counts[-1] += 1
            for part in parts:
                cells[part].append(row[index[part]])
    origin = Origin([str(path) for path in paths], lambda: counts)
    return ExcelTable({part.name: _column(cells[part], part, origin) for part in parts}, origin)


def excel_names(database: Database, path: Path) -> list[str]:
    """The names of the columns of a sheet."""
    return _sheet(database, path)[0]


def _sheet(database: Database, path: Path) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of columns, and rows of as many cells."""
    book = _opened(path)
    chosen = database.dialect.sheet
    if chosen is not None and chosen not in book.sheetnames:
        raise DataError(
            f"`sheet` must be one of {path}, got {chosen!r}. Its sheets: "
            f"{', '.join(map(repr, book.sheetnames))}."
        )
    name = book.sheetnames[0] if chosen is None else chosen
    if chosen is None and len(book.sheetnames) > 1:
        words = f"sheet {name!r}, the first of {len(book.sheetnames)}"
        database.note(str(path), words, sheet=name)
    filled = (
        list(row)
        for row in book[name].iter_rows(values_only=True)
        if any(cell is not None and cell != "" for cell in row)
    )
    header = next(filled, None)
    if header is None:
        raise DataError(f"`source` must have a header, got an empty sheet {name!r} in {path}.")
    names = ["" if cell is None else str(cell) for cell in header]
    while names and not names[-1]:
        names.pop()
    return names, ([*row, *[None] * len(names)][: len(names)] for row in filled)


def _opened(path: Path) -> Any:
    try:
        load_workbook = import_module("openpyxl").load_workbook
    except ImportError as error:
        raise ExfamError(
            f"`source` needs openpyxl to be read from Excel, got {path} and no openpyxl. "
            'pip install "exfam[excel]", or save the sheet as CSV.'
        ) from error
    try:
        return load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # openpyxl lets errors of zip, XML and its own through
        raise DataError(
            f"`source` must be an Excel file (.xlsx), got {path}: {first_line(error)}. Save it "
            "anew."
        ) from error


def _column(cells: Sequence[Any], part: Part, origin: Origin) -> pa.Array:
    """Cells as one Arrow array: text where some are text, else numbers, times or booleans."""
    held = [None if _is_gap(cell, part) else cell for cell in cells]
    kinds = {_kind(cell) for cell in held if cell is not None}
    if "text" in kinds and part.argument in _TEXTUAL:
        return pa.array([None if cell is None else _text(cell) for cell in held], pa.large_string())
    if len(kinds) > 1:
        filled = [k for k, cell in enumerate(held) if cell is not None]
        kind = _kind(held[filled[0]])
        odd = [k for k in filled if _kind(held[k]) != kind]
        advice = f"Row {filled[0]} has a {kind}. Make them alike."
        found = (odd[0], held[odd[0]], len(odd))
        rule = "hold values of one plain type"
        raise origin.error(part, rule, found=found, n_rows=len(held), advice=advice)
    if kinds == {"time"}:
        held = [None if cell is None else _moment(cell) for cell in held]
    return pa.array(held, from_pandas=True)


def _is_gap(cell: Any, part: Part) -> bool:
    if not isinstance(cell, str):
        return cell is None
    bare = cell.strip().lower()
    return not bare or bare in _ERRORS or (part.argument not in _TEXTUAL and bare in GAPS)


def _kind(cell: Any) -> str:
    if isinstance(cell, bool):
        return "boolean"
    if isinstance(cell, int | float):
        return "number"
    is_time = isinstance(cell, datetime.date | datetime.time | datetime.timedelta)
    return "time" if is_time else "text"


def _text(cell: Any) -> str:
    """What a cell of another type looks like; whole numbers without a point."""
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if whole else str(cell)


def _moment(cell: Any) -> Any:
    """Dates as moments; times of day as the time since midnight."""
    if isinstance(cell, datetime.time):
        return datetime.timedelta(hours=cell.hour, minutes=cell.minute, seconds=cell.second)
    if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        return datetime.datetime(cell.year, cell.month, cell.day)
    return cell
