"""Layers that draw their initial weights from a `torch.Generator`, never from global state."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

# Numbers from which on a parameter's gradient is memory to be kept from step to step: fresh memory
# costs more time than a step with the few rows of a large table that a batch needs.
LARGE_PARAMETER = 2**22


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


def rows_of(
    table: Float[Tensor, "rows dim"], index: Int[Tensor, "*shape"]
) -> Float[Tensor, "*shape dim"]:
    """Rows of a table; into a large one, the backward pass adds the gradients of these rows alone.

    That is where it has a gradient to add to; its first one is a tensor as large as the table.

    >>> rows_of(torch.tensor([[1.0], [2.0]]), torch.tensor([1, 1, 0])).flatten()
    tensor([2., 2., 1.])
    """
    if table.numel() < LARGE_PARAMETER:
        return functional.embedding(index, table)
    rows: Tensor = _Rows.apply(table, index)
    return rows


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(table, index)
        return functional.embedding(index, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        table, index = ctx.saved_tensors
        if not table.is_leaf or table.grad is None:
            dense = torch.ops.aten.embedding_dense_backward
            return dense(gradient, index, len(table), -1, False), None
        rows = gradient.reshape(-1, gradient.shape[-1])
        index = index.reshape(1, -1)
        return torch.sparse_coo_tensor(index, rows, table.shape, check_invariants=False), None
