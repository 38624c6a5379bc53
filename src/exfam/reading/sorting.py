"""The rows of a table by group and order, some at a time, and rows that equal another one."""

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
# An odd number with bits all over: multiplying by it spreads near numbers over all 64 bits.
SPREAD = np.uint64(0x9E3779B97F4A7C15)

Pairs = tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows in their final order.

    Rows that share group and order share a `run`; runs count up from 0. `columns` hold labels as
    numbers of the label, numbers as they are.
    """

    group: Int64[np.ndarray, "rows"]
    run: Int64[np.ndarray, "rows"]
    source_row: Int64[np.ndarray, "rows"]
    columns: Mapping[Part, np.ndarray]

    def __len__(self) -> int:
        return len(self.group)

    def __getitem__(self, chosen: slice | np.ndarray) -> "Rows":
        columns = {part: column[chosen] for part, column in self.columns.items()}
        return Rows(self.group[chosen], self.run[chosen], self.source_row[chosen], columns)


def sorted_rows(
    database: Database, checked: Checked, labels: Mapping[Part, LabelCodes]
) -> Generator[Rows, None, None]:
    """All rows by group, then order, then row of the source; DuckDB sorts and spills."""
    parts = [part for part in checked.table.columns if part.argument not in ("group", "order")]
    n_orders = sum(part.argument == "order" for part in checked.table.columns)
    last: pa.RecordBatch | None = None
    run, n_rows = -1, 0
    for batch in database.batches(_query(checked, labels, parts), rows=ROWS_A_BATCH):
        if len(batch) == 0:
            continue
        begins = _begins(batch, last, n_orders)
        runs = run + np.cumsum(begins)
        columns = {
            part: _column(batch.column(f"e{k}"), checked, part) for k, part in enumerate(parts)
        }
        group, row = (batch.column(name).to_numpy() for name in ("g", "row"))
        yield Rows(group.astype(np.int64), runs, row.astype(np.int64, copy=False), columns)
        last, run, n_rows = batch.slice(len(batch) - 1), int(runs[-1]), n_rows + len(batch)
    if n_rows != checked.n_rows:
        raise DataError(
            f"`source` must not change while it is read, got {n_rows} rows after "
            f"{checked.n_rows}{checked.table.origin.where}. Read it again."
        )


def _query(checked: Checked, labels: Mapping[Part, LabelCodes], parts: list[Part]) -> str:
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
    keys = ["g", *(f"o{k}" for k in range(len(orders))), "row"]
    return (
        f"SELECT {', '.join(picked)}, s.row AS row FROM {checked.table.relation} AS s "
        f"{' '.join(joins)} ORDER BY {', '.join(keys)}"
    )


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


class DuplicateFinder:
    """Finds equal rows in rows that come sorted: they can only be within one run."""

    def __init__(self) -> None:
        self._held: list[Rows] = []
        self._position = 0

    def add(self, rows: Rows) -> Pairs:
        """Positions (counted over all rows added), source rows of duplicates, and their equals.

        Rows of the last run wait until it is complete.
        """
        if len(rows) == 0:
            return self._search([])
        cut = int(np.searchsorted(rows.run, rows.run[-1]))
        if cut == 0 and self._held and self._held[-1].run[-1] == rows.run[0]:
            self._held.append(rows)
            return self._search([])
        complete = [*self._held, rows[:cut]]
        self._held = [rows[cut:]]
        return self._search(complete)

    def finish(self) -> Pairs:
        """As `add`, for the rows that still wait."""
        complete, self._held = self._held, []
        return self._search(complete)

    def _search(self, pieces: list[Rows]) -> Pairs:
        start = self._position
        self._position += sum(len(piece) for piece in pieces)
        if not pieces:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        run = np.concatenate([piece.run for piece in pieces])
        source_row = np.concatenate([piece.source_row for piece in pieces])
        repeats = run[1:] == run[:-1]
        shared = np.flatnonzero(np.append(False, repeats) | np.append(repeats, False))
        keys = [run[shared].view(np.uint64)]
        for part in pieces[0].columns:
            column = np.concatenate([piece.columns[part] for piece in pieces])[shared]
            # The sum is 0.0 for -0.0 too.
            is_float = column.dtype.kind == "f"
            number = column.astype(np.float64) + 0.0 if is_float else column.astype(np.int64)
            keys.append(number.view(np.uint64))
        later, earlier = _equal(keys)
        return start + shared[later], source_row[shared[later]], source_row[shared[earlier]]


def _equal(keys: list[np.ndarray]) -> tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"]]:
    """Indices of keys that were there before, and where they were last."""
    mixed = np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        mixed = (mixed ^ key) * SPREAD
        mixed ^= mixed >> np.uint64(29)
    ranked = np.sort(mixed)
    twice = ranked[1:][ranked[1:] == ranked[:-1]]
    # Few rows share a hash; those are compared in full.
    likely = np.flatnonzero(np.isin(mixed, twice)) if twice.size else np.zeros(0, dtype=np.int64)
    chosen = [key[likely] for key in keys]
    order = np.lexsort(chosen) if likely.size else likely
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in chosen:
        same &= key[order][1:] == key[order][:-1]
    later = np.flatnonzero(same) + 1
    return likely[order[later]], likely[order[later - 1]]
