"""Spatiotemporal attention: each value given the others on its map and on maps before."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.attention import Block
from exfam.embeddings import Hidden, TokenEmbedding
from exfam.encodings import Position
from exfam.families import Family
from exfam.groups import Batch
from exfam.models.fields.climate import Climate, Normal
from exfam.models.fields.links import anomaly, placed
from exfam.models.fields.neighborhood import Keys, NearestSites, Neighborhood, own_places
from exfam.models.fields.readout import ReadOut
from exfam.models.fields.tokens import Hiding

__all__ = ["FieldNetwork", "FieldWeights"]

Vectors = Float[Tensor, "batch length embed"]


class FieldWeights(NamedTuple):
    """Attention weights of own elements, by layer, and of the read-out; and what they are over.

    `keys.places` tells the places of the columns, None if all elements in order; a further column
    of a layer is the null token's.
    """

    layers: tuple[Float[Tensor, "batch own heads columns"], ...]
    read_out: Float[Tensor, "batch own heads key"] | None
    keys: Keys


class _Seen(NamedTuple):
    """A batch as the network sees it; `alike`: all rows but for their values."""

    content: Vectors
    center: Vectors
    anomaly: Float[Tensor, "batch length"]
    position: Position
    positions: tuple[Position, Position]
    keys: Keys
    alike: bool


class FieldNetwork(nn.Module):
    """p(value at a place | values shown at others): tokens, blocks, read-out and head, each a part.

    A token is the sum of `place`, g(coordinates) and how many steps back it lies, and of `value`,
    lambda_1(anomaly), or its mask for the one that is predicted. Own elements attend, in every
    layer, to tokens made from each shown element alone, so that one pass gives the leave-one-out
    conditionals of all. Elements without a value are no context. `climate` says what is normal;
    outputs are placed back into the value's unit.
    Source: "Exponential Family Attention", section 3.2 and appendix H.4.
    """

    direction = "bidirectional"

    def __init__(
        self,
        place: TokenEmbedding,
        value: Hidden,
        blocks: Sequence[Block],
        head: nn.Module,
        *,
        climate: Climate,
        family: Family,
        column: str,
        neighborhood: Neighborhood,
        hiding: Hiding,
        read_out: ReadOut | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.place, self.value, self.head, self.read_out = place, value, head, read_out
        self.blocks = nn.ModuleList(blocks)
        self.climate, self.family, self.column = climate, family, column
        self.neighborhood, self.hiding = neighborhood, hiding
        self.dropout = nn.Dropout(dropout)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length params"]:
        """The family's parameters of every own element given what is shown of the others."""
        normal = self.climate(batch)
        seen = self._see(batch, normal)
        outputs = self.head(self._attend(seen)[0])
        if self.read_out is not None:
            anomaly_at_keys = seen.keys.at_keys(seen.anomaly[..., None])[..., 0]
            read = self.read_out(self._read_scores(seen), seen.keys.allowed, anomaly_at_keys)
            first = outputs[..., 0] + seen.keys.back(read)
            outputs = torch.cat([first[..., None], outputs[..., 1:]], -1)
        own = seen.keys.own
        location, scale, doubt = (each.take_along_dim(own.place, 1) for each in normal)
        eta = placed(outputs, (location, scale, doubt), self.family)
        row = torch.arange(len(eta), device=eta.device)[:, None].expand_as(own.place)
        told = eta.new_zeros(*batch.present.shape, eta.shape[-1])
        return told.index_put((row[own.valid], own.place[own.valid]), eta[own.valid])

    def weights(self, batch: Batch) -> FieldWeights:
        """Attention weights of every own element."""
        seen = self._see(batch, self.climate(batch))
        keys = seen.keys
        layers = [keys.back(used.transpose(1, 2)) for used in self._attend(seen)[1]]
        read = None
        if self.read_out is not None:
            read = self.read_out.weights(self._read_scores(seen), keys.allowed)
            read = keys.back(read.transpose(1, 2))
        return FieldWeights(tuple(layers), read, keys)

    def numbers_an_element(self, longest: int) -> int:
        """Numbers that an element of a group of that length takes in the largest array."""
        heads = [cast(Block, block).attention.n_heads for block in self.blocks]
        if self.read_out is not None:
            heads.append(self.read_out.n_heads)
        if isinstance(self.neighborhood, NearestSites):
            return (self.neighborhood.k + 1) * self.value.dim
        return longest * max(heads, default=1)

    def _see(self, batch: Batch, normal: Normal) -> _Seen:
        shown = self.hiding(batch)
        values = anomaly(batch.values[self.column], normal, self.family)
        values = torch.where(shown, values, 0.0)
        told = replace(batch, values={self.column: values}, observed=shown)
        keys = self.neighborhood.keys(batch, shown, own_places(batch))
        alike = keys.places is None and _alike(batch)
        place = self.place.content(_first(told) if alike else told).expand(len(shown), -1, -1)
        return _Seen(
            self.dropout(place + self.value.content(told)),
            place + self.value.mask,
            values,
            batch.position,
            _positions(batch.position, keys, alike=alike),
            keys,
            alike,
        )

    def _attend(self, seen: _Seen) -> tuple[Vectors, list[Tensor]]:
        """Hidden states of the own elements, and the weights of each layer."""
        keys, positions, weights = seen.keys, seen.positions, list[Tensor]()
        stream = keys.at_own(seen.center)
        for module in self.blocks:
            block = cast(Block, module)
            q = block.queries(stream, positions[0])
            k, v = (
                _by_head(keys.at_keys(_side_by_side(x)), x.shape[1])
                for x in block.keys(seen.content, seen.position)
            )
            attended = block.attention.gather(q, (k, v), keys.allowed, positions)
            stream = block.join(stream, attended.update)
            weights.append(attended.weights)
        return keys.back(stream), weights

    def _read_scores(self, seen: _Seen) -> Float[Tensor, "rows heads query columns"]:
        """Scores of the read-out: those of one row where all rows have the same."""
        assert self.read_out is not None
        query = self.read_out.queries(seen.keys.at_own(seen.center))
        key = seen.keys.at_keys(self.read_out.keys(seen.center))
        positions = seen.positions
        if seen.alike:
            query, key = query[:1], key[:1]
            positions = positions[0][:1], positions[1][:1]
        return self.read_out.scores(query, key, positions)


def _alike(batch: Batch) -> bool:
    """Whether all groups have the same sites on the same maps, so that only values differ."""
    told = [batch.present, batch.steps_back, batch.position]
    if batch.item is not None:
        told.append(batch.item)
    return all(bool((each == each[:1]).all()) for each in told)


def _first(batch: Batch) -> Batch:
    """The first group alone."""
    named = ("values", "attributes", "group_attributes")
    plain = ("item", "position", "present", "target", "observed", "element", "steps_back", "weight")
    first: dict[str, Any] = {
        name: {key: column[:1] for key, column in getattr(batch, name).items()} for name in named
    }
    for name in plain:
        column = getattr(batch, name)
        first[name] = None if column is None else column[:1]
    return replace(batch, **first)


def _positions(position: Position, keys: Keys, *, alike: bool) -> tuple[Position, Position]:
    """Of queries and of keys; one broadcast row if all rows have the same."""
    if not alike:
        return keys.at_own(position), keys.at_keys(position)
    own = position[:1].take_along_dim(keys.own.place[:1, :, None], 1)
    return own.expand(len(position), -1, -1), position[:1].expand(len(position), -1, -1)


def _side_by_side(x: Float[Tensor, "batch heads length head"]) -> Vectors:
    return x.transpose(1, 2).flatten(2)


def _by_head(x: Vectors, n_heads: int) -> Float[Tensor, "batch heads length head"]:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)
