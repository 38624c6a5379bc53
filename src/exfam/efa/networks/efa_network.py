"""The network of exponential family attention, and the heads that turn its states into eta."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import Block, Visibility
from exfam.catalog.linear import LinearEta, item_products
from exfam.conditionals import Conditional, Hidden, Tokens
from exfam.embeddings import ItemVectors, Reflected, TokenEmbedding, item_rows, rows_of
from exfam.encodings import Encoding
from exfam.families import Family
from exfam.groups import Batch
from exfam.layers import Dropout
from exfam.training.precision import if_wide


class EFANetwork(nn.Module):
    """p(element | context) through attention: tokens, encoding, blocks and a head, each a part.

    The hidden state of a center is made from its context alone, by the given conditional; the head
    turns it into the family's parameters `eta`. Source: EFA paper, sections 2.1 and 2.2.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        encoding: Encoding,
        blocks: Sequence[Block],
        head: nn.Module,
        *,
        conditional: Conditional,
        visibility: Visibility,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        conditional.check(blocks, visibility)
        self.embedding, self.encoding, self.head = embedding, encoding, head
        self.blocks = nn.ModuleList(blocks)
        self.conditional, self.visibility = conditional, visibility
        self.dropout = Dropout(dropout)

    @property
    def direction(self) -> str:
        """Of the visibility: "causal" or "bidirectional"."""
        return self.visibility.direction

    @property
    def layers(self) -> list[Block]:
        """The blocks, first to last."""
        return [cast(Block, block) for block in self.blocks]

    def tokens(self, batch: Batch) -> Tokens:
        """Tokens with positions, as context and as hidden centers."""
        content, center = self.embedding.content(batch), self.embedding.center(batch)
        position = batch.shared_position()
        added = self.encoding.embed(position)
        if added is not None:
            content, center = content + added, center + added
        content = self.dropout(content)
        return Tokens(content, center, position, batch.present)

    def hidden(self, batch: Batch) -> Hidden:
        """Hidden states H(x)_i of all centers, and their attention weights."""
        return self.conditional.hide(self.layers, self.tokens(batch), self.visibility)

    def states(self, batch: Batch) -> Float[Tensor, "batch length embed"]:
        """Hidden states of the targets; those of other elements may mean nothing."""
        with if_wide(self.embedding.dim, batch.present.device):
            tokens, wanted = self.tokens(batch), batch.target
            return self.conditional.states(self.layers, tokens, self.visibility, wanted)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """The head's outputs for all targets, each given its context."""
        return self.head(self.states(batch), batch)

    def numbers_an_element(self, longest: int) -> int:
        """Numbers that an element of a group of that length takes in the largest array."""
        n_heads, dim = self.layers[0].attention.n_heads, self.embedding.dim
        return self.conditional.numbers_an_element(longest, n_heads=n_heads, dim=dim)

    @property
    def n_items(self) -> int:
        """Items that the head has outputs for, as factors; 0 if it has no such head."""
        return int(getattr(self.head, "n_items", 0))

    def linear(self, batch: Batch) -> LinearEta:
        """The outputs of an item head as factors."""
        head: Any = self.head  # nn.Module's attributes have no better type
        return head.linear(self.states(batch), batch)


class ItemBias(nn.Module):
    """Learned constants, one an output; with `n_items` also an offset for each item, from 0."""

    row_parameters = ("offset",)

    def __init__(self, start: Float[Tensor, "outputs"], *, n_items: int | None = None) -> None:
        super().__init__()
        self.n_items = n_items
        self.constant = nn.Parameter(start.detach().clone())
        # The last row, for unknown items, is never trained: they have the constant alone.
        offset = None if n_items is None else start.new_zeros(n_items + 1, len(start))
        self.offset = None if offset is None else nn.Parameter(offset)

    def forward(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        if self.offset is None or self.n_items is None:
            return self.constant.expand(*batch.present.shape, -1)
        return self.constant + rows_of(self.offset, item_rows(batch, self.n_items))


def split_initial(
    families: Mapping[str, Family], initial_eta: Mapping[str, Tensor]
) -> tuple[Float[Tensor, "location"], Float[Tensor, "dispersion"]]:
    """Starting values of all columns, location outputs apart from dispersion outputs."""
    location, dispersion = [], []
    for column, family in families.items():
        n_location = family.n_params - family.n_dispersion
        location.append(initial_eta[column][:n_location])
        dispersion.append(initial_eta[column][n_location:])
    return torch.cat(location), torch.cat(dispersion)


class Dispersion(nn.Module):
    """Completes location outputs with learned dispersion outputs, global or an item's own.

    A network then has one output for each location parameter (`n_location` in all); scales,
    thresholds and the like do not depend on the context.
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        start: Float[Tensor, "dispersion"],
        *,
        n_items: int | None = None,
    ) -> None:
        super().__init__()
        self.n_dispersion = [family.n_dispersion for family in families.values()]
        self.n_locations = [family.n_params - family.n_dispersion for family in families.values()]
        self.bias = ItemBias(start, n_items=n_items)

    @property
    def n_location(self) -> int:
        """Location outputs of all columns."""
        return sum(self.n_locations)

    def forward(
        self, location: Float[Tensor, "batch length location"], batch: Batch
    ) -> Float[Tensor, "batch length eta"]:
        """The columns' parameters side by side, each location before its dispersion."""
        locations = location.split(self.n_locations, dim=-1)
        dispersions = self.bias(batch).to(location.dtype).split(self.n_dispersion, dim=-1)
        pairs = zip(locations, dispersions, strict=True)
        return torch.cat([part for pair in pairs for part in pair], dim=-1)


State = Float[Tensor, "batch length embed"]


class ItemHead(nn.Module):
    """eta_i = delta H_i + bias: products with the items' center vectors.

    `norm` maps the hidden state first (a layer norm after pre-norm blocks, or nothing); `beside`, a
    part of its own, adds to it what else the context says.
    Source: EFA paper, section 2.1, step 4.
    """

    row_parameters = ("bias",)

    def __init__(
        self,
        centers: ItemVectors | Reflected,
        *,
        norm: nn.Module,
        bias: Float[Tensor, "items"] | None,
        beside: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.centers, self.norm, self.beside = centers, norm, beside
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def forward(self, state: State, batch: Batch) -> Float[Tensor, "batch length items"]:
        eta = self._normed(state, batch) @ self.centers.vectors().T
        return eta if self.bias is None else eta + self.bias

    def _normed(self, state: State, batch: Batch) -> State:
        state = self.norm(state)
        return state if self.beside is None else state + self.beside(batch)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        items = self.centers.items if isinstance(self.centers, Reflected) else self.centers
        return items.n_items

    def linear(self, state: State, batch: Batch) -> LinearEta:
        """The outputs as factors."""
        return item_products(self._normed(state, batch), self.centers, self.bias)


class ValueHead(nn.Module):
    """kappa_i = lambda_2(H_i): a small network for locations, constants for dispersions.

    `intercept` adds learned constants, of each item where it has some; `offset`, a part of its own,
    what else moves locations given the context. Source: EFA paper, section 2.2, step 4.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        norm: nn.Module,
        dispersion: Dispersion,
        intercept: ItemBias | None,
        offset: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.network, self.norm = network, norm
        self.dispersion, self.intercept, self.offset = dispersion, intercept, offset

    def forward(self, state: State, batch: Batch) -> Float[Tensor, "batch length eta"]:
        location = self.network(self.norm(state))
        if self.intercept is not None:
            location = location + self.intercept(batch)
        if self.offset is not None:
            location = location + self.offset(batch)
        return self.dispersion(location, batch)
