"""Exponential family attention: one network for items or for values, and its default wiring."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import (
    CONNECTIONS,
    SCORE_KERNELS,
    Attention,
    Block,
    NullToken,
    Visibility,
    build_block,
)
from exfam.catalog import LinearEta
from exfam.checks import check_choice, check_fraction, check_positive
from exfam.conditionals import Conditional, Copies, Hidden, Tokens, choose_conditional
from exfam.embeddings import TokenEmbedding
from exfam.encodings import Encoding, EncodingSizes, build_encoding, share_positions
from exfam.groups import Batch
from exfam.randomness import Dropout

__all__ = ["EFANetwork", "EFASettings", "build_network"]


@dataclass(frozen=True)
class EFASettings:
    """Sizes and choices of one EFA network; every field is a part or a number."""

    direction: str = "bidirectional"
    embed_dim: int = 32
    n_heads: int = 2
    head_dim: int = 16
    n_layers: int = 2
    feed_forward_dim: int = 0
    connection: str = "pre-norm"
    encoding: str = "relative"
    kernel: str = "softmax"
    score_scale: float | None = None
    null_token: bool = True
    sees_mask: bool = False
    conditional: str = "auto"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ["bidirectional", "causal"])
        check_choice("connection", self.connection, CONNECTIONS)
        check_choice("kernel", self.kernel, SCORE_KERNELS)
        for name in ("embed_dim", "n_heads", "head_dim", "n_layers"):
            check_positive(name, getattr(self, name))
        check_positive("feed_forward_dim", self.feed_forward_dim, zero=True)
        check_fraction("dropout", self.dropout)


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
        position = share_positions(batch.position, batch.present)
        added = self.encoding.embed(position)
        if added is not None:
            content, center = content + added, center + added
        content = self.dropout(content)
        return Tokens(content, center, position, batch.present)

    def hidden(self, batch: Batch) -> Hidden:
        """Hidden states H(x)_i of all centers, and their attention weights."""
        return self.conditional.hide(self.layers, self.tokens(batch), self.visibility)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """The head's outputs for all elements, each given its context."""
        return self.head(self.hidden(batch).state, batch)

    def numbers_an_element(self, longest: int) -> int:
        """Numbers that an element of a group of that length takes in the largest array."""
        attended = longest * self.layers[0].attention.n_heads
        # Of masked copies, each element has one of its whole group.
        copies = isinstance(self.conditional, Copies)
        return longest * max(attended, self.embedding.dim) if copies else attended

    @property
    def n_items(self) -> int:
        """How many items its head has outputs for, as factors; 0 if it has no such head."""
        return int(getattr(self.head, "n_items", 0))

    def linear(self, batch: Batch) -> LinearEta:
        """The outputs of an item head as factors."""
        head: Any = self.head  # nn.Module's attributes have no better type
        return head.linear(self.hidden(batch).state)


def build_network(
    embedding: TokenEmbedding,
    head: nn.Module,
    *,
    settings: EFASettings,
    n_positions: int,
    position_scale: float = 1.0,
    generator: torch.Generator,
) -> EFANetwork:
    """The default wiring: one encoding shared by all layers, the same kind of block in each."""
    visibility = Visibility(settings.direction, settings.sees_mask)
    sizes = EncodingSizes(
        n_heads=settings.n_heads,
        head_dim=settings.head_dim,
        embed_dim=embedding.dim,
        n_positions=n_positions,
        position_scale=position_scale,
        generator=generator,
    )
    encoding = build_encoding(settings.encoding, sizes)
    blocks = [
        _block(embedding.dim, settings, encoding, generator) for _ in range(settings.n_layers)
    ]
    return EFANetwork(
        embedding,
        encoding,
        blocks,
        head,
        conditional=choose_conditional(settings.conditional, blocks=blocks, visibility=visibility),
        visibility=visibility,
        dropout=settings.dropout,
    )


def _block(
    embed_dim: int, settings: EFASettings, encoding: Encoding, generator: torch.Generator
) -> Block:
    heads = {"n_heads": settings.n_heads, "head_dim": settings.head_dim}
    attention = Attention(
        embed_dim,
        **heads,
        generator=generator,
        scale=settings.score_scale,
        kernel=SCORE_KERNELS[settings.kernel](),
        encoding=encoding,
        null=NullToken(**heads, generator=generator) if settings.null_token else None,
    )
    return build_block(
        attention,
        embed_dim,
        connection=settings.connection,
        feed_forward_dim=settings.feed_forward_dim,
        generator=generator,
        dropout=settings.dropout,
    )
