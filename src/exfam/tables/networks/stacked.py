"""Layers with one set of weights for each member of an ensemble, computed as one product."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from exfam.layers import normal


class StackedLinear(nn.Module):
    """A linear layer for each member; Glorot-normal weights, zero bias."""

    no_decay_parameters = ("bias",)

    def __init__(
        self, n_members: int, n_in: int, n_out: int, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        scale = (2.0 / (n_in + n_out)) ** 0.5
        weight = normal(n_members, n_in, n_out, scale=scale, generator=generator)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(n_members, 1, n_out))

    def forward(
        self, x: Float[Tensor, "members *shape n_in"]
    ) -> Float[Tensor, "members *shape n_out"]:
        """x W + b."""
        flat = torch.baddbmm(self.bias, x.flatten(1, -2), self.weight)
        return flat.view(*x.shape[:-1], -1)


class StackedLayerNorm(nn.Module):
    """Layer norm with one gain and shift for each member."""

    no_decay_parameters = ("gain", "shift")

    def __init__(self, n_members: int, dim: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(n_members, dim))
        self.shift = nn.Parameter(torch.zeros(n_members, dim))

    def forward(
        self, x: Float[Tensor, "members *shape embed"]
    ) -> Float[Tensor, "members *shape embed"]:
        """Standardized along the last dimension, times gain, plus shift."""
        between = (slice(None), *[None] * (x.dim() - 2))
        return functional.layer_norm(x, x.shape[-1:]) * self.gain[between] + self.shift[between]
