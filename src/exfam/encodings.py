"""Positional encodings: parts with four optional hooks that attention asks for.

An encoding may add a vector to the tokens (`embed`), turn queries and keys (`rotate`), add to the
scores (`bias`), or replace the scores altogether (`log_weights`). Positions are integers, real
numbers or vectors (times, places); attention itself never changes for a new encoding.
"""

import math
from abc import ABC

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice, check_positive
from exfam.geometry import EARTH_RADIUS_KM, check_metric
from exfam.layers import table

__all__ = [
    "ENCODINGS",
    "Attenuated",
    "DistanceBias",
    "Encoding",
    "LearnedAbsolute",
    "NoEncoding",
    "RelativeBias",
    "Rotary",
    "build_encoding",
    "share_positions",
]

Position = Num[Tensor, "batch length"] | Num[Tensor, "batch length space"]
QueryPosition = Num[Tensor, "batch query"] | Num[Tensor, "batch query space"]
KeyPosition = Num[Tensor, "batch key"] | Num[Tensor, "batch key space"]
# A table of more vectors comes from times taken for counts, and would not fit into memory.
MOST_LEARNED = 1_000_000


class Encoding(nn.Module, ABC):
    """Four hooks, each doing nothing unless a subclass says otherwise."""

    rotates = False

    def embed(self, position: Position) -> Float[Tensor, "batch length embed"] | None:
        """Vectors to add to the tokens, or None."""
        return None

    def rotate(
        self, x: Float[Tensor, "batch heads length head"], position: Position
    ) -> Float[Tensor, "batch heads length head"]:
        """Queries or keys, turned according to their positions."""
        return x

    def bias(
        self,
        q: Float[Tensor, "batch heads query head"],
        query_position: QueryPosition,
        key_position: KeyPosition,
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        """Numbers to add to the scores (not divided by any scale), or None."""
        return None

    def log_weights(
        self, query_position: QueryPosition, key_position: KeyPosition
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        """Log attention weights up to a constant in each row, in place of the scores, or None."""
        return None


def share_positions(position: Position, present: Bool[Tensor, "batch length"]) -> Position:
    """One broadcast row if all groups count alike (0, 1, 2, ..., say), else `position` as it is.

    Encodings then work on one row instead of all. Padding, which nothing sees, goes on counting.

    >>> position = torch.tensor([[0, 1], [0, 0]])
    >>> share_positions(position, torch.tensor([[True, True], [True, False]]))
    tensor([[0, 1],
            [0, 1]])
    """
    if position.ndim != 2 or not position.numel():
        return position
    longest = position[present.sum(1).argmax()][None]
    alike = bool(((position == longest) | ~present).all())
    return longest.expand(*position.shape) if alike else position


def _once(position: Tensor) -> Tensor:
    """One row where all groups share their positions (a broadcast tensor), else all rows."""
    return position[:1] if position.stride(0) == 0 else position


def _offsets(query_position: QueryPosition, key_position: KeyPosition) -> Tensor:
    """Key position minus query position."""
    if query_position.ndim != 2:
        raise ExfamError(
            "`position` must be one number an element for this encoding, got vectors of "
            f"{query_position.shape[-1]}. Use encoding='distance' for places."
        )
    return _once(key_position)[:, None, :] - _once(query_position)[:, :, None]


class NoEncoding(Encoding):
    """No positions: the context is a set.

    >>> NoEncoding().embed(torch.arange(3)[None]) is None
    True
    """


class LearnedAbsolute(Encoding):
    """A learned vector for each position 0 .. n_positions - 1, added to the token.

    Raises ExfamError for a position outside that range or not an integer, and for more positions
    than 1,000,000.

    >>> encoding = LearnedAbsolute(5, 2, generator=torch.Generator().manual_seed(0))
    >>> encoding.embed(torch.arange(3)[None]).shape
    torch.Size([1, 3, 2])
    """

    def __init__(self, n_positions: int, embed_dim: int, *, generator: torch.Generator) -> None:
        super().__init__()
        check_positive("n_positions", n_positions)
        if n_positions > MOST_LEARNED:
            raise ExfamError(
                f"`position` must be below {MOST_LEARNED:,} for encoding='learned', which keeps a "
                f"vector for each, got a range of {n_positions:,}. Use encoding='rotary' or "
                "'distance' for times."
            )
        self.table = table(n_positions, embed_dim, scale=0.02, generator=generator)

    def embed(self, position: Position) -> Float[Tensor, "batch length embed"]:
        if position.is_floating_point() or position.ndim != 2:
            raise ExfamError(
                "`position` must be one integer an element for encoding='learned', got "
                f"{position.dtype} of shape {tuple(position.shape)}. Use 'rotary' or 'distance'."
            )
        once = _once(position)
        _check_learned(once, self.table.num_embeddings)
        return self.table(once).expand(position.shape[0], -1, -1)


def _check_learned(position: Int[Tensor, "batch length"], n_positions: int) -> None:
    wrong = position[(position < 0) | (position >= n_positions)]
    if wrong.numel():
        raise ExfamError(
            f"`position` must be in 0 .. {n_positions - 1} for encoding='learned', the range of "
            f"the training groups and one more element, got {int(wrong[0])}. Shorten such groups "
            f"or sample fewer elements ({n_positions} a group at most where positions are counted "
            "from 0), or fit with encoding='relative', 'rotary' or 'distance'."
        )


class Rotary(Encoding):
    """Rotary embedding: pairs of coordinates turn with the position, at falling speeds.

    Scores depend on position differences only; positions may be real numbers.
    Source: Su et al. (2021), RoFormer.

    >>> q = torch.ones(1, 1, 2, 4)
    >>> Rotary(4).rotate(q, torch.tensor([[0, 1]]))[0, 0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    rotates = True
    speed: Tensor

    def __init__(self, head_dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ExfamError(f"`head_dim` must be even for rotary encoding, got {head_dim}.")
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        self.register_buffer("speed", (base**-exponent).float(), persistent=False)

    def rotate(
        self, x: Float[Tensor, "batch heads length head"], position: Position
    ) -> Float[Tensor, "batch heads length head"]:
        if position.ndim != 2:
            raise ExfamError(
                "`position` must be one number an element for encoding='rotary', got vectors of "
                f"{position.shape[-1]}. Use encoding='distance' for places."
            )
        angle = _once(position)[:, None, :, None].to(x.dtype) * self.speed.to(x.dtype)
        cos, sin = angle.cos(), angle.sin()
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


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

    def bias(
        self,
        q: Float[Tensor, "batch heads query head"],
        query_position: QueryPosition,
        key_position: KeyPosition,
    ) -> Float[Tensor, "#batch #heads query key"]:
        buckets = self.bucket(_offsets(query_position, key_position))
        return self.table(buckets).permute(0, 3, 1, 2)


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
        self.scale, self.metric = scale, metric
        # Heads start with spread rates, as ALiBi's slopes do, so that they need not diverge first.
        self.rate = nn.Parameter(torch.linspace(1.0, -3.0, n_heads))

    def distance(
        self, query_position: QueryPosition, key_position: KeyPosition
    ) -> Float[Tensor, "#batch query key"]:
        """Distances between all pairs, in units of `scale`."""
        query, key = _once(query_position).float(), _once(key_position).float()
        if query.ndim == 2:
            query, key = query[..., None], key[..., None]
        if self.metric == "haversine":
            return _haversine(query, key) / self.scale
        square = (query[:, :, None] - key[:, None]).square().sum(-1)
        # sqrt has an infinite slope at 0, where positions that are learned would get NaN.
        return torch.where(square > 0, square, 1.0).sqrt() * (square > 0) / self.scale

    def bias(
        self,
        q: Float[Tensor, "batch heads query head"],
        query_position: QueryPosition,
        key_position: KeyPosition,
    ) -> Float[Tensor, "#batch #heads query key"]:
        rate = nn.functional.softplus(self.rate)
        distance = self.distance(query_position, key_position).to(rate.dtype)
        return -rate[:, None, None] * distance[:, None]


def _haversine(
    query: Float[Tensor, "batch query 2"], key: Float[Tensor, "batch key 2"]
) -> Float[Tensor, "batch query key"]:
    """Great-circle distance in kilometers between (latitude, longitude) in degrees."""
    query, key = torch.deg2rad(query)[:, :, None], torch.deg2rad(key)[:, None]
    half = ((key - query) / 2).sin().square()
    chord = half[..., 0] + query[..., 0].cos() * key[..., 0].cos() * half[..., 1]
    return 2 * EARTH_RADIUS_KM * chord.clamp(0, 1).sqrt().asin()


class Attenuated(Encoding):
    """Fixed weights that fall with the squared offset; they replace the scores altogether.

    log weight = -w l^2 for keys before the query and -s w l^2 from the query on, l the offset:
    `w` > 0 sets locality and `s` > 0 symmetry. Attention normalizes over the keys it may see.
    Source: Chen, Varoquaux & Suchanek (2023), eq. 8.

    >>> position = torch.arange(3)[None]
    >>> Attenuated(w=1.0, s=1.0).log_weights(position, position)[0, 0, 0].tolist()
    [-0.0, -1.0, -4.0]
    """

    def __init__(self, *, w: float = 0.05, s: float = 1.0) -> None:
        super().__init__()
        check_positive("w", w)
        check_positive("s", s)
        self.w, self.s = w, s

    def log_weights(
        self, query_position: QueryPosition, key_position: KeyPosition
    ) -> Float[Tensor, "#batch #heads query key"]:
        offset = _offsets(query_position, key_position).to(torch.get_default_dtype())
        slope = torch.where(offset >= 0, self.s * self.w, self.w)
        return (-slope * offset.square())[:, None]


ENCODINGS: dict[str, type[Encoding]] = {
    "attenuated": Attenuated,
    "distance": DistanceBias,
    "learned": LearnedAbsolute,
    "none": NoEncoding,
    "relative": RelativeBias,
    "rotary": Rotary,
}


def build_encoding(
    name: str,
    *,
    n_heads: int,
    head_dim: int,
    embed_dim: int,
    n_positions: int,
    generator: torch.Generator,
    position_scale: float = 1.0,
) -> Encoding:
    """The encoding of that name, for a network of the given sizes.

    >>> sizes = dict(n_heads=2, head_dim=4, embed_dim=8, n_positions=10)
    >>> build_encoding("rotary", generator=torch.Generator().manual_seed(0), **sizes).rotates
    True
    """
    check_choice("encoding", name, ENCODINGS)
    arguments: dict[str, dict] = {
        "distance": {"n_heads": n_heads, "scale": position_scale},
        "learned": {
            "n_positions": n_positions,
            "embed_dim": embed_dim,
            "generator": generator,
        },
        "relative": {"n_heads": n_heads, "generator": generator},
        "rotary": {"head_dim": head_dim},
    }
    return ENCODINGS[name](**arguments.get(name, {}))
