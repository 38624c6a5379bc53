"""Sub-sampled text, its windows, and their errors under negative sampling.

A group is a few windows that share their negatives. Its rows predict its targets: first the
windows' centers, then the negatives. `members[row]` has a bit for each window that the row belongs
to, `excused[target]` one for each window of which the target, a negative, is the center.
"""

import math
from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from exfam.kernels.alias import below, draw_word, next_bits
from exfam.kernels.blocks import FAST

# Bits of `members` that are looked at; more windows at once make stale gradients of tied vectors
# add up until they diverge.
MOST_TOGETHER = 3
_HALF = np.uint64(32)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# 2 ** x for x from 0 to 1, within 1e-7 of itself, by interpolation at Chebyshev's nodes.
_POWER = np.polynomial.Chebyshev.interpolate(np.exp2, 6, [0, 1]).convert(
    kind=np.polynomial.Polynomial
)
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = _POWER.coef.astype(np.float32)
_PER_LOGIT = np.float32(-1.0 / math.log(2.0))
# Beyond them e ** -logit is no normal float32.
_LARGEST = np.float32(126.0)


class Sampling(NamedTuple):
    """2 ** 32 times the probability of keeping each word, and the `alias_table` of the noise."""

    keep: np.ndarray
    noise: np.ndarray


class Plan(NamedTuple):
    """What is trained on.

    `window`: the largest distance of a context word; a window's own is drawn from 1 to this
    `negatives`: drawn for each group of windows
    `weight`: of each of them, float32
    `together`: windows in a group, 1 to 3
    `nats_every`: of so many groups one has its nats counted
    """

    window: int
    negatives: int
    weight: np.float32
    together: int
    nats_every: int


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def subsample(tokens, keep, state):
    """The tokens that are kept, sentence ends (-1) all of them."""
    kept, n_kept = np.empty(len(tokens), np.int32), 0
    for word in tokens:
        if word >= 0 and (next_bits(state) >> _HALF) >= keep[word]:
            continue
        kept[n_kept] = word
        n_kept += 1
    return kept[:n_kept]


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def reach(kept, n_kept, position, window, state):
    """First and last position of the window around one, of a random size, within its sentence."""
    size = 1 + below(next_bits(state), window)
    first, last = position, position
    while position - first < size and first > 0 and kept[first - 1] >= 0:
        first -= 1
    while last - position < size and last + 1 < n_kept and kept[last + 1] >= 0:
        last += 1
    return first, last


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def draw_negatives(negatives, table, state):
    """Draw words anew for the whole array."""
    for j in range(len(negatives)):
        negatives[j] = draw_word(next_bits(state), table)


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def _count(bits):
    return (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1)


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def logistic(logits, scale, n):
    """The first `n` of a row of float32 logits become scale / (1 + exp(-logit)).

    Within 3e-7 of `scale`, without branches, so that a processor takes several at once.
    """
    for i in range(n):
        power = min(max(logits[i] * _PER_LOGIT, -_LARGEST), _LARGEST)
        whole = np.floor(power)
        x = power - whole
        share = _C0 + x * (_C1 + x * (_C2 + x * (_C3 + x * (_C4 + x * (_C5 + x * _C6)))))
        # 2 ** whole, by the bits of its exponent.
        large = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)
        logits[i] = scale / (_ONE + share * large)


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def _nats_of(logit, label):
    """Minus the log-probability of `label`, 1 or 0, exact for every logit."""
    wrong = -float(logit) if label else float(logit)
    return max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong))) if wrong == wrong else math.nan


@njit(cache=True, nogil=True)
@no_type_check
def group_nats(logits, members, excused, sizes, weight, totals):
    """Add to `totals` the nats of all a group's yes and no, and how many they are.

    `sizes`: of rows, of targets and of windows. `weight`: of a negative
    """
    n_rows, n_targets, n_windows = sizes
    for i in range(n_rows):
        for j in range(n_targets):
            label = j < n_windows
            count = float(members[i] >> j & 1)
            if not label:
                count = weight * _count(members[i] & ~excused[j])
            if count > 0.0:
                totals[0] += count * _nats_of(logits[i, j], label)
                totals[1] += count


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def errors(logits, members, excused, sizes, weight, rate):
    """In place of the logits: `rate` times label minus probability, summed over the windows.

    Columns up to a multiple of three and rows up to an even number become 0; all must be finite.
    """
    n_rows, n_targets, n_windows = sizes
    n_padded, width = (n_targets + 2) // 3 * 3, logits.shape[1]
    logistic(logits.reshape(-1), -rate, n_rows * width)
    for i in range(n_rows):
        for j in range(n_windows):
            logits[i, j] = (rate + logits[i, j]) * np.float32(members[i] >> j & 1)
        for j in range(n_windows, n_targets):
            logits[i, j] *= weight * np.float32(_count(members[i] & ~excused[j]))
        for j in range(n_targets, n_padded):
            logits[i, j] = _ZERO
    if n_rows % 2:
        for j in range(n_padded):
            logits[n_rows, j] = _ZERO
