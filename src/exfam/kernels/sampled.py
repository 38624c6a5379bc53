"""Skip-gram and CBOW with negative sampling, a piece of text at a time.

A window's context words predict its center among negatives that all of them share (Ji et al., 2016,
"Parallelizing word2vec in shared and distributed memory"), so that a group of windows is a product
of two small matrices. Of untied vectors x = center[word] predicts c = context[target]; tied ones
have c = q * center[target], q a vector of signs, or c = Q center[target], Q trained with them.
Groups are gathered, then multiplied, then written: gradients are those of the numbers gathered.

In CBOW the mean of a window's context vectors predicts. Gradients are those of the mean, each
context word's divided by their number, as word2vec's code forgets to do (İrsoy et al., 2021,
"Corrected CBOW performs as well as skip-gram"): learning rates are larger than its.
"""

from typing import Any, NamedTuple, no_type_check

import numpy as np
from numba import njit

from exfam.kernels.blocks import FAST, add_weighted_rows, dot_products, weighted_columns
from exfam.kernels.borrowing import borrowed
from exfam.kernels.windows import draw_negatives, errors, group_nats, reach, subsample

UNTIED, REFLECTED, LINEAR = 0, 1, 2


class Vectors(NamedTuple):
    """What is trained, in place; all float32, columns a multiple of 8, those of padding 0.

    `center`, `context`: a row a word; of tied vectors the context is the center's array
    `signs`: one a column, for reflected vectors
    `transform`: Q, its rows padded to a multiple of 3 by zeros; without rows unless linear
    """

    center: np.ndarray
    context: np.ndarray
    signs: np.ndarray
    transform: np.ndarray


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
@no_type_check
def train_skipgram(tokens, vectors, tie, sampling, plan, rate, seed, totals):
    """One pass over `tokens` (int32; -1 ends a sentence); nats and their number go to `totals`.

    `rate`: learning rate, float32; 0 only counts the nats. `seed`: uint64, of all that is drawn
    """
    state = np.full(1, seed, np.uint64)
    kept = subsample(tokens, sampling.keep, state)
    n_rows, dim = 2 * plan.window * plan.together, vectors.center.shape[1]
    rows, positions = np.zeros(n_rows + 1, np.int64), np.zeros(n_rows, np.int64)
    indices = rows, positions, positions, np.zeros(n_rows, np.int64)
    blocks = _empty_blocks(plan, n_rows + 1, dim, vectors.transform.shape[0])
    parts = vectors.center, vectors.center, *blocks
    held = kept, vectors, sampling, state, totals, indices, _empty_targets(plan), parts
    _train_skipgram(held, tie, plan, rate)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
@no_type_check
def train_cbow(tokens, vectors, tie, sampling, plan, rate, seed, totals):
    """The same of CBOW."""
    state = np.full(1, seed, np.uint64)
    kept = subsample(tokens, sampling.keep, state)
    n_rows, dim = plan.together, vectors.center.shape[1]
    words, counts = np.zeros((n_rows, 2 * plan.window), np.int64), np.zeros(n_rows, np.int64)
    indices = np.arange(n_rows + 1), words, counts, 1 << np.arange(n_rows)
    # Room for padding beside the rows.
    left, change = np.zeros((n_rows + 1, dim), np.float32), np.zeros((n_rows + 1, dim), np.float32)
    blocks = _empty_blocks(plan, n_rows + 1, dim, vectors.transform.shape[0])
    parts = left, change, *blocks
    held = kept, vectors, sampling, state, totals, indices, _empty_targets(plan), parts
    _train_cbow(held, tie, plan, rate)


@njit(cache=True, nogil=True)
@no_type_check
def _empty_targets(plan):
    n_targets = plan.negatives + plan.together
    targets, excused = np.zeros(n_targets, np.int64), np.zeros(n_targets, np.int64)
    return targets, excused, np.zeros(plan.negatives, np.int64)


@njit(cache=True, nogil=True)
@no_type_check
def _empty_blocks(plan, n_rows, dim, n_transform):
    # Room for padding beside the targets.
    n_targets = (plan.negatives + plan.together + 2) // 3 * 3 + 1
    width = max(dim, n_transform)
    return (
        np.zeros((n_targets, width), np.float32),
        np.zeros((n_targets, dim), np.float32),
        np.zeros((n_targets, width), np.float32),
        np.zeros((n_rows, n_targets - 1), np.float32),
    )


def _groups(*, mean: bool) -> Any:
    """The loop over groups of windows, of CBOW if a window's `mean` predicts."""

    @njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
    @no_type_check
    def train_groups(held, tie, plan, rate):
        kept, vectors, sampling, state, totals, indices, of_targets, parts = borrowed(held)
        rows, others, counts, members = indices
        targets, excused, negatives = of_targets
        left, change, right, raw, step, products = parts
        center, noise, n_kept, dim = vectors.center, sampling.noise, len(kept), left.shape[1]
        draw_negatives(negatives, noise, state)
        position, n_groups = 0, 0
        while position < n_kept:
            if mean:
                of_windows = others, counts, targets
                position, n_windows = _gather_contexts(
                    kept, n_kept, position, plan.window, state, of_windows
                )
                n_rows = n_windows
            else:
                of_rows = rows, others, members, targets
                position, n_rows, n_windows = _gather_windows(
                    kept, n_kept, position, plan.window, plan.together, state, of_rows
                )
            if n_windows == 0:
                break
            n_targets = _set_targets(targets, excused, n_windows, negatives)
            draw_negatives(negatives, noise, state)
            n_even, n_padded = n_rows + n_rows % 2, (n_targets + 2) // 3 * 3
            if mean:
                _average(center, others, counts, n_windows, left)
                change[:n_even] = np.float32(0.0)
            else:
                # Read where there is an odd number, with a weight of 0.
                rows[n_rows] = rows[0]
            _gather_targets(targets, n_targets, vectors, tie, raw, right)
            dot_products(left, rows, n_even, right, n_padded, dim, products)
            sizes = n_rows, n_targets, n_windows
            if n_groups % plan.nats_every == 0:
                group_nats(products, members, excused, sizes, plan.weight, totals)
            errors(products, members, excused, sizes, plan.weight, rate)
            weighted_columns(products, rows, n_even, left, n_padded, dim, step)
            add_weighted_rows(products, n_even, right, n_padded, dim, change, rows)
            if mean:
                _add_to_contexts(center, others, counts, n_windows, change)
            _add_to_targets(targets, n_targets, vectors, tie, raw, step, n_windows)
            n_groups += 1

    return train_groups


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def _gather_windows(kept, n_kept, position, window, together, state, indices):
    """Rows and centers of the next windows that have a context; where to go on."""
    rows, positions, members, targets = indices
    n_rows, n_windows = 0, 0
    while position < n_kept and n_windows < together:
        center = position
        position += 1
        if kept[center] < 0:
            continue
        first, last = reach(kept, n_kept, center, window, state)
        if first == last:
            continue
        n_before = n_rows
        for at in range(first, last + 1):
            if at == center:
                continue
            row = 0
            while row < n_before and positions[row] != at:
                row += 1
            if row == n_before:
                # Not a row of the windows before: one of its own.
                row = n_rows
                n_rows += 1
                positions[row], rows[row], members[row] = at, kept[at], 0
            members[row] |= 1 << n_windows
        targets[n_windows] = kept[center]
        n_windows += 1
    return position, n_rows, n_windows


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


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def _set_targets(targets, excused, n_windows, negatives):
    """Let the negatives follow the centers; how many targets there are."""
    for j in range(len(negatives)):
        word, bits = negatives[j], 0
        for window in range(n_windows):
            bits |= np.int64(targets[window] == word) << window
        targets[n_windows + j], excused[n_windows + j] = word, bits
    return n_windows + len(negatives)


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _copy_rows(matrix, words, n_words, copies):
    dim = matrix.shape[1]
    for i in range(n_words):
        word = words[i]
        for k in range(dim):
            copies[i, k] = matrix[word, k]


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _add_rows(matrix, words, n_words, steps):
    dim = matrix.shape[1]
    for i in range(n_words):
        word = words[i]
        for k in range(dim):
            matrix[word, k] += steps[i, k]


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _reflect(rows, n_rows, signs):
    dim = len(signs)
    for i in range(n_rows):
        for k in range(dim):
            rows[i, k] *= signs[k]


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _gather_targets(words, n_words, vectors, tie, raw, right):
    """Copy the context vectors of words; of linear ones what they are made of goes to `raw`."""
    if tie == UNTIED:
        _copy_rows(vectors.context, words, n_words, right)
    elif tie == REFLECTED:
        _copy_rows(vectors.center, words, n_words, right)
        _reflect(right, n_words, vectors.signs)
    else:
        q, n_even = vectors.transform, n_words + n_words % 2
        _copy_rows(vectors.center, words, n_words, raw)
        dot_products(raw, np.arange(n_even), n_even, q, q.shape[0], q.shape[1], right)


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _add_to_targets(words, n_words, vectors, tie, raw, step, n_windows):
    """Add steps, of so many windows, to the context vectors of words or to what makes them."""
    if tie == UNTIED:
        _add_rows(vectors.context, words, n_words, step)
    elif tie == REFLECTED:
        _reflect(step, n_words, vectors.signs)
        _add_rows(vectors.center, words, n_words, step)
    else:
        share = np.float32(1.0) / np.float32(n_windows)
        _add_linear(words, n_words, vectors.center, vectors.transform, raw, step, share)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
@no_type_check
def _add_linear(words, n_words, center, q, raw, step, share):
    """With c = Q w and the step s of c: w takes Q^T s, and Q takes a share of s w^T."""
    n_even, n_outputs, dim = n_words + n_words % 2, q.shape[0], q.shape[1]
    if n_words % 2:
        step[n_words, :] = np.float32(0.0)
    change = np.empty((n_outputs, dim), np.float32)
    rows = np.arange(n_even)
    weighted_columns(step, rows, n_even, raw, n_outputs, dim, change)
    raw[:n_even, :dim] = np.float32(0.0)
    add_weighted_rows(step, n_even, q, n_outputs, dim, raw, rows)
    _add_rows(center, words, n_words, raw)
    for a in range(dim):
        for k in range(dim):
            # All of a group's windows change it: with the sum of their steps it diverges.
            q[a, k] += change[a, k] * share


_train_skipgram, _train_cbow = _groups(mean=False), _groups(mean=True)
