"""Skip-gram and CBOW with negative sampling, a piece of text at a time.

A window's context words predict its center among negatives that all of them share (Ji et al., 2016,
"Parallelizing word2vec in shared and distributed memory"), so that a group of windows is a product
of two small matrices. Of untied vectors x = center[word] predicts c = context[target]; tied ones
have c = q * center[target], q a vector of signs, or c = Q center[target], Q trained with them.
Groups are gathered, then multiplied, then written: gradients are those of the numbers gathered.

In CBOW the mean of a window's context vectors predicts. Gradients are those of the mean, each
context word's divided by their number, as word2vec's code forgets to do (İrsoy et al., 2021,
"Corrected CBOW performs as well as skip-gram"): learning rates are larger than its.

The first fit after an installation compiles all of this. So functions are small, each is compiled
once, and what Q needs is left out where there is none.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from exfam.kernels.blocks import COMPILED, INNER, add_products, copy_rows, dot_products
from exfam.kernels.borrowing import borrowed, prefetch_rows
from exfam.kernels.windows import (
    Plan,
    draw_negatives,
    errors,
    group_nats,
    reach,
    set_targets,
    subsample,
)


class Vectors(NamedTuple):
    """What is trained, in place; all float32, columns a multiple of 8, those of padding 0.

    `center`, `context`: a row a word; of tied vectors the context is the center's array
    `signs`: one a column; all +1 unless vectors are reflected
    """

    center: np.ndarray
    context: np.ndarray
    signs: np.ndarray


class Room(NamedTuple):
    """Where a group is gathered; each array has room for padding.

    `left`, `words`, `members`, `positions`: rows of context words, their words, bits of their
        windows, and where they stand in the text
    `right`, `targets`, `excused`: rows of targets, their words, and windows that excuse them
    `negatives`: of the next group
    `products`: logits, then errors, a row of targets after the other
    `raw`, `step`, `change`: of linear vectors what targets are made of; the steps of targets and
        of Q
    `ones`: one a column
    """

    left: np.ndarray
    words: np.ndarray
    members: np.ndarray
    positions: np.ndarray
    right: np.ndarray
    targets: np.ndarray
    excused: np.ndarray
    negatives: np.ndarray
    products: np.ndarray
    raw: np.ndarray
    step: np.ndarray
    change: np.ndarray
    ones: np.ndarray


def train_skipgram(tokens, vectors, transform, sampling, plan, rate, seed, totals):  # type: ignore[no-untyped-def]
    """One pass over `tokens` (int32; -1 ends a sentence); nats and their number go to `totals`.

    `transform`: Q, its rows padded to a multiple of 3 by zeros; None unless vectors are linear
    `rate`: learning rate, float32; 0 only counts the nats. `seed`: uint64, of all that is drawn
    """
    room = _room(plan, vectors.center.shape[1])
    held = tokens, np.empty_like(tokens), vectors, sampling, np.array([seed], np.uint64), totals
    _skipgram(held, room, transform, plan, rate)


class Means(NamedTuple):
    """Rows of CBOW's windows.

    `shares`: of context rows in windows, the windows of a row side by side
    `rows`, `change`: the means, and what is added to them
    `numbers`, `bits`: of windows
    """

    shares: np.ndarray
    rows: np.ndarray
    change: np.ndarray
    numbers: np.ndarray
    bits: np.ndarray


def train_cbow(tokens, vectors, transform, sampling, plan, rate, seed, totals):  # type: ignore[no-untyped-def]
    """The same of CBOW."""
    dim = vectors.center.shape[1]
    room = _room(plan, dim), _means(plan, dim)
    held = tokens, np.empty_like(tokens), vectors, sampling, np.array([seed], np.uint64), totals
    _cbow(held, room, transform, plan, rate)


def _room(plan: Plan, dim: int) -> Room:
    n_left, n_right = 2 * plan.window * plan.together + 2, plan.negatives + plan.together + 3
    return Room(
        np.zeros((n_left, dim), np.float32),
        np.zeros(n_left, np.int64),
        np.zeros(n_left, np.int64),
        np.zeros(n_left, np.int64),
        np.zeros((n_right, dim), np.float32),
        np.zeros(n_right, np.int64),
        np.zeros(n_right, np.int64),
        np.zeros(plan.negatives, np.int64),
        np.zeros(n_left * n_right, np.float32),
        np.zeros((n_right, dim), np.float32),
        np.zeros((n_right, dim), np.float32),
        np.zeros((dim, dim), np.float32),
        np.ones(dim, np.float32),
    )


def _means(plan: Plan, dim: int) -> Means:
    n = plan.together + 2
    return Means(
        np.zeros(n * (2 * plan.window * plan.together + 2), np.float32),
        np.zeros((n, dim), np.float32),
        np.zeros((n, dim), np.float32),
        np.arange(n),
        1 << np.arange(n),
    )


@njit(**COMPILED)
@no_type_check
def _skipgram(held, owned, transform, plan, rate):
    tokens, kept, vectors, sampling, state, totals = borrowed(held)
    room = borrowed(owned)
    kept, ones, noise = subsample(tokens, kept, sampling.keep, state), room.ones, sampling.noise
    width = room.right.shape[0]
    draw_negatives(room.negatives, noise, state)
    position, n_groups = 0, 0
    while position < len(kept):
        position, n_rows, n_windows = _gather_windows(kept, position, plan, state, room)
        if n_windows == 0:
            break
        n_targets = set_targets(room.targets, room.excused, n_windows, room.negatives)
        draw_negatives(room.negatives, noise, state)
        prefetch_rows(vectors.context, room.negatives)
        copy_rows(vectors.center, room.words, n_rows, ones, room.left)
        _gather_targets(vectors, transform, n_targets, ones, room)
        dot_products(room.left, n_rows, room.right, n_targets, room.products, width)
        group = room.members, room.excused, n_rows, n_targets, n_windows
        if n_groups % plan.nats_every == 0:
            group_nats(room.products, width, group, plan.weight, totals)
        errors(room.products, width, group, plan.weight, rate)
        # Read where there is an odd number, with a weight of 0.
        room.words[n_rows] = room.words[0]
        sizes = n_rows, n_targets
        add_products(room.products, (width, 1), sizes, room.right, ones, vectors.center, room.words)
        sizes = n_targets, n_rows, n_windows
        _add_to_targets(vectors, transform, sizes, room.left, room)
        n_groups += 1


@njit(**COMPILED)
@no_type_check
def _cbow(held, owned, transform, plan, rate):
    tokens, kept, vectors, sampling, state, totals = borrowed(held)
    room, means = borrowed(owned)
    kept, ones, noise = subsample(tokens, kept, sampling.keep, state), room.ones, sampling.noise
    width = room.right.shape[0]
    across = len(means.bits)
    draw_negatives(room.negatives, noise, state)
    position, n_groups = 0, 0
    while position < len(kept):
        position, n_rows, n_windows = _gather_windows(kept, position, plan, state, room)
        if n_windows == 0:
            break
        n_targets = set_targets(room.targets, room.excused, n_windows, room.negatives)
        draw_negatives(room.negatives, noise, state)
        prefetch_rows(vectors.context, room.negatives)
        copy_rows(vectors.center, room.words, n_rows, ones, room.left)
        _gather_targets(vectors, transform, n_targets, ones, room)
        _set_shares(means.shares, across, room.members, n_rows, n_windows)
        means.rows[:] = np.float32(0.0)
        sizes = n_windows, n_rows
        add_products(means.shares, (1, across), sizes, room.left, ones, means.rows, means.numbers)
        dot_products(means.rows, n_windows, room.right, n_targets, room.products, width)
        group = means.bits, room.excused, n_windows, n_targets, n_windows
        if n_groups % plan.nats_every == 0:
            group_nats(room.products, width, group, plan.weight, totals)
        errors(room.products, width, group, plan.weight, rate)
        means.change[:] = np.float32(0.0)
        sizes = n_windows, n_targets
        add_products(
            room.products, (width, 1), sizes, room.right, ones, means.change, means.numbers
        )
        room.words[n_rows] = room.words[0]
        sizes = n_rows, n_windows
        add_products(
            means.shares, (across, 1), sizes, means.change, ones, vectors.center, room.words
        )
        sizes = n_targets, n_windows, n_windows
        _add_to_targets(vectors, transform, sizes, means.rows, room)
        n_groups += 1


@njit(**INNER)
@no_type_check
def _set_shares(shares, across, members, n_rows, n_windows):
    """Of each context row in the mean of each window; 0 in padding."""
    shares[:] = np.float32(0.0)
    for window in range(n_windows):
        n = 0
        for row in range(n_rows):
            n += members[row] >> window & 1
        share = np.float32(1.0) / np.float32(n)
        for row in range(n_rows):
            shares[row * across + window] = share * np.float32(members[row] >> window & 1)


@njit(**INNER)
@no_type_check
def _gather_windows(kept, position, plan, state, room):
    """Rows and centers of the next windows that have a context; where to go on."""
    n_kept, n_rows, n_windows = len(kept), 0, 0
    while position < n_kept and n_windows < plan.together:
        center = position
        position += 1
        if kept[center] < 0:
            continue
        first, last = reach(kept, n_kept, center, plan.window, state)
        if first == last:
            continue
        n_before = n_rows
        for at in range(first, last + 1):
            if at == center:
                continue
            row = 0
            while row < n_before and room.positions[row] != at:
                row += 1
            if row == n_before:
                # Not a row of the windows before: one of its own.
                row = n_rows
                n_rows += 1
                room.positions[row], room.words[row], room.members[row] = at, kept[at], 0
            room.members[row] |= 1 << n_windows
        room.targets[n_windows] = kept[center]
        n_windows += 1
    return position, n_rows, n_windows


@njit(**INNER)
@no_type_check
def _gather_targets(vectors, transform, n_targets, ones, room):
    """Copy the context vectors of targets; of linear ones what they are made of goes to `raw`."""
    if transform is None:
        copy_rows(vectors.context, room.targets, n_targets, vectors.signs, room.right)
    else:
        copy_rows(vectors.center, room.targets, n_targets, ones, room.raw)
        for a in range(room.right.shape[1]):
            for i in range(n_targets):
                total = np.float32(0.0)
                for k in range(room.right.shape[1]):
                    total += room.raw[i, k] * transform[a, k]
                room.right[i, a] = total


@njit(**INNER)
@no_type_check
def _add_to_targets(vectors, transform, sizes, left, room):
    """Add the steps of so many windows to context vectors, or to what makes them.

    With c = Q w and the step s of c: w takes Q^T s, and Q takes a share of s w^T.
    """
    n_targets, n_left, n_windows = sizes
    width, dim = room.right.shape
    room.targets[n_targets] = room.targets[0]
    if transform is None:
        signs, both = vectors.signs, (n_targets, n_left)
        add_products(room.products, (1, width), both, left, signs, vectors.context, room.targets)
    else:
        q, step, change, ones = transform, room.step, room.change, room.ones
        step[:], change[:] = np.float32(0.0), np.float32(0.0)
        both, rows = (n_targets, n_left), np.arange(max(width, dim))
        add_products(room.products, (1, width), both, left, ones, step, rows)
        room.raw[n_targets] = np.float32(0.0)
        steps = step.reshape(-1)
        add_products(steps, (1, dim), (dim, n_targets), room.raw, ones, change, rows)
        both = n_targets, dim
        add_products(steps, (dim, 1), both, q, ones, vectors.center, room.targets)
        # All of a group's windows change it: with the sum of their steps it diverges.
        share = np.float32(1.0) / np.float32(n_windows)
        for a in range(dim):
            for k in range(dim):
                q[a, k] += change[a, k] * share
