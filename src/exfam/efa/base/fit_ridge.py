"""Fits the ridge base: the precision in closed form, its strength and four numbers by search."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.efa.base.ridge import RidgeItems, RidgeNumbers, ridge_link
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import context_items

# Items that are regressed on each other, the most frequent ones of a larger catalog.
MOST_COVERED = 5_000
# The strength is searched among these, from the third on.
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
FIRST = 2
# Targets that the numbers are fitted to, outputs of theirs at most, and the share of both that
# serves to search the strength.
MOST_TARGETS, MOST_OUTPUTS, SEARCH_SHARE = 3_000, 10_000_000, 0.25
MOST_OF_A_GROUP = 50
# Of a large catalog the numbers are fitted to the most frequent items.
MOST_ITEMS = 20_000
START = (0.5, 0.0, 0.5, 0.0)
# How firmly the numbers are held at their start, in nats a target.
_HOLD = 1e-3


def fit_ridge_items(groups: Groups, n_items: int, *, support: str, seed: int = 0) -> RidgeItems:
    """The ridge base of these groups; the strength and the numbers by groups that are left out.

    `support`: of the items, "hard" if those of the context are excluded.
    """
    held = held_items(groups, n_items)
    count = np.asarray(held.sum(0)).ravel()
    chosen = torch.from_numpy(np.sort(np.argsort(-count, kind="stable")[:MOST_ITEMS]))
    few, many = (
        Targets.draw(groups, chosen, share=share, seed=seed, hard=support == "hard")
        for share in (SEARCH_SHARE, 1.0)
    )
    strength = _climb(lambda strength: few.fit_numbers(ridge_items(held, strength))[1])
    ridge = ridge_items(held, strength)
    ridge.numbers.copy_(many.fit_numbers(ridge)[0])
    return ridge.eval()


def _climb(nats: Callable[[float], float]) -> float:
    """The strength of the least nats, uphill from the first one until they rise."""
    known = {FIRST: nats(STRENGTHS[FIRST])}
    best, step = FIRST, 0
    for step in (1, -1):
        while 0 <= best + step < len(STRENGTHS):
            known[best + step] = nats(STRENGTHS[best + step])
            if known[best + step] >= known[best]:
                break
            best += step
        if best != FIRST:
            break
    return STRENGTHS[best]


def held_items(groups: Groups, n_items: int) -> scipy.sparse.csr_array:
    """Groups x items: 1 where a group has an item, context elements included."""
    assert groups.item is not None
    item = groups.item[groups.elements()]
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    known = item >= 0
    shape = (len(groups), n_items)
    pairs = (np.ones(int(known.sum())), (group[known], item[known]))
    held = scipy.sparse.csr_array(pairs, shape=shape)
    held.sum_duplicates()
    held.data[:] = 1.0
    return held


def ridge_items(held: scipy.sparse.csr_array, strength: float) -> RidgeItems:
    """The ridge base of groups x items, its numbers at their start."""
    count = np.asarray(held.sum(0)).ravel()
    covered = np.sort(np.argsort(-count, kind="stable")[:MOST_COVERED])
    row = np.full(len(count), -1)
    row[covered] = np.arange(len(covered))
    held = held[:, covered]
    dtype = torch.float64 if len(covered) < 1_000 else torch.float32
    gram = torch.from_numpy((held.T @ held).toarray()).to(dtype)
    gram.diagonal().add_(strength)
    precision = torch.cholesky_inverse(torch.linalg.cholesky(gram)).float()
    return RidgeItems(
        precision,
        row=torch.from_numpy(row),
        count=torch.from_numpy(count).float(),
        numbers=torch.tensor(START),
    )


class Targets:
    """Some targets of the training groups, whose items the numbers are fitted to."""

    def __init__(self, groups: Groups, chosen: Int64[Tensor, "chosen"], *, hard: bool) -> None:
        self.groups, self.chosen, self.hard = groups, chosen, hard

    @classmethod
    def draw(
        cls, groups: Groups, chosen: Int64[Tensor, "chosen"], *, share: float, seed: int, hard: bool
    ) -> "Targets":
        """Whole groups in random order; of long ones some of their elements."""
        most = max(100, int(share * min(MOST_TARGETS, MOST_OUTPUTS // len(chosen))))
        order = np.random.default_rng([seed, 7]).permutation(np.flatnonzero(groups.lengths))
        sizes = np.minimum(groups.stop - groups.start, MOST_OF_A_GROUP)[order]
        drawn = np.sort(order[: int(np.searchsorted(np.cumsum(sizes), most)) + 1])
        return cls(groups[drawn], chosen, hard=hard)

    def inputs(self, ridge: RidgeItems) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scores, log popularity and allowed items of the targets, and their own among them."""
        parts: list[tuple[Tensor, ...]] = []
        column = torch.full((ridge.n_items,), -1)
        column[self.chosen] = torch.arange(len(self.chosen))
        ridge.train()
        for index in sequential_batches(self.groups, max_tokens=2_000):
            batch = self.groups.pad(index)
            assert batch.item is not None
            own = torch.where(batch.item >= 0, column[batch.item.clamp_min(0)], -1)
            row, position = (batch.target & (own >= 0)).nonzero(as_tuple=True)
            kept = some_of_each(row)
            where = (row[kept], position[kept])
            score, popularity = ridge.link_inputs(batch, where, self.chosen)
            allowed = torch.ones_like(score, dtype=torch.bool)
            if self.hard:
                allowed = ~context_items(batch, "bidirectional", ridge.n_items)[where]
                allowed = allowed[:, self.chosen]
            parts.append((score, popularity, allowed, own[where]))
        ridge.eval()
        score, popularity, allowed, item = (torch.cat(part) for part in zip(*parts, strict=True))
        return score, popularity, allowed, item

    def fit_numbers(self, ridge: RidgeItems) -> tuple[Float[Tensor, "four"], float]:
        """The numbers of the least nats, held at their start, and those nats."""
        score, popularity, allowed, item = self.inputs(ridge)
        start = torch.tensor(START)

        def nats(numbers: Tensor) -> Tensor:
            eta = ridge_link(score, popularity, RidgeNumbers(*numbers))
            eta = eta.masked_fill(~allowed, -torch.inf)
            own = eta.gather(1, item[:, None])[:, 0]
            return (eta.logsumexp(1) - own).mean() + _HOLD * (numbers - start).square().sum()

        return find_minimum(nats, start)


def some_of_each(group: Tensor, *, most: int = MOST_OF_A_GROUP) -> Tensor:
    """At most so many of each group's rows, evenly spread."""
    size = torch.bincount(group, minlength=int(group.max()) + 1 if len(group) else 0)
    rank = torch.arange(len(group)) - (size.cumsum(0) - size)[group]
    step = (size[group] + most - 1) // most
    return (rank % step == 0).nonzero()[:, 0]


def find_minimum(
    loss: Callable[[Tensor], Tensor], start: Tensor, *, n_steps: int = 30
) -> tuple[Tensor, float]:
    """Where L-BFGS comes to from `start`, and the loss there."""
    numbers = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [numbers], max_iter=n_steps, line_search_fn="strong_wolfe", tolerance_change=1e-6
    )

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(numbers)
        value.backward()
        return value

    optimizer.step(closure)
    with torch.no_grad():
        return numbers.detach(), float(loss(numbers))
