"""Encodings that add to the scores by how far a key is from the query."""

import math

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from exfam.checks import ExfamError, check_positive
from exfam.encodings.base import (
    Encoding,
    KeyPosition,
    Pairs,
    Queries,
    QueryPosition,
    offsets,
    once,
)
from exfam.geometry import EARTH_RADIUS_KM, check_metric
from exfam.layers import normal, table


class RelativeBias(Encoding):
    """A learned number for each head and bucket of offsets, added to the scores.

    Half of the buckets are for keys after the query; within a half, small offsets have a bucket
    each and larger ones share buckets whose width grows as a logarithm up to `max_distance`.
    Source: Raffel et al. (2020), T5.

    >>> encoding = RelativeBias(2, generator=torch.Generator().manual_seed(0))
    >>> encoding.bucket(torch.tensor([-200, -1, 0, 1])).tolist()
    [15, 1, 0, 17]
    """

    def __init__(
        self,
        n_heads: int,
        *,
        generator: torch.Generator,
        n_buckets: int = 32,
        max_distance: int = 128,
    ) -> None:
        super().__init__()
        if n_buckets < 4 or n_buckets % 4:
            raise ExfamError(f"`n_buckets` must be a multiple of 4, got {n_buckets}.")
        check_positive("max_distance", max_distance - n_buckets // 4)
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.n_heads = n_heads
        self.table = table(n_buckets, n_heads, scale=0.02, generator=generator)

    def bucket(self, offset: Num[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The bucket of each offset (key position minus query position)."""
        half = self.n_buckets // 2
        exact = half // 2
        distance = offset.abs()
        ratio = torch.log(distance.clamp_min(1).float() / exact)
        ratio = ratio / math.log(self.max_distance / exact)
        far = (exact + (ratio * (half - exact)).long()).clamp(max=half - 1)
        within = torch.where(distance < exact, distance.long(), far)
        return within + half * (offset > 0).long()

    def bias(self, q: Queries, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        buckets = self.bucket(offsets(query_position, key_position))
        chosen = self.table.weight.T.index_select(1, buckets.flatten())
        return chosen.unflatten(1, buckets.shape).transpose(0, 1)


class ALiBi(Encoding):
    """Scores fall linearly with the distance, at a fixed rate in each head.

    bias = -slope_h |i - j|, the slopes 2^(-8 / n), 2^(-16 / n), ... for n heads; not divided by any
    scale. Positions may be real numbers. Source: Press, Smith & Lewis (2022); in causal models keys
    after the query are hidden, as there, in others the bias is symmetric.

    >>> encoding = ALiBi(2)
    >>> position = torch.arange(3)[None]
    >>> encoding.bias(torch.zeros(1, 2, 3, 4), position, position)[0, 0, 0].tolist()
    [-0.0, -0.0625, -0.125]
    """

    slopes: Tensor

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        slopes = torch.tensor(_alibi_slopes(n_heads), dtype=torch.float32)
        self.n_heads = n_heads
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, q: Queries, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        distance = offsets(query_position, key_position).abs().to(self.slopes.dtype)
        return -self.slopes[:, None, None] * distance[:, None]


def _alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8 / n), 2^(-16 / n), ... for n heads, n a power of two.

    Other numbers of heads take the slopes of the next lower power of two, then every other one of
    the next higher, as the authors' code does.
    """
    check_positive("n_heads", n_heads)
    lower = 2 ** int(math.log2(n_heads))
    slopes, further = (
        [2.0 ** (-8.0 * (head + 1) / n) for head in range(n)] for n in (lower, 2 * lower)
    )
    return slopes + further[::2][: n_heads - lower]


class RelativeKeys(Encoding):
    """Each query is compared with a learned vector of the offset, beside the key itself.

    delta_ij = q_i . r_(j-i) / sqrt(head_dim), offsets beyond `max_distance` sharing the outermost
    vectors; heads share them too. It depends on the token, through its query.
    Source: Shaw, Uszkoreit & Vaswani (2018), eq. 4, keys alone.
    """

    separable = False

    def __init__(
        self, head_dim: int, *, generator: torch.Generator, max_distance: int = 16
    ) -> None:
        super().__init__()
        check_positive("max_distance", max_distance)
        self.max_distance, self.head_dim = max_distance, head_dim
        self.scale = 1.0 / math.sqrt(head_dim)
        vectors = normal(2 * max_distance + 1, head_dim, scale=0.02, generator=generator)
        self.vectors = nn.Parameter(vectors)

    def bias(self, q: Queries, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        furthest = self.max_distance
        offset = offsets(query_position, key_position).clamp(-furthest, furthest)
        row = (offset.round().long() + furthest)[:, None]
        products = (q * self.scale) @ self.vectors.T
        return products.gather(-1, row.expand(*q.shape[:2], -1, -1))


class DistanceBias(Encoding):
    """Scores fall with the distance between positions, at a learned rate in each head.

    bias_h = -softplus(a_h) * distance / scale. Positions are real numbers or vectors;
    `metric="haversine"` takes (latitude, longitude) in degrees and measures kilometers.

    >>> encoding = DistanceBias(1, scale=2.0)
    >>> q = torch.zeros(1, 1, 2, 4)
    >>> position = torch.tensor([[0.0, 2.0]])
    >>> bool(encoding.bias(q, position, position)[0, 0, 0, 1] < 0)
    True
    """

    def __init__(self, n_heads: int, *, scale: float = 1.0, metric: str = "euclidean") -> None:
        super().__init__()
        check_positive("scale", scale)
        check_metric(metric)
        self.n_heads, self.scale, self.metric = n_heads, scale, metric
        # Heads start with spread rates, as ALiBi's slopes do, so that they need not diverge first.
        self.rate = nn.Parameter(torch.linspace(1.0, -3.0, n_heads))

    def distance(
        self, query_position: QueryPosition, key_position: KeyPosition
    ) -> Float[Tensor, "#batch query key"]:
        query, key = once(query_position), once(key_position)
        if query.ndim == 2:
            query, key = query[..., None], key[..., None]
        if self.metric == "haversine":
            return _haversine(query, key) / self.scale
        # Times are large numbers with small differences, which alone fit into single precision.
        square = (query[:, :, None] - key[:, None]).float().square().sum(-1)
        # sqrt has an infinite slope at 0, where positions that are learned would get NaN.
        return torch.where(square > 0, square, 1.0).sqrt() * (square > 0) / self.scale

    def bias(self, q: Queries, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        rate = nn.functional.softplus(self.rate)
        distance = self.distance(query_position, key_position).to(rate.dtype)
        return -rate[:, None, None] * distance[:, None]


def _haversine(
    query: Float[Tensor, "batch query 2"], key: Float[Tensor, "batch key 2"]
) -> Float[Tensor, "batch query key"]:
    """Great-circle distance in kilometers between (latitude, longitude) in degrees."""
    query, key = torch.deg2rad(query)[:, :, None], torch.deg2rad(key)[:, None]
    half = ((key - query).float() / 2).sin().square()
    chord = half[..., 0] + (query[..., 0].cos() * key[..., 0].cos()).float() * half[..., 1]
    return 2 * EARTH_RADIUS_KM * chord.clamp(0, 1).sqrt().asin()
