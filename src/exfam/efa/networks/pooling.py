"""Sums over the context of every element at once, and what they are divided by."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.families import Family
from exfam.groups import Batch

__all__ = [
    "POOLINGS",
    "Pooling",
    "mean",
    "paper",
    "plain_sum",
    "pool",
    "value_inputs",
    "visible_sum",
]

Vectors = Float[Tensor, "batch length dim"]
Counts = Float[Tensor, "batch length 1"]
Pooling = Callable[[Vectors, Counts, Counts], Vectors]


def _before(x: Vectors) -> Vectors:
    """Sum over strictly earlier elements."""
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1).cumsum(1)


def value_inputs(
    families: Mapping[str, Family], batch: Batch
) -> Float[Tensor, "batch length columns"]:
    """The value columns as networks see them, in float64, 0 where they were not observed.

    >>> from exfam.families import Gaussian, Scaled
    >>> from exfam.groups import Groups
    >>> batch = Groups(start=[0], stop=[2], values={"t": [30.0, 10.0]}).pad([0])
    >>> value_inputs({"t": Scaled(Gaussian(), center=20.0, scale=5.0)}, batch)[..., 0]
    tensor([[ 2., -2.]], dtype=torch.float64)
    """
    columns = [
        family.network_input(batch.values[column], item=batch.item)
        for column, family in families.items()
    ]
    # Unobserved values may be NaN, and NaN times a zero gradient is NaN.
    return torch.where(batch.observed[..., None], torch.stack(columns, dim=-1), 0.0)


def visible_sum(vectors: Vectors, shown: Bool[Tensor, "batch length"], direction: str) -> Vectors:
    """For each element, the sum of the shown vectors of its context, itself left out.

    >>> x, shown = torch.tensor([[[1.0], [2.0], [4.0]]]), torch.tensor([[True, True, True]])
    >>> visible_sum(x, shown, "causal")[0, :, 0].tolist()
    [0.0, 1.0, 3.0]
    >>> visible_sum(x, shown, "bidirectional")[0, :, 0].tolist()
    [6.0, 5.0, 3.0]
    """
    vectors = torch.where(shown[..., None], vectors, 0.0)
    before = _before(vectors)
    if direction == "causal":
        return before
    # Before + after, not total - own: rounding would let a large own value leak through.
    return before + _before(vectors.flip(1)).flip(1)


def mean(total: Vectors, n_visible: Counts, n_others: Counts) -> Vectors:
    """The mean over the visible context; zero when there is none."""
    return total / n_visible.clamp_min(1.0)


def plain_sum(total: Vectors, n_visible: Counts, n_others: Counts) -> Vectors:
    """The sum, as in the item models of the paper's notebooks."""
    return total


def paper(total: Vectors, n_visible: Counts, n_others: Counts) -> Vectors:
    """The sum over the group's final length minus 1, as the paper prints it.

    In a causal model this lets the future's length leak. Bidirectional, it is the mean.
    Source: "Exponential Family Attention", section 4.1.
    """
    return total / n_others.clamp_min(1.0)


POOLINGS: dict[str, Pooling] = {"mean": mean, "sum": plain_sum, "paper": paper}


def pool(
    vectors: Vectors, shown: Bool[Tensor, "batch length"], *, direction: str, pooling: Pooling
) -> Vectors:
    """One vector an element for its context; zero for an empty one."""
    one = shown[..., None].to(vectors.dtype)
    n_visible = visible_sum(one, shown, direction)
    n_others = one.sum(1, keepdim=True) - one
    return pooling(visible_sum(vectors, shown, direction), n_visible, n_others)
