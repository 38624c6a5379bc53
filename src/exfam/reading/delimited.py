"""CSV and TSV files: nothing about them is guessed from a sample, all cells are looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import DataError
from exfam.columns.parts import Part, check_named
from exfam.columns.rules import GAPS
from exfam.reading.database import Database, SqlColumn, Table, explained, staged
from exfam.reading.encodings import text_files
from exfam.reading.lines import bad_cells, refused
from exfam.reading.numerals import (
    COMMA,
    GROUPED,
    PLAIN,
    POINTS,
    Numerals,
    agreed,
    allowed_numerals,
    described,
    settings,
)
from exfam.reading.paths import check_same_columns
from exfam.reading.text_cells import (
    COUNTS,
    IN_GAPS,
    TEXT,
    TextCells,
    cells_of_header,
    find_header,
    read_cells,
)

# Parts that hold labels, and those that hold numbers or text, as their cells look.
LABELED = ("group", "item", "site")
AS_IT_LOOKS = ("attributes", "group_attributes", "time")
WHOLE, NUMBER, BOOLEAN = pa.int64(), pa.float64(), pa.bool_()
# What these look like is what all others are taken for, until they have been read.
FIRST_ROWS = 2048
CASTS = {WHOLE: "BIGINT", NUMBER: "DOUBLE", BOOLEAN: "BOOLEAN"}
_WORDS = tuple(word for word in GAPS if word)


def open_delimited(
    database: Database, paths: Sequence[Path], parts: Sequence[Part], vocabulary: Mapping[str, Any]
) -> Table:
    """CSV files with headers as one table.

    A vocabulary that is given decides what labels are; else all cells of a column do.
    """
    files = text_files(database, paths)
    header = find_header(*files[0], group=parts[0].name)
    for name, path in files[1:]:
        names = cells_of_header(name, path, header.delimiter)
        check_same_columns(files[0][0], header.names, name, names)
    check_named(parts, header.names, where=f" in {files[0][0]}")
    search = partial(bad_cells, delimiter=header.delimiter)
    with explained(lambda error: refused(error, files, search, kind="CSV")):
        found: dict[str, str] = {}
        looking = replace(database, notes=[], dialect=replace(database.dialect, found=found))
        first = read_cells(looking, files, header, parts, most=FIRST_ROWS)
        table = _staged_in_one_pass(first, vocabulary)
        if table is None:
            cells = read_cells(database, files, header, parts)
            columns = _column_types(cells, vocabulary)
            table = staged(database, cells.scan, columns, cells.raw.origin)
        else:
            database.dialect.remember(**found)
        return replace(table, typed=False)


def _staged_in_one_pass(first: TextCells, vocabulary: Mapping[str, Any]) -> Table | None:
    """The cells of all rows as what the `first` look like; None if some are something else."""
    dialect, n_rows = first.dialect, first.n_rows
    if not n_rows or (dialect.decimal, dialect.thousands, dialect.missing) != (None, None, None):
        return None
    try:
        columns = _column_types(first, vocabulary)
    except DataError:  # which says more after a look at all rows
        return None
    sure: dict[Part, SqlColumn] = {}
    for part, column in columns.items():
        likely = _if_labels if _holds_labels(part, vocabulary) else _if_cells
        if (own := likely(first, part, column)) is not None:
            sure[part] = own
    if first.database.notes or len(sure) < len(columns):
        return None
    whole = replace(first, most=None)
    table = staged(first.database, whole.scan, sure, first.raw.origin)
    held = ", ".join(f"count({column.sql})" for column in table.columns.values())
    n_rows, *counts = first.database.row(f"SELECT count(*), {held} FROM {table.relation}")
    if any(count < n_rows for count in counts):
        first.database.con.execute("DROP TABLE staged")
        return None
    columns = {
        part: SqlColumn(f"(CASE WHEN isnan({own.sql}) THEN NULL ELSE {own.sql} END)", own.type)
        if own.type == NUMBER
        else own
        for part, own in table.columns.items()
    }
    return replace(table, columns=columns)


def _if_labels(first: TextCells, part: Part, column: SqlColumn) -> SqlColumn | None:
    """The label, NULL where it might make the column another type, or be a missing one.

    None for a type of which the `first` rows say too little.
    """
    x = first.raw.columns[part].sql
    if column.type == TEXT:
        return SqlColumn(f"(CASE WHEN NOT {IN_GAPS.format(x=x)} THEN {x} END)", TEXT)
    return _if_whole(x) if first.all_are(part, "whole") else None


def _if_cells(first: TextCells, part: Part, column: SqlColumn) -> SqlColumn | None:
    """The cell, NULL where it might make the column another type, and NaN where it is missing.

    None for a type of which the `first` rows say too little.
    """
    x, counts = first.raw.columns[part].sql, first.counts[part]
    gap, number = IN_GAPS.format(x=x), COUNTS["number"].format(x=x)
    looks = part.argument in AS_IT_LOOKS
    if column.type == TEXT and looks:
        # Neither a number, however it is written, nor a truth value.
        (n_words,) = first.count(f"{x} SIMILAR TO '.*[g-zG-Z].*' AND NOT {gap} AND NOT ({number})")
        return column if n_words else None
    if column.type == TEXT and counts["empty"] + counts["gap"] == 0:
        return SqlColumn(f"(CASE WHEN NOT ({number}) THEN {x} END)", TEXT)
    if column.type == WHOLE and first.all_are(part, "whole"):
        return _if_whole(x)
    is_plain = first.all_are(part, "empty", "gap", "number") and counts["whole"] < counts["number"]
    if column.type != NUMBER or not is_plain:
        return None
    wrong = f"contains({x}, '_') OR isnan(TRY_CAST({x} AS DOUBLE))"
    if looks or part.argument == "order":
        wrong += f" OR {COUNTS['padded'].format(x=x)}"
    sql = (
        f"(CASE WHEN {x} IS NULL OR {gap} THEN CAST('nan' AS DOUBLE) "
        f"WHEN {wrong} THEN NULL ELSE TRY_CAST({x} AS DOUBLE) END)"
    )
    return SqlColumn(sql, NUMBER)


def _if_whole(x: str) -> SqlColumn:
    return SqlColumn(
        f"(CASE WHEN {COUNTS['whole'].format(x=x)} THEN TRY_CAST({x} AS BIGINT) END)", WHOLE
    )


def _column_types(cells: TextCells, vocabulary: Mapping[str, Any]) -> dict[Part, SqlColumn]:
    """What each column holds, after a look at all of it; notes how numbers are written.

    `vocabulary`: known labels by column, which decide first
    """
    labels = [part for part in cells.counts if _holds_labels(part, vocabulary)]
    for part in labels:
        _check_names(cells, part, vocabulary)
    numerals = _numerals(cells, [part for part in cells.counts if part not in labels])
    return {
        part: _labels(cells, part, vocabulary)
        if part in labels
        else _column(cells, part, numerals.get(part))
        for part in cells.counts
    }


def _holds_labels(part: Part, vocabulary: Mapping[str, Any]) -> bool:
    is_attribute = part.argument in AS_IT_LOOKS
    return part.argument in LABELED or (is_attribute and part.key in vocabulary)


def _labels(cells: TextCells, part: Part, vocabulary: Mapping[str, Any]) -> SqlColumn:
    known = vocabulary.get(part.key) if part.argument != "group" else None
    return _as(cells.raw.columns[part].sql, _label_type(cells, part, known))


def _check_names(cells: TextCells, part: Part, vocabulary: Mapping[str, Any]) -> None:
    """Raise DataError for a label such as NA that is not quoted: it may stand for a missing one."""
    if part.argument not in LABELED or not cells.counts[part]["gap"]:
        return
    known = {str(label) for label in np.asarray(vocabulary.get(part.key, ())).tolist()}
    ways = {way for word in _WORDS for way in (word, word.upper(), word.title(), "NaN")} - known
    row, count = cells.first_unquoted(part, sorted(ways))
    if row < 0 or cells.dialect.missing == ():
        return
    _, word = cells.raw.first(cells.database, cells.raw.columns[part].sql, where=f"row = {row}")
    raise cells.raw.origin.error(
        part,
        "hold names",
        found=(row, word[0].as_py(), count),
        n_rows=cells.n_rows,
        advice="The word may stand for a missing one: drop these rows then. Put it in double "
        "quotes if it is a name, or pass missing=() if all such words are names.",
    )


def _column(cells: TextCells, part: Part, way: Numerals | None) -> SqlColumn:
    """What a column of numbers, dates or texts holds; `way`: how it writes numbers, if it does."""
    x, counts = cells.raw.columns[part].sql, cells.counts[part]
    is_attribute = part.argument in AS_IT_LOOKS
    if part.argument == "order" and counts["padded"] and cells.all_are(part, "number"):
        return _as(x, TEXT)  # such as 01052023: dates, or numbers after all
    if cells.all_are(part, "empty", "gap", "boolean"):
        return _as(x, BOOLEAN)
    if cells.all_are(part, "empty", "gap", "whole"):
        return _as(x, WHOLE)
    # An attribute of digits with leading zeros is a code, as zip codes are, rather than a number.
    is_code = is_attribute and counts["padded"] > 0
    if way is not None and not is_code:
        return _as_numbers(cells, x, way)
    if is_attribute:
        return _as(x, TEXT)
    if part.argument in ("order", "position") and counts["number"] == 0:
        return _as(x, TEXT)
    if counts["empty"] + counts["gap"] == cells.n_rows:
        return _as(x, NUMBER)
    rule, advice = "be numeric", "Mend these rows; a missing value is an empty cell."
    if cells.dialect.missing is None:
        advice = "Mend these rows; a missing value is an empty cell, or what `missing` names."
    if part.argument == "order":
        rule, advice = "be all numbers or all text", "Mend these rows."
    wrong = f"NOT ({COUNTS['number'].format(x=x)}) AND NOT {COUNTS['gap'].format(x=x)}"
    if PLAIN not in (ways := allowed_numerals(cells.dialect)):
        fitting = " OR ".join(own.fits(x) for own in ways)
        rule = "be numeric, with the marks that `decimal` and `thousands` say"
        wrong = f"NOT ({fitting}) AND NOT {COUNTS['gap'].format(x=x)}"
    raise cells.complain(part, rule, wrong=wrong, advice=advice)


def _numerals(cells: TextCells, parts: Sequence[Part]) -> dict[Part, Numerals]:
    """How each column that holds numbers writes them."""
    dialect = cells.dialect
    allowed = allowed_numerals(dialect)
    ways: dict[Part, Numerals] = {}
    doubtful, plain = [], []
    for part in parts:
        if any(
            cells.all_are(part, "empty", "gap", kind) for kind in ("boolean", "whole")
        ) or not _n_filled(cells, part):
            continue
        is_plain = PLAIN in allowed and cells.all_are(part, "empty", "gap", "number")
        if is_plain and dialect.likely.get("thousands") == "." and _fitting(cells, part, [POINTS]):
            ways[part] = POINTS
            continue
        if is_plain:
            ways[part] = PLAIN
            plain.append(part)
            continue
        fitting = _fitting(cells, part, [way for way in allowed if way != PLAIN])
        way = agreed(fitting)
        if way is not None and _is_meant(part, way, fitting, dialect.thousands):
            ways[part] = way
        elif fitting and way is None:
            doubtful.append(part)
    has_points = _settle(cells, ways, doubtful, plain)
    if plain and all(way.decimal == "." for way in ways.values()):
        dialect.remember(decimal=".")
    _note(cells, ways, has_points=has_points)
    return ways


def _note(cells: TextCells, ways: Mapping[Part, Numerals], *, has_points: bool) -> None:
    """Keep what was found, unless the dialect says it; `has_points`: of other columns."""
    found, dialect = {part: way for part, way in ways.items() if not way.is_plain}, cells.dialect
    given = {"decimal": dialect.decimal, "thousands": dialect.thousands}
    said = settings(found.values())
    known = dialect.likely.items() if dialect.found is None else ()
    said = dict(pair for pair in said.items() if given[pair[0]] is None and pair not in known)
    if not said:
        return
    words = described(found.values())
    if has_points and said.get("decimal") == ",":  # of these columns alone: no one setting says so
        words, said = f"{words} in {', '.join(repr(part.name) for part in found)}", {}
    cells.database.note(cells.raw.origin.files[0], words, **said)


def _n_filled(cells: TextCells, part: Part) -> int:
    counts = cells.counts[part]
    return cells.n_rows - counts["empty"] - counts["gap"]


def _fitting(cells: TextCells, part: Part, ways: Sequence[Numerals]) -> list[Numerals]:
    """The ways that all of a column's cells may be written in."""
    if not ways:
        return []
    x, n_filled = cells.raw.columns[part].sql, _n_filled(cells, part)
    counts = cells.count(*(way.fits(x) for way in ways))
    return [way for way, count in zip(ways, counts, strict=True) if count == n_filled]


def _is_meant(
    part: Part, way: Numerals, fitting: Sequence[Numerals], thousands: str | None
) -> bool:
    """Whether such cells are numbers: texts such as 12 345 may be codes or telephone numbers."""
    is_code = way.thousands == " " and len({own.decimal for own in fitting}) > 1
    return thousands == " " or part.argument not in AS_IT_LOOKS or not is_code


def _settle(
    cells: TextCells, ways: dict[Part, Numerals], doubtful: Sequence[Part], plain: Sequence[Part]
) -> bool:
    """Read columns such as 1,234 as the others of the file; DataError where these do not say.

    Returns whether other columns have decimal points.
    """
    commas = any(way.decimal == "," for way in ways.values())
    if not doubtful and not commas:
        return False
    has_points = False
    for part in plain:
        x = cells.raw.columns[part].sql
        pointed, grouped = cells.count(f"contains({x}, '.')", POINTS.is_grouped(x))
        has_points |= pointed > 0
        if pointed and commas and pointed == grouped:
            raise cells.complain(
                part,
                "be numbers that can be read in one way",
                wrong=f"contains({x}, '.')",
                advice="Other columns have decimal commas: pass decimal=',', thousands='.' if "
                "this is above a thousand, or write all columns alike.",
            )
    likely = cells.dialect.likely
    for part in doubtful:
        is_grouped = any(way.thousands == "," for way in ways.values()) or has_points
        if not commas and not is_grouped and likely.keys() & {"decimal", "thousands"}:
            commas = likely.get("decimal") == ","
            is_grouped = not commas
        if commas == is_grouped:
            raise cells.complain(
                part,
                "be numbers that can be read in one way",
                wrong=f"contains({cells.raw.columns[part].sql}, ',')",
                advice="Pass decimal=',' if the comma is the decimal mark, thousands=',' if it "
                "stands between thousands.",
            )
        ways[part] = COMMA if commas else GROUPED
    return has_points


def _label_type(cells: TextCells, part: Part, known: Any) -> pa.DataType:
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


def _as_numbers(cells: TextCells, x: str, way: Numerals) -> SqlColumn:
    if way.is_plain:
        return _as(x, NUMBER)
    filled = f"NOT {IN_GAPS.format(x=x)}"
    n_filled, n_whole = cells.count(
        filled,
        f"{filled} AND TRY_CAST({way.plain(x)} AS BIGINT) = TRY_CAST({way.plain(x)} AS "
        f"DOUBLE) AND NOT regexp_matches({way.plain(x)}, '[.eE]')",
    )
    return _as(x, WHOLE if n_filled == n_whole else NUMBER, number=way.plain(x))


def _as(x: str, kind: pa.DataType, *, number: str | None = None) -> SqlColumn:
    """The cell as this type; `number`: as SQL writes it, if other than `x`."""
    if kind == TEXT:
        return SqlColumn(x, kind)
    return SqlColumn(
        f"CAST(CASE WHEN {IN_GAPS.format(x=x)} THEN NULL ELSE {number or x} END AS {CASTS[kind]})",
        kind,
    )
