"""Draws from a fixed distribution over many words, each by one look-up: the alias method.

Source: Vose (1991), "A linear algorithm for generating random numbers with a given distribution".
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float64, UInt64
from numba import njit

from exfam.checks import DataError
from exfam.kernels.randomness import below

_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)


def alias_table(probability: Float64[np.ndarray, "words"]) -> UInt64[np.ndarray, "words"]:
    """What `draw_word` draws by: of each word 32 bits of the share it keeps, 32 of its alias.

    Probabilities are kept to 2 ** -32 of a word's part; words of probability 0 are never drawn.
    Raises DataError unless probabilities are finite, >= 0 and not all 0.

    >>> table = alias_table(np.array([0.75, 0.25]))
    >>> (table & np.uint64(0xFFFFFFFF)).tolist()
    [0, 0]
    """
    total = probability.sum()
    if not (np.isfinite(total) and total > 0 and probability.min() >= 0):
        raise DataError(
            f"`probability` must be finite and >= 0 with a sum above 0, got a sum of {total:g} "
            f"over {len(probability)} words. Pass counts of which one is above 0."
        )
    share, alias = _fill(probability / total * len(probability))
    # A share of 1 is one step less than 2 ** 32: its word is its own alias.
    kept = np.minimum(share * 2.0**32, 2.0**32 - 1).astype(np.uint64)
    return (kept << _HALF) | alias.astype(np.uint64)


@njit(cache=True, nogil=True)
@no_type_check
def _fill(share):
    """Fill the parts of words below 1 from words above 1, in place."""
    n = len(share)
    likely, alias = np.argmax(share), np.arange(n)
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    n_small, n_large = 0, 0
    for word in range(n):
        if share[word] < 1.0:
            small[n_small] = word
            n_small += 1
        else:
            large[n_large] = word
            n_large += 1
    while n_small and n_large:
        n_small -= 1
        needy, giver = small[n_small], large[n_large - 1]
        alias[needy] = giver
        share[giver] -= 1.0 - share[needy]
        if share[giver] < 1.0:
            n_large -= 1
            small[n_small] = giver
            n_small += 1
    # What is left differs from 1 by rounding, or is a word that is never drawn.
    for at in range(n_small):
        if share[small[at]] > 0.0:
            share[small[at]] = 1.0
        else:
            alias[small[at]] = likely
    return share, alias


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def draw_word(bits, table):
    """The word that 64 random bits draw.

    >>> int(draw_word(np.uint64(7), alias_table(np.array([0.0, 1.0]))))
    1
    """
    word = below(bits, len(table))
    entry = table[word]
    if (bits & _LOWER) >= entry >> _HALF:
        return np.int64(entry & _LOWER)
    return word
