"""Products of a few rows by a few rows, in blocks that stay in registers.

`rows` names the rows of a matrix that are meant, of as many as are on the left. `n_left` is padded
to an even number and `n_right` to a multiple of three: rows up to there are read and must be
finite, and coefficients of padding must be 0. Sums may be taken in any order, but NaN stays NaN.
"""

from typing import Any, no_type_check

import numpy as np
from numba import njit

FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
_ZERO = np.float32(0.0)


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def dot_products(left, rows, n_left, right, n_right, dim, products):
    """products[i, j] = left[rows[i]] . right[j], over the first `dim` columns."""
    for i in range(0, n_left, 2):
        r, s = rows[i], rows[i + 1]
        for j in range(0, n_right, 3):
            a0, a1, a2, b0, b1, b2 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
            for k in range(dim):
                a, b = left[r, k], left[s, k]
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
def add_weighted_rows(weights, n_left, right, n_right, dim, sums, rows):
    """sums[rows[i]] += sum over j of weights[i, j] right[j]."""
    for i in range(0, n_left, 2):
        r, s = rows[i], rows[i + 1]
        for j in range(0, n_right - 5, 6):
            a0, a1, a2 = weights[i, j], weights[i, j + 1], weights[i, j + 2]
            a3, a4, a5 = weights[i, j + 3], weights[i, j + 4], weights[i, j + 5]
            b0, b1, b2 = weights[i + 1, j], weights[i + 1, j + 1], weights[i + 1, j + 2]
            b3, b4, b5 = weights[i + 1, j + 3], weights[i + 1, j + 4], weights[i + 1, j + 5]
            for k in range(dim):
                u, v, w = right[j, k], right[j + 1, k], right[j + 2, k]
                x, y, z = right[j + 3, k], right[j + 4, k], right[j + 5, k]
                sums[r, k] += a0 * u + a1 * v + a2 * w + a3 * x + a4 * y + a5 * z
                sums[s, k] += b0 * u + b1 * v + b2 * w + b3 * x + b4 * y + b5 * z
        if n_right % 6:
            j = n_right - 3
            a0, a1, a2 = weights[i, j], weights[i, j + 1], weights[i, j + 2]
            b0, b1, b2 = weights[i + 1, j], weights[i + 1, j + 1], weights[i + 1, j + 2]
            for k in range(dim):
                x, y, z = right[j, k], right[j + 1, k], right[j + 2, k]
                sums[r, k] += a0 * x + a1 * y + a2 * z
                sums[s, k] += b0 * x + b1 * y + b2 * z


def _four_columns(*, fresh: bool) -> Any:
    @njit(cache=True, nogil=True, inline="always", fastmath=FAST)
    @no_type_check
    def four_columns(weights, rows, i, left, j, dim, sums):
        p, q, r, s = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        a0, a1, a2 = weights[i, j], weights[i, j + 1], weights[i, j + 2]
        b0, b1, b2 = weights[i + 1, j], weights[i + 1, j + 1], weights[i + 1, j + 2]
        c0, c1, c2 = weights[i + 2, j], weights[i + 2, j + 1], weights[i + 2, j + 2]
        d0, d1, d2 = weights[i + 3, j], weights[i + 3, j + 1], weights[i + 3, j + 2]
        for k in range(dim):
            a, b, c, d = left[p, k], left[q, k], left[r, k], left[s, k]
            x = a0 * a + b0 * b + c0 * c + d0 * d
            y = a1 * a + b1 * b + c1 * c + d1 * d
            z = a2 * a + b2 * b + c2 * c + d2 * d
            if fresh:
                sums[j, k], sums[j + 1, k], sums[j + 2, k] = x, y, z
            else:
                sums[j, k] += x
                sums[j + 1, k] += y
                sums[j + 2, k] += z

    return four_columns


_set_four, _add_four = _four_columns(fresh=True), _four_columns(fresh=False)


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def _set_two(weights, rows, left, j, dim, sums):
    p, q = rows[0], rows[1]
    a0, a1, a2 = weights[0, j], weights[0, j + 1], weights[0, j + 2]
    b0, b1, b2 = weights[1, j], weights[1, j + 1], weights[1, j + 2]
    for k in range(dim):
        a, b = left[p, k], left[q, k]
        sums[j, k] = a0 * a + b0 * b
        sums[j + 1, k] = a1 * a + b1 * b
        sums[j + 2, k] = a2 * a + b2 * b


@njit(cache=True, nogil=True, inline="always", fastmath=FAST)
@no_type_check
def weighted_columns(weights, rows, n_left, left, n_right, dim, sums):
    """sums[j] = sum over i of weights[i, j] left[rows[i]]; `n_left` is above 0."""
    odd = n_left % 4
    for j in range(0, n_right, 3):
        if odd:
            _set_two(weights, rows, left, j, dim, sums)
        else:
            _set_four(weights, rows, 0, left, j, dim, sums)
        for i in range(2 if odd else 4, n_left, 4):
            _add_four(weights, rows, i, left, j, dim, sums)
