"""Fits weights of the parts that outputs of items are sums of, to targets of left-out groups."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.efa.base.fit_ridge import MOST_ITEMS
from exfam.efa.base.fit_transitions import MOST_TARGETS, allowed_items, some_targets
from exfam.efa.base.scoring import Tile, fit_numbers, hold_of, rows_of_tiles
from exfam.efa.base.sets import Where
from exfam.groups import Batch, Groups

# How firmly weights are held at those of the first part alone, in nats of all targets.
_HOLD_IN_ALL = 2.0

Codes = Int64[Tensor, "chosen"]


class PartInputs(NamedTuple):
    """Parts of outputs at some targets, what is added to all, and the targets' own items."""

    parts: Float[Tensor, "parts rows chosen"]
    added: Float[Tensor, "rows chosen"]
    item: Int64[Tensor, "rows"]


def part_inputs(
    base: Any,
    parts_of: Callable[[Batch, Where, Codes], Tensor],
    groups: Groups,
    *,
    n_parts: int,
    most_numbers: int,
    support: str,
    seed: int,
) -> PartInputs | None:
    """Of some targets, in the base's training mode; None if there are none.

    `parts_of`: at elements, of the chosen items; `most_numbers`: of all parts.
    """
    chosen = base.count.argsort(descending=True, stable=True)[:MOST_ITEMS].sort().values
    most = max(100, min(MOST_TARGETS, most_numbers // ((n_parts + 1) * len(chosen))))
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    base.train()
    for batch, where, own in some_targets(groups, chosen, base.n_items, most=most, seed=seed):
        allowed = allowed_items(batch, where, chosen, base, support=support)
        added = torch.zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)
        found.append((parts_of(batch, where, chosen), added, own))
    base.eval()
    if not found:
        return None
    parts, masks, items = zip(*found, strict=True)
    return PartInputs(torch.cat(parts, 1), torch.cat(masks), torch.cat(items))


def weigh_parts(inputs: PartInputs) -> tuple[Float[Tensor, "parts"], float]:
    """The weights of the least nats, and those nats a target."""

    def tiles(weights: Tensor) -> Iterator[Tile]:
        for rows in rows_of_tiles(*inputs.added.shape):
            slopes = inputs.parts[:, rows]
            eta = torch.einsum("n,nri->ri", weights.to(slopes), slopes) + inputs.added[rows]
            yield eta, list(slopes), inputs.item[rows], torch.ones_like(eta[:, :1])

    alone = torch.eye(len(inputs.parts))[0]
    hold = hold_of(len(inputs.item), in_all=_HOLD_IN_ALL)
    return fit_numbers(tiles, start=alone, center=alone, hold=hold)
