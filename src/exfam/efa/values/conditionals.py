"""Exact predictions of every value from the others of its group, or from the earlier ones.

From the others, by one inverse a group: with r = z - mu - b, A = I + sum V V' / D, C = A^-1 and
t = sum V r / D over the group's values, and h = V'C V, s = V'C t of cell j, the conditional of z_j
given the others is Gaussian with

    m = mu + b + (s - h r / D) / (1 - h / D),    v = D / (1 - h / D)

and the others have the chi-square q = sum r^2 / D - t'C t - (z_j - m)^2 / v.

From the earlier ones, by Kalman steps: the group's factors start as f ~ N(0, I). With their mean F
and covariance C before cell j,

    m = mu + b + V'F,   v = D + V'C V,   e = z - m

and then F += C V e / v, C -= C V V'C / v and q += e^2 / v.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float64, Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.factor_em import FactorModel


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
    from exfam.kernels.value_passes import leave_out

    return _conditionals(leave_out, model, cells)


def given_earlier(model: FactorModel, cells: ValueCells) -> Conditionals:
    """Conditionals given the earlier values of the group, in the order of its cells."""
    from exfam.kernels.value_passes import filter_cells

    return _conditionals(filter_cells, model, cells)


def _conditionals(
    kernel: Callable[..., None], model: FactorModel, cells: ValueCells
) -> Conditionals:
    rows = model_rows(model, cells)
    rest = cells.value - model.mu - model.level[rows]
    found = np.empty((4, cells.n_cells))
    kernel(cells.offset, rows, rest, model.loading, model.noise, found)
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
