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
from exfam.kernels.blocks import INNER

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


@njit(**INNER)
@no_type_check
def subsample(tokens, kept, keep, state):
    """The tokens that are kept, sentence ends (-1) all of them, written to `kept`."""
    n_kept = 0
    for word in tokens:
        if word >= 0 and (next_bits(state) >> _HALF) >= keep[word]:
            continue
        kept[n_kept] = word
        n_kept += 1
    return kept[:n_kept]


@njit(**INNER)
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


@njit(**INNER)
@no_type_check
def draw_negatives(negatives, table, state):
    """Draw words anew for the whole array."""
    for j in range(len(negatives)):
        negatives[j] = draw_word(next_bits(state), table)


@njit(**INNER)
@no_type_check
def count_bits(bits):
    """How many of the windows' bits are set."""
    count = bits & 1
    for window in range(1, MOST_TOGETHER):
        count += bits >> window & 1
    return count


@njit(**INNER)
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


@njit(**INNER)
@no_type_check
def group_nats(logits, width, group, weight, totals):
    """Add to `totals` the nats of all a group's yes and no, and how many they are.

    `group`: members, excused, how many rows, targets and windows. `weight`: of a negative
    """
    members, excused, n_rows, n_targets, n_windows = group
    for i in range(n_rows):
        for j in range(n_targets):
            logit = float(logits[i * width + j])
            count, wrong = float(members[i] >> j & 1), -logit
            if j >= n_windows:
                count, wrong = float(weight) * count_bits(members[i] & ~excused[j]), logit
            if count > 0.0:
                # Minus the log-probability, exact for every logit.
                nats = max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong)))
                totals[0] += count * (nats if wrong == wrong else wrong)
                totals[1] += count


@njit(**INNER)
@no_type_check
def errors(logits, width, group, weight, rate):
    """In place of the logits: `rate` times label minus probability, summed over the windows.

    All logits must be finite. Rows and columns up to the next even number become 0
    """
    members, excused, n_rows, n_targets, n_windows = group
    logistic(logits, -rate, n_rows * width)
    for i in range(n_rows):
        first = i * width
        for j in range(n_windows):
            logits[first + j] = (rate + logits[first + j]) * np.float32(members[i] >> j & 1)
        all_windows = weight * np.float32(count_bits(members[i]))
        for j in range(n_windows, n_targets):
            if excused[j]:
                logits[first + j] *= weight * np.float32(count_bits(members[i] & ~excused[j]))
            else:
                logits[first + j] *= all_windows
        logits[first + n_targets] = _ZERO
    for j in range(n_targets + 1):
        logits[n_rows * width + j] = _ZERO


@njit(**INNER)
@no_type_check
def set_targets(targets, excused, n_windows, negatives):
    """Let the negatives follow the centers; how many targets there are."""
    for j in range(len(negatives)):
        word, bits = negatives[j], 0
        for window in range(n_windows):
            bits |= np.int64(targets[window] == word) << window
        targets[n_windows + j], excused[n_windows + j] = word, bits
    return n_windows + len(negatives)
