"""Fits the transition base: counts, and the mixture of what they say by search."""

import numpy as np
import torch
from torch import Tensor

from exfam.efa.base.fit_ridge import MOST_ITEMS, find_minimum, some_of_each
from exfam.efa.base.transitions import N_FILTERS, TransitionItems, sequence_counts
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import context_items

# Targets that the mixture is fitted to, and numbers of all filters at most.
MOST_TARGETS, MOST_NUMBERS = 2_000, 40_000_000
MOST_OF_A_GROUP = 20
# Shares of the mixture below this are dropped.
LEAST_SHARE = 0.02
# How firmly the mixture is held at even shares, in nats a target.
_HOLD = 1e-3


def fit_transition_items(
    groups: Groups, n_items: int, *, support: str, seed: int = 0
) -> TransitionItems:
    """The transition base of these groups, its mixture by targets whose group is left out.

    `support`: of the items, "hard" if those of the history are excluded.
    """
    counts, count = sequence_counts(groups, n_items)
    base = TransitionItems(counts, count)
    chosen = count.argsort(descending=True, stable=True)[:MOST_ITEMS].sort().values
    inputs = _mixture_inputs(base, groups, chosen, seed=seed, hard=support == "hard")
    shares, exponents = _mixture(*inputs)
    base.mixture.copy_(shares)
    base.exponents.copy_(exponents)
    return base.eval()


def _mixture_inputs(
    base: TransitionItems, groups: Groups, chosen: Tensor, *, seed: int, hard: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Filters, log popularity, allowed items and own items of some targets of random groups."""
    most = max(100, min(MOST_TARGETS, MOST_NUMBERS // ((1 + N_FILTERS) * len(chosen))))
    column = torch.full((base.n_items,), -1)
    column[chosen] = torch.arange(len(chosen))
    length = groups.stop - groups.start
    order = np.random.default_rng([seed, 8]).permutation(np.flatnonzero(length))
    at_most = np.minimum(length, MOST_OF_A_GROUP)[order]
    some = groups[np.sort(order[: int(np.searchsorted(np.cumsum(at_most), most)) + 1])]
    parts: list[tuple[Tensor, ...]] = []
    base.train()
    for index in sequential_batches(some, max_tokens=4_000):
        batch = some.pad(index)
        assert batch.item is not None
        own = torch.where(batch.item >= 0, column[batch.item.clamp_min(0)], -1)
        row, position = (batch.target & (own >= 0)).nonzero(as_tuple=True)
        kept = some_of_each(row, most=MOST_OF_A_GROUP)
        where = (row[kept], position[kept])
        if not len(kept):
            continue
        mixed, popularity = base.filters(batch, where, chosen)
        allowed = torch.ones(len(kept), len(chosen), dtype=torch.bool)
        if hard:
            allowed = ~context_items(batch, "causal", base.n_items)[where][:, chosen]
        parts.append((mixed.transpose(0, 1), popularity, allowed, own[where]))
    base.eval()
    mixed, popularity, allowed, item = (torch.cat(part) for part in zip(*parts, strict=True))
    return mixed.transpose(0, 1).contiguous(), popularity.log(), allowed, item


def _mixture(
    mixed: Tensor, log_popularity: Tensor, allowed: Tensor, item: Tensor
) -> tuple[Tensor, Tensor]:
    """Shares of the filters, small ones dropped, and the two exponents."""

    def nats(theta: Tensor) -> Tensor:
        shares = theta[2:].softmax(0)
        mix = torch.einsum("f,fri->ri", shares, mixed).clamp_min(1e-30)
        eta = theta[0] * log_popularity + theta[1] * mix.log()
        eta = eta.masked_fill(~allowed, -torch.inf)
        own = eta.gather(1, item[:, None])[:, 0]
        return (eta.logsumexp(1) - own).mean() + _HOLD * theta[2:].square().sum()

    start = torch.zeros(3 + N_FILTERS)
    start[1] = 1.0
    theta, _ = find_minimum(nats, start, n_steps=40)
    shares = theta[2:].softmax(0)
    shares = torch.where(shares < LEAST_SHARE, 0.0, shares)
    return shares / shares.sum(), theta[:2]
