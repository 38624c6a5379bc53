"""Compiled steps of counting pairs of words: gathering, merging, and the rows of the result.

A pair of codes low <= high of n words is the number low * n + high. A run holds pairs in rising
order, each once, and how much there is of each. Amounts are whole numbers, so that sums do not
depend on the order in which they come. A triangle holds all pairs of the first words, row by row.
"""

from typing import no_type_check

import numpy as np
from numba import njit


@njit(cache=True)
@no_type_check
def gather_pairs(tokens, start, stop, n_words, amounts, triangle, keys):
    """Add the pairs whose left word lies from `start` to `stop`, until `keys` are full.

    Those of the first words go to `triangle`; of all others the pair and the distance go to `keys`,
    as one number. Codes from `n_words` on keep their position and count for nothing; -1 ends a
    sentence. Returns where to go on, and how many keys there are.
    """
    window = len(amounts) - 1
    n_dense = _side(triangle)
    n_keys = 0
    for position in range(start, stop):
        if n_keys + window > len(keys):
            return position, n_keys
        left = np.int64(tokens[position])
        if left < 0 or left >= n_words:
            continue
        for distance in range(1, min(window, len(tokens) - 1 - position) + 1):
            right = np.int64(tokens[position + distance])
            if right < 0:
                break
            if right >= n_words:
                continue
            low, high = min(left, right), max(left, right)
            if high < n_dense:
                triangle[low * n_dense - low * (low + 1) // 2 + high] += amounts[distance]
            else:
                keys[n_keys] = (low * n_words + high) * (window + 1) + distance
                n_keys += 1
    return stop, n_keys


@njit(cache=True)
@no_type_check
def reduce_sorted(keys, amounts, totals):
    """Make a run of sorted keys, its pairs in place of the keys; returns its length."""
    base = len(amounts)
    n_pairs = 0
    for key in keys:
        pair = key // base
        amount = amounts[key - pair * base]
        if n_pairs and keys[n_pairs - 1] == pair:
            totals[n_pairs - 1] += amount
        else:
            keys[n_pairs] = pair
            totals[n_pairs] = amount
            n_pairs += 1
    return n_pairs


@njit(cache=True)
@no_type_check
def merge(one, one_totals, other, other_totals, pairs, totals):
    """Merge two runs into `pairs` and `totals`, which have room for both; returns the length."""
    i, j, n_pairs = 0, 0, 0
    while i < len(one) or j < len(other):
        from_one = j == len(other) or (i < len(one) and one[i] <= other[j])
        from_other = i == len(one) or (j < len(other) and other[j] <= one[i])
        total = 0
        if from_one:
            pairs[n_pairs] = one[i]
            total += one_totals[i]
            i += 1
        if from_other:
            pairs[n_pairs] = other[j]
            total += other_totals[j]
            j += 1
        totals[n_pairs] = total
        n_pairs += 1
    return n_pairs


@njit(cache=True)
@no_type_check
def count_triangle(triangle, below, above):
    """Add the entries left of the diagonal, and those from it on, to `below` and `above`."""
    n_dense = _side(triangle)
    at = 0
    for low in range(n_dense):
        for high in range(low, n_dense):
            if triangle[at]:
                above[low] += 1
                below[high] += high > low
            at += 1


@njit(cache=True)
@no_type_check
def count_run(pairs, n_words, below, above):
    """Add the entries left of the diagonal, and those from it on, to `below` and `above`."""
    low = 0
    for pair in pairs:
        while pair >= (low + 1) * n_words:
            low += 1
        high = pair - low * n_words
        above[low] += 1
        below[high] += high > low


@njit(cache=True)
@no_type_check
def fill_triangle(triangle, below, above, columns, values):
    """Put all pairs into both their rows; `below` and `above` say where to go on in each row."""
    n_dense = _side(triangle)
    at = 0
    for low in range(n_dense):
        for high in range(low, n_dense):
            if triangle[at]:
                _put(low, high, triangle[at], below, above, columns, values)
            at += 1


@njit(cache=True)
@no_type_check
def fill_run(pairs, totals, n_words, below, above, columns, values):
    """Put all pairs into both their rows; `below` and `above` say where to go on in each row."""
    low = 0
    for k in range(len(pairs)):
        while pairs[k] >= (low + 1) * n_words:
            low += 1
        _put(low, pairs[k] - low * n_words, totals[k], below, above, columns, values)


@njit(cache=True)
@no_type_check
def _side(triangle):
    """The number of words whose pairs a triangle holds."""
    return int((np.sqrt(8.0 * len(triangle) + 1.0) - 1.0) / 2.0 + 0.5)


@njit(cache=True)
@no_type_check
def _put(low, high, total, below, above, columns, values):
    # Each of two like words is in the context of the other: on the diagonal a pair counts twice.
    columns[above[low]] = high
    values[above[low]] = total if high > low else 2 * total
    above[low] += 1
    if high > low:
        columns[below[high]] = low
        values[below[high]] = total
        below[high] += 1
