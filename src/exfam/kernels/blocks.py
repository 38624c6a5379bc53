"""Products of a few rows by a few rows, in blocks of two by three that stay in registers.

`n_left` is padded to an even number and `n_right` to a multiple of three: rows up to there are read
and must be finite, and coefficients of padding must be 0. Sums may be taken in any order, but NaN
stays NaN.
"""

from typing import no_type_check

import numpy as np
from numba import njit

__all__ = ["FAST", "dot_products", "weighted_columns", "weighted_rows"]

FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
_ZERO = np.float32(0.0)


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def dot_products(left, n_left, right, n_right, dim, products):
    """products[i, j] = left[i] . right[j], over the first `dim` columns."""
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
            products[i, j], products[i, j + 1], products[i, j + 2] = a0, a1, a2
            products[i + 1, j], products[i + 1, j + 1], products[i + 1, j + 2] = b0, b1, b2


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def weighted_rows(weights, n_left, right, n_right, dim, sums):
    """sums[i] = sum over j of weights[i, j] right[j]."""
    for i in range(0, n_left, 2):
        for k in range(dim):
            sums[i, k] = _ZERO
            sums[i + 1, k] = _ZERO
        for j in range(0, n_right, 3):
            a0, a1, a2 = weights[i, j], weights[i, j + 1], weights[i, j + 2]
            b0, b1, b2 = weights[i + 1, j], weights[i + 1, j + 1], weights[i + 1, j + 2]
            for k in range(dim):
                x, y, z = right[j, k], right[j + 1, k], right[j + 2, k]
                sums[i, k] += a0 * x + a1 * y + a2 * z
                sums[i + 1, k] += b0 * x + b1 * y + b2 * z


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def weighted_columns(weights, n_left, left, n_right, dim, sums):
    """sums[j] = sum over i of weights[i, j] left[i]."""
    for j in range(0, n_right, 3):
        for k in range(dim):
            sums[j, k] = _ZERO
            sums[j + 1, k] = _ZERO
            sums[j + 2, k] = _ZERO
        for i in range(0, n_left, 2):
            a0, a1, a2 = weights[i, j], weights[i, j + 1], weights[i, j + 2]
            b0, b1, b2 = weights[i + 1, j], weights[i + 1, j + 1], weights[i + 1, j + 2]
            for k in range(dim):
                a, b = left[i, k], left[i + 1, k]
                sums[j, k] += a0 * a + b0 * b
                sums[j + 1, k] += a1 * a + b1 * b
                sums[j + 2, k] += a2 * a + b2 * b
