"""Small symmetric matrices, packed by rows of their lower triangle, and their inverses."""

from typing import no_type_check

import numpy as np
from numba import njit

FASTMATH = {"nsz", "contract", "reassoc", "arcp"}


@njit(cache=True, nogil=True)
@no_type_check
def invert(matrix, inverse):
    """`inverse` = `matrix`^-1 of a positive definite matrix, whose lower triangle is overwritten.

    Returns the logarithm of the determinant.
    """
    n = matrix.shape[0]
    log_determinant = 0.0
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                log_determinant += np.log(total)
                matrix[i, i] = np.sqrt(total)
            else:
                matrix[i, j] = total / matrix[j, j]
    # The inverse of the triangle replaces the upper one, and the diagonal of `inverse`.
    for j in range(n):
        inverse[j, j] = 1.0 / matrix[j, j]
        for i in range(j + 1, n):
            total = matrix[i, j] * inverse[j, j]
            for k in range(j + 1, i):
                total += matrix[i, k] * matrix[j, k]
            matrix[j, i] = -total / matrix[i, i]
    for i in range(n):
        for j in range(i + 1):
            below = matrix[j, i] if i > j else inverse[i, i]
            total = below * inverse[i, i]
            for k in range(i + 1, n):
                total += matrix[i, k] * matrix[j, k]
            matrix[i, j] = total
    for i in range(n):
        for j in range(i + 1):
            inverse[i, j] = matrix[i, j]
            inverse[j, i] = matrix[i, j]
    return log_determinant
