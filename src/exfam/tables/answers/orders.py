"""Orders of columns: the chain rule in several of them is one distribution of rows."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp

from exfam.checks import ExfamError, check_seed, check_whole
from exfam.tables.answers.distributions import TableModel, chain_log_prob, checked_columns
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
