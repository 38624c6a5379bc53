"""Fits the transition base: counts, and the mixture of what they say by search."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.base.fit_ridge import MOST_ITEMS
from exfam.efa.base.histories import BACK_OFFS, N_FILTERS, N_OF_CONTEXTS, repeat_inputs
from exfam.efa.base.scoring import hold_of
from exfam.efa.base.sets import Where, held_items
from exfam.efa.base.transitions import TransitionItems
from exfam.groups import Batch, Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import context_items
from exfam.training.lbfgs import find_minimum

# Targets that the mixture is fitted to, and numbers of all filters at most.
MOST_TARGETS, MOST_NUMBERS = 2_000, 72_000_000
MOST_OF_A_GROUP = 20
# How firmly the mixture is held at even shares and repeats at 0, and the exponents at those of the
# mixture as it is, in nats of all targets.
HOLD_IN_ALL = 2.0
# Shares of the mixture below this are dropped.
LEAST_SHARE = 0.02
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
    numbers, kept = _chosen(inputs)
    base.exponents.copy_(numbers[:2])
    base.repeats.copy_(numbers[2:_N_NUMBERS])
    base.mixture.zero_()[kept] = numbers[_N_NUMBERS:].softmax(0)
    if not base.mixture[len(BACK_OFFS) - N_OF_CONTEXTS :].any():
        base.drop_contexts()
    return base.eval()


def _chosen(inputs: "_Inputs") -> tuple[Tensor, Int64[Tensor, "kept"]]:
    """Numbers of the filters that are mixed, and which these are.

    Contexts are kept where they say more than the kernels do, the longest ones alone or all. All
    say nearly the same as each other: what is dropped of them is made up for by another fit.
    """
    every = torch.arange(1 + N_FILTERS)
    kernels, contexts = every.tensor_split([len(every) - N_OF_CONTEXTS])
    start = torch.zeros(_N_NUMBERS + len(kernels))
    start[1] = 1.0
    numbers, nats = _fitted(inputs.of(kernels), start)
    found, kept = numbers, kernels
    longest = contexts[-len(BACK_OFFS)][None]
    for more in (longest, contexts):
        wider = torch.cat([kernels, more])
        other, own = _fitted(inputs.of(wider), torch.cat([numbers, torch.zeros(len(more))]))
        # As by Akaike's criterion: so much a share that says nothing would seem to gain.
        if own < nats - len(more) / len(inputs.item):
            found, kept, nats = other, wider, own
    shares = found[_N_NUMBERS:].softmax(0)
    is_large, has_all = shares >= LEAST_SHARE, len(kept) == len(every)
    is_large[0] |= has_all
    found = torch.cat([found[:_N_NUMBERS], shares[is_large].log()])
    if has_all:
        found, _ = _fitted(inputs.of(kept[is_large]), found, hold=0.0)
    return found, kept[is_large]


def _fitted(inputs: "_Inputs", start: Tensor, *, hold: float | None = None) -> tuple[Tensor, float]:
    """Numbers of all filters of the inputs, and their nats a target.

    `hold`: how firmly the mixture is held at even shares, and repeats at 0, in nats a target
    """
    hold = hold_of(len(inputs.item), in_all=HOLD_IN_ALL) if hold is None else hold
    loss = partial(_nats, inputs, hold=hold)
    numbers = find_minimum(loss, start, n_steps=_N_STEPS, tolerance=1e-6, least_slope=1e-7)
    return numbers, float(loss(numbers))


class _Inputs(NamedTuple):
    """Filters, log popularity, allowed items and repeats of some targets, and their own items."""

    mixed: Float[Tensor, "filters rows chosen"]
    log_popularity: Float[Tensor, "rows chosen"]
    allowed: Bool[Tensor, "rows chosen"]
    repeats: Float[Tensor, "two rows chosen"]
    item: Int64[Tensor, "rows"]

    def of(self, filters: Int64[Tensor, "some"]) -> "_Inputs":
        """With some of the filters alone."""
        return self._replace(mixed=self.mixed[filters])


def _mixture_inputs(
    base: TransitionItems, groups: Groups, chosen: Tensor, *, seed: int, support: str
) -> _Inputs | None:
    """Of some targets of random groups, None if there are none.

    Repeats are 0 where the support is what weighs them.
    """
    most = max(100, min(MOST_TARGETS, MOST_NUMBERS // ((1 + N_FILTERS) * len(chosen))))
    parts: list[tuple[Tensor, ...]] = []
    base.train()
    for batch, where, own in some_targets(groups, chosen, base.n_items, most=most, seed=seed):
        mixed, popularity = base.filters(batch, where, chosen)
        allowed = allowed_items(batch, where, chosen, base, support=support)
        repeats = torch.zeros(2, *allowed.shape)
        if support == "none":
            repeats = repeat_inputs(batch, where, chosen, n_items=base.n_items)
        popularity = popularity.log()
        parts.append((mixed, popularity, allowed, repeats, own))
    base.eval()
    if not parts:
        return None
    axes = (1, 0, 0, 1, 0)
    return _Inputs(
        *(torch.cat(part, axis) for part, axis in zip(zip(*parts, strict=True), axes, strict=True))
    )


def some_targets(
    groups: Groups, chosen: Int64[Tensor, "chosen"], n_items: int, *, most: int, seed: int
) -> Iterator[tuple[Batch, Where, Int64[Tensor, "rows"]]]:
    """Batches of random groups, some of their targets among the chosen items, and which these are.

    Of about so many targets at most, and of items that several groups have, as in `LeftOut.draw`.
    """
    column = torch.full((n_items,), -1)
    column[chosen] = torch.arange(len(chosen))
    n_groups = np.asarray(held_items(groups, n_items).sum(0)).ravel()
    column[torch.from_numpy(n_groups < 2)] = -1
    length = groups.stop - groups.start
    order = np.random.default_rng([seed, 8]).permutation(np.flatnonzero(length))
    at_most = np.minimum(length, MOST_OF_A_GROUP)[order]
    some = groups[np.sort(order[: int(np.searchsorted(np.cumsum(at_most), most)) + 1])]
    for index in sequential_batches(some, max_tokens=4_000):
        batch = some.pad(index)
        assert batch.item is not None
        own = torch.where(batch.item >= 0, column[batch.item.clamp_min(0)], -1)
        row, position = (batch.target & (own >= 0)).nonzero(as_tuple=True)
        kept = _some_of_each(row, most=MOST_OF_A_GROUP)
        where = (row[kept], position[kept])
        if len(kept):
            yield batch, where, own[where]


def allowed_items(
    batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"], base: Any, *, support: str
) -> Bool[Tensor, "rows chosen"]:
    """Which of the chosen items may be at the elements at `where`."""
    if support != "hard":
        return torch.ones(len(where[0]), len(chosen), dtype=torch.bool)
    return ~context_items(batch, base.direction, base.n_items)[where][:, chosen]


def _some_of_each(group: Tensor, *, most: int) -> Tensor:
    """At most so many of each group's rows, evenly spread."""
    size = torch.bincount(group, minlength=int(group.max()) + 1 if len(group) else 0)
    rank = torch.arange(len(group)) - (size.cumsum(0) - size)[group]
    step = (size[group] + most - 1) // most
    return (rank % step == 0).nonzero()[:, 0]


def _nats(inputs: _Inputs, numbers: Float[Tensor, "numbers"], *, hold: float) -> Float[Tensor, ""]:
    """Nats a target of the exponents, what repeats add, and the shares of the filters."""
    logits = numbers[_N_NUMBERS:]
    mix = torch.einsum("f,fri->ri", logits.softmax(0), inputs.mixed).clamp_min(1e-30)
    eta = numbers[0] * inputs.log_popularity + numbers[1] * mix.log()
    eta = eta + torch.einsum("n,nri->ri", numbers[2:_N_NUMBERS], inputs.repeats)
    eta = eta.masked_fill(~inputs.allowed, -torch.inf)
    own = eta.gather(1, inputs.item[:, None])[:, 0]
    held = hold * numbers[2:].square().sum()
    exponents = numbers[:2] - torch.tensor([0.0, 1.0])
    held = held + HOLD_IN_ALL / len(own) * exponents.square().sum()
    return (eta.logsumexp(1) - own).mean() + held
