"""Sorted runs of pairs and their totals, merged as they come, and in files when they grow."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from exfam.checks import CheckpointError
from exfam.kernels.pairs import merge


class PairRun(NamedTuple):
    """Pairs in rising order, each once, and how much there is of each."""

    pairs: Int64[np.ndarray, "pairs"]
    totals: Int64[np.ndarray, "pairs"]


_NONE = PairRun(np.empty(0, np.int64), np.empty(0, np.int64))
_SAMPLES = 4096


def merge_runs(one: PairRun, other: PairRun) -> PairRun:
    """All pairs of two runs, totals added.

    >>> pairs, amounts = np.array([1, 4]), np.array([2, 1])
    >>> merged = merge_runs(PairRun(pairs, amounts), PairRun(pairs + 3, amounts))
    >>> merged.pairs.tolist(), merged.totals.tolist()
    ([1, 4, 7], [2, 3, 1])
    """
    if not len(one.pairs) or not len(other.pairs):
        return one if len(one.pairs) else other
    pairs = np.empty(len(one.pairs) + len(other.pairs), np.int64)
    totals = np.empty_like(pairs)
    n_pairs = merge(*one, *other, pairs, totals)
    return PairRun(pairs[:n_pairs], totals[:n_pairs])


class RunStore:
    """Runs in memory, at most about `max_pairs` long in all; the rest in files of a folder.

    >>> import tempfile
    >>> store = RunStore(Path(tempfile.mkdtemp()), max_pairs=3)
    >>> for pair in (5, 2, 5, 9):
    ...     store.add(PairRun(np.array([pair]), np.array([1])))
    >>> [run.pairs.tolist() for run in store.blocks()], len(store.sizes)
    ([[2, 5, 9]], 1)
    """

    def __init__(self, folder: Path, *, max_pairs: int) -> None:
        self.folder, self.max_pairs = folder, max_pairs
        # File of each run that was written -> its size in bytes, in the order of writing.
        self.sizes: dict[str, int] = {}
        self._held: list[PairRun] = []

    def add(self, run: PairRun) -> None:
        """Take one more run."""
        self._held.append(run)
        # Merged only with runs of about their own length, pairs move seldom.
        while len(self._held) > 1 and len(self._held[-2].pairs) <= 2 * len(self._held[-1].pairs):
            self._held.append(merge_runs(self._held.pop(-2), self._held.pop()))
        if sum(len(held.pairs) for held in self._held) >= self.max_pairs:
            self.spill()

    def spill(self) -> None:
        """Write all that is held in memory as one run."""
        run = self._merged()
        if not len(run.pairs):
            return
        number = 1 + max((int(name[4:-4]) for name in self.sizes), default=0)
        path = self.folder / f"run-{number:06d}.npy"
        beside = path.with_name(f"new-{path.name}")
        file = np.lib.format.open_memmap(
            beside, mode="w+", dtype=np.int64, shape=(2, len(run.pairs))
        )
        file[0], file[1] = run
        file.flush()
        os.replace(beside, path)
        self.sizes[path.name] = path.stat().st_size
        self._held = []

    def blocks(self) -> Iterator[PairRun]:
        """All pairs in rising order, totals added, in pieces of about `max_pairs` at most."""
        runs = [self._open(name) for name in self.sizes] + [self._merged()]
        for first, last in self._bounds(runs):
            block = _NONE
            for run in runs:
                piece = slice(*np.searchsorted(run.pairs, [first, last]))
                block = merge_runs(block, PairRun(run.pairs[piece], run.totals[piece]))
            yield block

    def check(self) -> None:
        """Raise CheckpointError unless every file of a run is there as it was written."""
        for name, size in self.sizes.items():
            path = self.folder / name
            stored = path.stat().st_size if path.is_file() else 0
            if stored != size:
                raise CheckpointError(
                    f"`folder` must hold its files as they were written, got {stored} bytes "
                    f"instead of {size} of {name}. Remove the folder to count anew."
                )

    def _merged(self) -> PairRun:
        while len(self._held) > 1:
            self._held.append(merge_runs(self._held.pop(), self._held.pop()))
        return self._held[0] if self._held else _NONE

    def _open(self, name: str) -> PairRun:
        # "c": arrays that may be written to; compiled code then need not distinguish them.
        both = np.asarray(np.load(self.folder / name, mmap_mode="c"))
        return PairRun(both[0], both[1])

    def _bounds(self, runs: list[PairRun]) -> list[tuple[int, int]]:
        """Pairs at which to cut, so that what lies between two cuts is not too long."""
        end = np.iinfo(np.int64).max
        total = sum(len(run.pairs) for run in runs)
        if total <= self.max_pairs or len(runs) == 1:
            return [(0, end)]
        step = max(1, min(total // _SAMPLES, self.max_pairs // (2 * len(runs))))
        sample = np.sort(np.concatenate([run.pairs[::step] for run in runs]))
        cuts = sample[:: max(1, self.max_pairs // (2 * step))][1:].tolist()
        return list(zip([0, *cuts], [*cuts, end], strict=True))
