"""Fits what known columns add to the base of items, if they add anything, to left-out groups."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.base.known import (
    AFTER,
    BEFORE,
    N_RANGES,
    KnownItems,
    Together,
    counted_batches,
    n_levels_of,
    numbers_of,
)
from exfam.efa.base.weigh_parts import part_inputs, weigh_parts
from exfam.efa.values.given import GivenColumn
from exfam.groups import Groups

# Counts of the popularity that levels have beside their own: what says most is chosen.
BACK_OFFS = (2.0, 10.0, 50.0)
# Columns that are tried together, those that say most, up to so many at once; their levels at most.
MOST_COMBINED, MOST_AT_ONCE, MOST_LEVELS = 4, 3, 100_000
# Numbers of all parts at most.
_MOST_NUMBERS = 9_000_000
# Nats of all targets that a part must gain, beside what chance gains.
_LEAST_GAIN = 2.0
# Of how many elements come before: 0, 1, 2, 3 or 4, 5 to 8, ...
_EDGES_OF_INDEX = np.append(0.5, 2.0 ** np.arange(N_RANGES - 2) + 0.5)


def fit_known_items(
    base: Any, groups: Groups, columns: Sequence[GivenColumn], *, support: str, seed: int
) -> Any:
    """The base with the columns that say something of items beside it; as it is without any."""
    known = _counted(base, groups, columns, ())
    best = _best(known, groups, support=support, seed=seed)
    if best is None:
        return base
    together: list[Together] = []
    alone = best.alone
    largest = best.weights[1:].abs().argsort(descending=True, stable=True)[:MOST_COMBINED]
    for size in range(2, MOST_AT_ONCE + 1):
        more = _combinations(columns, sorted(largest.tolist()), size)
        wider = _counted(base, groups, columns, together + more)
        other = _best(wider, groups, support=support, seed=seed) if more else None
        if other is None or (best.nats - other.nats) * best.n < len(more) + _LEAST_GAIN:
            break
        known, best, together = wider, other, together + more
    if (alone - best.nats) * best.n < len(best.weights) + _LEAST_GAIN:
        return base
    known.weights.copy_(best.weights)
    known.back_off.fill_(best.back_off)
    return known.eval()


def _counted(
    base: Any, groups: Groups, columns: Sequence[GivenColumn], together: Sequence[Together]
) -> KnownItems:
    known = KnownItems(base, columns, together)
    for number, column in enumerate(columns):
        if column in (BEFORE, AFTER):
            known.edges[number] = torch.from_numpy(_EDGES_OF_INDEX)
        elif column.n is None:
            values = [
                numbers_of(b, column, base.direction)[own] for b, own in counted_batches(groups)
            ]
            edges = _edges(np.concatenate([np.zeros(0), *values]))
            known.edges[number, : len(edges)] = torch.from_numpy(edges)
    known.take_in(groups)
    return known


def _edges(values: Float[np.ndarray, "elements"]) -> Float[np.ndarray, "edges"]:
    """Between the ranges of a number: each value by itself where there are few."""
    distinct = np.unique(values)
    if len(distinct) <= N_RANGES:  # of no elements there are none
        return (distinct[:-1] + distinct[1:]) / 2
    return np.unique(np.quantile(values, np.linspace(0, 1, N_RANGES + 1)[1:-1]))


class _Best(NamedTuple):
    """Weights of the base and of lifts, nats a target with and without these, and targets."""

    weights: Float[Tensor, "parts"]
    back_off: float
    nats: float
    alone: float
    n: int


def _best(known: KnownItems, groups: Groups, *, support: str, seed: int) -> _Best | None:
    """The fit of the counts added to levels that says most; None without targets."""
    found: list[_Best] = []
    for back_off in BACK_OFFS:
        known.back_off.fill_(back_off)
        inputs = part_inputs(
            known,
            known.parts_of,
            groups,
            n_parts=len(known.weights),
            most_numbers=_MOST_NUMBERS,
            support=support,
            seed=seed,
        )
        if inputs is None:
            return None
        weights, nats = weigh_parts(inputs)
        alone = found[0].alone if found else weigh_parts(inputs._replace(parts=inputs.parts[:1]))[1]
        found.append(_Best(weights, back_off, nats, alone, len(inputs.item)))
    return min(found, key=lambda best: best.nats)


def _combinations(
    columns: Sequence[GivenColumn], numbers: Sequence[int], size: int
) -> list[Together]:
    """Of so many columns at once, those whose levels together are not too many."""
    tried = itertools.combinations(numbers, size)
    return [part for part in tried if n_levels_of(columns, part) <= MOST_LEVELS]
