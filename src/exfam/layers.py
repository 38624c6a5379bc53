"""Layers that draw their initial weights from a `torch.Generator`, never from global state."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def normal(*shape: int, scale: float, generator: torch.Generator) -> Float[Tensor, "*shape"]:
    """Normal draws with standard deviation `scale`."""
    return torch.randn(*shape, generator=generator) * scale


def linear(n_in: int, n_out: int, *, generator: torch.Generator, bias: bool = True) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and zero bias."""
    layer = nn.utils.skip_init(nn.Linear, n_in, n_out, bias=bias)
    bound = math.sqrt(6.0 / (n_in + n_out))
    with torch.no_grad():
        layer.weight.copy_((torch.rand(n_out, n_in, generator=generator) * 2 - 1) * bound)
        if bias:
            layer.bias.zero_()
    return layer


def table(n_rows: int, dim: int, *, scale: float, generator: torch.Generator) -> nn.Embedding:
    """A look-up table with normal entries of standard deviation `scale`."""
    return nn.Embedding(n_rows, dim, _weight=normal(n_rows, dim, scale=scale, generator=generator))


def mlp(sizes: list[int], *, generator: torch.Generator) -> nn.Sequential:
    """Linear layers of the given sizes with ReLU between them."""
    layers: list[nn.Module] = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [linear(n_in, n_out, generator=generator), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
