"""Transition scores of new items: those of old items that they are like."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.efa.base.neighbors import NeighborItems
from exfam.efa.base.sets import Where
from exfam.efa.base.transitions import TransitionItems
from exfam.groups import Batch, Groups


class LikeItems(nn.Module):
    """Outputs of old items by `old`, to which new ones are unknown, and means of them for these."""

    share: Tensor

    def __init__(
        self, old: TransitionItems | NeighborItems, share: Float[Tensor, "new old"]
    ) -> None:
        """`share`: of the old items in each new one; they sum to 1."""
        super().__init__()
        self.old, self.direction = old, old.direction
        self.register_buffer("share", share)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return self.old.n_items + len(self.share)

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        batch, n_old = self._of_old(batch), self.old.n_items
        if bool((chosen < n_old).all()):
            return self.old.outputs(batch, where, chosen)
        every = torch.arange(n_old, device=chosen.device)
        old = self.old.outputs(batch, where, every)
        return torch.cat([old, old @ self.share.T], 1)[:, chosen]

    def contributions(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
        """As those of `old`; nothing is counted of new items: NaN."""
        is_old = item < self.old.n_items
        without, added = self.old.contributions(
            self._of_old(batch), where, torch.where(is_old, item, 0)
        )
        return without.where(is_old, 0.0), added.where(is_old[:, None], torch.nan)

    def add(self, groups: Groups) -> None:
        """Count the old items of these groups too."""
        assert groups.item is not None
        is_old = groups.item < self.old.n_items
        self.old.add(groups.with_(item=groups.item * is_old - ~is_old))

    def _of_old(self, batch: Batch) -> Batch:
        assert batch.item is not None
        return replace(batch, item=batch.item.masked_fill(batch.item >= self.old.n_items, -1))
