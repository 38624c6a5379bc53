"""Counting which words occur near which, in shards, within bounded memory, resumably."""

import math
from contextlib import ExitStack
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse
from jaxtyping import Int32, Int64

from exfam.checks import DataError, ExfamError, check_choice, check_path, check_whole
from exfam.files import scratch_folder
from exfam.kernels.counting import Counting, fingerprint

WINDOW_WEIGHTS = ("dynamic", "flat", "harmonic")
# More words than these gain little: their pairs are rare.
_MOST_DENSE = 8192
_LONGEST_HARMONIC = 20


def count_cooccurrences(
    tokens: Int32[np.ndarray, "tokens"],
    n_words: int,
    *,
    window: int,
    weights: str = "flat",
    folder: str | PathLike[str] | None = None,
    max_bytes: int = 2_000_000_000,
    shard_tokens: int = 8_000_000,
) -> scipy.sparse.csr_array:
    """How much words 0 .. `n_words` - 1 occur within `window` positions of each other, symmetric.

    `tokens`: codes of words, the frequent ones best first; -1 ends a sentence, which no pair
        crosses; codes from `n_words` on keep their positions and are not counted
    `weights`: of a pair at distance d: "flat" 1, "harmonic" 1 / d (as in GloVe), "dynamic"
        (window - d + 1) / window, what word2vec's random window comes to on average
    `folder`: where the work is saved after every shard of `shard_tokens`: a counting that was
        killed goes on from there. It may be removed afterwards
    `max_bytes`: of memory for counting, about; what does not fit goes to files

    Entry (i, j) is the sum over all i of the weights of j's around it; the diagonal thus counts
    each pair of like words twice. Counts are int64 if flat, float64 otherwise, the exact sums,
    rounded once: shards, memory and interruptions change no bit of them.
    Raises DataError for codes below -1, ExfamError for a window out of range, CheckpointError for
    a folder of another counting, or one that cannot be written to.
    """
    whole, unit = whole_cooccurrences(
        tokens,
        n_words,
        window=window,
        weights=weights,
        folder=folder,
        max_bytes=max_bytes,
        shard_tokens=shard_tokens,
    )
    return as_counts(whole, unit)


def as_counts(whole: scipy.sparse.csr_array, unit: int) -> scipy.sparse.csr_array:
    """Symmetric counts of the pairs i <= j that were counted as multiples of 1 / `unit`."""
    # Each of two like words is in the context of the other: on the diagonal a pair counts twice.
    counts = whole + whole.T
    data = counts.data if unit == 1 else counts.data / unit
    return scipy.sparse.csr_array((data, counts.indices, counts.indptr), shape=counts.shape)


def whole_cooccurrences(
    tokens: Int32[np.ndarray, "tokens"],
    n_words: int,
    *,
    window: int,
    weights: str = "flat",
    folder: str | PathLike[str] | None = None,
    max_bytes: int = 2_000_000_000,
    shard_tokens: int = 8_000_000,
) -> tuple[scipy.sparse.csr_array, int]:
    """As `count_cooccurrences`, each pair i <= j once, in whole numbers; and what stands for 1.

    Those of parts of a text, cut between sentences, add up to those of the whole.
    """
    sizes = {"n_words": n_words, "max_bytes": max_bytes, "shard_tokens": shard_tokens}
    for name, size in sizes.items():
        check_whole(name, size)
    if folder is not None:
        check_path("folder", folder)
    amounts, unit = window_amounts(weights, window)
    most = math.isqrt(np.iinfo(np.int64).max // (window + 1))
    if n_words > most:
        raise ExfamError(
            f"`n_words` must be at most {most} for a window of {window}, got {n_words}."
        )
    n_dense = min(n_words, _MOST_DENSE, max(1, math.isqrt(max_bytes // 24)))
    with ExitStack() as stack:
        path = Path(folder or stack.enter_context(scratch_folder()))
        counting = Counting(path, n_words=n_words, n_dense=n_dense, max_pairs=max_bytes // 48)
        expected = None
        if folder is not None:
            settings = {"n_words": n_words, "window": window, "weights": weights}
            expected = fingerprint(tokens, {**settings, "n_dense": n_dense})
            counting.resume(expected)
        keys = np.empty(max(min(max_bytes // 128, len(tokens) * window), window), np.int64)
        while counting.done < len(tokens):
            shard = _shard(tokens, counting.done, shard_tokens + window)
            counting.add(shard, min(shard_tokens, len(shard)), amounts=amounts, keys=keys)
            if expected is not None:
                counting.save(expected)
        del keys
        return _as_rows(counting), unit


def window_amounts(weights: str, window: int) -> tuple[Int64[np.ndarray, "distances"], int]:
    """Weights by distance from 0 on, as whole numbers, and the number that stands for 1."""
    check_choice("weights", weights, WINDOW_WEIGHTS)
    check_whole("window", window)
    if weights == "harmonic" and window > _LONGEST_HARMONIC:
        # Sums stay exact because all of 1 .. window divide one number, which must not grow large.
        raise ExfamError(
            f"`window` must be at most {_LONGEST_HARMONIC} for weights='harmonic', got {window}. "
            "Use weights='dynamic' for longer ones."
        )
    distance = np.arange(1, window + 1)
    amounts, unit = np.ones_like(distance), 1
    if weights == "dynamic":
        amounts, unit = distance[::-1], window
    elif weights == "harmonic":
        unit = math.lcm(*distance.tolist())
        amounts = unit // distance
    return np.concatenate([[0], amounts]), unit


def _shard(
    tokens: Int32[np.ndarray, "tokens"], first: int, length: int
) -> Int32[np.ndarray, "shard"]:
    """A copy of so many tokens: copies of all kinds of arrays compile to one function."""
    shard = np.array(tokens[first : first + length], dtype=np.int32)
    if shard.min(initial=0) < -1:
        at = int(np.flatnonzero(shard < -1)[0])
        raise DataError(
            f"`tokens` must be codes of words, or -1 where a sentence ends, got {shard[at]} "
            f"at {first + at}."
        )
    return shard


def _as_rows(counting: Counting) -> scipy.sparse.csr_array:
    n_words = counting.n_words
    shape = (n_words, n_words)
    upper = scipy.sparse.csr_array(shape, dtype=np.int64)
    for pairs, totals in counting.runs():
        words = [codes.astype(np.int32) for codes in np.divmod(pairs, n_words)]
        upper += scipy.sparse.csr_array((totals, words), shape=shape)
    return upper
