"""Attention from parts: who may attend, how scores become weights, blocks around it.

Names follow the field: a query (the center) attends to keys (its context). The EFA paper swaps the
names of W^Q and W^K; nothing else differs.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice, check_positive
from exfam.encodings import Encoding, KeyPosition, NoEncoding, Position, QueryPosition
from exfam.layers import linear, normal

__all__ = [
    "CONNECTIONS",
    "SCORE_KERNELS",
    "Attended",
    "Attention",
    "Block",
    "Connection",
    "FeedForward",
    "Linear",
    "NullToken",
    "Plain",
    "PostNorm",
    "PreNorm",
    "Residual",
    "ScoreKernel",
    "Softmax",
    "Visibility",
]

PerHead = Float[Tensor, "batch heads length head"]
QueryHeads = Float[Tensor, "batch heads query head"]
KeyHeads = Float[Tensor, "batch heads key head"]
Scores = Float[Tensor, "#batch #heads query key"]


@dataclass(frozen=True)
class Visibility:
    """Who may attend to whom.

    `direction`: "bidirectional" (all others) or "causal" (earlier ones).
    `sees_mask`: whether a hidden center is itself a key, as a MASK token, as in the paper.

    >>> Visibility("causal").context(torch.ones(1, 2, dtype=torch.bool)).int().tolist()
    [[[0, 0], [1, 0]]]
    """

    direction: str = "bidirectional"
    sees_mask: bool = False

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ["bidirectional", "causal"])

    @property
    def causal(self) -> bool:
        """Whether the future is hidden."""
        return self.direction == "causal"

    def context(self, present: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch query key"]:
        """True where a center may see an element of its context (never itself)."""
        length = present.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool, device=present.device)
        allowed = (
            allowed.tril(-1)
            if self.causal
            else ~torch.eye(length, dtype=torch.bool, device=present.device)
        )
        return allowed & present[:, None, :]

    def content(self, present: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch query key"]:
        """True where one element of the context may see another, or itself."""
        length = present.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool, device=present.device)
        return (allowed.tril() if self.causal else allowed) & present[:, None, :]


class ScoreKernel(ABC):
    """How scores become weights: unnormalized terms, and whether they are divided by their sum."""

    normalizes: bool

    @abstractmethod
    def terms(
        self, scores: Float[Tensor, "*shape"], offset: Float[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """Unnormalized weights; `offset` cancels where `normalizes`."""

    @abstractmethod
    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        """Attention weights; 0 wherever a key may not be attended."""


class Softmax(ScoreKernel):
    """Weights exp(score), normalized over the keys that may be attended.

    >>> Softmax().weights(torch.zeros(1, 2), torch.tensor([[True, True]])).tolist()
    [[0.5, 0.5]]
    """

    normalizes = True

    def terms(
        self, scores: Float[Tensor, "*shape"], offset: Float[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        return (scores - offset).exp()

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        # A finite fill: a row with nothing to attend to would be softmax(-inf) = NaN; the second
        # fill makes such a row 0, so that a lone element simply has no context.
        low = torch.finfo(scores.dtype).min / 2
        return scores.masked_fill(~may_attend, low).softmax(dim=-1).masked_fill(~may_attend, 0.0)


class Linear(ScoreKernel):
    """Weights equal to the scores: the paper's linear attention (section 3.3).

    >>> Linear().weights(torch.tensor([[2.0, 3.0]]), torch.tensor([[True, False]])).tolist()
    [[2.0, 0.0]]
    """

    normalizes = False

    def terms(
        self, scores: Float[Tensor, "*shape"], offset: Float[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        return scores

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        return scores.masked_fill(~may_attend, 0.0)


SCORE_KERNELS: dict[str, type[ScoreKernel]] = {"linear": Linear, "softmax": Softmax}


class NullToken(nn.Module):
    """A learned key and value that every query may attend to: what to think without context.

    >>> NullToken(2, 4, generator=torch.Generator().manual_seed(0)).key.shape
    torch.Size([2, 1, 4])
    """

    def __init__(self, n_heads: int, head_dim: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.key = nn.Parameter(normal(n_heads, 1, head_dim, scale=0.02, generator=generator))
        self.value = nn.Parameter(torch.zeros(n_heads, 1, head_dim))


class Attended(NamedTuple):
    """What attention returns: the update, and the weights it used.

    `weights` has one column a key, then one for the null token and one for the mask, where used.
    """

    update: Float[Tensor, "batch query embed"]
    weights: Float[Tensor, "batch heads query columns"]


class Attention(nn.Module):
    """Multi-head attention whose kernel, encoding and null token are parts.

    `scale` multiplies the products of queries and keys: 1/sqrt(head_dim) unless given; the EFA
    paper prints 1/K for items and 1/(2K + K') for values.

    >>> g = torch.Generator().manual_seed(0)
    >>> layer = Attention(8, n_heads=2, head_dim=4, generator=g)
    >>> x, position = torch.ones(1, 3, 8), torch.arange(3)[None]
    >>> q, (k, v) = layer.queries(x, position), layer.keys(x, position)
    >>> layer.scores(q, k, position, position).shape
    torch.Size([1, 2, 3, 3])
    """

    def __init__(
        self,
        embed_dim: int,
        *,
        n_heads: int,
        head_dim: int,
        generator: torch.Generator,
        scale: float | None = None,
        kernel: ScoreKernel | None = None,
        encoding: Encoding | None = None,
        null: NullToken | None = None,
    ) -> None:
        super().__init__()
        check_positive("n_heads", n_heads)
        check_positive("head_dim", head_dim)
        self.n_heads, self.head_dim = n_heads, head_dim
        self.scale = head_dim**-0.5 if scale is None else scale
        self.kernel = kernel or Softmax()
        self.encoding = encoding or NoEncoding()
        self.null = null
        width = n_heads * head_dim
        self.query = linear(embed_dim, width, generator=generator)
        self.key_value = linear(embed_dim, 2 * width, generator=generator)
        self.output = linear(width, embed_dim, generator=generator)

    def queries(self, x: Float[Tensor, "batch length embed"], position: Position) -> PerHead:
        """Queries of each head, rotated if the encoding says so."""
        q = self.query(x).unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2)
        return self.encoding.rotate(q, position)

    def keys(
        self, x: Float[Tensor, "batch length embed"], position: Position
    ) -> tuple[PerHead, PerHead]:
        """Keys (rotated if the encoding says so) and values of each head."""
        both = self.key_value(x).unflatten(-1, (2, self.n_heads, self.head_dim))
        k, v = both.permute(2, 0, 3, 1, 4).unbind(0)
        return self.encoding.rotate(k, position), v

    def scores(
        self, q: QueryHeads, k: KeyHeads, query_position: QueryPosition, key_position: KeyPosition
    ) -> Float[Tensor, "#batch heads query key"]:
        """Scores of all pairs: scaled products plus the encoding's bias, or its log weights."""
        fixed = self.encoding.log_weights(query_position, key_position)
        if fixed is not None:
            if not self.kernel.normalizes:
                raise ExfamError(
                    "`kernel` must be 'softmax' for an encoding that replaces the scores, got "
                    "'linear'. Choose another encoding or kernel."
                )
            return fixed.to(q.dtype).expand(q.shape[0], q.shape[1], -1, -1)
        product = (q * self.scale) @ k.transpose(-1, -2)
        bias = self.encoding.bias(q, query_position, key_position)
        return product if bias is None else product + bias

    def own_scores(self, q: PerHead, k: PerHead, position: Position) -> Tensor:
        """Score of each query with the key at its own place: (batch, heads, query)."""
        if self.encoding.log_weights(position[:, :1], position[:, :1]) is not None:
            return self.scores(q, k, position, position).diagonal(dim1=-2, dim2=-1)
        product = (q * k).sum(-1) * self.scale
        bias = self.encoding.bias(q, position, position)
        return product if bias is None else product + bias.diagonal(dim1=-2, dim2=-1)

    def null_scores(self, q: PerHead) -> Float[Tensor, "batch heads query"]:
        """Score of each query with the null token."""
        assert self.null is not None
        return (q @ self.null.key.transpose(-1, -2)).squeeze(-1) * self.scale

    def gather(
        self,
        q: QueryHeads,
        keys: tuple[KeyHeads, KeyHeads],
        may_attend: Bool[Tensor, "batch query key"],
        positions: tuple[QueryPosition, KeyPosition],
        own: tuple[QueryHeads, QueryHeads] | None = None,
    ) -> Attended:
        """Attend to `keys` (and to the null token, and to the query's `own` mask key)."""
        k, v = keys
        columns = [self.scores(q, k, *positions)]
        allowed = may_attend[:, None]
        if self.null is not None:
            columns.append(self.null_scores(q)[..., None])
        if own is not None:
            columns.append(self.own_scores(q, own[0], positions[0])[..., None])
        n_keys, n_extra = k.shape[2], len(columns) - 1
        if n_extra:
            allowed = nn.functional.pad(allowed, (0, n_extra), value=True)
        weights = self.kernel.weights(torch.cat(columns, -1) if n_extra else columns[0], allowed)
        pooled = weights[..., :n_keys] @ v
        if self.null is not None:
            pooled = pooled + weights[..., n_keys, None] * self.null.value
        if own is not None:
            pooled = pooled + weights[..., -1, None] * own[1]
        return Attended(self.merge(pooled), weights)

    def merge(self, pooled: PerHead) -> Float[Tensor, "batch length embed"]:
        """Heads joined and mapped back to the tokens' space."""
        return self.output(pooled.transpose(1, 2).flatten(2))

    def terms(
        self,
        token: Float[Tensor, "batch length embed"],
        position: Position,
    ) -> tuple[Scores, Scores]:
        """Scores split into a contextual term gamma and a positional term delta.

        gamma are the scores that the tokens alone would have, without any encoding; delta is the
        rest (added vectors, rotation, bias, or the log weights that replace the scores), so that
        gamma + delta are the scores. Source: Chen, Varoquaux & Suchanek (2023), eq. 4.
        """
        added = self.encoding.embed(position)
        placed = token if added is None else token + added
        q, k = self.queries(placed, position), self.keys(placed, position)[0]
        total = self.scores(q, k, position, position)
        if self.encoding.log_weights(position, position) is not None:
            return torch.zeros_like(total), total
        still = torch.zeros_like(position)  # rotation by position 0 is none
        gamma = (self.queries(token, still) * self.scale) @ self.keys(token, still)[0].mT
        return gamma, total - gamma


class Connection(nn.Module, ABC):
    """How a layer joins the stream it works on."""

    residual: bool
    linear: bool

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

    def __init__(self, embed_dim: int) -> None:
        super().__init__()

    def after(
        self, x: Float[Tensor, "*batch embed"], update: Float[Tensor, "*batch embed"]
    ) -> Float[Tensor, "*batch embed"]:
        return update


class Residual(Plain):
    """The stream plus the layer's output.

    >>> Residual(2).after(torch.ones(2), torch.ones(2)).tolist()
    [2.0, 2.0]
    """

    residual = True

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
        super().__init__()
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
        super().__init__()
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
        self.dropout = nn.Dropout(dropout)

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
        self.dropout = nn.Dropout(dropout)

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
