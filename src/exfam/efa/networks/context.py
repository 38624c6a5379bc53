"""Sums over the context of every element at once, and what they are divided by."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from exfam.checks import check_positive
from exfam.efa.networks.efa_network import ItemBias
from exfam.embeddings import ItemVectors
from exfam.families import Family
from exfam.groups import Batch
from exfam.layers import Dropout, linear

Vectors = Float[Tensor, "batch length dim"]
Shown = Bool[Tensor, "batch length"] | Float[Tensor, "batch length"]


def value_inputs(
    families: Mapping[str, Family], batch: Batch
) -> Float[Tensor, "batch length columns"]:
    """The value columns as networks see them, in float64, 0 where they were not observed."""
    columns = [
        family.network_input(batch.values[column], item=batch.item)
        for column, family in families.items()
    ]
    # Unobserved values may be NaN, and NaN times a zero gradient is NaN.
    return torch.where(has_values(families, batch), torch.stack(columns, dim=-1), 0.0)


def has_values(
    families: Mapping[str, Family], batch: Batch
) -> Bool[Tensor, "batch length columns"]:
    """Which elements have a value of each column."""
    return torch.stack([batch.has_value(column) for column in families], dim=-1)


# Up to this length, one product takes less time than running sums, which pass over all vectors.
_LONGEST_PRODUCT = 128


def _others(vectors: Vectors, direction: str) -> Float[Tensor, "length length"]:
    """1 where an element (a row) has another one in its context, 0 elsewhere."""
    ones = vectors.new_ones(vectors.shape[1], vectors.shape[1])
    return ones.tril(-1) if direction == "causal" else ones.fill_diagonal_(0.0)


def visible_sum(vectors: Vectors, shown: Shown, direction: str) -> Vectors:
    """For each element, the sum of the shown vectors of its context, itself left out.

    `shown`: which count, or how much; no vector may be NaN or infinite
    """
    counts = shown.to(vectors.dtype)
    if shown.shape[1] <= _LONGEST_PRODUCT:
        return (_others(vectors, direction) * counts[:, None]) @ vectors
    vectors = vectors * counts[..., None]

    def before(x: Vectors) -> Vectors:
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1).cumsum(1)

    if direction == "causal":
        return before(vectors)
    # Before + after, not total - own: rounding would let a large own value leak through.
    return before(vectors) + before(vectors.flip(1)).flip(1)


# The mean over the visible context; the sum, as in the item models of the paper's notebooks; or the
# sum over the group's final length minus 1, as the paper prints it (section 4.1): bidirectional, it
# is the mean, in a causal model it lets the future's length leak.
CONTEXT_POOLINGS = ("mean", "sum", "paper")


def pooled_context(
    vectors: Vectors, shown: Bool[Tensor, "batch length"], *, direction: str, pooling: str
) -> Vectors:
    """One vector an element for its context, by one of CONTEXT_POOLINGS; zero for an empty one."""
    total = visible_sum(vectors, shown, direction)
    if pooling == "sum":
        return total
    is_shown = shown[..., None].to(vectors.dtype)
    if pooling == "mean":
        return total / visible_sum(is_shown, shown, direction).clamp_min(1.0)
    return total / (is_shown.sum(1, keepdim=True) - is_shown).clamp_min(1.0)


class ContextMean(nn.Module):
    """The mean of the context items' vectors, as in a latent factor model."""

    def __init__(self, items: ItemVectors, *, direction: str) -> None:
        super().__init__()
        self.items, self.direction = items, direction

    def forward(self, batch: Batch) -> Vectors:
        """One vector an element."""
        vectors, direction = self.items(batch), self.direction
        return pooled_context(vectors, batch.present, direction=direction, pooling="mean")


# Vectors of items start small. Units that see this many times as much from the start bend sooner:
# worth 0.003 nats of 63 products.
_FIRST = 5.0


class DeepContext(nn.Module):
    """The mean of the context items' vectors, and what a network of two hidden layers adds to it.

    The network sees their sum, divided by the root of how many there are, and that number: of
    items that call for others together only, which products of pairs of vectors cannot say. While
    it is trained, a share of all elements is `hidden` from it.
    """

    def __init__(
        self,
        items: ItemVectors,
        *,
        direction: str,
        width: int,
        hidden: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.items, self.direction, self.dropout = items, direction, Dropout(hidden)
        self.first = linear(items.dim, width, generator=generator, bias=False)
        with torch.no_grad():
            self.first.weight.mul_(_FIRST)
        self.size = linear(2, width, generator=generator)
        self.second = linear(width, width, generator=generator)
        self.last = linear(width, items.dim, generator=generator)

    def forward(self, batch: Batch) -> Vectors:
        """One vector an element."""
        vectors, here = self.items(batch), batch.present
        is_shown = here[..., None].to(vectors.dtype)
        number = visible_sum(is_shown, here, self.direction)
        root = number.clamp_min(1.0).sqrt()
        total = visible_sum(vectors, here, self.direction) / root
        seen = total
        if self.training and self.dropout.p:
            left = self.dropout(is_shown)[..., 0]
            seen = visible_sum(vectors, left, self.direction) / root
        size = torch.cat([root.log(), (number == 0).to(root.dtype)], dim=-1)
        state = gelu(self.first(seen) + self.size(size))
        return total / root + self.last(gelu(self.second(state)))


class GroupOffset(nn.Module):
    """slope * (sum of the context's residuals) / (their number + k), beside the attention.

    A residual is a standardized value minus its item's expected one. Expectations (from `center`),
    `k` and slopes are learned. It is the mean of a random effect of the group, given its context.
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
        shown = has_values(self.families, batch)
        expected = self.expected(batch)
        values = value_inputs(self.families, batch).to(expected.dtype)
        residuals = torch.where(shown, values - expected, 0.0)
        total = visible_sum(residuals, batch.observed, self.direction)
        number = visible_sum(shown.to(total.dtype), batch.observed, self.direction)
        return total / (number + self.log_k.exp()) @ self.slope
