"""Tokens of a field: place, how many steps back, and the anomaly, hidden at the center."""

from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.checks import check_fraction, check_positive
from exfam.embeddings import Field
from exfam.encodings import Encoding, KeyPosition, Position, QueryPosition
from exfam.groups import Batch
from exfam.layers import RandomPart, table


class StepsBack(Field):
    """A learned vector for each number of steps back, 0 for the map itself: the paper's lambda_d.

    Source: "Exponential Family Attention", appendix H.4.
    """

    def __init__(self, lags: int, *, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.dim = dim
        self.table = table(lags + 1, dim, scale=0.1, generator=generator)

    def forward(self, batch: Batch) -> Float[Tensor, "batch length dim"]:
        return self.table(batch.steps_back)


class Hiding(RandomPart):
    """In training, hides values of some maps, so that any subset of sites can be the context.

    A map stays as it is with probability 1 - `share`. Of the others, the number of values shown is
    drawn evenly on a logarithmic scale, from all of them down to less than one: a few near sites
    are as frequent a context as most of them. Hidden values are predicted all the same.
    Raises ExfamError unless `share` is in [0, 1).

    >>> from exfam.groups import Groups
    >>> Hiding(0.5).eval()(Groups(start=[0], stop=[3]).pad([0]))
    tensor([[True, True, True]])
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        check_fraction("share", share)
        self.share = share

    def forward(self, batch: Batch) -> Bool[Tensor, "batch length"]:
        """Which elements are shown to the others."""
        shown = batch.observed & batch.present
        if not self.training or not self.share:
            return shown
        n_maps = int(batch.steps_back.max()) + 1
        uniform = partial(torch.rand, generator=self.generator, device=shown.device)
        which, size = uniform(2, len(shown), n_maps)
        least = 0.5 / max(2, shown.shape[1] // n_maps)
        kept = torch.where(which < self.share, least**size, 1.0)
        return shown & (uniform(shown.shape) < kept.gather(1, batch.steps_back))


class AlongLine(Encoding):
    """Another encoding, its positions being places of one coordinate in units of `unit`.

    Places of more coordinates are left as they are, for `encoding` to refuse.
    """

    def __init__(self, encoding: Encoding, *, unit: float) -> None:
        super().__init__()
        check_positive("unit", unit)
        self.encoding, self.unit = encoding, unit
        self.n_heads = encoding.n_heads
        self.embeds, self.rotates = encoding.embeds, encoding.rotates
        self.replaces = encoding.replaces

    def embed(self, position: Position) -> Float[Tensor, "batch length embed"] | None:
        return self.encoding.embed(self._number(position))

    def rotate(
        self, x: Float[Tensor, "batch heads length head"], position: Position
    ) -> Float[Tensor, "batch heads length head"]:
        return self.encoding.rotate(x, self._number(position))

    def bias(
        self,
        q: Float[Tensor, "batch heads query head"],
        query_position: QueryPosition,
        key_position: KeyPosition,
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        return self.encoding.bias(q, self._number(query_position), self._number(key_position))

    def log_weights(
        self, query_position: QueryPosition, key_position: KeyPosition
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        return self.encoding.log_weights(self._number(query_position), self._number(key_position))

    def _number(self, position: Position) -> Position:
        if position.ndim != 3 or position.shape[-1] != 1:
            return position
        # Positions that groups share stay one broadcast row.
        shared = position.stride(0) == 0
        rows = position[:1] if shared else position
        return (rows[..., 0] / self.unit).expand(position.shape[:2])


class PlaceVectors(Field):
    """The vectors of an encoding that gives each place one."""

    def __init__(self, encoding: Encoding, *, dim: int) -> None:
        super().__init__()
        self.encoding, self.dim = encoding, dim

    def forward(self, batch: Batch) -> Float[Tensor, "batch length dim"]:
        vectors = self.encoding.embed(batch.position)
        assert vectors is not None
        return vectors
