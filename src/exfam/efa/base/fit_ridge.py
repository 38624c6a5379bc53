"""Fits the ridge base: the precision in closed form, its strength and numbers by search."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.base.fit_classes import choose_classes
from exfam.efa.base.left_out import LeftOut, TargetInputs
from exfam.efa.base.ridge import RidgeItems, precision_dtype
from exfam.efa.base.ridge_link import RidgeNumbers, chance_of, curve_of, log_of
from exfam.efa.base.scoring import Tile, fit_numbers, hold_of, rows_of_tiles
from exfam.efa.base.sets import held_items
from exfam.groups import Groups

# Items that are regressed on each other, the most frequent ones of a larger catalog.
MOST_COVERED = 5_000
# Frequent items are held more firmly, by this power of their count.
POWER = 0.25
# The numbers are fitted to so many items of a larger catalog, and outputs of theirs at most.
MOST_ITEMS, MOST_OUTPUTS = 20_000, 10_000_000
# The strength is searched in half decades, from 10^1.5 on, with as many items covered as chosen.
SEARCH_ITEMS, SEARCH_OUTPUTS = 2_500, 2_000_000
FIRST, LOWEST, HIGHEST = 3.0, 1.0, 7.0
# The share of elements in contexts that are too small to fit numbers to their sizes.
SMALL_CONTEXTS = 0.02
START = ((0.5, 0.0, 0.5, 0.0, 0.0, 0.0), (0.0,) * 6)
# Groups with fewer of them, or with more items, have no classes.
LEAST_GROUPS, MOST_CLASSED = 100, 100_000
# How firmly the numbers are held at those of a fit when more groups come, in nats of all their
# targets.
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
    inputs = many.inputs(ridge)
    search.ends, _ = fit_link(inputs, start=start)
    ridge.numbers.copy_(search.ends)
    if len(groups) >= LEAST_GROUPS and n_items <= MOST_CLASSED:
        ridge.classes = choose_classes(held, groups, ridge, seed=seed, hard=support == "hard")
    if ridge.classes is not None:
        inputs = inputs._replace(lift=many.lifts(ridge.classes))
        ridge.set_numbers(fit_link(inputs, start=ridge.all_numbers)[0])
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
        old = ridge.all_numbers
        new, _ = fit_link(some.inputs(ridge), start=old, center=old, hold=_HELD_BY / n)
        ridge.set_numbers(new)


def fit_link(
    inputs: TargetInputs,
    *,
    start: Float[Tensor, "two numbers"],
    center: Float[Tensor, "two numbers"] | None = None,
    hold: float | None = None,
) -> tuple[Float[Tensor, "two numbers"], float]:
    """The link's numbers of the least nats a target, held at `center`, and those nats.

    Where there are lifts, the last column is that of their weight.
    """
    if center is None:
        center = torch.cat([torch.tensor(START), torch.zeros(2, start.shape[1] - 6)], 1)
    inputs = inputs.with_context()
    chance = chance_of(inputs.link.score)
    hold = hold_of(len(chance)) if hold is None else hold

    def tiles(numbers: Tensor) -> Iterator[Tile]:
        numbers = numbers.to(chance).view(2, -1)
        for rows in rows_of_tiles(*chance.shape):
            score, popularity, log_size = (part[rows] for part in inputs.link)
            at = RidgeNumbers.at(numbers[:, :6], log_size)
            share = (at.log_kappa + popularity).exp()
            inside = chance[rows] + share
            link = inside.log()
            terms = [popularity, score, link, curve_of(popularity), log_of(score)]
            eta = sum(number * term for number, term in zip(at, terms, strict=False))
            slopes = [*terms, at.link * share / inside]
            line = torch.stack([torch.ones_like(log_size), log_size], 1)
            if inputs.lift is not None:
                slopes.append(inputs.lift[rows])
                eta = eta + (line @ numbers[:, 6:]) * inputs.lift[rows]
            yield eta + inputs.added[rows], slopes, inputs.item[rows], line

    numbers, nats = fit_numbers(tiles, start=start.flatten(), center=center.flatten(), hold=hold)
    return numbers.view(2, -1), nats
