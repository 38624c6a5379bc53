"""Orders of columns: several are mixed to one distribution of rows, and how far they disagree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp

from exfam.checks import ExfamError, check_seed, check_whole
from exfam.columns.results import TabularResult, in_rows
from exfam.tables.answers.distributions import (
    TableModel,
    cell_log_prob,
    chain_log_prob,
    checked_columns,
)
from exfam.tables.data import Cells

# Orders of which the mean is taken where none is given.
_N_ORDERS = 8


def random_orders(names: Sequence[str], *, n_orders: int, seed: int) -> list[tuple[str, ...]]:
    """`n_orders` random orders of the names, no two the same; all of them if there are fewer."""
    rng = np.random.default_rng(seed)
    drawn: dict[tuple[str, ...], None] = {}
    while len(drawn) < min(n_orders, math.factorial(len(names))):
        drawn[tuple(names[k] for k in rng.permutation(len(names)))] = None
    return list(drawn)


def chosen_orders(
    names: Sequence[str], *, order: Sequence[str] | None, n_orders: Any, seed: Any
) -> list[tuple[str, ...]]:
    """The one `order` that was given, or random ones; `n_orders` 1 is the names' own order."""
    if order is not None:
        if n_orders is not None:
            raise ExfamError(
                f"`n_orders` must be left out where `order` is given, got {n_orders!r}. Leave out "
                "`order` for the mean over random ones."
            )
        return [tuple(order)]
    n_orders = _N_ORDERS if n_orders is None else n_orders
    check_whole("n_orders", n_orders)
    check_seed("seed", seed)
    if n_orders == 1:
        return [tuple(names)]
    return random_orders(names, n_orders=int(n_orders), seed=int(seed))


def mixed_log_prob(
    model: TableModel, cells: Cells, *, orders: Sequence[Sequence[str]], given: Sequence[str] = ()
) -> Float64[np.ndarray, "rows"]:
    """Log of the mean over `orders` of p(present cells | `given`), each by the chain rule, in nats.

    Every order gives a distribution of rows, so their mean is one as well.
    """
    logs = [chain_log_prob(model, cells, order=order, given=given) for order in orders]
    return logsumexp(np.stack(logs), axis=0) - math.log(len(logs))


def row_log_prob(
    model: TableModel, cells: Cells, *, order: Any, n_orders: Any, seed: Any
) -> Float64[np.ndarray, "rows"]:
    """log p(row) in nats, in the given order or as the mean over several."""
    names = checked_columns(model.schema, order)
    chain = None if order is None else names
    orders = chosen_orders(names, order=chain, n_orders=n_orders, seed=seed)
    return mixed_log_prob(model, cells, orders=orders)


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
