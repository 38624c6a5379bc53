"""Climatology: what is normal at a place and a time, whatever the others are like."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.fields.networks.climate import Climate
from exfam.groups import Batch

__all__ = ["ClimatologyPart"]


class ClimatologyPart(nn.Module):
    """A Gaussian around what is normal, of the normal spread; the others on the map are not read.

    >>> import numpy as np
    >>> from exfam.groups import Groups
    >>> from exfam.fields.networks.climate import fit_climate
    >>> values = {"t": [1.0, 7.0, 3.0, 9.0]}
    >>> groups = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 0, 1], values=values,
    ...     attributes={"coordinates": np.zeros((4, 2))})
    >>> part = ClimatologyPart(fit_climate(groups, kind="global", metric="euclidean"))
    >>> part.eta(groups.pad([0]))[0, :, 0]
    tensor([5., 5.])
    """

    direction = "bidirectional"

    def __init__(self, climate: Climate) -> None:
        super().__init__()
        self.climate = climate

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation of each element, in the value's unit."""
        normal = self.climate(batch)
        return torch.stack([normal.location, torch.hypot(normal.scale, normal.doubt).log()], -1)
