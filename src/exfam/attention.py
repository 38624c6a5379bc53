"""Attention from parts: who may attend, how scores become weights, blocks around it.

Names follow the field: a query (the center) attends to keys (its context). The EFA paper swaps the
names of W^Q and W^K; nothing else differs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from exfam.checks import ExfamError, check_choice, check_positive
from exfam.encodings import Encoding, KeyPosition, NoEncoding, Position, QueryPosition, pair_scores
from exfam.encodings.base import Sight
from exfam.layers import Connection, Dropout, FeedForward, linear, normal

PerHead = Float[Tensor, "batch heads length head"]
QueryHeads = Float[Tensor, "batch heads query head"]
KeyHeads = Float[Tensor, "batch heads key head"]
Scores = Float[Tensor, "#batch #heads query key"]
Stream = Float[Tensor, "batch length embed"]


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
        itself = torch.eye(length, dtype=torch.bool, device=present.device)
        return self.content(present) & ~itself

    def content(self, present: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch query key"]:
        """True where one element of the context may see another, or itself."""
        length = present.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool, device=present.device)
        return (allowed.tril() if self.causal else allowed) & present[:, None, :]


class ScoreKernel:
    """How scores become weights: divided by their sum (`normalizes`), or each for itself.

    A kernel that does not normalize has weights `strength(score) * share(number of visible keys)`.
    """

    normalizes = False

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        """Attention weights; 0 wherever a key may not be attended."""
        n_visible = may_attend.sum(-1, keepdim=True).to(scores.dtype)
        return self.strength(scores).masked_fill(~may_attend, 0.0) * self.share(n_visible)

    def share(self, n_visible: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Weight of a strength of 1."""
        return torch.ones_like(n_visible)

    def strength(self, scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """What is multiplied with the share."""
        return scores


class Softmax(ScoreKernel):
    """Weights exp(score), normalized over the keys that may be attended."""

    normalizes = True

    def weights(
        self, scores: Float[Tensor, "*rows key"], may_attend: Bool[Tensor, "*#rows key"]
    ) -> Float[Tensor, "*rows key"]:
        # A finite fill: a row with nothing to attend to would be softmax(-inf) = NaN; the second
        # fill makes such a row 0, so that a lone element simply has no context.
        low = torch.finfo(scores.dtype).min / 2
        return scores.masked_fill(~may_attend, low).softmax(dim=-1).masked_fill(~may_attend, 0.0)


class Linear(ScoreKernel):
    """Weights equal to the scores: the paper's linear attention (section 3.3)."""


class Mean(ScoreKernel):
    """Linear attention divided by the number of keys that may be attended.

    The 1/(I-1) of proposition 3, for groups of any length; 1/(i-1) in a causal model.
    """

    def share(self, n_visible: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return n_visible.clamp_min(1.0).reciprocal()


class ReluMean(Mean):
    """Scores above 0, divided by the number of keys that may be attended: ReLU attention / n.

    Source: Bai et al. (2023), whose transformer Theorem 2 of "Exponential Family Attention" is of.

    >>> visible = torch.tensor([[True, True, False]])
    >>> ReluMean().weights(torch.tensor([[2.0, -3.0, 4.0]]), visible).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def strength(self, scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return scores.relu()


SCORE_KERNELS: dict[str, type[ScoreKernel]] = {
    "linear": Linear,
    "mean": Mean,
    "relu-mean": ReluMean,
    "softmax": Softmax,
}


class NullToken(nn.Module):
    """A learned key and value that every query may attend to: what to think without context."""

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
    """Multi-head attention.

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

    def queries(self, x: Float[Tensor, "#batch #length embed"], position: Position) -> PerHead:
        """Queries of each head, rotated if the encoding says so; `x` may be one vector for all."""
        q = self.query(x).expand(*position.shape[:2], -1).unflatten(-1, (self.n_heads, -1))
        return self.encoding.rotate(q.transpose(1, 2), position)

    def keys(self, x: Stream, position: Position) -> tuple[PerHead, PerHead]:
        """Keys (rotated if the encoding says so) and values of each head."""
        both = self.key_value(x).unflatten(-1, (2, self.n_heads, self.head_dim))
        k, v = both.permute(2, 0, 3, 1, 4).unbind(0)
        return self.encoding.rotate(k, position), v

    def scores(
        self, q: QueryHeads, k: KeyHeads, query_position: QueryPosition, key_position: KeyPosition
    ) -> Float[Tensor, "#batch heads query key"]:
        """Scores of all pairs: scaled products plus the encoding's bias, or its log weights."""
        if self.encoding.replaces and not self.kernel.normalizes:
            raise ExfamError(
                "`kernel` must be 'softmax' for an encoding that replaces the scores, got "
                f"{type(self.kernel).__name__}. Choose another encoding or kernel."
            )
        return pair_scores(self.encoding, q, k, (query_position, key_position), scale=self.scale)

    def null_scores(self, q: PerHead) -> Float[Tensor, "batch heads query 1"]:
        """Score of each query with the null token."""
        assert self.null is not None
        return (q @ self.null.key.transpose(-1, -2)) * self.scale

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
        scores = self.scores(q, k, *positions)
        return self.weigh(q, scores, lambda w: w @ v, may_attend, positions[0], own)

    def update(
        self,
        q: QueryHeads,
        keys: tuple[KeyHeads, KeyHeads],
        sight: Sight,
        own: tuple[QueryHeads, QueryHeads] | None = None,
    ) -> Stream:
        """The update of `gather` without its weights, by torch's fused product where it serves."""
        if own is not None or type(self.kernel) is not Softmax or self.encoding.replaces:
            return self.gather(q, keys, sight.may_attend, sight.positions, own).update
        (k, v), null = keys, self.null
        if null is not None:
            k = torch.cat([null.key.to(k.dtype).expand(len(k), -1, -1, -1), k], -2)
            v = torch.cat([null.value.to(v.dtype).expand(len(v), -1, -1, -1), v], -2)
        added = sight.additions(self.encoding, q, null=null is not None)
        if added is None:
            return self.merge(
                self._earlier(q, k, v, steps=int(bool(sight.itself)) - (null is None))
            )
        pooled = scaled_dot_product_attention(q, k, v, added, scale=self.scale)
        if null is None:
            pooled = pooled.masked_fill(~sight.may_attend.any(-1)[:, None, :, None], 0.0)
        return self.merge(pooled)

    def _earlier(self, q: QueryHeads, k: Tensor, v: Tensor, *, steps: int) -> QueryHeads:
        """What queries pool of the keys up to their own index + `steps`; 0 where there is none.

        Queries move by `steps`, so that torch's causal product skips what they may not see.
        """
        n_rows = q.shape[-2] + steps
        moved = nn.functional.pad(q, (0, 0, steps, 0)) if steps else q
        seen = k[..., :n_rows, :], v[..., :n_rows, :]
        pooled = scaled_dot_product_attention(moved, *seen, is_causal=True, scale=self.scale)
        return nn.functional.pad(pooled, (0, 0, -steps, 0)) if steps else pooled

    def weigh(
        self,
        q: QueryHeads,
        scores: Scores,
        pool: Callable[[Tensor], Tensor],
        may_attend: Bool[Tensor, "batch query key"],
        position: QueryPosition,
        own: tuple[QueryHeads, QueryHeads] | None,
    ) -> Attended:
        """As `gather`, for given scores of the keys; `pool` sums their values by weights."""
        columns = [scores]
        if self.null is not None:
            columns.append(self.null_scores(q))
        if own is not None:
            columns.append(self._own_scores(q, own[0], position)[..., None])
        n_keys, n_extra = scores.shape[-1], len(columns) - 1
        allowed = may_attend[:, None]
        if n_extra:
            allowed = nn.functional.pad(allowed, (0, n_extra), value=True)
        weights = self.kernel.weights(torch.cat(columns, -1) if n_extra else scores, allowed)
        pooled = pool(weights[..., :n_keys])
        if self.null is not None:
            pooled = pooled + weights[..., n_keys, None] * self.null.value
        if own is not None:
            pooled = pooled + weights[..., -1, None] * own[1]
        return Attended(self.merge(pooled), weights)

    def _own_scores(self, q: PerHead, k: PerHead, position: Position) -> Tensor:
        """Score of each query with the key at its own position."""
        if self.encoding.replaces:
            return self.scores(q, k, position, position).diagonal(dim1=-2, dim2=-1)
        product = (q * k).sum(-1) * self.scale
        bias = self.encoding.bias(q, position, position)
        return product if bias is None else product + bias.diagonal(dim1=-2, dim2=-1)

    def merge(self, pooled: PerHead) -> Stream:
        """Heads joined and mapped back to the tokens' space."""
        return self.output(pooled.transpose(1, 2).flatten(2))

    def terms(self, token: Stream, position: Position) -> tuple[Scores, Scores]:
        """Scores split into a contextual term gamma and a positional term delta.

        gamma are the scores that the tokens alone would have, without any encoding; delta is the
        rest (added vectors, rotation, bias, or the log weights that replace the scores), so that
        gamma + delta are the scores. Source: Chen, Varoquaux & Suchanek (2023), eq. 4.
        """
        added = self.encoding.embed(position)
        placed = token if added is None else token + added
        q, k = self.queries(placed, position), self.keys(placed, position)[0]
        total = self.scores(q, k, position, position)
        if self.encoding.replaces:
            return torch.zeros_like(total), total
        still = torch.zeros_like(position)  # rotation by position 0 is none
        gamma = (self.queries(token, still) * self.scale) @ self.keys(token, still)[0].mT
        return gamma, total - gamma


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
        """Queries made from a stream, once where it is one vector: a mask, and nothing else."""
        row = x[:1, :1] if x.stride()[:2] == (0, 0) else x
        return self.attention.queries(self.connection.before(row), position)

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
    feed_forward, joined = None, Connection(connection, embed_dim)
    if feed_forward_dim:
        after = Connection(connection, embed_dim)
        feed_forward = FeedForward(
            embed_dim, feed_forward_dim, connection=after, generator=generator, dropout=dropout
        )
    return Block(attention, connection=joined, feed_forward=feed_forward, dropout=dropout)
