"""Encodings that give each position a vector, added to tokens or compared; and one that turns."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import ExfamError, check_positive
from exfam.encodings.base import (
    Encoding,
    KeyPosition,
    Pairs,
    Position,
    Queries,
    QueryPosition,
    angles,
    checked_rows,
)
from exfam.layers import linear, table

# A table of more vectors comes from times taken for counts, and would not fit into memory.
MOST_LEARNED = 1_000_000


class LearnedAbsolute(Encoding):
    """A learned vector for each position from 0 to n_positions - 1, added to the token.

    Raises ExfamError for a position outside that range or not an integer, and for more positions
    than 1,000,000.

    >>> encoding = LearnedAbsolute(5, 2, generator=torch.Generator().manual_seed(0))
    >>> encoding.embed(torch.arange(3)[None]).shape
    torch.Size([1, 3, 2])
    """

    embeds = True
    separable = False

    def __init__(self, n_positions: int, embed_dim: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.n_positions = n_positions
        self.table = _position_table(n_positions, embed_dim, name="learned", generator=generator)

    def embed(self, position: Position) -> Float[Tensor, "batch length embed"]:
        rows = checked_rows(position, self.table.num_embeddings, name="learned")
        return self.table(rows).expand(position.shape[0], -1, -1)


class Sinusoidal(Encoding):
    """Sines and cosines of the position at falling speeds, added to the token.

    p[2k] = sin(position / base^(2k / d)), p[2k + 1] = cos of the same, times `amplitude`. Positions
    may be real.
    Raises ExfamError for an odd `embed_dim`. Source: Vaswani et al. (2017), section 3.5.

    >>> Sinusoidal(4).embed(torch.tensor([[0]])).tolist()
    [[[0.0, 1.0, 0.0, 1.0]]]
    """

    embeds = True
    separable = False
    speed: Tensor

    def __init__(self, embed_dim: int, *, base: float = 10_000.0, amplitude: float = 1.0) -> None:
        super().__init__()
        check_positive("base", base)
        check_positive("amplitude", amplitude)
        self.amplitude = amplitude
        if embed_dim % 2:
            raise ExfamError(f"`embed_dim` must be even for sinusoidal encoding, got {embed_dim}.")
        self.register_buffer("speed", _speeds(embed_dim, base), persistent=False)

    def embed(self, position: Position) -> Float[Tensor, "batch length embed"]:
        angle = angles(position, self.speed, name="sinusoidal")
        vectors = self.amplitude * torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
        return vectors.to(self.speed.dtype).expand(position.shape[0], -1, -1)


class Rotary(Encoding):
    """Rotary embedding: pairs of coordinates turn with the position, at falling speeds.

    Scores depend on position differences only; positions may be real numbers.
    Source: Su et al. (2021), RoFormer.

    >>> q = torch.ones(1, 1, 2, 4)
    >>> Rotary(4).rotate(q, torch.tensor([[0, 1]]))[0, 0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    rotates = True
    separable = False
    speed: Tensor

    def __init__(self, head_dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ExfamError(f"`head_dim` must be even for rotary encoding, got {head_dim}.")
        self.head_dim = head_dim
        self.register_buffer("speed", _speeds(head_dim, base), persistent=False)

    def rotate(
        self, x: Float[Tensor, "batch heads length head"], position: Position
    ) -> Float[Tensor, "batch heads length head"]:
        angle = angles(position, self.speed, name="rotary")[:, None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _speeds(dim: int, base: float) -> Float[Tensor, "speeds"]:
    exponent = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    return (base**-exponent).float()


class Untied(Encoding):
    """Positions compared with positions: vectors of their own, with maps of their own (TUPE).

    delta_ij = (p_i U_Q)(p_j U_K)^T / sqrt(head_dim), a head each; p is learned, and normalized to
    mean 0 and variance 1 before it is mapped. Nothing is added to tokens, so that delta is of
    positions alone. Raises ExfamError for a position outside 0 .. n_positions - 1.
    Source: Ke, He & Liu (2021), eq. 7; Chen, Varoquaux & Suchanek (2023), A.3. Both divide products
    of tokens by sqrt(2) too: here these keep their own scale.
    """

    def __init__(
        self,
        n_positions: int,
        embed_dim: int,
        *,
        n_heads: int,
        head_dim: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.n_heads, self.n_positions = n_heads, n_positions
        self.table = _position_table(n_positions, embed_dim, name="tupe", generator=generator)
        self.norm = nn.LayerNorm(embed_dim)
        self.query, self.key = (
            linear(embed_dim, n_heads * head_dim, generator=generator, bias=False) for _ in range(2)
        )
        self.scale = 1.0 / math.sqrt(head_dim)

    def bias(self, q: Queries, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        queries = self._mapped(self.query, query_position)
        keys = self._mapped(self.key, key_position)
        return (queries * self.scale) @ keys.mT

    def _mapped(self, by: nn.Module, position: Position) -> Tensor:
        rows = checked_rows(position, self.table.num_embeddings, name="tupe")
        vectors = by(self.norm(self.table(rows)))
        return vectors.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)


def _position_table(
    n_positions: int, embed_dim: int, *, name: str, generator: torch.Generator
) -> nn.Embedding:
    check_positive("n_positions", n_positions)
    if n_positions > MOST_LEARNED:
        raise ExfamError(
            f"`position` must be below {MOST_LEARNED:,} for encoding={name!r}, which keeps a "
            f"vector for each, got a range of {n_positions:,}. Use encoding='rotary' or "
            "'distance' for times."
        )
    return table(n_positions, embed_dim, scale=0.02, generator=generator)
