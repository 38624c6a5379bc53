"""Exact predictions of every value from the earlier ones of its group, by Kalman steps.

The group's factors start as f ~ N(0, I). With their mean F and covariance C before cell j,

    m = mu + b + V'F,   v = D + V'C V,   e = z - m

and then F += C V e / v, C -= C V V'C / v and q += e^2 / v.
"""

import numpy as np

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.factor_em import FactorModel
from exfam.efa.values.leave_one_out import Conditionals, model_rows


def given_earlier(model: FactorModel, cells: ValueCells) -> Conditionals:
    """Conditionals given the earlier values of the group, in the order of its cells."""
    from exfam.efa.values.passes import filter_cells

    rows = model_rows(model, cells)
    rest = cells.value - model.mu - model.level[rows]
    found = np.empty((4, cells.n_cells))
    filter_cells(cells.offset, rows, rest, model.loading, model.noise, found)
    found[0] += model.mu + model.level[rows]
    return Conditionals(*found)
