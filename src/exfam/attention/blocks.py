"""Layers joined to a stream: connections, feed-forward layers, blocks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention.attention import Attention, PerHead, Stream
from exfam.encodings import Position
from exfam.layers import linear
from exfam.randomness import Dropout

CONNECTIONS = ("none", "post-norm", "pre-norm", "residual")

Vectors = Float[Tensor, "*batch embed"]


class Connection(nn.Module):
    """How a layer joins the stream it works on: one of CONNECTIONS.

    "none": the layer's output alone; "residual": the stream plus the output; "pre-norm": the same
    of a layer that sees the stream normalized; "post-norm": the sum is normalized.

    >>> Connection("residual", 2).after(torch.ones(2), torch.ones(2)).tolist()
    [2.0, 2.0]
    """

    def __init__(self, name: str, embed_dim: int) -> None:
        super().__init__()
        self.name, self.residual = name, name != "none"
        self.linear = name in ("none", "residual")
        if not self.linear:
            self.norm = nn.LayerNorm(embed_dim)

    def before(self, x: Vectors) -> Vectors:
        """The layer's input."""
        return self.norm(x) if self.name == "pre-norm" else x

    def after(self, x: Vectors, update: Vectors) -> Vectors:
        """The stream, given the layer's output."""
        joined = x + update if self.residual else update
        return self.norm(joined) if self.name == "post-norm" else joined


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, joined to the stream by a connection."""

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int,
        *,
        connection: Connection,
        generator: torch.Generator,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.first = linear(embed_dim, hidden_dim, generator=generator)
        self.second = linear(hidden_dim, embed_dim, generator=generator)
        self.connection = connection
        self.dropout = Dropout(dropout)

    def forward(self, x: Vectors) -> Vectors:
        """The stream after this layer."""
        hidden = nn.functional.gelu(self.first(self.connection.before(x)))
        return self.connection.after(x, self.dropout(self.second(hidden)))


class Block(nn.Module):
    """Attention, its connection to the stream, and an optional feed-forward layer after it."""

    def __init__(
        self,
        attention: Attention,
        *,
        connection: Connection,
        feed_forward: FeedForward | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.connection = attention, connection
        self.feed_forward = feed_forward
        self.dropout = Dropout(dropout)

    @property
    def linear(self) -> bool:
        """Whether the stream is changed by attention's output alone, without norms or layers."""
        return self.connection.linear and self.feed_forward is None

    def keys(self, x: Stream, position: Position) -> tuple[PerHead, PerHead]:
        """Keys and values made from a stream."""
        return self.attention.keys(self.connection.before(x), position)

    def queries(self, x: Stream, position: Position) -> PerHead:
        """Queries made from a stream."""
        return self.attention.queries(self.connection.before(x), position)

    def join(self, x: Stream, update: Stream) -> Stream:
        """The stream after this block, given attention's output."""
        x = self.connection.after(x, self.dropout(update))
        return x if self.feed_forward is None else self.feed_forward(x)


def build_block(
    attention: Attention,
    embed_dim: int,
    *,
    connection: str,
    feed_forward_dim: int,
    generator: torch.Generator,
    dropout: float = 0.0,
) -> Block:
    """A block of attention and, unless its size is 0, a feed-forward layer, connected alike."""
    feed_forward = None
    if feed_forward_dim:
        feed_forward = FeedForward(
            embed_dim,
            feed_forward_dim,
            connection=Connection(connection, embed_dim),
            generator=generator,
            dropout=dropout,
        )
    joined = Connection(connection, embed_dim)
    return Block(attention, connection=joined, feed_forward=feed_forward, dropout=dropout)
