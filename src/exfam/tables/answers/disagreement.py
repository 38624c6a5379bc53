"""How far a table model's conditionals are from those of one joint distribution."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp

from exfam.checks import ExfamError, check_seed, check_whole
from exfam.columns.results import TabularResult, in_rows
from exfam.tables.answers.distributions import TableModel, cell_log_prob, chain_log_prob
from exfam.tables.answers.orders import random_orders
from exfam.tables.data import Cells


@dataclass(frozen=True, eq=False, repr=False)
class OrderDisagreement(TabularResult):
    """log p(row) under several orders of the columns: all equal for one joint distribution.

    `log_prob`: of each row under each order, in nats
    `pair_gap`: per pair of columns a, b the mean over rows where both are present, in nats, of the
        absolute value of log p(a; r) + log p(b; a, r) - log p(b; r) - log p(a; b, r), where r is
        the rest of the row, given

    >>> orders = (("a", "b"), ("b", "a"))
    >>> result = OrderDisagreement(orders, np.array([[-1.0, -3.0]]), np.eye(2))
    >>> result.mean.tolist(), result.mean_row_sd
    ([-1.0, -3.0], 1.414...)
    """

    orders: tuple[tuple[str, ...], ...]
    log_prob: Float64[np.ndarray, "rows orders"]
    pair_gap: Float64[np.ndarray, "columns columns"]

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `row`, `order`, `log_prob` in nats."""
        names = [", ".join(names) for names in self.orders]
        return in_rows({"row": None, "order": names}, {"log_prob": self.log_prob})

    @property
    def mean(self) -> Float64[np.ndarray, "orders"]:
        """Mean log p(row) under each order, in nats."""
        return self.log_prob.mean(axis=0)

    @property
    def mixed(self) -> Float64[np.ndarray, "rows"]:
        """log p(row) of the mean over the orders, a distribution as each of them is, in nats.

        Never less than the mean of the row's log p over the orders.
        """
        return logsumexp(self.log_prob, axis=1) - math.log(len(self.orders))

    @property
    def row_sd(self) -> Float64[np.ndarray, "rows"]:
        """Standard deviation of each row's log p over the orders, in nats."""
        return self.log_prob.std(axis=1, ddof=1)

    @property
    def mean_row_sd(self) -> float:
        """Mean of `row_sd` over the rows, in nats."""
        return float(self.row_sd.mean())


def order_disagreement(
    model: TableModel, cells: Cells, *, n_orders: Any, seed: Any
) -> OrderDisagreement:
    """Chain log-probabilities under random orders, no two the same, and the gaps of all pairs."""
    check_whole("n_orders", n_orders, least=2)
    check_seed("seed", seed)
    if not len(cells):
        raise ExfamError("`cells` must hold at least one row, got none.")
    names = model.schema.targets
    if len(names) < 2:
        raise ExfamError(f"`X` must have columns of several orders, got {names[0]!r} alone.")
    drawn = random_orders(names, n_orders=int(n_orders), seed=int(seed))
    log_prob = np.stack([chain_log_prob(model, cells, order=order) for order in drawn], axis=1)
    full = cell_log_prob(model, cells, names)
    gaps = np.full((len(names), len(names)), np.nan)
    # alone[b][:, a] = log p(a | r), r being the row without a and b.
    alone = [cell_log_prob(model, cells.hide([model.schema.index(b)]), names) for b in names]
    for b in range(len(names)):
        for a in range(b):
            gap = np.abs(alone[b][:, a] + full[:, b] - alone[a][:, b] - full[:, a])
            if not np.isnan(gap).all():
                gaps[a, b] = gaps[b, a] = np.nanmean(gap)
    return OrderDisagreement(tuple(drawn), log_prob, gaps)
