"""Fits how the parts of the base of sequences seen on both sides are weighed."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.efa.base.fit_ridge import MOST_ITEMS
from exfam.efa.base.fit_transitions import (
    MOST_NUMBERS,
    MOST_TARGETS,
    allowed_items,
    fit_transition_items,
    some_targets,
)
from exfam.efa.base.neighbors import N_PARTS, NeighborItems, backwards, lined_up
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.base.scoring import Tile, fit_numbers, rows_of_tiles
from exfam.groups import Groups

# How firmly the weights are held at those of the set alone, in nats a target.
_HOLD = 1e-3


def fit_neighbor_items(
    ridge: RidgeItems, groups: Groups, *, support: str, seed: int
) -> NeighborItems:
    """The base of these groups, to which the ridge scores were fitted."""
    line = lined_up(groups)
    both = (line, backwards(line))
    transitions = (
        fit_transition_items(own, ridge.n_items, support=support, seed=seed) for own in both
    )
    base = NeighborItems(ridge, *transitions)
    inputs = _inputs(base, groups, support=support, seed=seed)
    if inputs is not None:
        parts, item = inputs

        def tiles(weights: Tensor) -> Iterator[Tile]:
            for rows in rows_of_tiles(*parts.shape[1:]):
                slopes = parts[:-1, rows]
                eta = torch.einsum("n,nri->ri", weights.to(slopes), slopes) + parts[-1, rows]
                yield eta, list(slopes), item[rows], torch.ones_like(eta[:, :1])

        alone = base.weights
        base.weights.copy_(fit_numbers(tiles, start=alone, center=alone, hold=_HOLD)[0])
    return base.eval()


def _inputs(
    base: NeighborItems, groups: Groups, *, support: str, seed: int
) -> tuple[Float[Tensor, "parts rows chosen"], Int64[Tensor, "rows"]] | None:
    """Of some targets, what is weighed and, last, what is added to all; and their own items."""
    chosen = base.count.argsort(descending=True, stable=True)[:MOST_ITEMS].sort().values
    most = max(100, min(MOST_TARGETS, MOST_NUMBERS // ((N_PARTS + 1) * len(chosen))))
    found: list[tuple[Tensor, Tensor]] = []
    base.train()
    for batch, where, own in some_targets(groups, chosen, base.n_items, most=most, seed=seed):
        allowed = allowed_items(batch, where, chosen, base, support=support)
        added = torch.zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)
        found.append((torch.cat([base.parts(batch, where, chosen), added[None]]), own))
    base.eval()
    if not found:
        return None
    parts, item = zip(*found, strict=True)
    return torch.cat(parts, 1), torch.cat(item)
