"""The response without the other columns."""

import numpy as np
from benchmarks.arena.kind import Contender
from benchmarks.arena.tabular.choosing import Learned, Learning, fitting
from benchmarks.arena.tabular.data import Rows


def learn_constant(rows: Rows, given: Learning) -> Learned:
    """Logarithms of class frequencies, or the mean."""
    if given.n_labels is None:
        mean = float(rows.response.mean())
        return Learned(lambda cells: np.full(len(cells), mean))
    count = np.bincount(rows.response, minlength=given.n_labels) + 0.5
    log_share = np.log(count / count.sum())
    return Learned(lambda cells: np.tile(log_share, (len(cells), 1)))


CONTENDERS = {"no-columns": Contender(label="constant", fit=fitting(learn_constant, ({},)))}
