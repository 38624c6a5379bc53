"""Sorted rows of a source, some at a time, and which of them equal an earlier one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int, Int64, Shaped, UInt64

from exfam.columns.parts import Part

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows in their final order.

    Rows that share group and order share a `run`; runs count up from 0. `columns` hold labels as
    numbers of the label, numbers as they are. `twin` is the last row of the source before that is
    equal in all columns, -1 where there is none or none was looked for.
    """

    group: Int[np.ndarray, "rows"]
    run: Int64[np.ndarray, "rows"]
    source_row: Int[np.ndarray, "rows"]
    twin: Int[np.ndarray, "rows"]
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


def with_twins(stream: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows, cut between runs, and the twin of each; a run is held in memory."""
    held: list[Rows] = []
    for rows in stream:
        last = int(np.searchsorted(rows.run, rows.run[-1]))
        if held:
            more = int(np.searchsorted(rows.run, held[0].run[0], side="right"))
            held.append(rows[:more])
            if more == len(rows):
                continue
            yield _found(_joined(held))
            if more < last:
                yield _found(rows[more:last])
        elif last:
            yield _found(rows[:last])
        held = [rows[last:]]
    if held:
        yield _found(_joined(held))


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    columns = {
        part: np.concatenate([rows.columns[part] for rows in parts]) for part in parts[0].columns
    }
    group, run, row, twin = (
        np.concatenate([getattr(rows, name) for rows in parts])
        for name in ("group", "run", "source_row", "twin")
    )
    return Rows(group, run, row, twin, columns)


def _found(rows: Rows) -> Rows:
    """Rows of whole runs with their twins."""
    same = rows.run[1:] == rows.run[:-1]
    if not same.any():
        return rows
    tied = np.append(same, False)
    tied[1:] |= same
    index = np.flatnonzero(tied)
    columns = [_bits(column[index]) for column in (rows.run, *rows.columns.values())]
    hashes = _hashes(columns)
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return rows
    # Equal rows have equal hashes; few others have.
    kept = np.isin(hashes, repeated)
    index, columns = index[kept], [column[kept] for column in columns]
    row = rows.source_row[index]
    order = np.lexsort((row, *columns))
    equal = np.all([column[order[1:]] == column[order[:-1]] for column in columns], axis=0)
    twin = np.full(len(rows), -1, dtype=np.int64)
    twin[index[order[1:][equal]]] = row[order[:-1][equal]]
    return replace(rows, twin=twin)


def _bits(column: Shaped[np.ndarray, "rows"]) -> UInt64[np.ndarray, "rows"]:
    """64 bits that differ where numbers or times do: one pattern for 0 and -0, and one for NaN."""
    if column.dtype.kind == "f":
        column = column.astype(np.float64) + 0.0
        column[np.isnan(column)] = np.nan
    elif column.dtype.kind not in "mM":
        column = column.astype(np.int64)
    return column.view(np.uint64)


def _hashes(columns: Sequence[UInt64[np.ndarray, "rows"]]) -> UInt64[np.ndarray, "rows"]:
    total = np.zeros_like(columns[0])
    for column in columns:
        total ^= column
        total *= _ODD
        total ^= total >> _HALF
    return total
