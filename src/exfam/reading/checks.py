"""What columns must hold for the parts they play; every complaint names the row and the file."""

from collections.abc import Container
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.kinds import is_real, is_text
from exfam.columns.parts import Part, complaint
from exfam.columns.rules import broken_rule, holds_labels, rules_of
from exfam.reading.database import Database
from exfam.reading.table import Column, Table, restored


@dataclass(frozen=True, eq=False)
class Checked:
    """A table whose columns are fit for their parts, of their final types.

    `gaps`: the parts that have missing values; `labels`: the parts to be coded.
    """

    table: Table
    n_rows: int
    gaps: frozenset[Part]
    labels: frozenset[Part]


def check_table(database: Database, table: Table, known: Container[str]) -> Checked:
    """The table with columns of their final types; `known` are the vocabularies that are given.

    Raises DataError naming the first row that breaks a rule of its part.
    """
    clean = {part: _without_nan(column) for part, column in table.columns.items()}
    rules = [
        (part, rule, rule.sql.format(x=column.sql))
        for part, column in clean.items()
        for rule in rules_of(part, column.type, known)
    ]
    counted = [f"count({column.sql})" for column in clean.values()]
    counted += [f"count(*) FILTER (WHERE {wrong})" for _, _, wrong in rules]
    n_rows, *counts = database.row(f"SELECT count(*), {', '.join(counted)} FROM {table.relation}")
    if n_rows == 0:
        raise DataError(f"`source` must have at least one row, got none{table.places.where}.")
    gaps = frozenset(part for part, n in zip(clean, counts, strict=False) if n < n_rows)
    for (part, rule, wrong), n in zip(rules, counts[len(clean) :], strict=True):
        if n and (part in gaps or not rule.if_gaps):
            row, value = table.first(database, clean[part].sql, where=wrong)
            found = (row, restored(value, clean[part].type)[0].as_py(), n)
            raise complaint(
                table.places, part, rule.text, found=found, n_rows=n_rows, advice=rule.advice
            )
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


def _final(part: Part, column: Column, is_label: bool, has_gaps: bool) -> Column:
    """The column as it is sorted and handed over."""
    x, kind = column.sql, column.type
    if is_text(kind):
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
