"""Products of a few rows by a few rows, in blocks that stay in registers.

Coefficients are a flat array, read by steps from row to row and from column to column, so that none
is ever turned. Numbers of rows are padded to even ones, on the right of `dot_products` to multiples
of three: rows up to there are read and must be finite, and coefficients of padding must be 0. Sums
may be taken in any order, but NaN stays NaN.
"""

from typing import Any, no_type_check

import numpy as np
from numba import njit

FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
# Divisions by 0 are no errors: a branch for them would keep loops from being vectorized.
COMPILED: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "fastmath": FAST,
    "error_model": "numpy",
}
# Of functions that compiled ones alone call: less to compile.
INNER = COMPILED | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_ZERO = np.float32(0.0)


@njit(**INNER)
@no_type_check
def copy_rows(matrix, words, n_words, scale, copies):
    """copies[i] = matrix[words[i]] * scale."""
    dim = matrix.shape[1]
    for i in range(n_words):
        word = words[i]
        for k in range(dim):
            copies[i, k] = matrix[word, k] * scale[k]


@njit(**INNER)
@no_type_check
def dot_products(left, n_left, right, n_right, products, width):
    """products[i * width + j] = left[i] . right[j]."""
    dim = left.shape[1]
    for i in range(0, n_left, 2):
        for j in range(0, n_right, 3):
            a0, a1, a2, b0, b1, b2 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
            for k in range(dim):
                a, b = left[i, k], left[i + 1, k]
                x, y, z = right[j, k], right[j + 1, k], right[j + 2, k]
                a0 += a * x
                a1 += a * y
                a2 += a * z
                b0 += b * x
                b1 += b * y
                b2 += b * z
            at = i * width + j
            products[at], products[at + 1], products[at + 2] = a0, a1, a2
            at += width
            products[at], products[at + 1], products[at + 2] = b0, b1, b2


@njit(**INNER)
@no_type_check
def add_products(weights, steps, sizes, right, scale, sums, rows):
    """sums[rows[i]] += scale * (sum over j of weight(i, j) right[j]).

    `steps`: weight(i, j) is weights[i * steps[0] + j * steps[1]]. `sizes`: how many i, how many j
    """
    dim, (down, across), (n_left, n_right) = right.shape[1], steps, sizes
    for i in range(0, n_left, 2):
        r, s, j = rows[i], rows[i + 1], 0
        while j + 6 <= n_right:
            p = i * down + j * across
            a0, a1, a2 = weights[p], weights[p + across], weights[p + 2 * across]
            a3, a4, a5 = weights[p + 3 * across], weights[p + 4 * across], weights[p + 5 * across]
            p += down
            b0, b1, b2 = weights[p], weights[p + across], weights[p + 2 * across]
            b3, b4, b5 = weights[p + 3 * across], weights[p + 4 * across], weights[p + 5 * across]
            for k in range(dim):
                u, v, w = right[j, k], right[j + 1, k], right[j + 2, k]
                x, y, z = right[j + 3, k], right[j + 4, k], right[j + 5, k]
                a = a0 * u + a1 * v + a2 * w + a3 * x + a4 * y + a5 * z
                b = b0 * u + b1 * v + b2 * w + b3 * x + b4 * y + b5 * z
                sums[r, k] += scale[k] * a
                sums[s, k] += scale[k] * b
            j += 6
        while j < n_right:
            p = i * down + j * across
            a0, a1, b0, b1 = (
                weights[p],
                weights[p + across],
                weights[p + down],
                weights[p + down + across],
            )
            for k in range(dim):
                u, v = right[j, k], right[j + 1, k]
                sums[r, k] += scale[k] * (a0 * u + a1 * v)
                sums[s, k] += scale[k] * (b0 * u + b1 * v)
            j += 2
