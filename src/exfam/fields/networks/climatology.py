"""Climatology: what is normal at a place and a time, whatever the others are like."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.fields.networks.climate import Climate
from exfam.groups import Batch


class ClimatologyPart(nn.Module):
    """A Gaussian around what is normal, of the normal spread; nothing else of the map is read."""

    direction = "bidirectional"

    def __init__(self, climate: Climate) -> None:
        super().__init__()
        self.climate = climate

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation of each element, in the value's unit."""
        normal = self.climate(batch)
        return torch.stack([normal.location, torch.hypot(normal.scale, normal.doubt).log()], -1)
