"""What columns must hold for the parts they play; every complaint names the row and the file."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError
from exfam.reading.database import Database
from exfam.reading.kinds import LABELS, broken_rule, holds_labels, is_real, restored
from exfam.reading.table import Column, Part, Table

__all__ = ["Checked", "check_table", "complaint"]

# Whole numbers up to here are exact as floating-point numbers.
EXACT = 2**53


@dataclass(frozen=True, eq=False)
class Checked:
    """A table whose columns are fit for their parts, of their final types.

    `gaps`: the parts that have missing values; `labels`: the parts to be coded.
    """

    table: Table
    n_rows: int
    gaps: frozenset[Part]
    labels: frozenset[Part]


@dataclass(frozen=True)
class _Rule:
    """What a row breaks where `wrong` holds; with `if_gaps`, only in a column with gaps."""

    text: str
    wrong: str
    advice: str
    if_gaps: bool = False


def complaint(
    table: Table, part: Part, rule: str, *, found: tuple[int, Any, int], n_rows: int, advice: str
) -> DataError:
    """The error for a row: `found` is the row, what stands there, and how many rows are like it.

    >>> from exfam.reading.table import Places
    >>> table, part = Table("", {}, Places(("a.csv",))), Part("item", "movie")
    >>> print(complaint(table, part, "be new", found=(3, "up", 1), n_rows=9, advice="Wait."))
    `item` must be new, got 'up' at row 3 of column 'movie' in a.csv (1 of 9 rows). Wait.
    """
    row, where = table.places.of(found[0])
    got = "nothing" if found[1] is None else repr(found[1])
    return DataError(
        f"`{part.argument}` must {rule}, got {got} at row {row} of column {part.name!r}{where} "
        f"({found[2]} of {n_rows} rows). {advice}".rstrip()
    )


def check_table(database: Database, table: Table, known: Container[str]) -> Checked:
    """The table with columns of their final types; `known` are the vocabularies that are given.

    Raises DataError naming the first row that breaks a rule of its part.
    """
    clean = {part: _without_nan(column) for part, column in table.columns.items()}
    rules = [(part, rule) for part in clean for rule in _rules(part, clean[part], known)]
    asked = [f"count({column.sql})" for column in clean.values()]
    asked += [f"count(*) FILTER (WHERE {rule.wrong})" for _, rule in rules]
    n_rows, *counts = database.row(f"SELECT count(*), {', '.join(asked)} FROM {table.relation}")
    if n_rows == 0:
        raise DataError(f"`source` must have at least one row, got none{table.places.where}.")
    gaps = frozenset(part for part, n in zip(clean, counts, strict=False) if n < n_rows)
    for (part, rule), n in zip(rules, counts[len(clean) :], strict=True):
        if n and (part in gaps or not rule.if_gaps):
            row, value = table.first(database, clean[part].sql, where=rule.wrong)
            got = restored(value, clean[part].type)[0].as_py()
            found = (row, got, n)
            raise complaint(table, part, rule.text, found=found, n_rows=n_rows, advice=rule.advice)
    labels = frozenset(p for p, column in clean.items() if holds_labels(p, column.type, known))
    final = [
        _final(part, column, part in labels, part in gaps)
        if broken_rule(part, column.type, known) is None
        else Column("CAST(NULL AS DOUBLE)", pa.float64())  # values of any type, all missing
        for part, column in clean.items()
    ]
    listed = ", ".join(f"{column.sql} AS p{k}" for k, column in enumerate(final))
    named = {part: Column(f"p{k}", final[k].type) for k, part in enumerate(clean)}
    relation = f"(SELECT {listed}, row FROM {table.relation})"
    return Checked(replace(table, relation=relation, columns=named), n_rows, gaps, labels)


def _without_nan(column: Column) -> Column:
    if not types.is_floating(column.type):
        return column
    return Column(f"(CASE WHEN isnan({column.sql}) THEN NULL ELSE {column.sql} END)", column.type)


def _rules(part: Part, column: Column, known: Container[str]) -> Iterator[_Rule]:
    x, kind = column.sql, column.type
    if part.argument != "value":
        yield _Rule("not be missing", f"{x} IS NULL", "Drop or fill these rows.")
    if broken := broken_rule(part, kind, known):
        yield _Rule(broken[0], f"{x} IS NOT NULL", broken[1])
        return
    if holds_labels(part, kind, known):
        if is_real(kind):
            yield _Rule(LABELS, f"{x} <> floor({x}) OR abs({x}) > 9.2e18", "")
        if types.is_floating(kind):
            rule = "be below 2**53 in size where it is a floating-point number"
            yield _Rule(rule, f"abs({x}) >= {EXACT}", "Convert the column to integers or text.")
    elif types.is_floating(kind):
        yield _Rule("be finite", f"isinf({x})", "Drop or mend these rows.")
    elif part.argument in ("value", "position") and types.is_integer(kind):
        rule = "be at most 2**53 in size in a column with gaps"
        wrong = f"NOT {x} BETWEEN {-EXACT} AND {EXACT}"
        yield _Rule(rule, wrong, "Convert the column first.", if_gaps=kind != pa.uint64())


def _final(part: Part, column: Column, is_label: bool, has_gaps: bool) -> Column:
    """The column as it is sorted and handed over."""
    x, kind = column.sql, column.type
    if types.is_large_string(kind):
        return Column(f"CAST({x} AS VARCHAR)", kind)  # UUIDs, enumerations and JSON are text
    if is_label:
        return Column(f"CAST({x} AS BIGINT)", pa.int64()) if is_real(kind) else column
    if part.argument == "order" or types.is_temporal(kind):
        return column
    is_whole = types.is_boolean(kind) or (types.is_integer(kind) and kind != pa.uint64())
    if part.argument in ("value", "position") and is_whole and not has_gaps:
        return Column(f"CAST({x} AS BIGINT)", pa.int64())
    keeps_float = types.is_float32(kind) and part.argument in ("value", "position")
    return column if keeps_float else Column(f"CAST({x} AS DOUBLE)", pa.float64())
