"""One attention layer whose kernel, encoding and null token are parts.

Names follow the field: a query (the center) attends to keys (its context). The EFA paper swaps the
names of W^Q and W^K; nothing else differs.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from exfam.attention.kernels import ScoreKernel, Softmax
from exfam.checks import ExfamError, check_positive
from exfam.encodings import Encoding, KeyPosition, NoEncoding, Position, QueryPosition, pair_scores
from exfam.layers import linear, normal

PerHead = Float[Tensor, "batch heads length head"]
QueryHeads = Float[Tensor, "batch heads query head"]
KeyHeads = Float[Tensor, "batch heads key head"]
Scores = Float[Tensor, "#batch #heads query key"]


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
        if self.encoding.replaces and not self.kernel.normalizes:
            raise ExfamError(
                "`kernel` must be 'softmax' for an encoding that replaces the scores, got "
                f"{type(self.kernel).__name__}. Choose another encoding or kernel."
            )
        positions = query_position, key_position
        return pair_scores(self.encoding, q, k, positions, scale=self.scale)

    def own_scores(self, q: PerHead, k: PerHead, position: Position) -> Tensor:
        """Score of each query with the key at its own place: (batch, heads, query)."""
        if self.encoding.replaces:
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
        if self.encoding.replaces:
            return torch.zeros_like(total), total
        still = torch.zeros_like(position)  # rotation by position 0 is none
        gamma = (self.queries(token, still) * self.scale) @ self.keys(token, still)[0].mT
        return gamma, total - gamma
