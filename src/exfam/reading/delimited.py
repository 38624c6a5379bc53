"""CSV and TSV files: nothing about them is guessed from a sample."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import DataError
from exfam.columns.parts import Origin, Part, check_named
from exfam.columns.rules import GAPS
from exfam.reading.database import (
    Database,
    SqlColumn,
    Table,
    explained,
    literal,
    staged,
)
from exfam.reading.lines import Files, bad_cells, first_bad, refused
from exfam.reading.paths import check_same_columns, plain_file, scanned, short_lines

DELIMITERS = (",", "\t", ";", "|")
IN_GAPS = f"lower(trim({{x}})) IN {GAPS}"
# Parts that hold labels, and those that hold numbers or text, as their cells look.
LABELED = ("group", "item", "site")
AS_IT_LOOKS = ("attributes", "group_attributes", "time")
# What is counted over a column of text.
COUNTS = {
    "empty": "{x} IS NULL",
    "gap": IN_GAPS,
    "boolean": "{x} IN ('true', 'false', 'True', 'False', 'TRUE', 'FALSE')",
    # Only what reads back the same: neither 007 nor 1.0 nor what has more than 64 bits.
    "whole": "CAST(TRY_CAST({x} AS BIGINT) AS VARCHAR) = {x}",
    # DuckDB would take 1_000 for a number; NaN is a gap.
    "number": "TRY_CAST({x} AS DOUBLE) IS NOT NULL AND NOT contains({x}, '_') "
    f"AND NOT ({IN_GAPS})",
    "padded": "regexp_matches({x}, '^\\s*[-+]?0[0-9]')",
}
TEXT, WHOLE, NUMBER, BOOLEAN = pa.large_string(), pa.int64(), pa.float64(), pa.bool_()
CASTS = {WHOLE: "BIGINT", NUMBER: "DOUBLE", BOOLEAN: "BOOLEAN"}


@dataclass(frozen=True)
class _Header:
    names: tuple[str, ...]
    delimiter: str


def open_delimited(
    database: Database, paths: Sequence[Path], parts: Sequence[Part], vocabulary: Mapping[str, Any]
) -> Table:
    """CSV files with headers as one table.

    A vocabulary that is given decides what labels are; else all cells of a column do.
    """
    files = [(str(path), plain_file(path, database.folder)) for path in paths]
    header = _header(*files[0], group=parts[0].name)
    for name, path in files[1:]:
        names = _cells(name, path, header.delimiter)
        check_same_columns(files[0][0], header.names, name, names)
    check_named(parts, header.names, where=f" in {files[0][0]}")
    search = partial(bad_cells, delimiter=header.delimiter)
    with explained(lambda error: refused(error, files, search, kind="CSV")):
        cells = _read(database, files, header, parts)
        columns = {part: _column(cells, part, vocabulary) for part in parts}
        table = staged(database, cells.scan, columns, cells.raw.origin)
        return replace(table, typed=False)


def header_names(name: str, path: Path) -> list[str]:
    """The names in the header of a CSV file, cut by the delimiter that yields the most.

    `name`: what errors call the file
    """
    return list(_header(name, path, group=None).names)


def _header(name: str, path: Path, *, group: str | None) -> _Header:
    """The header cut by the delimiter that yields the column of groups, or else the most names."""
    preferred = "\t" if ".tsv" in name.lower() else ","
    cut = [_Header(_cells(name, path, delimiter), delimiter) for delimiter in DELIMITERS]
    cut.sort(key=lambda header: (group not in header.names, header.delimiter != preferred))
    if group in cut[0].names:
        return cut[0]
    return max(cut, key=lambda header: len(header.names))


def _cells(name: str, path: Path, delimiter: str) -> tuple[str, ...]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        try:
            return tuple(next(csv.reader(short_lines(file), delimiter=delimiter)))
        except StopIteration:
            message = f"`source` must have a header, got an empty file: {name}."
            raise DataError(message) from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise first_bad([(name, path)], lambda _: None) or DataError(
                f"`source` must be a CSV file, got {error} in the header of {name}."
            ) from error


@dataclass(frozen=True, eq=False)
class _Cells:
    """The text of all cells, not read but as SQL, and what was counted of each column."""

    database: Database
    scan: str
    raw: Table
    n_rows: int
    counts: Mapping[Part, Mapping[str, int]]

    def all_are(self, part: Part, *kinds: str) -> bool:
        """Whether every cell is of these disjoint kinds, and some is of the last."""
        counts = self.counts[part]
        return counts[kinds[-1]] > 0 and sum(counts[kind] for kind in kinds) == self.n_rows

    def complain(self, part: Part, rule: str, *, wrong: str, advice: str) -> DataError:
        """The error for the first cell where `wrong` holds."""
        row, value = self.raw.first(self.database, self.raw.columns[part].sql, where=wrong)
        n_wrong = self.database.row(f"SELECT count(*) FROM {self.scan} WHERE {wrong}")[0]
        found = (row, value[0].as_py(), n_wrong)
        return self.raw.origin.error(part, rule, found=found, n_rows=self.n_rows, advice=advice)


def _read(database: Database, files: Files, header: _Header, parts: Sequence[Part]) -> _Cells:
    def counts() -> Iterator[int]:
        for _, path in files:
            yield database.row(f"SELECT count(*) FROM {_scan([path], header)}")[0]

    scan = _scan([path for _, path in files], header)
    columns = {part: SqlColumn(f"c{header.names.index(part.name)}", TEXT) for part in parts}
    counters = [
        f"count(*) FILTER (WHERE {count.format(x=column.sql)})"
        for column in columns.values()
        for count in COUNTS.values()
    ]
    n_rows, *found = database.row(f"SELECT count(*), {', '.join(counters)} FROM {scan}")
    numbered = f"(SELECT *, row_number() OVER () - 1 AS row FROM {scan})"
    raw = Table(numbered, columns, Origin([name for name, _ in files], counts))
    starts = range(0, len(found), len(COUNTS))
    counted = [dict(zip(COUNTS, found[start:], strict=False)) for start in starts]
    return _Cells(database, scan, raw, n_rows, dict(zip(parts, counted, strict=True)))


def _scan(paths: Sequence[Path], header: _Header) -> str:
    columns = ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(header.names)))
    return (
        f"read_csv({scanned(paths)}, auto_detect = false, header = true, "
        f"quote = '\"', escape = '\"', delim = {literal(header.delimiter)}, "
        f"columns = {{{columns}}})"
    )


def _column(cells: _Cells, part: Part, vocabulary: Mapping[str, Any]) -> SqlColumn:
    """What a column holds, after a look at all of it."""
    x = cells.raw.columns[part].sql
    is_attribute = part.argument in AS_IT_LOOKS
    if part.argument in LABELED or (is_attribute and part.key in vocabulary):
        known = vocabulary.get(part.key) if part.argument != "group" else None
        return _as(x, _label_type(cells, part, known))
    if part.argument == "order" and cells.counts[part]["padded"] and cells.all_are(part, "number"):
        return _as(x, TEXT)  # such as 01052023: dates, or numbers after all
    if cells.all_are(part, "empty", "gap", "boolean"):
        return _as(x, BOOLEAN)
    if cells.all_are(part, "empty", "gap", "whole"):
        return _as(x, WHOLE)
    # An attribute of digits with leading zeros is a code, as zip codes are, rather than a number.
    is_code = is_attribute and cells.counts[part]["padded"] > 0
    if cells.all_are(part, "empty", "gap", "number") and not is_code:
        return _as(x, NUMBER)
    if is_attribute:
        return _as(x, TEXT)
    counts = cells.counts[part]
    if part.argument in ("order", "position") and counts["number"] == 0:
        return _as(x, TEXT)
    if counts["empty"] + counts["gap"] == cells.n_rows:
        return _as(x, NUMBER)
    rule, advice = "be numeric", "Mend these rows; a missing value is an empty cell."
    if part.argument == "order":
        rule, advice = "be all numbers or all text", "Mend these rows."
    wrong = f"NOT ({COUNTS['number'].format(x=x)}) AND NOT {COUNTS['gap'].format(x=x)}"
    raise cells.complain(part, rule, wrong=wrong, advice=advice)


def _label_type(cells: _Cells, part: Part, known: Any) -> pa.DataType:
    """The type of labels: that of the known ones, if all can be read so, or what they look like."""
    kind = None if known is None else np.asarray(np.asarray(known).tolist()).dtype.kind
    if kind in (None, "b") and cells.all_are(part, "empty", "boolean"):
        return BOOLEAN
    if kind in (None, "i", "u") and cells.all_are(part, "empty", "whole"):
        return WHOLE
    is_padded = cells.counts[part]["padded"] > 0
    if kind in ("i", "u") and cells.all_are(part, "empty", "number") and not is_padded:
        return NUMBER  # whole numbers that a frame with gaps once held and wrote as 7.0
    return TEXT


def _as(x: str, kind: pa.DataType) -> SqlColumn:
    if kind == TEXT:
        return SqlColumn(x, kind)
    return SqlColumn(
        f"CAST(CASE WHEN {IN_GAPS.format(x=x)} THEN NULL ELSE {x} END AS {CASTS[kind]})", kind
    )
