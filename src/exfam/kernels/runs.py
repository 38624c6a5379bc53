"""Sorted runs of pairs and their totals, merged as they come, and in files when they grow."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from exfam.checks import CheckpointError

_SAMPLES = 4096


class PairRun(NamedTuple):
    """Pairs in rising order, each once, and how much there is of each."""

    pairs: Int64[np.ndarray, "pairs"]
    totals: Int64[np.ndarray, "pairs"]


def run_of(pairs: Int64[np.ndarray, "_"], totals: Int64[np.ndarray, "_"]) -> PairRun:
    """A run of pairs that are sorted, some of them several times."""
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    return PairRun(pairs[first], np.add.reduceat(totals, first))


def _merged(runs: list[PairRun]) -> PairRun:
    if len(runs) == 1:
        return runs[0]
    pairs = np.concatenate([np.empty(0, np.int64), *(run.pairs for run in runs)])
    totals = np.concatenate([np.empty(0, np.int64), *(run.totals for run in runs)])
    order = np.argsort(pairs, kind="stable")
    return run_of(pairs[order], totals[order])


class RunStore:
    """Runs in memory, at most about `max_pairs` long in all; the rest in files of a folder."""

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
            self._held.append(_merged([self._held.pop(-2), self._held.pop()]))
        if sum(len(held.pairs) for held in self._held) >= self.max_pairs:
            self.spill()

    def spill(self) -> None:
        """Write all that is held in memory as one run."""
        run = _merged(self._held)
        if not len(run.pairs):
            return
        number = 1 + max((int(name[4:-4]) for name in self.sizes), default=0)
        path = self.folder / f"run-{number:06d}.npy"
        beside = path.with_name(f"new-{path.name}")
        shape = (2, len(run.pairs))
        file = np.lib.format.open_memmap(beside, mode="w+", dtype=np.int64, shape=shape)
        file[0], file[1] = run
        file.flush()
        os.replace(beside, path)
        self.sizes[path.name] = path.stat().st_size
        self._held = []

    def blocks(self) -> Iterator[PairRun]:
        """All pairs in rising order, totals added, in pieces of about `max_pairs` at most."""
        stored = [np.load(self.folder / name, mmap_mode="r") for name in self.sizes]
        runs = [PairRun(*map(np.asarray, both)) for both in stored] + [_merged(self._held)]
        for first, last in self._bounds(runs):
            pieces = [slice(*np.searchsorted(run.pairs, [first, last])) for run in runs]
            parts = zip(runs, pieces, strict=True)
            yield _merged([PairRun(run.pairs[piece], run.totals[piece]) for run, piece in parts])

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
