"""The rows of a table by group and order, some at a time."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from exfam.checks import DataError
from exfam.columns.columns import days_of, numbers_in
from exfam.columns.parts import Part
from exfam.reading.checked import Checked, LabelCodes
from exfam.reading.database import Database, restored
from exfam.reading.packing import PackedField, Word, packed
from exfam.reading.rows import Rows, with_twins

ROWS_A_BATCH = 1 << 18
# Rows of a group that are held in memory while equal ones are looked for.
LONGEST_RUN = 1 << 21
_NONE = np.int64(-1)


def sorted_rows(
    database: Database, checked: Checked, labels: Mapping[Part, LabelCodes], *, twins: bool
) -> Generator[Rows, None, None]:
    """All rows by group, then order, then row of the source; DuckDB sorts and spills.

    `twins`: whether equal rows are looked for
    """
    group = next(part for part in checked.table.columns if part.argument == "group")
    # DuckDB compares what might not be held: it spills.
    by_sql = twins and labels[group].most_rows > LONGEST_RUN
    with closing(_sorted(database, checked, labels, twins=by_sql)) as stream:
        for rows in with_twins(stream) if twins and not by_sql else stream:
            columns = {part: _numbers(column) for part, column in rows.columns.items()}
            yield replace(rows, columns=columns)


def _sorted(
    database: Database, checked: Checked, labels: Mapping[Part, LabelCodes], *, twins: bool
) -> Generator[Rows, None, None]:
    kinds = {part: column.type for part, column in checked.table.columns.items()}
    elements = [part for part in kinds if part.argument not in ("group", "order")]
    keys, others = _fields(checked, labels, elements)
    words = packed([*keys, *others])
    last: dict[str, Any] = {}
    run, n_rows = -1, 0
    query = _query(checked, labels, words, keys, others, twins=twins)
    for batch in database.batches(query, rows=ROWS_A_BATCH):
        if len(batch) == 0:
            continue
        held: dict[str, Any] = {}
        for word in words:
            held |= word.unpacked(batch.column(word.name))
        begins = _begins(held, last, [field.name for field in keys[:-1]])
        runs = run + np.cumsum(begins)
        columns = {part: _column(held[f"e{k}"], kinds[part]) for k, part in enumerate(elements)}
        twin = numbers_in(batch.column("twin")) if twins else np.broadcast_to(_NONE, len(batch))
        yield Rows(held["g"], runs, held["row"], twin, columns)
        last = {field.name: held[field.name][-1] for field in keys}
        run, n_rows = int(runs[-1]), n_rows + len(batch)
    if n_rows != checked.n_rows:
        raise DataError(
            f"`source` must not change while it is read, got {n_rows} rows after "
            f"{checked.n_rows}{checked.table.origin.where}. Read it again."
        )


def _fields(
    checked: Checked, labels: Mapping[Part, LabelCodes], elements: Sequence[Part]
) -> tuple[list[PackedField], list[PackedField]]:
    """What rows are sorted by: group, orders, row; and the other columns."""
    columns = checked.table.columns
    coded = {
        part: (f"l{k}.rowid", 0, len(held.names) - 1)
        for k, (part, held) in enumerate(labels.items())
    }
    group = next(part for part in columns if part.argument == "group")
    orders = [part for part in columns if part.argument == "order"]
    keys = [PackedField("g", *coded[group])]
    for k, part in enumerate(orders):
        keys.append(PackedField(f"o{k}", f"s.{columns[part].sql}", *checked.ranges.get(part, ())))
    keys.append(PackedField("row", "s.row", 0, checked.n_rows - 1))
    others = [
        PackedField(f"e{k}", *coded.get(part, (f"s.{columns[part].sql}",)))
        for k, part in enumerate(elements)
    ]
    # Side by side in one word where there are several.
    return keys, sorted(others, key=lambda field: field.bits)


def _query(
    checked: Checked,
    labels: Mapping[Part, LabelCodes],
    words: Sequence[Word],
    keys: Sequence[PackedField],
    others: Sequence[PackedField],
    *,
    twins: bool,
) -> str:
    listed = [f"{word.sql} AS {word.name}" for word in words]
    if twins:
        every = ", ".join(field.sql for field in (*keys[:-1], *others))
        listed.append(f"lag(s.row, 1, -1) OVER (PARTITION BY {every} ORDER BY s.row) AS twin")
    joins = " ".join(
        f"JOIN {held.table} AS l{k} ON s.{checked.table.columns[part].sql} = l{k}.label"
        for k, (part, held) in enumerate(labels.items())
    )
    sorting = ", ".join(word.name for word in words if {*word.fields} & {*keys})
    return (
        f"SELECT {', '.join(listed)} FROM {checked.table.relation} AS s {joins} ORDER BY {sorting}"
    )


def _begins(
    held: Mapping[str, Any], last: Mapping[str, Any], names: Sequence[str]
) -> Bool[np.ndarray, "rows"]:
    """Whether a row differs in group or order from the one before it."""
    begins = np.zeros(len(held[names[0]]), dtype=bool)
    for name in names:
        column = held[name]
        begins[0] |= not last or bool(last[name] != column[0])
        if isinstance(column, np.ndarray):
            begins[1:] |= column[1:] != column[:-1]
        else:
            differs = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
            begins[1:] |= differs.to_numpy(zero_copy_only=False)
    return begins


def _column(held: Any, kind: pa.DataType) -> np.ndarray:
    """Numbers, or times as they are: two of them may be one number of days."""
    if isinstance(held, np.ndarray):
        return held
    return numbers_in(restored(held, kind))


def _numbers(column: np.ndarray) -> np.ndarray:
    return days_of(column) if column.dtype.kind in "mM" else column
