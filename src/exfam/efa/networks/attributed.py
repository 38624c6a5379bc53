"""Vectors of items that are made of their attributes, and of what is an item's own."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from exfam.embeddings import ItemEmbedding, ItemVectors, Reflected, item_rows
from exfam.groups import Batch
from exfam.layers import Dropout, normal

# Targets of an item at which its own vector counts half; the share of items that lack their own
# vector in a training step.
HALF_OWN, DROPPED = 5.0, 0.2


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """Attributes of items as numbers, and how much of an item's own vector counts."""

    features: Float[Tensor, "items features"]
    own_share: Float[Tensor, "items"]


class AttributedItems(ItemVectors):
    """Vectors of items: what their attributes say, and what is their own.

        vector_j = features_j @ slopes + own_share_j * own_j

    In a training step a share `DROPPED` of the items lacks its own vector, so that attributes alone
    must do. Items never seen have an own share of 0.
    """

    features: Tensor
    own_share: Tensor

    def __init__(
        self, items: ItemEmbedding, given: ItemFeatures, *, generator: torch.Generator
    ) -> None:
        """`items`: the own vectors, as they start; what attributes say starts as small."""
        super().__init__()
        self.n_items, self.dim, self.table = items.n_items, items.dim, items.table
        n_features = given.features.shape[1]
        # The last row stands for unknown items.
        self.register_buffer("features", functional.pad(given.features, (0, 0, 0, 1)))
        self.register_buffer("own_share", functional.pad(given.own_share, (0, 1)))
        scale = float(self.table.weight.detach().square().mean().sqrt()) / n_features**0.5
        self.slopes = nn.Parameter(normal(n_features, self.dim, scale=scale, generator=generator))
        self.dropout = Dropout(DROPPED)

    def rows(self) -> Float[Tensor, "items_and_unknown dim"]:
        """The vectors in order of the items' codes, and that of unknown items."""
        own = self.dropout(self.own_share)
        # What dropout keeps it divides by its probability.
        own = own * (1 - self.dropout.p) if self.training else own
        return self.features @ self.slopes + own[:, None] * self.table.weight

    def forward(self, batch: Batch) -> Float[Tensor, "batch length dim"]:
        """A vector for each element."""
        return functional.embedding(item_rows(batch, self.n_items), self.rows())


def attribute_items(network: Any, given: ItemFeatures, *, generator: torch.Generator) -> None:
    """Let the items' vectors of a network be made of attributes too, context before center ones."""
    masked, head = network.embedding.fields[0], network.head
    masked.field = context = AttributedItems(masked.field, given, generator=generator)
    centers = head.centers
    if isinstance(centers, Reflected):
        centers.items = context
    elif centers.table is context.table:  # tied
        head.centers = context
    else:
        head.centers = AttributedItems(centers, given, generator=generator)
    if head.beside is not None:
        head.beside.items = AttributedItems(head.beside.items, given, generator=generator)
