"""The base of items seen on both sides of a sequence: their set, what came before, and what after.

    eta_i = w_set ridge_i + w_before before_i + w_after after_i + w_pop log pop_i

with the outputs of ridge scores of all others, of transitions from the items before, and of
transitions counted backwards from the items after. The four weights are fitted to targets whose
group all three have left out. What comes before and after is by position; elements of one position
are neither before nor after each other, and their order for others is by the items' codes, so that
that of rows means nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.efa.base.ridge import RidgeItems
from exfam.efa.base.ridge_link import LinkInputs, ridge_link
from exfam.efa.base.sets import Where
from exfam.efa.base.transitions import LEAST_OF_POPULARITY, TransitionItems
from exfam.groups import Batch, Groups
from exfam.groups.arrange import sequential_batches, with_rows

N_PARTS = 4
# Elements that are put in order at a time.
_AT_ONCE = 100_000


class NeighborItems(nn.Module):
    """Outputs of every item at every element of a sequence, given those on both sides.

    In training mode the whole of an element's group is left out of all that was counted.
    """

    direction = "bidirectional"
    weights: Tensor

    def __init__(self, ridge: RidgeItems, before: TransitionItems, after: TransitionItems) -> None:
        """`after`: of groups whose elements are read backwards."""
        super().__init__()
        self.ridge, self.before, self.after = ridge, before, after
        self.register_buffer("weights", torch.tensor([1.0, 0.0, 0.0, 0.0]))

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return self.ridge.n_items

    @property
    def count(self) -> Float[Tensor, "items"]:
        """How many groups had each item."""
        return self.ridge.count

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        eta = self.ridge.log_popularity(batch, where, chosen) * self.weights[3]
        for weight, (base, own, here) in zip(self.weights, self._parts(batch, where), strict=False):
            eta = eta + weight * base.outputs(own, here, chosen)
        return eta

    def parts(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "parts rows chosen"]:
        """What is weighed: outputs of the three parts, and log popularity."""
        outputs = [base.outputs(own, here, chosen) for base, own, here in self._parts(batch, where)]
        popularity = self.ridge.log_popularity(batch, where, chosen)
        return torch.stack([*outputs, popularity.expand_as(outputs[0])])

    def _parts(self, batch: Batch, where: Where) -> list[tuple[Any, Batch, Where]]:
        forward, backward = both_orders(batch)
        return [
            (self.ridge, batch, where),
            (self.before, *read_along(batch, where, forward)),
            (self.after, *read_along(batch, where, backward)),
        ]

    def contributions(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
        """The output of one item a row without context, in nats, and what elements add to it.

        All but `lift`, what is by classes of groups. What an element adds to a part's score becomes
        what it adds to the part's output, see `_in_nats`; that an item was there before is added by
        these earlier elements. In evaluation mode. NaN for what no part sees.
        """
        parts = [_ridge_nats(self.ridge, batch, where, item)]
        for base, line in zip((self.before, self.after), both_orders(batch), strict=True):
            alone, added = _transition_nats(base, *read_along(batch, where, line), item)
            parts.append((alone, added.gather(1, line.argsort(1)[where[0]])))
        without = self.ridge.log_popularity(batch, where, item)[0] * self.weights[3]
        for weight, (alone, _) in zip(self.weights, parts, strict=False):
            without = without + weight * alone
        added = torch.stack([own for _, own in parts])
        unseen = added.isnan().all(0)
        sums = torch.einsum("n,nrl->rl", self.weights[:3].double(), added.nan_to_num())
        return without.float(), sums.masked_fill(unseen, torch.nan).float()

    def lift(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"]:
        """What the classes of groups add to the output of one item a row."""
        return self.weights[0] * self.ridge.lift(batch, where, item)

    def add(self, groups: Groups) -> None:
        """Take in further groups; weights and what the parts were fitted to stay."""
        self.ridge.add(groups)
        groups = lined_up(groups)
        self.before.add(groups)
        self.after.add(backwards(groups))


def _in_nats(
    function: Callable[[Tensor], Tensor],
    start: Float[Tensor, "rows"],
    added: Float[Tensor, "rows length"],
) -> Float[Tensor, "rows length"]:
    """What elements that add to a score add to a function of it; NaN stays.

    All that raise it have the mean of what they change first and last, before and after all that
    lower it; each has its share of the score of its side. So sums are exact.
    """
    raised, lowered = added.nan_to_num().clamp_min(0), added.nan_to_num().clamp_max(0)
    up, down = raised.sum(1), lowered.sum(1)
    none, first, last, both = (
        function(start + step) for step in (torch.zeros_like(up), up, down, up + down)
    )
    of_up, of_down = (first - none + both - last) / 2, (last - none + both - first) / 2
    shares = raised * (of_up / up.where(up > 0, 1.0))[:, None]
    shares = shares + lowered * (of_down / down.where(down < 0, 1.0))[:, None]
    return shares.where(~added.isnan(), torch.nan)


def _ridge_nats(
    ridge: RidgeItems, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
    """Outputs without a score, and what elements add to them."""
    start, added = ridge.contributions(batch, where, item)
    distinct, column = item.unique(return_inverse=True)
    inputs = ridge.link_inputs(batch, where, distinct)
    popularity = inputs.log_popularity.expand(len(item), -1).gather(1, column[:, None])

    def output(score: Tensor) -> Tensor:
        own = LinkInputs(score.float()[:, None], popularity, inputs.log_size)
        return ridge_link(own, ridge.numbers)[:, 0].double()

    return output(start), _in_nats(output, start.double(), added.double())


def _transition_nats(
    base: TransitionItems, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
    """Outputs without context, and what earlier elements add to them."""
    assert batch.item is not None
    start, added = (part.double() for part in base.contributions(batch, where, item))
    smooth = base.count.double() + 0.5
    log_popularity = (smooth[item] / smooth.sum()).log()

    def output(mix: Tensor) -> Tensor:
        mix = torch.maximum(mix, LEAST_OF_POPULARITY * log_popularity.exp())
        return base.exponents[0] * log_popularity + base.exponents[1] * mix.log()

    added = _in_nats(output, start, added)
    if not base.repeats.any():
        return output(start), added
    position = torch.arange(batch.present.shape[1], device=item.device)
    same = batch.present[where[0]] & (batch.item[where[0]] == item[:, None])
    same &= position < where[1][:, None]
    times = same.sum(1).double()
    more = base.repeats[0] * (times > 0) + base.repeats[1] * times.log1p()
    shares = same * (more / times.clamp_min(1))[:, None]
    return output(start), torch.where(same, added.nan_to_num() + shares, added)


def is_line(groups: Groups) -> bool:
    """Whether positions, if there are any, have one coordinate."""
    return groups.position is None or groups.position.ndim == 1


def both_orders(
    batch: Batch,
) -> tuple[Int64[Tensor, "batch length"], Int64[Tensor, "batch length"]]:
    """The elements of each group in order of position, and in the opposite order; then padding."""
    assert batch.item is not None
    line = batch.item.sort(dim=1, stable=True).indices
    for key in (batch.position, -batch.steps_back, ~batch.present):
        line = line.gather(1, key.gather(1, line).sort(dim=1, stable=True).indices)
    size = batch.present.sum(1, keepdim=True)
    position = torch.arange(line.shape[1], device=line.device).expand_as(line)
    opposite = torch.where(position < size, size - 1 - position, position)
    return line, line.gather(1, opposite)


def read_along(
    batch: Batch, where: Where, line: Int64[Tensor, "batch length"]
) -> tuple[Batch, Where]:
    """A batch with the elements of each group in another order, and where what is seen ends.

    Among equal positions it is the first one: the others there are in an order that depends on
    their items, which would give the element's own away.
    """
    columns = ("item", "target", "element", "steps_back")
    turned = {name: getattr(batch, name).gather(1, line) for name in columns}
    return replace(batch, **turned), (where[0], ranks_along(batch, line)[where])


def ranks_along(batch: Batch, line: Int64[Tensor, "batch length"]) -> Int64[Tensor, "batch length"]:
    """How many elements of its group come before each one, in an order of positions."""
    is_new = torch.ones_like(line, dtype=torch.bool)
    is_new[:, 1:] = False
    for key in (batch.position, batch.steps_back):
        ordered = key.gather(1, line)
        is_new[:, 1:] |= ordered[:, 1:] != ordered[:, :-1]
    index = torch.arange(line.shape[1], device=line.device).expand_as(line)
    return index.where(is_new, 0).cummax(1).values.gather(1, line.argsort(1))


def lined_up(groups: Groups) -> Groups:
    """Groups with their elements in order of position, without context ranges."""
    rows, length = groups.elements(), groups.stop - groups.start
    first = np.cumsum(length) - length
    for index in sequential_batches(groups, max_tokens=_AT_ONCE):
        batch = groups.pad(index)
        line, _ = both_orders(batch)
        is_own = (batch.present & (batch.steps_back == 0)).gather(1, line)
        own, before = length[index], np.cumsum(length[index]) - length[index]
        at = np.repeat(first[index] - before, own) + np.arange(own.sum())
        rows[at] = batch.element.gather(1, line)[is_own].numpy()
    return _with_elements(groups, rows)


def backwards(groups: Groups) -> Groups:
    """Groups with their elements in opposite order, without context ranges."""
    length, rows = groups.stop - groups.start, groups.elements()
    stop = np.cumsum(length)
    group = np.repeat(np.arange(len(groups)), length)
    return _with_elements(groups, rows[(stop + stop - length - 1)[group] - np.arange(len(rows))])


def _with_elements(groups: Groups, rows: Int64[np.ndarray, "rows"]) -> Groups:
    length = groups.stop - groups.start
    stop = np.cumsum(length)
    bounds: dict[str, Any] = {"start": stop - length, "stop": stop}
    no_more = dict.fromkeys(("context_start", "context_stop", "tied"))
    return with_rows(groups, rows, **bounds, **no_more)
