"""Tokens of a field: place, site, how many steps back; and the anomaly, hidden at the center."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.checks import check_fraction
from exfam.embeddings import Field
from exfam.groups import Batch
from exfam.layers import table

__all__ = ["Hiding", "StepsBack"]


class StepsBack(Field):
    """A learned vector for each number of steps back, 0 for the map itself: the paper's lambda_d.

    Source: "Exponential Family Attention", appendix H.4.

    >>> from exfam.groups import Groups
    >>> field = StepsBack(1, dim=4, generator=torch.Generator().manual_seed(0))
    >>> field(Groups(start=[0], stop=[3]).pad([0])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, lags: int, *, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.dim = dim
        self.table = table(lags + 1, dim, scale=0.1, generator=generator)

    def forward(self, batch: Batch) -> Float[Tensor, "batch length dim"]:
        return self.table(batch.steps_back)


class Hiding(nn.Module):
    """In training, hides a random share of each map, so that any subset of sites can be a context.

    Half of the maps stay as they are; of the others a share drawn evenly from 0 to `share` is not
    shown. Hidden values are predicted all the same.
    Raises ExfamError unless `share` is in [0, 1].

    >>> from exfam.groups import Groups
    >>> Hiding(0.5).eval()(Groups(start=[0], stop=[3]).pad([0]))
    tensor([[True, True, True]])
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        check_fraction("share", share)
        self.share = share

    def forward(self, batch: Batch) -> Bool[Tensor, "batch length"]:
        """Which elements are shown to the others."""
        shown = batch.observed & batch.present
        if not self.training or not self.share:
            return shown
        n_maps = int(batch.steps_back.max()) + 1
        draws = torch.rand(2, len(shown), n_maps, device=shown.device)
        share = torch.where(draws[0] < 0.5, self.share * draws[1], 0.0)
        hidden = torch.rand(shown.shape, device=shown.device) < share.gather(1, batch.steps_back)
        return shown & ~hidden
