"""A table fit for its parts: rules kept, text sorted as what it writes, labels coded."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.columns import label_names, positions_in_text, sortable_text, zone_of
from exfam.columns.dialect import Dialect
from exfam.columns.parts import Part, UnknownLabels, look_up
from exfam.columns.rules import (
    CellRule,
    broken_rule,
    holds_labels,
    is_moment,
    is_real,
    is_text,
    rules_of,
)
from exfam.reading.database import Database, Sql, SqlColumn, Table, literal, restored


@dataclass(frozen=True, eq=False)
class Checked:
    """A table whose columns are fit for their parts, of their final types.

    `gaps`: the parts that have missing values; `labels`: the parts to be coded; `ranges`: the least
    and the greatest of orders that are whole numbers.
    """

    table: Table
    n_rows: int
    gaps: frozenset[Part]
    labels: frozenset[Part]
    ranges: Mapping[Part, tuple[int, int]]


def without_marks(table: Table, dialect: Dialect) -> Table:
    """The table with cells NULL that are what the dialect says stands for missing."""
    if not dialect.missing:
        return table
    unmarked = {
        part: _unmarked(column, *dialect.marks_of(part.argument))
        for part, column in table.columns.items()
    }
    listed = ", ".join(f"{x} AS m{k}" for k, x in enumerate(unmarked.values()))
    columns = {
        part: SqlColumn(f"m{k}", column.type)
        for k, (part, column) in enumerate(table.columns.items())
    }
    relation = f"(SELECT {listed}, row FROM {table.relation})"
    return replace(table, relation=relation, columns=columns)


def _unmarked(column: SqlColumn, texts: Sequence[str], numbers: Sequence[float]) -> str:
    x, kind = column.sql, column.type
    if is_text(kind) and texts:
        # Anything may stand for text here, such as UUIDs and enumerations.
        marked = f"trim(CAST({x} AS STRING)) IN ({', '.join(map(literal, texts))})"
    elif numbers and (is_real(kind) or types.is_integer(kind)):
        width = "FLOAT" if types.is_float32(kind) else "DOUBLE"
        listed = ", ".join(f"CAST('{number!r}' AS {width})" for number in numbers)
        marked = f"CAST({x} AS {width}) IN ({listed})"
    else:
        return x
    return f"(CASE WHEN {marked} THEN NULL ELSE {x} END)"


def check_table(database: Sql, table: Table, known: Container[str]) -> Checked:
    """The table with columns of their final types; `known` are the vocabularies that are given."""
    clean = dict(table.columns)
    for part, column in table.columns.items():
        if types.is_floating(column.type):
            x = column.sql
            clean[part] = SqlColumn(f"(CASE WHEN isnan({x}) THEN NULL ELSE {x} END)", column.type)
    rules = [
        (part, rule, rule.sql.format(x=column.sql))
        for part, column in clean.items()
        for rule in rules_of(part, column.type, known)
    ]
    n_rows, gaps, n_wrong, ranges = _counted(database, table.relation, clean, rules)
    if n_rows == 0:
        raise DataError(f"`source` must have at least one row, got none{table.origin.where}.")
    for (part, rule, wrong), n in zip(rules, n_wrong, strict=True):
        if n and (part in gaps or not rule.if_gaps):
            row, value = table.first(database, clean[part].sql, where=wrong)
            found = (row, restored(value, clean[part].type)[0].as_py(), n)
            raise table.origin.error(
                part, rule.text, found=found, n_rows=n_rows, advice=rule.advice
            )
    labels = frozenset(p for p, column in clean.items() if holds_labels(p, column.type, known))
    final = [
        _final(part, column, part in labels, part in gaps)
        if broken_rule(part, column.type, known) is None
        else SqlColumn("CAST(NULL AS DOUBLE)", pa.float64())  # values of any type, all missing
        for part, column in clean.items()
    ]
    listed = ", ".join(f"{column.sql} AS p{k}" for k, column in enumerate(final))
    named = {part: SqlColumn(f"p{k}", final[k].type) for k, part in enumerate(clean)}
    relation = f"(SELECT {listed}, row FROM {table.relation})"
    return Checked(replace(table, relation=relation, columns=named), n_rows, gaps, labels, ranges)


def _counted(
    database: Sql,
    relation: str,
    columns: Mapping[Part, SqlColumn],
    rules: Sequence[tuple[Part, CellRule, str]],
) -> tuple[int, frozenset[Part], list[int], dict[Part, tuple[int, int]]]:
    """Rows, parts with missing cells, cells that break each rule, ranges of whole orders."""
    whole = [part for part, column in columns.items() if _is_packable(part, column.type)]
    # A Parquet file knows without being read how many cells are missing, and their range.
    others = [wrong for _, rule, wrong in rules if rule.wrong is not pc.is_null]
    listed = [f"count({column.sql})" for column in columns.values()]
    listed += [f"{bound}({columns[part].sql})" for part in whole for bound in ("min", "max")]
    listed += [f"count(*) FILTER (WHERE {wrong})" for wrong in others]
    counts = iter(database.row(f"SELECT count(*), {', '.join(listed)} FROM {relation}"))
    n_rows = next(counts)
    n_held = {part: next(counts) for part in columns}
    ranges = {part: (next(counts), next(counts)) for part in whole}
    n_wrong = [
        n_rows - n_held[part] if rule.wrong is pc.is_null else next(counts)
        for part, rule, _ in rules
    ]
    gaps = frozenset(part for part, count in n_held.items() if count < n_rows)
    return n_rows, gaps, n_wrong, {part: ranges[part] for part in whole if part not in gaps}


def _is_packable(part: Part, kind: pa.DataType) -> bool:
    return part.argument == "order" and types.is_integer(kind) and kind != pa.uint64()


def _final(part: Part, column: SqlColumn, is_label: bool, has_gaps: bool) -> SqlColumn:
    """The column as it is sorted and handed over."""
    x, kind = column.sql, column.type
    if is_text(kind):
        return SqlColumn(f"CAST({x} AS STRING)", kind)  # UUIDs, enumerations and JSON are text
    if is_label:
        return SqlColumn(f"CAST({x} AS BIGINT)", pa.int64()) if is_real(kind) else column
    if part.argument == "order" or types.is_temporal(kind):
        return column
    is_whole = types.is_boolean(kind) or (types.is_integer(kind) and kind != pa.uint64())
    if part.argument in ("value", "position") and is_whole and not has_gaps:
        return SqlColumn(f"CAST({x} AS BIGINT)", pa.int64())
    keeps_float = types.is_float32(kind) and part.argument in ("value", "position")
    return column if keeps_float else SqlColumn(f"CAST({x} AS DOUBLE)", pa.float64())


def with_sorted_text(database: Sql, table: Table, *, dialect: Dialect) -> Table:
    """The table with text of `order` and `position` as numbers or times that sort as it should.

    The distinct texts of a column are held in memory.
    """
    for k, (part, column) in enumerate(table.columns.items()):
        if part.argument in ("order", "position") and is_text(column.type):
            table = _sorted(database, table, part, dialect=dialect, name=f"texts{k}")
        elif part.argument == "position" and is_moment(column.type):
            dialect.check_zone(part.name, zone_of(column.type))
    return table


def _sorted(database: Sql, table: Table, part: Part, *, dialect: Dialect, name: str) -> Table:
    x = table.columns[part].sql
    query = f"SELECT {x} AS text, {{row}} AS row FROM {table.relation} WHERE {x} IS NOT NULL"
    distinct = database.table(f"{query.format(row='min(row)')} GROUP BY ALL ORDER BY row")
    try:
        keys = _keys(distinct, table, part, dialect)
    except DataError:
        # Once more with all rows, so that the error counts them.
        every = database.table(f"{query.format(row='row')} ORDER BY row")
        keys = _keys(every, table, part, dialect)
    stored = keys.view(pa.int64()) if types.is_timestamp(keys.type) else keys
    database.register(name, pa.table({"text": distinct["text"], f"{name}_key": stored}))
    relation = (
        f"(SELECT s.*, t.{name}_key FROM {table.relation} AS s LEFT JOIN {name} AS t "
        f"ON s.{x} = t.text)"
    )
    columns = {**table.columns, part: SqlColumn(f"{name}_key", keys.type)}
    return replace(table, relation=relation, columns=columns)


def _keys(texts_and_rows: pa.Table, table: Table, part: Part, dialect: Dialect) -> pa.Array:
    """The numbers or times of some texts and their rows, in this order."""
    texts = texts_and_rows["text"].combine_chunks().cast(pa.large_string())
    rows = texts_and_rows["row"].to_numpy()
    if not len(texts):
        return pa.nulls(0, pa.float64())

    def where(index: int) -> str:
        return table.origin.row(int(rows[index]))

    read = sortable_text if part.argument == "order" else positions_in_text
    keys = read(texts, name=part.name, dialect=dialect, where=where)
    if keys is not None:
        return keys
    found = (int(rows[0]), texts[0].as_py(), len(texts))
    advice = "Convert the column to numbers or dates first."
    raise table.origin.error(part, "be numeric", found=found, n_rows=len(texts), advice=advice)


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """The distinct labels of a part: label k is `names[k]`, and row k of a table of DuckDB's.

    `codes`: of each label, -1 if `known` lacks it; `unknown`: such labels, if there are any;
    `most_rows`: rows of the group that has most.
    """

    table: str
    names: np.ndarray
    codes: Int64[np.ndarray, "labels"]
    known: np.ndarray
    unknown: UnknownLabels | None = None
    most_rows: int = 0


def code_labels(
    database: Database,
    checked: Checked,
    part: Part,
    vocabulary: Mapping[str, Any],
    *,
    unknown: str,
    table: str,
) -> LabelCodes:
    """Codes by the vocabulary if there is one for the part, otherwise by sorted order.

    Groups are coded as they first appear. The labels are kept as `table`.
    """
    column, relation = checked.table.columns[part], checked.table.relation
    is_group = part.argument == "group"
    is_given = not is_group and part.key in vocabulary
    order = "first" if is_group else "label"
    more = ", min(row) AS first, count(*) AS count" if is_given or is_group else ""
    database.con.execute(
        f"CREATE TEMP TABLE {table} AS SELECT {column.sql} AS label{more} FROM {relation} "
        f"GROUP BY ALL ORDER BY {order}"
    )
    rows = database.table(f"SELECT * FROM {table} ORDER BY rowid")
    return coded_labels(rows, checked, part, vocabulary, unknown=unknown, table=table)


def coded_labels(
    rows: pa.Table,
    checked: Checked,
    part: Part,
    vocabulary: Mapping[str, Any],
    *,
    unknown: str,
    table: str,
) -> LabelCodes:
    """Codes of the labels of a part, each a row, in their order.

    `rows`: "label"; where the vocabulary is given, the row that is "first" and the "count" of rows
    """
    column = checked.table.columns[part]
    names = label_names(restored(rows["label"].combine_chunks(), column.type))
    if part.argument == "group" or part.key not in vocabulary:
        most = pc.max(rows["count"]).as_py() if "count" in rows.column_names else 0
        return LabelCodes(table, names, np.arange(len(names)), names, most_rows=most)
    known = np.asarray(vocabulary[part.key])
    codes = look_up(names, known, typed=checked.table.typed)
    lost = np.flatnonzero(codes < 0)
    if not lost.size:
        return LabelCodes(table, names, codes, known)
    first, count = (rows[name].to_numpy()[lost] for name in ("first", "count"))
    got = names.tolist()[lost[first.argmin()]]
    lacking = UnknownLabels(part.argument, part.key, int(count.sum()), lost.size, got)
    if unknown == "error":
        where = checked.table.origin.row(int(first.min()))
        raise lacking.error(where, n_known=len(known), n_rows=checked.n_rows)
    return LabelCodes(table, names, codes, known, lacking)
