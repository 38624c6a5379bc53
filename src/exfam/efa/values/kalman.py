"""Exact predictions of every value from the earlier ones of its group, by Kalman steps.

The group's factors start as f ~ N(0, I). With their mean F and covariance C before cell j,

    m = mu + b + V'F,   v = D + V'C V,   e = z - m

and then F += C V e / v, C -= C V V'C / v and q += e^2 / v.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.factor_em import FactorModel
from exfam.efa.values.leave_one_out import Conditionals, model_rows


def given_earlier(model: FactorModel, cells: ValueCells) -> Conditionals:
    """Conditionals given the earlier values of the group, in the order of its cells."""
    rows = model_rows(model, cells)
    rest = cells.value - model.mu - model.level[rows]
    found = np.empty((4, cells.n_cells))
    _filter(cells.offset, rows, rest, model.loading, model.noise, found)
    found[0] += model.mu + model.level[rows]
    return Conditionals(*found)


@njit(cache=True, nogil=True)
@no_type_check
def _filter(offset, rows, rest, loading, noise, found):
    """Fill `found` by mean (less the item's), variance, chi-square and number of earlier values."""
    size = loading.shape[1]
    covariance = np.empty((size, size))
    center, onto = np.empty(size), np.empty(size)
    for u in range(len(offset) - 1):
        covariance[:] = 0.0
        center[:] = 0.0
        for k in range(size):
            covariance[k, k] = 1.0
        chi_square, count = 0.0, 0
        for n in range(offset[u], offset[u + 1]):
            i = rows[n]
            mean, variance = 0.0, noise[i]
            for k in range(size):
                onto[k] = 0.0
                for j in range(size):
                    onto[k] += covariance[k, j] * loading[i, j]
                mean += loading[i, k] * center[k]
                variance += loading[i, k] * onto[k]
            found[0, n], found[1, n] = mean, variance
            found[2, n], found[3, n] = chi_square, count
            if np.isnan(rest[n]):
                continue
            error = (rest[n] - mean) / variance
            chi_square += error * (rest[n] - mean)
            count += 1
            for k in range(size):
                center[k] += onto[k] * error
                for j in range(size):
                    covariance[k, j] -= onto[k] * onto[j] / variance
