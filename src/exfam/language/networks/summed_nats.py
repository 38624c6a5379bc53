"""The sum of rows' nats, with gradients that are computed along with it.

Each row's gradient is known as soon as its outputs are: three products in all, where tiles that are
computed again need four.
"""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from exfam.catalog.linear import LinearEta, chunks_of
from exfam.catalog.normalizer import tile_log_normalizer

# Outputs computed at a time, and the fewest rows: products of fewer are slow.
_OUTPUTS, _ROWS = 2**23, 64


def summed_nats(
    eta: LinearEta, item: Int64[Tensor, "rows"], *, factors: torch.dtype | None = None
) -> Float[Tensor, ""]:
    """Minus the sum of log-probabilities of each row's item.

    `factors`: what those of products are rounded to, and the products; softmaxes and sums over rows
        and classes are not. None for the precision they have, which is exact
    """
    out: Tensor = _SummedNats.apply(eta.state, eta.vectors, eta.bias, eta.n_items, item, factors)
    return out


class _SummedNats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        state: Tensor,
        vectors: Tensor,
        bias: Tensor | None,
        n_items: int,
        item: Tensor,
        factors: torch.dtype | None,
    ) -> Tensor:
        gradients: list[Tensor] = []
        if any(ctx.needs_input_grad):
            sums = [torch.zeros_like(part) for part in (vectors, bias) if part is not None]
            gradients = [torch.empty_like(state), *sums]
        total = torch.zeros((), dtype=torch.float64, device=state.device)
        dtype = factors or state.dtype
        own, rounded = vectors[:n_items].to(dtype), state.to(dtype)
        # Fresh memory costs as much as a product does: chunks share theirs.
        n_rows = max(1, min(len(state), max(_ROWS, _OUTPUTS // n_items)))
        outputs = state.new_empty(n_rows, n_items)
        for rows in chunks_of(len(state), n_rows):
            some = rounded[rows]
            eta = _outputs(some, own, bias, into=outputs[: len(some)])
            index = item[rows, None]
            chosen = eta.gather(1, index)
            nats, softmax = tile_log_normalizer(eta)
            total += nats.sum() - chosen.sum(dtype=torch.float64)
            if gradients:
                softmax.scatter_add_(1, index, torch.full_like(chosen, -1.0))
                _add_gradients(gradients, rows, softmax, some, own)
        ctx.save_for_backward(*gradients)
        return total.to(state.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [saved * gradient for saved in ctx.saved_tensors]
        return (*gradients, *[None] * (6 - len(gradients)))


def _outputs(state: Tensor, vectors: Tensor, bias: Tensor | None, *, into: Tensor) -> Tensor:
    """Products plus biases, which are never rounded."""
    if state.dtype != into.dtype:
        into.copy_(state @ vectors.T)
    else:
        torch.mm(state, vectors.T, out=into)
    return into if bias is None else into.add_(bias)


def _add_gradients(
    gradients: list[Tensor], rows: slice, eta: Tensor, state: Tensor, vectors: Tensor
) -> None:
    of_state, of_vectors, *of_bias = gradients
    rounded, own = eta.to(state.dtype), of_vectors[: len(vectors)]
    of_state[rows] = rounded @ vectors
    if state.dtype == own.dtype:
        own.addmm_(rounded.T, state)
    else:
        own += rounded.T @ state
    for total in of_bias:
        total.add_(eta.sum(0))
