"""Fits the ridge base: the precision in closed form, its strength and four numbers by search."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.catalog.linear import chunks_of
from exfam.catalog.listed import ContextItems
from exfam.efa.base.ridge import RidgeItems, chance_of, held_items
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.groups.arrange import sequential_batches

# Items that are regressed on each other, the most frequent ones of a larger catalog.
MOST_COVERED = 5_000
# Frequent items are held more firmly, by this power of their count.
POWER = 0.25
# The numbers are fitted to the most frequent items of a large catalog, at so many targets of left
# out groups, and outputs of theirs at most; they are drawn from groups that see so many elements.
MOST_ITEMS, MOST_TARGETS, MOST_OUTPUTS = 20_000, 10_000, 10_000_000
MOST_ELEMENTS = 200_000
# The strength is searched in half decades, from 10^1.5 on, with fewer items covered, and as many
# chosen from those that are more frequent than the rest.
SEARCH_COVERED, SEARCH_ITEMS, SEARCH_OUTPUTS = 2_500, 10_000, 2_000_000
FIRST, LOWEST, HIGHEST = 3.0, 1.0, 7.0
START = (0.5, 0.0, 0.5, 0.0)
# How firmly the numbers are held at their start, in nats a target.
_HOLD = 1e-3
# Targets whose outputs are computed at a time.
_ROWS = 256
# Fisher scoring ends where a step gains less, in nats a target.
_TOLERANCE = 1e-5


def fit_ridge_items(groups: Groups, n_items: int, *, support: str, seed: int = 0) -> RidgeItems:
    """The ridge base of these groups; the strength and the numbers by groups that are left out.

    `support`: of the items, "hard" if those of the context are excluded.
    """
    held = held_items(groups, n_items)
    count = np.asarray(held.sum(0)).ravel()
    frequent = np.argsort(-count, kind="stable")
    draw = partial(LeftOut.draw, groups, seed=seed, hard=support == "hard")
    some = frequent[:SEARCH_ITEMS]
    few = draw(some[:: -(-len(some) // SEARCH_COVERED)], most=SEARCH_OUTPUTS)
    many = draw(frequent[:MOST_ITEMS], most=MOST_OUTPUTS)
    numbers = torch.tensor(START)

    def penalties(half_decades: float) -> np.ndarray:
        share = (count + 0.5) / (count.mean() + 0.5)
        return 10 ** (half_decades / 2) * share**POWER

    def nats(half_decades: float) -> float:
        nonlocal numbers
        ridge = ridge_items(held, penalties(half_decades), most=SEARCH_COVERED)
        numbers, found = fit_numbers(few.inputs(ridge), start=numbers)
        return found

    ridge = ridge_items(held, penalties(_lowest(nats)), most=MOST_COVERED)
    ridge.numbers.copy_(fit_numbers(many.inputs(ridge), start=numbers)[0])
    return ridge.eval()


def _lowest(nats: Callable[[float], float]) -> float:
    """Where the nats are least: downhill in whole steps, then at the foot of a parabola."""
    known = {number: nats(number) for number in (FIRST, FIRST + 1.0)}
    best = min(known, key=lambda number: known[number])
    step = 1.0 if best > FIRST else -1.0
    while LOWEST <= best + step <= HIGHEST:
        known[best + step] = nats(best + step)
        if known[best + step] >= known[best]:
            break
        best += step
    else:
        return best
    before, after = known[best - 1] - known[best], known[best + 1] - known[best]
    return best + (before - after) / (2 * (before + after) + 1e-12)


def ridge_items(
    held: scipy.sparse.csr_array, penalty: Float[np.ndarray, "items"], *, most: int
) -> RidgeItems:
    """The ridge base of groups x items, `most` of them covered, its numbers at their start."""
    count = np.asarray(held.sum(0)).ravel()
    covered = np.sort(np.argsort(-count, kind="stable")[:most])
    row = np.full(len(count), -1)
    row[covered] = np.arange(len(covered))
    held = held[:, covered]
    dtype = torch.float64 if len(covered) < 1_000 else torch.float32
    gram = torch.from_numpy((held.T @ held).toarray()).to(dtype)
    gram.diagonal().add_(torch.from_numpy(penalty[covered]))
    # Sums of rows want rows that lie in one piece.
    precision = torch.cholesky_inverse(torch.linalg.cholesky(gram)).float().contiguous()
    return RidgeItems(
        precision,
        row=torch.from_numpy(row),
        count=torch.from_numpy(count).float(),
        numbers=torch.tensor(START),
    )


class Inputs(NamedTuple):
    """Scores, log popularity and allowed items of some targets, and their own among these."""

    score: Float[Tensor, "rows chosen"]
    log_popularity: Float[Tensor, "rows chosen"]
    allowed: Bool[Tensor, "rows chosen"]
    item: Int64[Tensor, "rows"]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Some groups of the training data, to whose targets the numbers are fitted.

    `chosen`: items that are told apart; `hard`: whether those of the context are excluded.
    """

    groups: Groups
    chosen: Int64[Tensor, "chosen"]
    hard: bool

    @classmethod
    def draw(
        cls, groups: Groups, chosen: np.ndarray, *, most: int, seed: int, hard: bool
    ) -> "LeftOut":
        """Random targets, of so many outputs at `most`."""
        assert groups.item is not None
        random = np.random.default_rng([seed, 7])
        order = random.permutation(len(groups))
        seen = np.cumsum(groups.lengths[order])
        groups = groups[np.sort(order[: int(np.searchsorted(seen, MOST_ELEMENTS)) + 1])]
        element = groups.elements()
        is_target = np.isin(groups.item[element], chosen)
        if groups.role is not None:
            is_target &= groups.role[element] == TARGET
        target = element[is_target]
        n = max(100, min(MOST_TARGETS, most // len(chosen)))
        role = np.full(groups.n_rows, CONTEXT, dtype=np.int8)
        role[random.choice(target, min(n, len(target)), replace=False)] = TARGET
        group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
        holds = np.unique(group[role[element] == TARGET])
        return cls(groups.with_(role=role)[holds], torch.from_numpy(np.sort(chosen)), hard)

    def inputs(self, ridge: RidgeItems) -> Inputs:
        """What the numbers make outputs of."""
        n_chosen = len(self.chosen)
        column = torch.full((ridge.n_items,), n_chosen)
        column[self.chosen] = torch.arange(n_chosen)
        parts = []
        ridge.train()
        for index in sequential_batches(self.groups, max_tokens=2_000):
            batch = self.groups.pad(index)
            assert batch.item is not None
            known = batch.present & (batch.item >= 0)
            own = torch.where(known, column[batch.item.clamp_min(0)], n_chosen)
            where = batch.target.nonzero(as_tuple=True)
            score, popularity = ridge.link_inputs(batch, where, self.chosen)
            allowed = torch.ones_like(score, dtype=torch.bool)
            if self.hard:
                seen = ContextItems.of(own, where, n_items=n_chosen, causal=False)
                every = (slice(0, size) for size in score.shape)
                allowed[seen.within(*every)] = False
            parts.append((score, popularity, allowed, own[where]))
        ridge.eval()
        return Inputs(*(torch.cat(part) for part in zip(*parts, strict=True)))


def fit_numbers(
    inputs: Inputs, *, start: Float[Tensor, "four"], n_steps: int = 20
) -> tuple[Float[Tensor, "four"], float]:
    """The numbers of the least nats, held at `START`, and those nats: by Fisher scoring."""
    chance = chance_of(inputs.score)
    nats = partial(_nats, inputs, chance)
    numbers = start.double()
    least, gradient, curvature = nats(numbers)
    for _ in range(n_steps):
        step, before = torch.linalg.solve(curvature, gradient), least
        for _ in range(4):
            found = nats(numbers - step)
            if found[0] < least:
                numbers, (least, gradient, curvature) = numbers - step, found
                break
            step = step / 4
        if before - least < _TOLERANCE:
            break
    return numbers.float(), least


def _nats(
    inputs: Inputs, chance: Tensor, numbers: Float[Tensor, "four"]
) -> tuple[float, Float[Tensor, "four"], Float[Tensor, "four four"]]:
    """Nats a target, their gradient and its expected change, of the numbers."""
    hold = numbers - torch.tensor(START)
    total = _HOLD * len(chance) * hold.square().sum()
    gradient = 2 * _HOLD * len(chance) * hold
    curvature = 2 * _HOLD * len(chance) * torch.eye(len(numbers), dtype=numbers.dtype)
    for rows in chunks_of(len(chance), _ROWS):
        score, popularity, allowed, item = (part[rows] for part in inputs)
        share = (numbers[3] + popularity).exp()
        inside = chance[rows] + share
        slopes = [popularity, score, inside.log(), numbers[2] * share / inside]
        eta = sum(number * slope for number, slope in zip(numbers[:3], slopes, strict=False))
        eta = eta.masked_fill(~allowed, -torch.inf)
        log_normalizer = eta.logsumexp(1)
        own = item[:, None]
        total += (log_normalizer - eta.gather(1, own)[:, 0]).sum()
        slope = torch.stack(slopes, 1)
        weighted = slope * (eta - log_normalizer[:, None]).exp()[:, None]
        mean = weighted.sum(2)
        of_own = slope.gather(2, own[:, None].expand(-1, len(numbers), 1))[:, :, 0]
        gradient += (mean - of_own).sum(0)
        curvature += (weighted @ slope.transpose(1, 2)).sum(0) - mean.T @ mean
    n = len(chance)
    return float(total) / n, gradient / n, curvature / n


def some_of_each(group: Tensor, *, most: int = 50) -> Tensor:
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
