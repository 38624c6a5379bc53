"""A group's own level, read off its other values: the shrunk offset as a trainable part."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import check_positive
from exfam.efa.networks.dispersion import ItemBias
from exfam.efa.networks.pooling import value_inputs, visible_sum
from exfam.families import Family
from exfam.groups import Batch

__all__ = ["GroupOffset"]


class GroupOffset(nn.Module):
    """slope * (sum of the context's residuals) / (their number + k), beside the attention.

    A residual is a standardized value minus its item's expected one. Expectations (from `center`),
    `k` and slopes are learned. It is the mean of a random effect of the group, given its context.

    >>> from exfam.families import Gaussian
    >>> start = {"center": torch.tensor([3.0]), "slope": torch.ones(1, 1)}
    >>> offset = GroupOffset({"stars": Gaussian()}, direction="causal", **start)
    >>> offset.log_k.exp().round().tolist()
    [5.0]
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        *,
        slope: Float[Tensor, "columns outputs"],
        center: Float[Tensor, "columns"],
        direction: str,
        n_items: int | None = None,
        k: float = 5.0,
    ) -> None:
        super().__init__()
        check_positive("k", k)
        self.families, self.direction = dict(families), direction
        self.expected = ItemBias(center, n_items=n_items)
        self.log_k = nn.Parameter(torch.full((len(self.families),), math.log(k)))
        self.slope = nn.Parameter(slope.clone())

    def forward(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        """What the context's residuals add to each location output."""
        shown = batch.observed & batch.present
        expected = self.expected(batch)
        values = value_inputs(self.families, batch).to(expected.dtype)
        residuals = torch.where(shown[..., None], values - expected, 0.0)
        total = visible_sum(residuals, shown, self.direction)
        number = visible_sum(shown[..., None].to(total.dtype), shown, self.direction)
        return total / (number + self.log_k.exp()) @ self.slope
