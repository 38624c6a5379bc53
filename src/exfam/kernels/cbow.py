"""CBOW with negative sampling, a piece of text at a time.

The mean of a window's context vectors predicts its center among negatives. Gradients are those of
the mean, each context word's divided by their number, as word2vec's code forgets to do (İrsoy et
al., 2021, "Corrected CBOW performs as well as skip-gram"): learning rates are larger than its.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from exfam.kernels.blocks import FAST, add_weighted_rows, dot_products, weighted_columns
from exfam.kernels.borrowing import borrowed
from exfam.kernels.skipgram import add_to_targets, gather_targets, set_targets
from exfam.kernels.windows import draw_negatives, errors, group_nats, reach, subsample


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
@no_type_check
def train_cbow(tokens, vectors, tie, sampling, plan, rate, seed, totals):
    """One pass over `tokens` (int32; -1 ends a sentence); nats and their number go to `totals`.

    `rate`: learning rate, float32; 0 only counts the nats. `seed`: uint64, of all that is drawn
    """
    state = np.full(1, seed, np.uint64)
    kept = subsample(tokens, sampling.keep, state)
    indices = _empty_indices(plan)
    blocks = _empty_blocks(plan, vectors.center.shape[1], vectors.transform.shape[0])
    held = kept, vectors, sampling, state, totals, indices, blocks
    _train_groups(held, tie, plan, rate)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
@no_type_check
def _train_groups(held, tie, plan, rate):
    kept, vectors, sampling, state, totals, indices, blocks = borrowed(held)
    words, counts, members, rows, targets, excused, negatives = indices
    left, right, raw, step, change, products = blocks
    center, noise, n_kept, dim = vectors.center, sampling.noise, len(kept), vectors.center.shape[1]
    draw_negatives(negatives, noise, state)
    position, n_groups = 0, 0
    while position < n_kept:
        position, n_windows = _gather_contexts(
            kept, n_kept, position, plan.window, state, (words, counts, targets)
        )
        if n_windows == 0:
            break
        n_targets = set_targets(targets, excused, n_windows, negatives)
        draw_negatives(negatives, noise, state)
        _average(center, words, counts, n_windows, left)
        gather_targets(targets, n_targets, vectors, tie, raw, right)
        n_even, n_padded = n_windows + n_windows % 2, (n_targets + 2) // 3 * 3
        dot_products(left, rows, n_even, right, n_padded, dim, products)
        sizes = n_windows, n_targets, n_windows
        if n_groups % plan.nats_every == 0:
            group_nats(products, members, excused, sizes, plan.weight, totals)
        errors(products, members, excused, sizes, plan.weight, rate)
        weighted_columns(products, rows, n_even, left, n_padded, dim, step)
        change[:n_even] = np.float32(0.0)
        add_weighted_rows(products, n_even, right, n_padded, dim, change, rows)
        _add_to_contexts(center, words, counts, n_windows, change)
        add_to_targets(targets, n_targets, vectors, tie, raw, step, n_windows)
        n_groups += 1


@njit(cache=True, nogil=True)
@no_type_check
def _empty_indices(plan):
    n_windows, n_targets = plan.together, plan.negatives + plan.together
    return (
        np.zeros((n_windows, 2 * plan.window), np.int64),
        np.zeros(n_windows, np.int64),
        1 << np.arange(n_windows),
        np.arange(n_windows + 1),
        np.zeros(n_targets, np.int64),
        np.zeros(n_targets, np.int64),
        np.zeros(plan.negatives, np.int64),
    )


@njit(cache=True, nogil=True)
@no_type_check
def _empty_blocks(plan, dim, n_transform):
    # Room for padding beside the rows and targets.
    n_rows, n_targets = plan.together + 1, (plan.negatives + plan.together + 2) // 3 * 3 + 1
    width = max(dim, n_transform)
    return (
        np.zeros((n_rows, dim), np.float32),
        np.zeros((n_targets, width), np.float32),
        np.zeros((n_targets, dim), np.float32),
        np.zeros((n_targets, width), np.float32),
        np.zeros((n_rows, dim), np.float32),
        np.zeros((n_rows, n_targets - 1), np.float32),
    )


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def _gather_contexts(kept, n_kept, position, window, state, indices):
    """Context words and centers of the next windows that have a context; where to go on."""
    words, counts, targets = indices
    n_windows = 0
    while position < n_kept and n_windows < len(counts):
        center = position
        position += 1
        if kept[center] < 0:
            continue
        first, last = reach(kept, n_kept, center, window, state)
        if first == last:
            continue
        n = 0
        for at in range(first, last + 1):
            if at != center:
                words[n_windows, n] = kept[at]
                n += 1
        counts[n_windows], targets[n_windows] = n, kept[center]
        n_windows += 1
    return position, n_windows


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _average(center, words, counts, n_windows, left):
    dim = center.shape[1]
    for i in range(n_windows):
        share = np.float32(1.0) / np.float32(counts[i])
        for k in range(dim):
            left[i, k] = np.float32(0.0)
        for n in range(counts[i]):
            word = words[i, n]
            for k in range(dim):
                left[i, k] += share * center[word, k]


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _add_to_contexts(center, words, counts, n_windows, change):
    dim = center.shape[1]
    for i in range(n_windows):
        share = np.float32(1.0) / np.float32(counts[i])
        for n in range(counts[i]):
            word = words[i, n]
            for k in range(dim):
                center[word, k] += share * change[i, k]
