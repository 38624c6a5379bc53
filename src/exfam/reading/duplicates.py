"""Rows that equal another one in all columns that are read."""

import numpy as np
from jaxtyping import Int64, UInt64

from exfam.reading.stream import Rows

# An odd number with bits all over: multiplying by it spreads near numbers over all 64 bits.
SPREAD = np.uint64(0x9E3779B97F4A7C15)

Pairs = tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"]]


class DuplicateFinder:
    """Finds equal rows in rows that come sorted: they can only be within one run.

    >>> rows = Rows(*np.array([[0, 0, 0], [0, 0, 1], [4, 7, 9]]), {})
    >>> finder = DuplicateFinder()
    >>> finder.add(rows), finder.finish()
    ((array([1]), array([7]), array([4])), (array([], dtype=int64), ...))
    """

    def __init__(self) -> None:
        self._held: list[Rows] = []
        self._position = 0

    def add(self, rows: Rows) -> Pairs:
        """Places (counted over all rows added) and source rows of duplicates, and their equals.

        Rows of the last run wait until it is complete.
        """
        if len(rows) == 0:
            return _none()
        cut = int(np.searchsorted(rows.run, rows.run[-1]))
        if cut == 0 and self._held and self._held[-1].run[-1] == rows.run[0]:
            self._held.append(rows)
            return _none()
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
            return _none()
        run = np.concatenate([piece.run for piece in pieces])
        source_row = np.concatenate([piece.source_row for piece in pieces])
        repeats = run[1:] == run[:-1]
        places = np.flatnonzero(np.append(False, repeats) | np.append(repeats, False))
        keys = [run[places].view(np.uint64)]
        for part in pieces[0].columns:
            keys.append(_bits(np.concatenate([piece.columns[part] for piece in pieces])[places]))
        later, earlier = _equal(keys)
        return start + places[later], source_row[places[later]], source_row[places[earlier]]


def _none() -> Pairs:
    nothing = np.zeros(0, dtype=np.int64)
    return nothing, nothing, nothing


def _bits(column: np.ndarray) -> UInt64[np.ndarray, "rows"]:
    if column.dtype.kind == "f":
        return (column.astype(np.float64) + 0.0).view(np.uint64)  # 0.0 for -0.0
    return column.astype(np.int64).view(np.uint64)


def _equal(
    keys: list[np.ndarray],
) -> tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"]]:
    """Places of keys that were there before, and where they were last."""
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
