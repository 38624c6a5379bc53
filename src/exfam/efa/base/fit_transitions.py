"""Fits the transition base: counts, and the mixture of what they say by search."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.base.fit_ridge import MOST_ITEMS
from exfam.efa.base.histories import N_FILTERS, repeat_inputs
from exfam.efa.base.transitions import TransitionItems
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import context_items
from exfam.training.lbfgs import find_minimum

# Targets that the mixture is fitted to, and numbers of all filters at most.
MOST_TARGETS, MOST_NUMBERS = 2_000, 40_000_000
MOST_OF_A_GROUP = 20
# Shares of the mixture below this are dropped.
LEAST_SHARE = 0.02
# How firmly the mixture is held at even shares, and repeats at 0, in nats a target.
_HOLD = 1e-3
_N_STEPS = 40
# The two exponents and what repeats add, before the shares.
_N_NUMBERS = 4


def fit_transition_items(
    groups: Groups, n_items: int, *, support: str, seed: int = 0
) -> TransitionItems:
    """The transition base of these groups, its mixture by targets whose group is left out.

    `support`: of the items, "hard" if those of the history are excluded.
    """
    base = TransitionItems(n_items)
    base.add(groups)
    chosen = base.count.argsort(descending=True, stable=True)[:MOST_ITEMS].sort().values
    inputs = _mixture_inputs(base, groups, chosen, seed=seed, support=support)
    if inputs is None:
        return base.eval()
    # Contexts are kept where they say more than the kernels do.
    start = torch.zeros(_N_NUMBERS + N_FILTERS)
    start[1] = 1.0
    numbers, least = _fitted(inputs, start)
    found, nats = _fitted(inputs, torch.cat([numbers, numbers.new_zeros(1)]))
    numbers = found if nats < least else numbers
    base.exponents.copy_(numbers[:2])
    base.repeats.copy_(numbers[2:_N_NUMBERS])
    base.mixture.zero_()[: len(numbers) - _N_NUMBERS] = _shares(numbers)
    if not base.mixture[-1]:
        base.drop_contexts()
    return base.eval()


def _fitted(inputs: "_Inputs", start: Tensor) -> tuple[Tensor, float]:
    """Numbers of the filters that `start` has shares for, and their nats a target."""
    loss = partial(_nats, inputs)
    numbers = find_minimum(loss, start, n_steps=_N_STEPS, tolerance=1e-6, least_slope=1e-7)
    return numbers, float(loss(numbers))


class _Inputs(NamedTuple):
    """Filters, log popularity, allowed items and repeats of some targets, and their own items."""

    mixed: Float[Tensor, "filters rows chosen"]
    log_popularity: Float[Tensor, "rows chosen"]
    allowed: Bool[Tensor, "rows chosen"]
    repeats: Float[Tensor, "two rows chosen"]
    item: Int64[Tensor, "rows"]


def _mixture_inputs(
    base: TransitionItems, groups: Groups, chosen: Tensor, *, seed: int, support: str
) -> _Inputs | None:
    """Of some targets of random groups, None if there are none.

    Repeats are 0 where the support is what weighs them.
    """
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
        kept = _some_of_each(row, most=MOST_OF_A_GROUP)
        where = (row[kept], position[kept])
        if not len(kept):
            continue
        mixed, popularity = base.filters(batch, where, chosen)
        allowed = torch.ones(len(kept), len(chosen), dtype=torch.bool)
        if support == "hard":
            allowed = ~context_items(batch, "causal", base.n_items)[where][:, chosen]
        repeats = torch.zeros(2, *allowed.shape)
        if support == "none":
            repeats = repeat_inputs(batch, where, chosen, n_items=base.n_items)
        popularity = popularity.log()
        parts.append((mixed, popularity, allowed, repeats, own[where]))
    base.eval()
    if not parts:
        return None
    axes = (1, 0, 0, 1, 0)
    return _Inputs(
        *(torch.cat(part, axis) for part, axis in zip(zip(*parts, strict=True), axes, strict=True))
    )


def _some_of_each(group: Tensor, *, most: int) -> Tensor:
    """At most so many of each group's rows, evenly spread."""
    size = torch.bincount(group, minlength=int(group.max()) + 1 if len(group) else 0)
    rank = torch.arange(len(group)) - (size.cumsum(0) - size)[group]
    step = (size[group] + most - 1) // most
    return (rank % step == 0).nonzero()[:, 0]


def _nats(inputs: _Inputs, numbers: Float[Tensor, "numbers"]) -> Float[Tensor, ""]:
    """Nats a target of the exponents, what repeats add, and the shares of the first filters."""
    logits = numbers[_N_NUMBERS:]
    mixed = inputs.mixed[: len(logits)]
    mix = torch.einsum("f,fri->ri", logits.softmax(0), mixed).clamp_min(1e-30)
    eta = numbers[0] * inputs.log_popularity + numbers[1] * mix.log()
    eta = eta + torch.einsum("n,nri->ri", numbers[2:_N_NUMBERS], inputs.repeats)
    eta = eta.masked_fill(~inputs.allowed, -torch.inf)
    own = eta.gather(1, inputs.item[:, None])[:, 0]
    return (eta.logsumexp(1) - own).mean() + _HOLD * numbers[2:].square().sum()


def _shares(numbers: Float[Tensor, "numbers"]) -> Float[Tensor, "filters"]:
    """Shares of the filters, small ones dropped."""
    shares = numbers[_N_NUMBERS:].softmax(0)
    shares = torch.where(shares < LEAST_SHARE, 0.0, shares)
    return shares / shares.sum()
