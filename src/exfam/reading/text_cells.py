"""CSV and TSV files as cells of text, not read but as SQL."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from exfam.checks import DataError
from exfam.columns.dialect import Dialect
from exfam.columns.parts import Origin, Part
from exfam.columns.rules import GAPS
from exfam.reading.database import (
    Database,
    SqlColumn,
    Table,
    literal,
)
from exfam.reading.lines import Files, first_bad
from exfam.reading.paths import scanned, short_lines

DELIMITERS = (",", "\t", ";", "|")
IN_GAPS = f"lower(trim({{x}})) IN {GAPS}"
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
TEXT = pa.large_string()


@dataclass(frozen=True)
class Header:
    """The names of the columns, and what stands between cells."""

    names: tuple[str, ...]
    delimiter: str


def header_names(name: str, path: Path) -> list[str]:
    """The names in the header of a CSV file, cut by the delimiter that yields the most.

    `name`: what errors call the file
    """
    return list(find_header(name, path, group=None).names)


def find_header(name: str, path: Path, *, group: str | None) -> Header:
    """The header cut by the delimiter that yields the column of groups, or else the most names."""
    preferred = "\t" if ".tsv" in name.lower() else ","
    cut = [Header(cells_of_header(name, path, delimiter), delimiter) for delimiter in DELIMITERS]
    cut.sort(key=lambda header: (group not in header.names, header.delimiter != preferred))
    if group in cut[0].names:
        return cut[0]
    return max(cut, key=lambda header: len(header.names))


def cells_of_header(name: str, path: Path, delimiter: str) -> tuple[str, ...]:
    """The header of a file cut by a delimiter; `name`: what errors call the file."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        try:
            return tuple(next(csv.reader(short_lines(file), delimiter=delimiter)))
        except StopIteration:
            message = f"`source` must have a header, got an empty file: {name}."
            raise DataError(message) from None
        except csv.Error as error:
            raise first_bad([(name, path)], lambda _: None) or DataError(
                f"`source` must be a CSV file, got {error} in the header of {name}."
            ) from error


@dataclass(frozen=True, eq=False)
class TextCells:
    """The text of all cells, not read but as SQL, and what was counted of each column.

    `most`: how many rows are looked at, None for all.
    """

    database: Database
    paths: Sequence[Path]
    header: "Header"
    raw: Table
    n_rows: int
    counts: Mapping[Part, Mapping[str, int]]
    most: int | None = None

    def all_are(self, part: Part, *kinds: str) -> bool:
        """Whether every cell is of these disjoint kinds, and some is of the last."""
        counts = self.counts[part]
        return counts[kinds[-1]] > 0 and sum(counts[kind] for kind in kinds) == self.n_rows

    def complain(self, part: Part, rule: str, *, wrong: str, advice: str) -> DataError:
        """The error for the first cell where `wrong` holds."""
        row, value = self.raw.first(self.database, self.raw.columns[part].sql, where=wrong)
        n_wrong = self.count(wrong)[0]
        found = (row, value[0].as_py(), n_wrong)
        return self.raw.origin.error(part, rule, found=found, n_rows=self.n_rows, advice=advice)

    @property
    def scan(self) -> str:
        """All cells as text, as SQL."""
        return _scan(self.paths, self.header, most=self.most)

    @property
    def dialect(self) -> Dialect:
        """How the file is said to be written."""
        return self.database.dialect

    def count(self, *conditions: str) -> tuple[int, ...]:
        """In how many rows each condition holds."""
        counters = ", ".join(f"count(*) FILTER (WHERE {wrong})" for wrong in conditions)
        return self.database.row(f"SELECT {counters} FROM {self.scan}")

    def first_unquoted(self, part: Part, words: Sequence[str]) -> tuple[int, int]:
        """The first row where a cell is one of some words without quotes, and how many are."""
        column = f"c{self.header.names.index(part.name)}"
        scan = _scan(self.paths, self.header, nulls=words)
        numbered = f"(SELECT {column}, row_number() OVER () - 1 AS row FROM {scan})"
        query = f"SELECT min(row), count(*) FROM {numbered} WHERE {column} IS NULL"
        row, count = self.database.row(query)
        return -1 if row is None else row, count


def read_cells(
    database: Database,
    files: Files,
    header: Header,
    parts: Sequence[Part],
    *,
    most: int | None = None,
) -> TextCells:
    """The cells of the columns that `parts` name, and what they look like.

    `most`: how many rows are looked at, None for all (default None)
    """

    def counts() -> Iterator[int]:
        for _, path in files:
            yield database.row(f"SELECT count(*) FROM {_scan([path], header)}")[0]

    paths = [path for _, path in files]
    scan, dialect = _scan(paths, header, most=most), database.dialect
    cells = {part: f"c{header.names.index(part.name)}" for part in parts}
    columns = {part: SqlColumn(_unmarked(x, part, dialect), TEXT) for part, x in cells.items()}
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
    held = dict(zip(parts, counted, strict=True))
    return TextCells(database, paths, header, raw, n_rows, held, most)


def _scan(
    paths: Sequence[Path],
    header: Header,
    *,
    nulls: Sequence[str] = (),
    most: int | None = None,
) -> str:
    """The cells as text, NULL where empty, or where one of `nulls` that is not quoted."""
    columns = ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(header.names)))
    listed = ", ".join(map(literal, nulls))
    words = f", nullstr = [{listed}], allow_quoted_nulls = false" if nulls else ""
    scan = (
        f"read_csv({scanned(paths)}, auto_detect = false, header = true, "
        f"quote = '\"', escape = '\"', delim = {literal(header.delimiter)}, "
        f"columns = {{{columns}}}{words})"
    )
    return scan if most is None else f"(SELECT * FROM {scan} LIMIT {most})"


def _unmarked(x: str, part: Part, dialect: Dialect) -> str:
    """The cell of text, NULL where it is what a dialect says is missing."""
    texts, numbers = dialect.marks_of(part.argument)
    written = {way for number in numbers for way in (f"{number:g}", repr(number))}
    written |= {way.replace(".", ",") for way in written} | set(texts)
    if not written:
        return x
    listed = ", ".join(map(literal, sorted(written)))
    return f"(CASE WHEN trim({x}) IN ({listed}) THEN NULL ELSE {x} END)"
