"""Outputs that do not depend on the context: intercepts, scales, thresholds."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from exfam.families import Family
from exfam.groups import Batch

__all__ = ["Dispersion", "ItemBias", "item_rows", "split_initial"]


def item_rows(batch: Batch, n_items: int) -> Int[Tensor, "batch length"]:
    """Rows of a table with one row an item and a last one for unknown items.

    Groups without items, or a table of no items, have the last row everywhere.
    """
    if batch.item is None or n_items == 0:
        return torch.full_like(batch.element, n_items)
    return torch.where(batch.item < 0, n_items, batch.item)


class ItemBias(nn.Module):
    """Learned constants, one an output; with `n_items` also an offset for each item, from 0.

    >>> ItemBias(torch.tensor([0.5]), n_items=3).offset.shape
    torch.Size([4, 1])
    """

    def __init__(self, start: Float[Tensor, "outputs"], *, n_items: int | None = None) -> None:
        super().__init__()
        self.n_items = n_items
        self.constant = nn.Parameter(start.detach().clone())
        # The last row, for unknown items, is never trained: they have the constant alone.
        offset = None if n_items is None else start.new_zeros(n_items + 1, len(start))
        self.offset = None if offset is None else nn.Parameter(offset)

    def forward(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        if self.offset is None or self.n_items is None:
            return self.constant.expand(*batch.present.shape, -1)
        return self.constant + self.offset[item_rows(batch, self.n_items)]


def split_initial(
    families: Mapping[str, Family], initial_eta: Mapping[str, Tensor]
) -> tuple[Float[Tensor, "location"], Float[Tensor, "dispersion"]]:
    """Starting values of all columns, location outputs apart from dispersion outputs."""
    location, dispersion = [], []
    for column, family in families.items():
        n_location = family.n_params - family.n_dispersion
        location.append(initial_eta[column][:n_location])
        dispersion.append(initial_eta[column][n_location:])
    return torch.cat(location), torch.cat(dispersion)


class Dispersion(nn.Module):
    """Completes location outputs with learned dispersion outputs, global or an item's own.

    A network then has one output for each location parameter (`n_location` in all); scales,
    thresholds and the like do not depend on the context.
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        start: Float[Tensor, "dispersion"],
        *,
        n_items: int | None = None,
    ) -> None:
        super().__init__()
        self.n_dispersion = [family.n_dispersion for family in families.values()]
        self.n_locations = [family.n_params - family.n_dispersion for family in families.values()]
        if len(start) != sum(self.n_dispersion):
            raise ValueError(f"{len(start)} starting values for {self.n_dispersion} dispersions")
        self.bias = ItemBias(start, n_items=n_items)

    @property
    def n_location(self) -> int:
        """Location outputs of all columns."""
        return sum(self.n_locations)

    def forward(
        self, location: Float[Tensor, "batch length location"], batch: Batch
    ) -> Float[Tensor, "batch length eta"]:
        """The columns' parameters side by side, each location before its dispersion."""
        locations = location.split(self.n_locations, dim=-1)
        dispersions = self.bias(batch).to(location.dtype).split(self.n_dispersion, dim=-1)
        pairs = zip(locations, dispersions, strict=True)
        return torch.cat([part for pair in pairs for part in pair], dim=-1)
