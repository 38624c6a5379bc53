"""Counting under way: what is counted so far, in memory and in a folder from which it goes on.

A pair of codes low <= high of n words is the number low * n + high. Amounts are whole numbers, so
that sums do not depend on the order in which they come. A triangle holds all pairs of the first
words, row by row.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, no_type_check

import numpy as np
from jaxtyping import Int32, Int64
from numba import njit

from exfam.checks import CheckpointError
from exfam.files import write_atomically

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


_MANIFEST = "counting.json"
_OURS = ("run-*.npy", "new-run-*.npy", "triangle-*.npy", "new-triangle-*.npy")
_BYTES_AT_ONCE = 1 << 24


@njit(cache=True)
@no_type_check
def _gather_pairs(tokens, start, stop, n_words, amounts, triangle, n_dense, keys):
    """Add the pairs whose left word lies from `start` to `stop`, until `keys` are full.

    Those of the first `n_dense` words go to `triangle`; of all others the pair and the distance go
    to `keys`, as one number. Codes from `n_words` on keep their position and count for nothing; -1
    ends a sentence. Returns where to go on, and how many keys there are.
    """
    window = len(amounts) - 1
    n_keys = 0
    for position in range(start, stop):
        if n_keys + window > len(keys):
            return position, n_keys
        left = np.int64(tokens[position])
        if left < 0 or left >= n_words:
            continue
        for distance in range(1, min(window, len(tokens) - 1 - position) + 1):
            right = np.int64(tokens[position + distance])
            if right < 0:
                break
            if right >= n_words:
                continue
            low, high = min(left, right), max(left, right)
            if high < n_dense:
                triangle[low * n_dense - low * (low + 1) // 2 + high] += amounts[distance]
            else:
                keys[n_keys] = (low * n_words + high) * (window + 1) + distance
                n_keys += 1
    return stop, n_keys


def fingerprint(tokens: Int32[np.ndarray, "tokens"], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What distinguishes countings: the tokens' number and checksum, and the settings."""
    crc = 0
    step = _BYTES_AT_ONCE // 4
    for first in range(0, len(tokens), step):
        crc = zlib.crc32(np.ascontiguousarray(tokens[first : first + step]).data, crc)
    return {"n_tokens": len(tokens), "crc32": crc, **settings}


class Counting:
    """Pairs counted so far: a triangle of those of the first words, and runs of all others."""

    def __init__(self, folder: Path, *, n_words: int, n_dense: int, max_pairs: int) -> None:
        self.folder, self.n_words, self.n_dense = folder, n_words, n_dense
        self.triangle: Int64[np.ndarray, "pairs"] = np.zeros(n_dense * (n_dense + 1) // 2, np.int64)
        self.store = RunStore(folder, max_pairs=max_pairs)
        self.done = 0

    def add(
        self,
        tokens: Int32[np.ndarray, "tokens"],
        stop: int,
        *,
        amounts: Int64[np.ndarray, "distances"],
        keys: Int64[np.ndarray, "keys"],
    ) -> None:
        """Count the pairs whose left word lies before `stop`; `keys` is room to work in."""
        position = 0
        while position < stop:
            position, n_keys = _gather_pairs(
                tokens, position, stop, self.n_words, amounts, self.triangle, self.n_dense, keys
            )
            keys[:n_keys].sort()
            pairs, distances = np.divmod(keys[:n_keys], len(amounts))
            self.store.add(run_of(pairs, amounts[distances]))
        self.done += stop

    def runs(self) -> Iterator[PairRun]:
        """All that is counted, each pair once."""
        kept = np.flatnonzero(self.triangle)
        low, high = (words[kept] for words in np.triu_indices(self.n_dense))
        yield PairRun(low * self.n_words + high, self.triangle[kept])
        yield from self.store.blocks()

    def save(self, expected: Mapping[str, Any]) -> None:
        """Bring the folder up to date; one that is killed meanwhile is as it was before.

        Raises CheckpointError if it cannot be written, as on a full disk.
        """
        try:
            self._save(expected)
        except OSError as error:
            raise CheckpointError(
                f"`folder` must be where counts can be written, got {self.folder}: "
                f"{error.strerror or error}. Free some space, or use another folder."
            ) from error

    def _save(self, expected: Mapping[str, Any]) -> None:
        self.store.spill()
        name = f"triangle-{self.done}.npy"
        beside = self.folder / f"new-{name}"
        np.save(beside, self.triangle)
        beside.replace(self.folder / name)
        size = (self.folder / name).stat().st_size
        state = {"done": self.done, "runs": self.store.sizes, "triangle": [name, size]}
        write_atomically(self.folder / _MANIFEST, json.dumps({"of": expected, **state}))
        self._tidy()

    def resume(self, expected: Mapping[str, Any]) -> None:
        """Go on from what the folder holds; one that holds nothing is made.

        Raises CheckpointError if it holds another counting, or files are missing or cut.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / _MANIFEST).exists():
            state = self._read(expected)
            name, size = state["triangle"]
            self.store.sizes = {**state["runs"], name: size}
            self.store.check()
            self.store.sizes = dict(state["runs"])
            self.triangle, self.done = np.load(self.folder / name), state["done"]
        self._tidy()

    def _read(self, expected: Mapping[str, Any]) -> dict[str, Any]:
        path = self.folder / _MANIFEST
        try:
            state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            stored = dict(state["of"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"`folder` must hold a whole {_MANIFEST}, got one that cannot be read. "
                "Remove the folder to count anew."
            ) from error
        if stored != expected:
            other = next(key for key in expected if stored.get(key) != expected[key])
            raise CheckpointError(
                f"`folder` must hold a counting of these tokens and settings, got one of {other} = "
                f"{stored.get(other)!r} instead of {expected[other]!r}. Name another folder, or "
                "remove it to count anew."
            )
        return state

    def _tidy(self) -> None:
        """Remove files that are ours and no longer, or not yet, part of the counting."""
        kept = {*self.store.sizes, f"triangle-{self.done}.npy"}
        for path in (path for pattern in _OURS for path in self.folder.glob(pattern)):
            if path.name not in kept:
                path.unlink()
