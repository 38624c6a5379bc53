"""Layers joined to a stream: connections, feed-forward layers, blocks."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention.attention import Attention, PerHead
from exfam.encodings import Position
from exfam.layers import linear
from exfam.randomness import Dropout


class Connection(nn.Module, ABC):
    """How a layer joins the stream it works on."""

    residual: bool
    linear: bool

    def __init__(self, embed_dim: int) -> None:
        super().__init__()

    def before(self, x: Float[Tensor, "*batch embed"]) -> Float[Tensor, "*batch embed"]:
        """The layer's input."""
        return x

    @abstractmethod
    def after(
        self, x: Float[Tensor, "*batch embed"], update: Float[Tensor, "*batch embed"]
    ) -> Float[Tensor, "*batch embed"]:
        """The stream, given the layer's output."""


class Plain(Connection):
    """The layer's output alone.

    >>> Plain(4).after(torch.ones(4), torch.zeros(4)).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    residual, linear = False, True

    def after(
        self, x: Float[Tensor, "*batch embed"], update: Float[Tensor, "*batch embed"]
    ) -> Float[Tensor, "*batch embed"]:
        return update


class Residual(Connection):
    """The stream plus the layer's output.

    >>> Residual(2).after(torch.ones(2), torch.ones(2)).tolist()
    [2.0, 2.0]
    """

    residual, linear = True, True

    def after(
        self, x: Float[Tensor, "*batch embed"], update: Float[Tensor, "*batch embed"]
    ) -> Float[Tensor, "*batch embed"]:
        return x + update


class PreNorm(Connection):
    """Layer norm before the layer, residual around both.

    >>> PreNorm(2).before(torch.tensor([1.0, -1.0])).round().tolist()
    [1.0, -1.0]
    """

    residual, linear = True, False

    def __init__(self, embed_dim: int) -> None:
        super().__init__(embed_dim)
        self.norm = nn.LayerNorm(embed_dim)

    def before(self, x: Float[Tensor, "*batch embed"]) -> Float[Tensor, "*batch embed"]:
        return self.norm(x)

    def after(
        self, x: Float[Tensor, "*batch embed"], update: Float[Tensor, "*batch embed"]
    ) -> Float[Tensor, "*batch embed"]:
        return x + update


class PostNorm(Connection):
    """Layer norm of the stream plus the layer's output.

    >>> PostNorm(2).after(torch.tensor([1.0, -1.0]), torch.zeros(2)).round().tolist()
    [1.0, -1.0]
    """

    residual, linear = True, False

    def __init__(self, embed_dim: int) -> None:
        super().__init__(embed_dim)
        self.norm = nn.LayerNorm(embed_dim)

    def after(
        self, x: Float[Tensor, "*batch embed"], update: Float[Tensor, "*batch embed"]
    ) -> Float[Tensor, "*batch embed"]:
        return self.norm(x + update)


CONNECTIONS: dict[str, type[Connection]] = {
    "none": Plain,
    "post-norm": PostNorm,
    "pre-norm": PreNorm,
    "residual": Residual,
}


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them, joined to the stream by a connection.

    >>> g = torch.Generator().manual_seed(0)
    >>> FeedForward(4, 8, connection=Residual(4), generator=g)(torch.ones(1, 2, 4)).shape
    torch.Size([1, 2, 4])
    """

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

    def forward(self, x: Float[Tensor, "*batch embed"]) -> Float[Tensor, "*batch embed"]:
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

    def keys(
        self, x: Float[Tensor, "batch length embed"], position: Position
    ) -> tuple[PerHead, PerHead]:
        """Keys and values made from a stream."""
        return self.attention.keys(self.connection.before(x), position)

    def queries(self, x: Float[Tensor, "batch length embed"], position: Position) -> PerHead:
        """Queries made from a stream."""
        return self.attention.queries(self.connection.before(x), position)

    def join(
        self, x: Float[Tensor, "batch length embed"], update: Float[Tensor, "batch length embed"]
    ) -> Float[Tensor, "batch length embed"]:
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
    """A block of attention and, unless its size is 0, a feed-forward layer, connected alike.

    `connection`: one of CONNECTIONS

    >>> g = torch.Generator().manual_seed(0)
    >>> attention = Attention(4, n_heads=2, head_dim=2, generator=g)
    >>> build_block(
    ...     attention, 4, connection="residual", feed_forward_dim=0, generator=g
    ... ).linear
    True
    """
    connect = CONNECTIONS[connection]
    feed_forward = None
    if feed_forward_dim:
        feed_forward = FeedForward(
            embed_dim,
            feed_forward_dim,
            connection=connect(embed_dim),
            generator=generator,
            dropout=dropout,
        )
    return Block(
        attention, connection=connect(embed_dim), feed_forward=feed_forward, dropout=dropout
    )
