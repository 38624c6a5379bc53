"""Random bits inside compiled loops: SplitMix64, whose state is one number of 64 bits.

Source: Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators".
"""

from typing import no_type_check

import numpy as np
from numba import njit

# Of type uint64 all: numba turns a mixture of signed and unsigned into floats.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_THIRTY, _TWENTY_SEVEN, _THIRTY_ONE = np.uint64(30), np.uint64(27), np.uint64(31)
_HALF = np.uint64(32)


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def next_bits(state):
    """64 random bits; `state`, an array of one uint64, moves on.

    >>> state = np.zeros(1, np.uint64)
    >>> hex(next_bits(state))
    '0xe220a8397b1dcdaf'
    """
    state[0] += _STEP
    bits = state[0]
    bits = (bits ^ (bits >> _THIRTY)) * _FIRST
    bits = (bits ^ (bits >> _TWENTY_SEVEN)) * _SECOND
    return bits ^ (bits >> _THIRTY_ONE)


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def below(bits, n):
    """A whole number from 0 to `n` - 1, at most 2 ** 32 of them, by the upper half of the bits.

    >>> int(below(np.uint64(1 << 63), 10))
    5
    """
    return np.int64(((bits >> _HALF) * np.uint64(n)) >> _HALF)
