"""Counting which words occur near which, in shards, within bounded memory, resumably."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse
from jaxtyping import Int32, Int64

from exfam.checks import DataError, ExfamError, check_choice, check_path, check_whole
from exfam.files import scratch_folder
from exfam.kernels.counting import Counting, fingerprint
from exfam.kernels.pairs import count_run, count_triangle, fill_run, fill_triangle

# More words than these gain little: their pairs are rare.
_MOST_DENSE = 8192
_VALUES_AT_ONCE = 1 << 20
_LONGEST_HARMONIC = 20


@dataclass(frozen=True)
class CountingLimits:
    """How much memory counting may take beside its result, and how much is counted at a time.

    `max_bytes`: of memory, about; what does not fit goes to files (default 2_000_000_000)
    `shard_tokens`: tokens from one saving of the work to the next (default 8_000_000)

    >>> CountingLimits(max_bytes=10**9).shard_tokens
    8000000
    """

    max_bytes: int = 2_000_000_000
    shard_tokens: int = 8_000_000

    def __post_init__(self) -> None:
        for name in ("max_bytes", "shard_tokens"):
            check_whole(name, getattr(self, name))


def count_cooccurrences(
    tokens: Int32[np.ndarray, "tokens"],
    n_words: int,
    *,
    window: int,
    weights: str = "flat",
    folder: str | PathLike[str] | None = None,
    limits: CountingLimits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> scipy.sparse.csr_array:
    """How much words 0 .. `n_words` - 1 occur within `window` places of each other, symmetric.

    `tokens`: codes of words, the frequent ones best first; -1 ends a sentence, which no pair
        crosses; codes from `n_words` on keep their places and are not counted
    `weights`: of a pair at distance d: "flat" 1, "harmonic" 1 / d (as in GloVe), "dynamic"
        (window - d + 1) / window, what word2vec's random window comes to on average
        (default "flat")
    `folder`: where the work is saved after every shard: a counting that was killed goes on from
        there. It may be removed afterwards (default None)
    `progress`: called after every shard with the tokens counted, and all tokens (default None)

    Entry (i, j) is the sum over all i of the weights of j's around it; the diagonal thus counts
    each pair of like words twice. Counts are int64 if flat, float64 otherwise, the exact sums,
    rounded once: shards, memory and interruptions change no bit of them.
    Raises DataError for codes below -1, ExfamError for a window out of range, CheckpointError for
    a folder of another counting, or one that cannot be written to.

    >>> count_cooccurrences(np.array([0, 1, 0, -1, 1], np.int32), 2, window=2).toarray()
    array([[2, 2],
           [2, 0]])
    """
    limits = limits or CountingLimits()
    check_whole("n_words", n_words)
    if folder is not None:
        check_path("folder", folder)
    amounts, unit = _amounts(weights, window)
    _check_pairs_fit(n_words, window)
    n_dense = min(n_words, _MOST_DENSE, max(1, math.isqrt(limits.max_bytes // 24)))
    with ExitStack() as stack:
        path = folder or stack.enter_context(scratch_folder())
        counting = Counting(
            Path(path), n_words=n_words, n_dense=n_dense, max_pairs=limits.max_bytes // 48
        )
        expected = None
        if folder is not None:
            settings = {"n_words": n_words, "window": window, "weights": weights}
            expected = fingerprint(tokens, {**settings, "n_dense": n_dense})
            counting.resume(expected)
        n_keys = min(limits.max_bytes // 128, len(tokens) * window)
        keys = np.empty(max(n_keys, window), np.int64)
        while counting.done < len(tokens):
            shard = _shard(tokens, counting.done, limits.shard_tokens, window)
            stop = min(limits.shard_tokens, len(shard))
            counting.add(shard, stop, amounts=amounts, keys=keys)
            if expected is not None:
                counting.save(expected)
            if progress is not None:
                progress(counting.done, len(tokens))
        del keys
        return _as_rows(counting, unit)


def _flat(distance: Int64[np.ndarray, "distances"]) -> tuple[Int64[np.ndarray, "distances"], int]:
    return np.ones_like(distance), 1


def _harmonic(
    distance: Int64[np.ndarray, "distances"],
) -> tuple[Int64[np.ndarray, "distances"], int]:
    unit = math.lcm(*distance.tolist())
    return unit // distance, unit


def _dynamic(
    distance: Int64[np.ndarray, "distances"],
) -> tuple[Int64[np.ndarray, "distances"], int]:
    return distance[::-1].copy(), len(distance)


# Distances 1 .. window -> weights of pairs as whole numbers, and the number that stands for 1.
WINDOW_WEIGHTS = {"dynamic": _dynamic, "flat": _flat, "harmonic": _harmonic}


def _amounts(weights: str, window: int) -> tuple[Int64[np.ndarray, "distances"], int]:
    """Whole weights by distance, from 0 on, and their unit."""
    check_choice("weights", weights, WINDOW_WEIGHTS)
    check_whole("window", window)
    if weights == "harmonic" and window > _LONGEST_HARMONIC:
        # Sums stay exact because all of 1 .. window divide one number, which must not grow large.
        raise ExfamError(
            f"`window` must be at most {_LONGEST_HARMONIC} for weights='harmonic', got {window}. "
            "Use weights='dynamic' for longer ones."
        )
    amounts, unit = WINDOW_WEIGHTS[weights](np.arange(1, window + 1))
    return np.concatenate([[0], amounts]), unit


def _check_pairs_fit(n_words: int, window: int) -> None:
    most = math.isqrt(np.iinfo(np.int64).max // (window + 1))
    if n_words > most:
        raise ExfamError(
            f"`n_words` must be at most {most} for a window of {window}, got {n_words}."
        )


def _shard(
    tokens: Int32[np.ndarray, "tokens"], first: int, length: int, window: int
) -> Int32[np.ndarray, "shard"]:
    """A copy of so many tokens and the window after them; copies of all kinds of arrays compile
    to one function."""
    shard = np.array(tokens[first : first + length + window], dtype=np.int32)
    if shard.min(initial=0) < -1:
        at = int(np.flatnonzero(shard < -1)[0])
        raise DataError(
            f"`tokens` must be codes of words, or -1 where a sentence ends, got {shard[at]} "
            f"at {first + at}."
        )
    return shard


def _as_rows(counting: Counting, unit: int) -> scipy.sparse.csr_array:
    n_words = counting.n_words
    below, above = np.zeros(n_words, np.int64), np.zeros(n_words, np.int64)
    count_triangle(counting.triangle, below, above)
    for block in counting.store.blocks():
        count_run(block.pairs, n_words, below, above)
    start = np.concatenate([[0], np.cumsum(below + above)])
    index = np.int32 if max(start[-1], n_words) <= np.iinfo(np.int32).max else np.int64
    columns, values = np.empty(start[-1], index), np.empty(start[-1], np.int64)
    above = start[:-1] + below
    below = start[:-1].copy()
    fill_triangle(counting.triangle, below, above, columns, values)
    for block in counting.store.blocks():
        fill_run(*block, n_words, below, above, columns, values)
    data = values if unit == 1 else _divided(values, unit)
    return scipy.sparse.csr_array((data, columns, start.astype(index)), shape=(n_words, n_words))


def _divided(values: Int64[np.ndarray, "entries"], unit: int) -> np.ndarray:
    """Values over `unit`, in the same memory."""
    data = values.view(np.float64)
    for first in range(0, len(values), _VALUES_AT_ONCE):
        piece = slice(first, first + _VALUES_AT_ONCE)
        data[piece] = values[piece] / unit
    return data
