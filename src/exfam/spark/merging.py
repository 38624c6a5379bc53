"""Parts that executors have sorted, each for itself, as one stream of sorted rows."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Int64
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.columns import days_of
from exfam.columns.parts import Part
from exfam.reading.database import SqlColumn, restored
from exfam.reading.rows import Rows

# Rows of all parts together that are held at once, and of one part at least.
ROWS_AT_ONCE, FEWEST_ROWS = 1 << 20, 1 << 12


def merge_prepared(
    folder: Path, columns: Mapping[Part, SqlColumn], *, n_rows: int
) -> Generator[Rows, None, None]:
    """All rows of the parts in a folder by group, order and row of the source.

    A part has whole groups, by "first", the first row of the group; then o0, o1, … of orders, e0,
    e1, … of the other `columns`, "row" and "twin".
    Raises DataError unless there are `n_rows`.
    """
    elements = [part for part in columns if part.argument not in ("group", "order")]
    n_orders = sum(part.argument == "order" for part in columns)
    last: pa.RecordBatch | None = None
    group = run = -1
    n_read = 0
    for batch in _merged(_parts_of(folder)):
        new_group = _differs(batch, last, ["first"])
        groups = group + np.cumsum(new_group)
        new_run = new_group | _differs(batch, last, [f"o{k}" for k in range(n_orders)])
        runs = run + np.cumsum(new_run)
        held = {
            part: _column(batch.column(f"e{k}"), columns[part], part)
            for k, part in enumerate(elements)
        }
        row, twin = (batch.column(name).to_numpy() for name in ("row", "twin"))
        yield Rows(groups, runs, row, twin, held)
        last, group, run = batch.slice(len(batch) - 1), int(groups[-1]), int(runs[-1])
        n_read += len(batch)
    if n_read != n_rows:
        raise DataError(
            "`folder` must be on a disk that this process shares with all of Spark's executors, "
            f"got {n_read} of {n_rows} rows that they wrote into {folder.parent}. Choose such a "
            "folder, and copy it afterwards."
        )


def _parts_of(folder: Path) -> list[Iterator[pa.RecordBatch]]:
    """The batches of each part; one partition's files follow one another."""
    files = sorted(folder.glob("part-*.parquet"))
    parts = [list(own) for _, own in groupby(files, lambda file: file.name.split("-")[1])]
    size = max(ROWS_AT_ONCE // max(len(parts), 1), FEWEST_ROWS)
    return [chain.from_iterable(_batches(file, size) for file in own) for own in parts]


def _batches(file: Path, size: int) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file) as opened:
        yield from (batch for batch in opened.iter_batches(size) if len(batch))


class _Head:
    """Where a part is: rows that were read and not yet handed on."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.batch: pa.RecordBatch | None = None
        self.first: Int64[np.ndarray, "rows"] = np.empty(0, np.int64)
        self.refill()

    def refill(self) -> bool:
        """Whether there are rows, after the next ones are read if there were none."""
        if not len(self.first):
            self.batch = next(self._batches, None)
            if self.batch is not None:
                self.first = self.batch.column("first").to_numpy()
        return bool(len(self.first))

    def taken(self, bound: int) -> pa.RecordBatch:
        """The rows of groups that begin up to a row of the source."""
        assert self.batch is not None
        n_taken = int(np.searchsorted(self.first, bound, side="right"))
        taken, self.batch = self.batch.slice(0, n_taken), self.batch.slice(n_taken)
        self.first = self.first[n_taken:]
        return taken


def _merged(parts: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    heads = [head for head in map(_Head, parts) if head.refill()]
    while heads:
        # What another part has yet to be read begins later; a group is in one part alone.
        bound = min(int(head.first[-1]) for head in heads)
        taken = [batch for head in heads if len(batch := head.taken(bound))]
        heads = [head for head in heads if head.refill()]
        rows = pa.concat_batches(taken)
        yield rows.take(pa.array(np.argsort(rows.column("first").to_numpy(), kind="stable")))


def _differs(
    batch: pa.RecordBatch, last: pa.RecordBatch | None, names: Sequence[str]
) -> Bool[np.ndarray, "rows"]:
    """Whether a row differs from the one before it in a column of these."""
    differs = np.zeros(len(batch), dtype=bool)
    for name in names:
        column = batch.column(name)
        differs[0] |= last is None or last.column(name)[0] != column[0]
        own = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
        differs[1:] |= own.to_numpy(zero_copy_only=False)
    return differs


def _column(array: pa.Array, column: SqlColumn, part: Part) -> np.ndarray:
    if part.argument == "position" and types.is_temporal(column.type):
        return days_of(restored(array, column.type).to_numpy(zero_copy_only=False))
    return array.to_numpy(zero_copy_only=False)
