"""Encodings of positions that are numbers, where places are: those of one coordinate."""

from jaxtyping import Float
from torch import Tensor

from exfam.checks import check_positive
from exfam.embeddings import Field
from exfam.encodings import Encoding, KeyPosition, Position, QueryPosition
from exfam.groups import Batch


class AlongLine(Encoding):
    """Another encoding, its positions being places of one coordinate in units of `unit`.

    Places of more coordinates are left as they are, for `encoding` to refuse.

    >>> import torch
    >>> from exfam.encodings import ALiBi
    >>> place, q = torch.tensor([[[0.0], [6.0]]]), torch.zeros(1, 1, 2, 4)
    >>> near, far = (AlongLine(ALiBi(1), unit=unit).bias(q, place, place) for unit in (3.0, 1.0))
    >>> (far[0, 0, 0, 1] / near[0, 0, 0, 1]).item()
    3.0
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
