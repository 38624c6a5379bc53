"""Fits the ridge base: the precision in closed form, its strength and numbers by search."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.catalog.listed import ContextItems
from exfam.efa.base.ridge import RidgeItems, precision_dtype
from exfam.efa.base.ridge_link import LinkInputs, RidgeNumbers, chance_of, curve_of, log_of
from exfam.efa.base.scoring import Tile, fit_numbers, rows_of_tiles
from exfam.efa.base.sets import held_items
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.groups.arrange import group_of_elements, sampled_groups, sequential_batches

# Items that are regressed on each other, the most frequent ones of a larger catalog.
MOST_COVERED = 5_000
# Frequent items are held more firmly, by this power of their count.
POWER = 0.25
# The numbers are fitted to so many items of a larger catalog, at so many targets of left out
# groups, and outputs of theirs at most; targets are drawn from groups that see so many elements.
MOST_ITEMS, MOST_TARGETS, MOST_OUTPUTS = 20_000, 10_000, 10_000_000
MOST_ELEMENTS = 200_000
# The strength is searched in half decades, from 10^1.5 on, with as many items covered as chosen.
SEARCH_ITEMS, SEARCH_OUTPUTS = 2_500, 2_000_000
FIRST, LOWEST, HIGHEST = 3.0, 1.0, 7.0
# The share of elements in contexts that are too small to fit numbers to their sizes.
SMALL_CONTEXTS = 0.02
START = ((0.5, 0.0, 0.5, 0.0, 0.0, 0.0), (0.0,) * 6)
# How firmly the numbers are held at their start, in nats a target.
_HOLD = 1e-3
# And at those of a fit when more groups come, in nats of all their targets.
_HELD_BY = 5.0


@dataclass
class RidgeSearch:
    """Where searches for a strength and its numbers came to, and so where the next one begins.

    Fits to much the same groups end at much the same numbers, soon if they begin there.
    `numbers`: by the strength that was tried; `ends`: of the last fit, on more targets.
    """

    first: float = FIRST
    numbers: dict[float, Tensor] = field(default_factory=dict)
    ends: Tensor | None = None

    def start(self, half_decades: float) -> Tensor:
        """The numbers of the nearest strength that was tried."""
        if not self.numbers:
            return torch.tensor(START)
        return self.numbers[min(self.numbers, key=lambda tried: abs(tried - half_decades))]


def fit_ridge_items(
    groups: Groups, n_items: int, *, support: str, seed: int = 0, search: RidgeSearch | None = None
) -> RidgeItems:
    """The ridge base of these groups; the strength and the numbers by groups that are left out.

    `support`: of the items, "hard" if those of the context are excluded; `search`: of fits to much
    the same groups, taken further by this one.
    """
    search = RidgeSearch() if search is None else search
    held = held_items(groups, n_items)
    count, least_size = np.asarray(held.sum(0)).ravel(), least_context(held)
    draw = partial(LeftOut.draw, groups, count, seed=seed, hard=support == "hard")
    few = draw(most_items=SEARCH_ITEMS, most_outputs=SEARCH_OUTPUTS)
    many = draw(most_items=MOST_ITEMS, most_outputs=MOST_OUTPUTS)

    def penalties(half_decades: float) -> np.ndarray:
        share = (count + 0.5) / (count.mean() + 0.5)
        return 10 ** (half_decades / 2) * share**POWER

    def ridge_of(half_decades: float, most: int) -> RidgeItems:
        ridge = ridge_items(held, penalties(half_decades), most=most)
        ridge.least_size = least_size
        return ridge

    def nats(half_decades: float) -> float:
        ridge = ridge_of(half_decades, SEARCH_ITEMS)
        start = search.start(half_decades)
        search.numbers[half_decades], found = fit_link(few.inputs(ridge), start=start)
        return found

    strength = lowest_strength(nats, first=search.first)
    search.first = min(max(float(round(strength)), LOWEST), HIGHEST - 1)
    ridge = ridge_of(strength, MOST_COVERED)
    start = search.start(strength) if search.ends is None else search.ends
    search.ends, _ = fit_link(many.inputs(ridge), start=start)
    ridge.numbers.copy_(search.ends)
    return ridge.eval()


def least_context(held: scipy.sparse.csr_array) -> float:
    """Items beside an element in all but the few smallest contexts of groups x items; 1 at least.

    Lines in the log of the size say nothing of sizes that they were not fitted to.
    """
    size = np.sort(np.diff(held.indptr))
    below = np.searchsorted(np.cumsum(size), SMALL_CONTEXTS * size.sum())
    return float(max(1, size[below] - 1)) if size.sum() else 1.0


def lowest_strength(nats: Callable[[float], float], *, first: float = FIRST) -> float:
    """Where the nats are least: downhill in whole steps, then at the foot of a parabola."""
    known = {number: nats(number) for number in (first, first + 1.0)}
    best = min(known, key=lambda number: known[number])
    step = 1.0 if best > first else -1.0
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
    gram = torch.from_numpy((held.T @ held).toarray()).to(precision_dtype(len(covered)))
    gram.diagonal().add_(torch.from_numpy(penalty[covered]))
    # Sums of rows want rows that lie in one piece.
    precision = torch.cholesky_inverse(torch.linalg.cholesky(gram)).float().contiguous()
    return RidgeItems(
        precision,
        row=torch.from_numpy(row),
        count=torch.from_numpy(count).float(),
        numbers=torch.tensor(START),
    )


class TargetInputs(NamedTuple):
    """What outputs of some targets are made of, what is added to them, and the targets' items.

    `added`: the log weight of an item that is drawn from others, -inf where it is excluded.
    """

    link: LinkInputs
    added: Float[Tensor, "rows chosen"]
    item: Int64[Tensor, "rows"]

    def with_context(self) -> "TargetInputs":
        """Without rows whose outputs no numbers change."""
        kept = self.link.log_size.isfinite()
        link = LinkInputs(*(part[kept] for part in self.link))
        return TargetInputs(link, self.added[kept], self.item[kept])


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Some groups of the training data, to whose targets the numbers are fitted.

    `chosen`: items, of which those that stand for others too have a `log_weight` above 0; `hard`:
    whether items of the context are excluded.
    """

    groups: Groups
    chosen: Int64[Tensor, "chosen"]
    log_weight: Float[Tensor, "chosen"]
    hard: bool

    @classmethod
    def draw(
        cls,
        groups: Groups,
        count: Float[np.ndarray, "items"],
        *,
        most_items: int,
        most_outputs: int,
        seed: int,
        hard: bool,
    ) -> "LeftOut":
        """Random targets; of many items theirs, the most frequent ones and some of the others."""
        item, random = groups.item, np.random.default_rng([seed, 7])
        assert item is not None
        groups = sampled_groups(groups, MOST_ELEMENTS, random)
        element = groups.elements()
        is_target = item[element] >= 0
        if groups.role is not None:
            is_target &= groups.role[element] == TARGET
        n_chosen = min(len(count), most_items)
        most = max(100, min(MOST_TARGETS, most_outputs // n_chosen))
        target = random.choice(element[is_target], min(most, int(is_target.sum())), replace=False)
        role = np.full(groups.n_rows, CONTEXT, dtype=np.int8)
        role[target] = TARGET
        group = group_of_elements(groups)
        holds = np.unique(group[role[element] == TARGET])
        weight = _weights(count, item[target], most=n_chosen, random=random)
        chosen = np.flatnonzero(weight)
        log_weight = torch.from_numpy(np.log(weight[chosen])).float()
        return cls(groups.with_(role=role)[holds], torch.from_numpy(chosen), log_weight, hard)

    def inputs(self, ridge: Any) -> TargetInputs:
        """What the numbers make outputs of; `ridge`: or another base with `link_inputs`."""
        causal = ridge.direction == "causal"
        n_chosen = len(self.chosen)
        column = torch.full((ridge.n_items,), n_chosen)
        column[self.chosen] = torch.arange(n_chosen)
        none = torch.zeros(0, n_chosen)
        parts = [(none, none, none[:, 0], none, torch.zeros(0, dtype=torch.int64))]
        ridge.train()
        for index in sequential_batches(self.groups, max_tokens=2_000):
            batch = self.groups.pad(index)
            assert batch.item is not None
            known = batch.present & (batch.item >= 0)
            own = torch.where(known, column[batch.item.clamp_min(0)], n_chosen)
            row, position = batch.target.nonzero(as_tuple=True)
            where = (row, position)
            link = ridge.link_inputs(batch, where, self.chosen)
            added = self.log_weight.repeat(len(row), 1)
            if self.hard:
                seen = ContextItems.of(own, where, n_items=n_chosen, causal=causal)
                every = (slice(0, size) for size in added.shape)
                added[seen.within(*every)] = -torch.inf
            parts.append((*link, added, own[where]))
        ridge.eval()
        *link_parts, added, item = (torch.cat(part) for part in zip(*parts, strict=True))
        return TargetInputs(LinkInputs(*link_parts), added, item)


def _weights(
    count: Float[np.ndarray, "items"],
    certain: np.ndarray,
    *,
    most: int,
    random: np.random.Generator,
) -> Float[np.ndarray, "items"]:
    """1 for the certain items and the most frequent ones, more for some of the others, or 0."""
    weight = np.zeros(len(count))
    weight[np.argsort(-count, kind="stable")[: most if most == len(count) else most // 2]] = 1.0
    weight[certain] = 1.0
    others = np.flatnonzero(weight == 0)
    n = min(len(others), most - int(weight.sum()))
    if n > 0:
        weight[random.choice(others, n, replace=False)] = len(others) / n
    return weight


def add_groups(ridge: RidgeItems, groups: Groups, *, support: str, seed: int) -> None:
    """Take in further groups, and fit the link's numbers to them, each left out as in a fit.

    Scores of more groups are surer, so that numbers of few groups would make too much of them.
    """
    ridge.add(groups)
    count = ridge.count.double().cpu().numpy()
    some = LeftOut.draw(
        groups,
        count,
        most_items=MOST_ITEMS,
        most_outputs=MOST_OUTPUTS,
        seed=seed,
        hard=support == "hard",
    )
    if n := some.groups.n_targets:
        old = ridge.numbers
        new, _ = fit_link(some.inputs(ridge), start=old, center=old, hold=_HELD_BY / n)
        ridge.numbers.copy_(new)


def fit_link(
    inputs: TargetInputs,
    *,
    start: Float[Tensor, "two six"],
    center: Float[Tensor, "two six"] | None = None,
    hold: float = _HOLD,
) -> tuple[Float[Tensor, "two six"], float]:
    """The link's numbers of the least nats a target, held at `center`, and those nats."""
    center = torch.tensor(START) if center is None else center
    inputs = inputs.with_context()
    chance = chance_of(inputs.link.score)

    def tiles(numbers: Tensor) -> Iterator[Tile]:
        for rows in rows_of_tiles(*chance.shape):
            score, popularity, log_size = (part[rows] for part in inputs.link)
            at = RidgeNumbers.at(numbers.to(score).view(2, 6), log_size)
            share = (at.log_kappa + popularity).exp()
            inside = chance[rows] + share
            link = inside.log()
            terms = [popularity, score, link, curve_of(popularity), log_of(score)]
            eta = sum(number * term for number, term in zip(at, terms, strict=False))
            slopes = [*terms, at.link * share / inside]
            line = torch.stack([torch.ones_like(log_size), log_size], 1)
            yield eta + inputs.added[rows], slopes, inputs.item[rows], line

    numbers, nats = fit_numbers(tiles, start=start.flatten(), center=center.flatten(), hold=hold)
    return numbers.view(2, 6), nats
