"""Counting under way: what is counted so far, in memory and in a folder from which it goes on."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from exfam.checks import CheckpointError
from exfam.files import write_atomically
from exfam.kernels.pairs import gather_pairs, reduce_sorted
from exfam.kernels.runs import PairRun, RunStore

_MANIFEST = "counting.json"
_OURS = ("run-*.npy", "new-run-*.npy", "triangle-*.npy", "new-triangle-*.npy")
_BYTES_AT_ONCE = 1 << 24


def fingerprint(tokens: Int32[np.ndarray, "tokens"], settings: Mapping[str, Any]) -> dict[str, Any]:
    """What distinguishes countings: the tokens' number and checksum, and the settings.

    >>> fingerprint(np.array([0, 1, -1], np.int32), {"window": 2})
    {'n_tokens': 3, 'crc32': 1774511634, 'window': 2}
    """
    crc = 0
    step = _BYTES_AT_ONCE // 4
    for first in range(0, len(tokens), step):
        crc = zlib.crc32(np.ascontiguousarray(tokens[first : first + step]).data, crc)
    return {"n_tokens": len(tokens), "crc32": crc, **settings}


class Counting:
    """Pairs counted so far: a triangle of those of the first words, and runs of all others.

    >>> import tempfile
    >>> counting = Counting(Path(tempfile.mkdtemp()), n_words=3, n_dense=1, max_pairs=100)
    >>> counting.add(
    ...     np.array([0, 0, 2, 1], np.int32), 4, amounts=np.array([0, 1]), keys=np.empty(9, int)
    ... )
    >>> counting.triangle.tolist(), [run.pairs.tolist() for run in counting.store.blocks()]
    ([1], [[2, 5]])
    """

    def __init__(self, folder: Path, *, n_words: int, n_dense: int, max_pairs: int) -> None:
        self.folder, self.n_words = folder, n_words
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
            position, n_keys = gather_pairs(
                tokens, position, stop, self.n_words, amounts, self.triangle, keys
            )
            sorted_keys = keys[:n_keys]
            sorted_keys.sort()
            totals = np.empty(n_keys, np.int64)
            n_pairs = reduce_sorted(sorted_keys, amounts, totals)
            self.store.add(PairRun(keys[:n_pairs].copy(), totals[:n_pairs].copy()))
        self.done += stop

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
