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

The mean of z_j given its context is linear in the residuals r_k = z_k - mu - b_k of the others,

    m_j = mu + b_j + sum_k V_j' C V_k r_k / D_k,   C = (I + sum_k V_k V_k' / D_k)^-1

where b_j holds the effects of what is given of cell j, too,

and V_j' C V_k is the sum of a part by the group's level (the first factor) and one by the others.
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
    rows, level = model.rows(cells), model.levels(cells)
    found = np.empty((4, cells.n_cells))
    kernel(cells.offset, rows, cells.value - level, model.loading, model.noise, found)
    found[0] += level
    return Conditionals(*found)


def group_factors(model: FactorModel, cells: ValueCells) -> Float64[np.ndarray, "groups factors"]:
    """Means of every group's factors, without its level, given all its observed values."""
    rows, rest = model.rows(cells), cells.value - model.levels(cells)
    means = np.zeros((cells.n_groups, model.rank + 1))
    for group, (low, high) in enumerate(pairwise(cells.offset)):
        loading = model.loading[rows[low:high]]
        scaled = (loading / model.noise[rows[low:high], None]).T
        means[group] = np.linalg.solve(
            np.eye(len(scaled)) + scaled @ loading, scaled @ rest[low:high]
        )
    return means[:, 1:]


@dataclass(frozen=True, eq=False)
class ValueContributions:
    """Parts of the means of some cells, in standardized units; their sum is `Conditionals.mean`.

    Of every pair of a cell and a value in its context, `target` is the cell's position among those
    chosen, `source` the number of the context's cell, `by_level` what that adds through the group's
    level, `by_factors` through what items have in common.
    """

    overall: float
    item: Float64[np.ndarray, "chosen"]
    given: Float64[np.ndarray, "chosen"]
    target: Int64[np.ndarray, "pairs"]
    source: Int64[np.ndarray, "pairs"]
    by_level: Float64[np.ndarray, "pairs"]
    by_factors: Float64[np.ndarray, "pairs"]

    @property
    def level(self) -> Float64[np.ndarray, "chosen"]:
        """What the group's level adds, all its values together."""
        return np.bincount(self.target, self.by_level, len(self.item))

    @property
    def mean(self) -> Float64[np.ndarray, "chosen"]:
        """The sum of all parts."""
        factors = np.bincount(self.target, self.by_factors, len(self.item))
        return self.overall + self.item + self.given + self.level + factors


def contributions_to_mean(
    model: FactorModel,
    cells: ValueCells,
    chosen: Int64[np.ndarray, "chosen"],
    *,
    causal: bool,
) -> ValueContributions:
    """Of some cells, by their numbers; values of `cells` are standardized."""
    rows, rest = model.rows(cells), cells.value - model.levels(cells)
    group = np.searchsorted(cells.offset, chosen, side="right") - 1
    pairs = []
    for position, (cell, u) in enumerate(zip(chosen, group, strict=True)):
        source = np.arange(cells.offset[u], cell if causal else cells.offset[u + 1])
        source = source[(source != cell) & np.isfinite(rest[source])]
        loading = model.loading[rows[source]]
        scaled = loading / model.noise[rows[source], None]
        precision = np.eye(loading.shape[1]) + loading.T @ scaled
        # A row per source, a column per factor: what the source says of the factor.
        shift = np.linalg.solve(precision, scaled.T).T * rest[source, None]
        parts = shift * model.loading[rows[cell]]
        pairs.append((np.full(len(source), position), source, parts[:, 0], parts[:, 1:].sum(1)))
    none = [np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0)]
    target, source, level, factors = (
        np.concatenate([empty, *(pair[part] for pair in pairs)]) for part, empty in enumerate(none)
    )
    return ValueContributions(
        overall=model.mu,
        item=model.level[rows[chosen]],
        given=model.effect(cells)[chosen],
        target=target,
        source=source,
        by_level=level,
        by_factors=factors,
    )
