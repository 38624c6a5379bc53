"""Random bits inside compiled loops, and words drawn from a fixed distribution by one look-up each.

Source: Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators" (SplitMix64);
Vose (1991), "A linear algorithm for generating random numbers with a given distribution".
"""

from typing import no_type_check

import numpy as np
from jaxtyping import Float64, UInt64
from numba import njit

from exfam.checks import DataError

# Of type uint64 all: numba turns a mixture of signed and unsigned into floats.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_THIRTY, _TWENTY_SEVEN, _THIRTY_ONE = np.uint64(30), np.uint64(27), np.uint64(31)
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def next_bits(state):
    """64 random bits; `state`, an array of one uint64, moves on."""
    state[0] += _STEP
    bits = state[0]
    bits = (bits ^ (bits >> _THIRTY)) * _FIRST
    bits = (bits ^ (bits >> _TWENTY_SEVEN)) * _SECOND
    return bits ^ (bits >> _THIRTY_ONE)


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def below(bits, n):
    """A whole number from 0 to `n` - 1, at most 2 ** 32 of them, by the upper half of the bits."""
    return np.int64(((bits >> _HALF) * np.uint64(n)) >> _HALF)


def alias_table(probability: Float64[np.ndarray, "words"]) -> UInt64[np.ndarray, "words"]:
    """What `draw_word` draws by: of each word 32 bits of the share it keeps, 32 of its alias.

    Probabilities are kept to 2 ** -32 of a word's part; words of probability 0 are never drawn.
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
    """The word that 64 random bits draw."""
    word = below(bits, len(table))
    entry = table[word]
    if (bits & _LOWER) >= entry >> _HALF:
        return np.int64(entry & _LOWER)
    return word
