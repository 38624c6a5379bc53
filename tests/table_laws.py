"""Laws that the answers of every good table model keep, measured on rows that it has not seen."""

import numpy as np

from exfam.tables.answers.distributions import cell_log_prob


def cost_of_knowing_more(model, cells, *, seed=0):
    """By how many nats cells become less likely when more of their row is known: mean and error.

    Every row hides a random half of the other cells first. Of a right model the mean is the
    negative of a mutual information, at most 0, but for chance.
    """
    random = np.random.default_rng(seed)
    names, costs = model.schema.targets, []
    for name in names:
        shown = random.random(cells.code.shape) < 0.5
        shown[:, model.schema.index(name)] = True
        fewer, more = (
            cell_log_prob(model, part, [name])[:, 0] for part in (cells.where(shown), cells)
        )
        costs.append(fewer - more)
    of_row = np.nanmean(np.stack(costs), axis=0)
    return of_row.mean(), of_row.std(ddof=1) / np.sqrt(len(of_row))


def check_that_knowing_more_helps(model, cells, *, seed=0):
    """Fail if knowing more costs more than a standard error on average."""
    cost, error = cost_of_knowing_more(model, cells, seed=seed)
    assert cost <= error, f"knowing more costs {cost:.4f} +- {error:.4f} nats per cell"
