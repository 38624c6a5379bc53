"""Rows through many decision trees: sums of leaves, and which feature moved a row by how much."""

from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, UInt32
from numba import njit

# Rows that go through all trees together: what is read of them stays in the cache.
_ROWS = 256


class Trees(NamedTuple):
    """Nodes of all trees in flat arrays; children come after their parent.

    `feature`: the column that a node splits, -1 of a leaf
    `threshold`: a number goes left if it is not above it
    `bitset`: of a split of labels the row of `bitsets` that holds which ones go left, else -1
    `value`: of a leaf what it adds, of another node what its leaves add on average
    `starts`: the root of each tree
    `output`: what each tree adds to
    """

    feature: Int32[np.ndarray, "nodes"]
    threshold: Float64[np.ndarray, "nodes"]
    missing_left: Bool[np.ndarray, "nodes"]
    left: Int32[np.ndarray, "nodes"]
    right: Int32[np.ndarray, "nodes"]
    bitset: Int32[np.ndarray, "nodes"]
    value: Float64[np.ndarray, "nodes"]
    bitsets: UInt32[np.ndarray, "splits 8"]
    starts: Int64[np.ndarray, "trees"]
    output: Int32[np.ndarray, "trees"]


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def _goes_left(number, threshold, missing_left, bitset, bitsets):
    """NaN goes where training rows without the number went."""
    if np.isnan(number):
        return missing_left
    if bitset < 0:
        return number <= threshold
    label = np.int64(number)
    return (bitsets[bitset, label >> 5] >> np.uint32(label & 31)) & np.uint32(1) != 0


@njit(cache=True, nogil=True)
@no_type_check
def add_leaves(trees, x, sums):
    """sums[row, output] += the leaf of each tree of the output, tree by tree."""
    feature, threshold, missing_left = trees.feature, trees.threshold, trees.missing_left
    left, right, bitset = trees.left, trees.right, trees.bitset
    value, bitsets = trees.value, trees.bitsets
    for first in range(0, len(x), _ROWS):
        for tree in range(len(trees.starts)):
            output = trees.output[tree]
            for row in range(first, min(first + _ROWS, len(x))):
                node = trees.starts[tree]
                while feature[node] >= 0:
                    goes_left = _goes_left(
                        x[row, feature[node]],
                        threshold[node],
                        missing_left[node],
                        bitset[node],
                        bitsets,
                    )
                    node = left[node] if goes_left else right[node]
                sums[row, output] += value[node]


@njit(cache=True, nogil=True)
@no_type_check
def add_steps(trees, x, sums):
    """sums[row, feature, output] += what each split by the feature changed the value by."""
    feature, threshold, missing_left = trees.feature, trees.threshold, trees.missing_left
    left, right, bitset = trees.left, trees.right, trees.bitset
    value, bitsets = trees.value, trees.bitsets
    for tree in range(len(trees.starts)):
        output = trees.output[tree]
        for row in range(len(x)):
            node = trees.starts[tree]
            while feature[node] >= 0:
                column = feature[node]
                goes_left = _goes_left(
                    x[row, column], threshold[node], missing_left[node], bitset[node], bitsets
                )
                child = left[node] if goes_left else right[node]
                sums[row, column, output] += value[child] - value[node]
                node = child


@njit(cache=True, nogil=True)
@no_type_check
def average_leaves(left, right, feature, count, value):
    """Replace inner nodes' `value` by the mean of their leaves, weighted by training rows."""
    for node in range(len(value) - 1, -1, -1):
        if feature[node] >= 0:
            a, b = left[node], right[node]
            total = count[a] + count[b]
            value[node] = (count[a] * value[a] + count[b] * value[b]) / total
