"""Exact predictions of every value from the others of its group, by one inverse a group.

With r = z - mu - b, A = I + sum V V' / D, C = A^-1 and t = sum V r / D over the group's values, and
h = V'C V, s = V'C t of cell j, the conditional of z_j given the others is Gaussian with

    m = mu + b + (s - h r / D) / (1 - h / D),    v = D / (1 - h / D)

and the others have the chi-square q = sum r^2 / D - t'C t - (z_j - m)^2 / v.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int64
from numba import njit

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.factor_em import FactorModel
from exfam.efa.values.packed import invert


@dataclass(frozen=True, eq=False)
class Conditionals:
    """Mean, variance, chi-square of the context and its number of values, of every cell.

    `mean` and `variance` are those of a group of scale 1, in standardized units.
    """

    mean: Float64[np.ndarray, "cells"]
    variance: Float64[np.ndarray, "cells"]
    chi_square: Float64[np.ndarray, "cells"]
    n_context: Float64[np.ndarray, "cells"]


def model_rows(model: FactorModel, cells: ValueCells) -> Int64[np.ndarray, "cells"]:
    """The model's row of every cell: the last one for items that it has not seen."""
    known = (cells.item >= 0) & (cells.item < model.n_items)
    return np.where(known, cells.item, model.n_items)


def given_others(model: FactorModel, cells: ValueCells) -> Conditionals:
    """Conditionals given all other values of the group: a cell's own value changes nothing."""
    rows = model_rows(model, cells)
    rest = cells.value - model.mu - model.level[rows]
    found = np.empty((4, cells.n_cells))
    _leave_out(cells.offset, rows, rest, model.loading, model.noise, found)
    found[0] += model.mu + model.level[rows]
    return Conditionals(*found)


def group_factors(model: FactorModel, cells: ValueCells) -> Float64[np.ndarray, "groups factors"]:
    """Means of every group's factors, without its level, given all its observed values."""
    rows = model_rows(model, cells)
    rest = cells.value - model.mu - model.level[rows]
    means = np.zeros((cells.n_groups, model.rank + 1))
    for group, (low, high) in enumerate(pairwise(cells.offset)):
        loading = model.loading[rows[low:high]]
        scaled = (loading / model.noise[rows[low:high], None]).T
        means[group] = np.linalg.solve(
            np.eye(len(scaled)) + scaled @ loading, scaled @ rest[low:high]
        )
    return means[:, 1:]


@njit(cache=True, nogil=True)
@no_type_check
def _leave_out(offset, rows, rest, loading, noise, found):
    """Fill `found` by mean (less the item's), variance, chi-square and number of others."""
    size = loading.shape[1]
    precision, covariance = np.empty((size, size)), np.empty((size, size))
    total, solved, onto = np.empty(size), np.empty(size), np.empty(size)
    for u in range(len(offset) - 1):
        low, high = offset[u], offset[u + 1]
        precision[:] = 0.0
        total[:] = 0.0
        square, count = 0.0, 0
        for k in range(size):
            precision[k, k] = 1.0
        for n in range(low, high):
            r = rest[n]
            if np.isnan(r):
                continue
            count += 1
            i = rows[n]
            scale = 1.0 / noise[i]
            square += r * r * scale
            for k in range(size):
                part = loading[i, k] * scale
                total[k] += part * r
                for j in range(k + 1):
                    precision[k, j] += part * loading[i, j]
        invert(precision, covariance)
        for k in range(size):
            solved[k] = 0.0
            for j in range(size):
                solved[k] += covariance[k, j] * total[j]
        chi_square = square
        for k in range(size):
            chi_square -= total[k] * solved[k]
        for n in range(low, high):
            i, r = rows[n], rest[n]
            center, h = 0.0, 0.0
            for k in range(size):
                onto[k] = 0.0
                for j in range(size):
                    onto[k] += covariance[k, j] * loading[i, j]
                h += onto[k] * loading[i, k]
                center += loading[i, k] * solved[k]
            if np.isnan(r):
                found[0, n], found[1, n] = center, noise[i] + h
                found[2, n], found[3, n] = max(chi_square, 0.0), count
                continue
            left = 1.0 - h / noise[i]
            mean = (center - h * r / noise[i]) / left
            variance = noise[i] / left
            found[0, n], found[1, n] = mean, variance
            found[2, n] = max(chi_square - (r - mean) ** 2 / variance, 0.0)
            found[3, n] = count - 1
