"""The rows of a table by group and order, some at a time."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.columns import days_of
from exfam.columns.parts import Part
from exfam.reading.checked import Checked, LabelCodes
from exfam.reading.database import Database, restored

ROWS_A_BATCH = 1 << 18


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows in their final order.

    Rows that share group and order share a `run`; runs count up from 0. `columns` hold labels as
    numbers of the label, numbers as they are. `twin` is the last row of the source before that is
    equal in all columns, -1 where there is none or none was looked for.
    """

    group: Int64[np.ndarray, "rows"]
    run: Int64[np.ndarray, "rows"]
    source_row: Int64[np.ndarray, "rows"]
    twin: Int64[np.ndarray, "rows"]
    columns: Mapping[Part, np.ndarray]

    def __len__(self) -> int:
        return len(self.group)

    def __getitem__(self, chosen: slice | np.ndarray) -> "Rows":
        columns = {part: column[chosen] for part, column in self.columns.items()}
        return Rows(
            self.group[chosen],
            self.run[chosen],
            self.source_row[chosen],
            self.twin[chosen],
            columns,
        )


def sorted_rows(
    database: Database, checked: Checked, labels: Mapping[Part, LabelCodes], *, twins: bool
) -> Generator[Rows, None, None]:
    """All rows by group, then order, then row of the source; DuckDB sorts and spills.

    `twins`: whether equal rows are looked for
    """
    parts = [part for part in checked.table.columns if part.argument not in ("group", "order")]
    n_orders = sum(part.argument == "order" for part in checked.table.columns)
    last: pa.RecordBatch | None = None
    run, n_rows = -1, 0
    for batch in database.batches(_query(checked, labels, parts, twins=twins), rows=ROWS_A_BATCH):
        if len(batch) == 0:
            continue
        begins = _begins(batch, last, n_orders)
        runs = run + np.cumsum(begins)
        columns = {
            part: _column(batch.column(f"e{k}"), checked, part) for k, part in enumerate(parts)
        }
        group, row, twin = (
            batch.column(name).to_numpy().astype(np.int64, copy=False)
            for name in ("g", "row", "twin")
        )
        yield Rows(group, runs, row, twin, columns)
        last, run, n_rows = batch.slice(len(batch) - 1), int(runs[-1]), n_rows + len(batch)
    if n_rows != checked.n_rows:
        raise DataError(
            f"`source` must not change while it is read, got {n_rows} rows after "
            f"{checked.n_rows}{checked.table.origin.where}. Read it again."
        )


def _query(
    checked: Checked, labels: Mapping[Part, LabelCodes], parts: list[Part], *, twins: bool
) -> str:
    columns = checked.table.columns
    orders = [column.sql for part, column in columns.items() if part.argument == "order"]
    joins, coded = [], {}
    for k, (part, held) in enumerate(labels.items()):
        joins.append(f"JOIN {held.table} AS l{k} ON s.{columns[part].sql} = l{k}.label")
        coded[part] = f"CAST(l{k}.rowid AS INTEGER)"
    group = next(part for part in columns if part.argument == "group")
    picked = [f"{coded[group]} AS g", *(f"s.{sql} AS o{k}" for k, sql in enumerate(orders))]
    for k, part in enumerate(parts):
        picked.append(f"{coded.get(part, f's.{columns[part].sql}')} AS e{k}")
    keys = ", ".join(["g", *(f"o{k}" for k in range(len(orders)))])
    every = ", ".join([keys, *(f"e{k}" for k in range(len(parts)))])
    twin = f"lag(row, 1, -1) OVER (PARTITION BY {every} ORDER BY row)" if twins else "-1"
    rows = (
        f"SELECT {', '.join(picked)}, s.row AS row FROM {checked.table.relation} AS s "
        f"{' '.join(joins)}"
    )
    return f"SELECT *, {twin} AS twin FROM ({rows}) ORDER BY {keys}, row"


def _begins(
    batch: pa.RecordBatch, last: pa.RecordBatch | None, n_orders: int
) -> Bool[np.ndarray, "rows"]:
    """Whether a row differs in group or order from the one before it."""
    begins = np.zeros(len(batch), dtype=bool)
    for name in ("g", *(f"o{k}" for k in range(n_orders))):
        column = batch.column(name)
        differs = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
        begins[1:] |= differs.to_numpy(zero_copy_only=False)
        begins[0] |= last is None or last.column(name)[0] != column[0]
    return begins


def _column(array: pa.Array, checked: Checked, part: Part) -> np.ndarray:
    kind = checked.table.columns[part].type
    if part.argument == "position" and types.is_temporal(kind):
        return days_of(restored(array, kind).to_numpy(zero_copy_only=False))
    return array.to_numpy(zero_copy_only=False)
