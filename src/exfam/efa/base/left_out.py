"""Targets of groups that are left out of a fit, to which the numbers of its link are fitted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.catalog.listed import ContextItems
from exfam.efa.base.classes import ItemClasses
from exfam.efa.base.ridge_link import LinkInputs
from exfam.efa.base.sets import Where
from exfam.groups import CONTEXT, TARGET, Batch, Groups
from exfam.groups.arrange import group_of_elements, sampled_groups, sequential_batches

# Targets at most, drawn from groups that see so many elements.
MOST_TARGETS, MOST_ELEMENTS = 10_000, 200_000


class TargetInputs(NamedTuple):
    """What outputs of some targets are made of, what is added to them, and the targets' items.

    `added`: the log weight of an item that is drawn from others, -inf where it is excluded; `lift`:
    by the classes of groups, if there are any.
    """

    link: LinkInputs
    added: Float[Tensor, "rows chosen"]
    item: Int64[Tensor, "rows"]
    lift: Float[Tensor, "rows chosen"] | None = None

    def with_context(self) -> "TargetInputs":
        """Without rows whose outputs no numbers change."""
        kept = self.link.log_size.isfinite()
        link = LinkInputs(*(part[kept] for part in self.link))
        lift = None if self.lift is None else self.lift[kept]
        return TargetInputs(link, self.added[kept], self.item[kept], lift)


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
        least: int = 2,
    ) -> "LeftOut":
        """Random targets; of many items theirs, the most frequent ones and some of the others.

        `count`: groups that have each item, and `least`: of a target. An item of one group alone is
        none: without that group it would be the only item that was never seen, which says which one
        it is.
        """
        item, random = groups.item, np.random.default_rng([seed, 7])
        assert item is not None
        groups = sampled_groups(groups, MOST_ELEMENTS, random)
        element = groups.elements()
        is_target = (item[element] >= 0) & (count[item[element]] >= least)
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
        for batch, where in self._batches():
            assert batch.item is not None
            known = batch.present & (batch.item >= 0)
            own = torch.where(known, column[batch.item.clamp_min(0)], n_chosen)
            link = ridge.link_inputs(batch, where, self.chosen)
            added = self.log_weight.repeat(len(where[0]), 1)
            if self.hard:
                seen = ContextItems.of(own, where, n_items=n_chosen, causal=causal)
                every = (slice(0, size) for size in added.shape)
                added[seen.within(*every)] = -torch.inf
            parts.append((*link, added, own[where]))
        ridge.eval()
        *link_parts, added, item = (torch.cat(part) for part in zip(*parts, strict=True))
        classes = getattr(ridge, "classes", None)
        lift = None if classes is None else self.lifts(classes)
        return TargetInputs(LinkInputs(*link_parts), added, item, lift)

    def lifts(self, classes: ItemClasses) -> Float[Tensor, "rows chosen"]:
        """Of the chosen items by classes of groups, as in `inputs`."""
        parts = [torch.zeros(0, len(self.chosen))]
        classes.train()
        for batch, where in self._batches():
            parts += [lift for _, lift in classes.lifts(batch, where).of(self.chosen)]
        classes.eval()
        return torch.cat(parts)

    def _batches(self) -> Iterator[tuple[Batch, Where]]:
        """The groups, and where the targets are."""
        for index in sequential_batches(self.groups, max_tokens=2_000):
            batch = self.groups.pad(index)
            row, position = batch.target.nonzero(as_tuple=True)
            yield batch, (row, position)


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
