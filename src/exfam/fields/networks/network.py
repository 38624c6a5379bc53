"""Spatiotemporal attention: each value given the others on its map and on maps before."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from exfam.attention import Attention, Block
from exfam.checks import ExfamError
from exfam.embeddings import MaskedField, TokenEmbedding
from exfam.encodings import KeyPosition, Position, QueryPosition
from exfam.families import Family
from exfam.fields.networks.climate import Climate, Normal
from exfam.fields.networks.links import anomaly, placed
from exfam.fields.networks.parts import Hiding, Keys, Neighborhood, ReadOut, own_elements
from exfam.groups import Batch
from exfam.layers import Dropout, drawing_again, unrounded

Vectors = Float[Tensor, "batch length embed"]
Outputs = Float[Tensor, "batch own params"]
# Numbers that one array of scores or gathered keys may hold (4 bytes each, some ten such arrays at
# a time); what needs more is computed part by part.
MOST_NUMBERS = 1 << 23
# Scores of one map of which all sites attend to all others: beyond, a step takes minutes.
MOST_SCORES = 2e9
# Layouts of maps that are distinguished in a batch.
MOST_LAYOUTS = 4


class FieldWeights(NamedTuple):
    """Attention weights of own elements over `keys`; a further column of a layer is for "none"."""

    layers: tuple[Float[Tensor, "batch own heads columns"], ...]
    read_out: Float[Tensor, "batch own heads key"] | None
    keys: Keys


class _Seen(NamedTuple):
    """A batch as the network sees it; `alike`: all rows but for their values.

    `sources`: keys and values of each block, `read_keys` those of the read-out, heads side by side.
    """

    center: Vectors
    sources: list[tuple[Vectors, Vectors]]
    read_keys: Vectors | None
    anomaly: Float[Tensor, "batch length"]
    position: Position
    keys: Keys
    alike: bool

    @property
    def positions(self) -> tuple[QueryPosition, KeyPosition]:
        """Of queries and of keys; one broadcast row if all rows have the same."""
        position, keys = self.position, self.keys
        if not self.alike:
            return keys.at_own(position), keys.at_keys(position)
        own = position[:1].take_along_dim(keys.own.column[:1, :, None], 1)
        return own.expand(len(position), -1, -1), position[:1].expand(len(position), -1, -1)


class FieldNetwork(nn.Module):
    """p(value at a site | values shown at others): tokens, blocks, read-out and head, each a part.

    A token is the sum of `place`, g(coordinates) and how many steps back it lies, and of `value`,
    lambda_1(anomaly), or its mask for the one that is predicted. Own elements attend, in every
    layer, to tokens made from each shown element alone, so that one pass gives the leave-one-out
    conditionals of all.
    Source: "Exponential Family Attention", section 3.2 and appendix H.4.
    """

    direction = "bidirectional"

    def __init__(
        self,
        place: TokenEmbedding,
        value: MaskedField,
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
        self.dropout = Dropout(dropout)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length params"]:
        """The family's parameters of every own element given what is shown of the others."""
        if self.neighborhood.k is None:
            layouts = _layouts(batch)
            if len(layouts) == 1:
                return self._eta(batch, in_parts=False)
            parts = [self._eta(_maps(batch, rows), in_parts=False) for rows in layouts]
            return torch.cat(parts)[torch.cat(layouts).argsort()]
        length = batch.present.shape[1]
        at_once = max(1, MOST_NUMBERS // (length * self.numbers_an_element(length)))
        if at_once >= len(batch.present):
            return self._eta(batch, in_parts=False)
        cuts = [slice(i, i + at_once) for i in range(0, len(batch.present), at_once)]
        return torch.cat([self._eta(_maps(batch, cut), in_parts=True) for cut in cuts])

    def _eta(self, batch: Batch, *, in_parts: bool) -> Float[Tensor, "batch length params"]:
        normal = self.climate(batch)
        seen = self._see(batch, normal)
        outputs = unrounded(self._by_parts(seen, in_parts=in_parts))
        own = seen.keys.own
        of_own = Normal(*(part.take_along_dim(own.column, 1) for part in normal))
        eta = placed(outputs, of_own, self.family)
        row = torch.arange(len(eta), device=eta.device)[:, None].expand_as(own.column)
        everywhere = eta.new_zeros(*batch.present.shape, eta.shape[-1])
        return everywhere.index_put((row[own.valid], own.column[own.valid]), eta[own.valid])

    def _by_parts(self, seen: _Seen, *, in_parts: bool) -> Outputs:
        """The outputs of all own elements, of so many at a time that memory stays bounded."""
        n_own = seen.keys.own.column.shape[1]
        size = max(1, MOST_NUMBERS // self._numbers_a_query(seen))
        if size >= n_own and not in_parts:
            return self._outputs(seen)
        parts = [
            seen._replace(keys=seen.keys.part(slice(first, first + size)))
            for first in range(0, n_own, size)
        ]
        compute = self._outputs
        if torch.is_grad_enabled():
            compute = partial(
                checkpoint,
                self._outputs,
                use_reentrant=False,
                preserve_rng_state=False,
                context_fn=partial(drawing_again, self.dropout),
            )
        return torch.cat([compute(part) for part in parts], 1)

    def _outputs(self, seen: _Seen) -> Outputs:
        outputs = self.head(self._attend(seen)[0])
        if self.read_out is None:
            return outputs
        anomaly_at_keys = seen.keys.at_keys(seen.anomaly[..., None])[..., 0]
        read = self.read_out(self._read_scores(seen), seen.keys.allowed, anomaly_at_keys)
        first = outputs[..., 0] + seen.keys.back(read)
        return torch.cat([first[..., None], outputs[..., 1:]], -1)

    def _numbers_a_query(self, seen: _Seen) -> int:
        """Numbers in the largest array, for one own element of each group."""
        n_groups, _, n_keys = seen.keys.may_attend.shape
        gathered = seen.keys.column is not None
        sizes = [
            (1 if seen.alike and part is self.read_out else n_groups)
            * (part.n_heads * part.head_dim if gathered else part.n_heads)
            for part in self._attending()
        ]
        return n_keys * max(sizes, default=1)

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
        k, parts = self.neighborhood.k, self._attending()
        if k is None:
            return longest * max((part.n_heads for part in parts), default=1)
        width = max((part.n_heads * part.head_dim for part in parts), default=1)
        return (min(k, longest) + 1) * width

    def _attending(self) -> list[Attention | ReadOut]:
        parts: list[Attention | ReadOut] = [block.attention for block in self._blocks]
        return parts if self.read_out is None else [*parts, self.read_out]

    @property
    def _blocks(self) -> list[Block]:
        return [cast(Block, block) for block in self.blocks]

    def _see(self, batch: Batch, normal: Normal) -> _Seen:
        length = batch.present.shape[1]
        n_scores = length * self.numbers_an_element(length)
        if self.neighborhood.k is None and n_scores > MOST_SCORES:
            raise ExfamError(
                f"`n_neighbors` must be given for maps of {length} elements, got None: all attend "
                f"to all others, with {4e-9 * n_scores:.0f} GB of scores a map. Fit with "
                "n_neighbors=32, say: time then grows with the elements, not with their square."
            )
        shown = self.hiding(batch)
        values = anomaly(batch.values[self.column], normal, self.family)
        values = torch.where(shown, values, 0.0).to(normal.location.dtype)
        anomalies = replace(batch, values={self.column: values}, observed=shown)
        keys = self.neighborhood.keys(batch, shown, own_elements(batch))
        alike = keys.column is None and _alike(batch)
        first = _maps(anomalies, slice(0, 1)) if alike else anomalies
        place = self.place.content(first).expand(len(shown), -1, -1)
        content = self.dropout(place + self.value.content(anomalies))
        center = place + self.value.mask
        pairs = (block.keys(content, batch.position) for block in self._blocks)
        sources = [(k.transpose(1, 2).flatten(2), v.transpose(1, 2).flatten(2)) for k, v in pairs]
        read_keys = None if self.read_out is None else self.read_out.key(center)
        return _Seen(center, sources, read_keys, values, batch.position, keys, alike)

    def _attend(self, seen: _Seen) -> tuple[Vectors, list[Tensor]]:
        keys, positions, weights = seen.keys, seen.positions, list[Tensor]()
        stream = keys.at_own(seen.center)
        for block, sources in zip(self._blocks, seen.sources, strict=True):
            q = block.queries(stream, positions[0])
            heads = (block.attention.n_heads, -1)
            k, v = (keys.at_keys(x).unflatten(-1, heads).transpose(1, 2) for x in sources)
            attended = block.attention.gather(q, (k, v), keys.allowed, positions)
            stream = block.join(stream, attended.update)
            weights.append(attended.weights)
        return keys.back(stream), weights

    def _read_scores(self, seen: _Seen) -> Float[Tensor, "rows heads query columns"]:
        assert self.read_out is not None
        query = self.read_out.query(seen.keys.at_own(seen.center))
        assert seen.read_keys is not None
        key = seen.keys.at_keys(seen.read_keys)
        positions = seen.positions
        if seen.alike:
            query, key = query[:1], key[:1]
            positions = positions[0][:1], positions[1][:1]
        return self.read_out.scores(query, key, positions)


def _alike(batch: Batch) -> bool:
    return bool(_like_first(batch, torch.arange(len(batch.present))).all())


def _like_first(batch: Batch, rows: Int64[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
    """Which of the rows have the sites and maps that the first of them has."""
    columns = [batch.present, batch.steps_back, batch.position]
    if batch.item is not None:
        columns.append(batch.item)
    same = [(column[rows] == column[rows[0]]).flatten(1).all(1) for column in columns]
    return torch.stack(same).all(0)


def _layouts(batch: Batch) -> list[Int64[Tensor, "rows"]]:
    """Groups with the same sites on the same maps, by a few such layouts; all others together."""
    left = torch.arange(len(batch.present), device=batch.present.device)
    shared, others = list[Tensor](), list[Tensor]()
    while len(left) and len(shared) + len(others) < MOST_LAYOUTS:
        same = _like_first(batch, left)
        (shared if int(same.sum()) > 1 else others).append(left[same])
        left = left[~same]
    rest = torch.cat([*others, left])
    return [*shared, rest] if len(rest) else shared


def _maps(batch: Batch, cut: slice | Int64[Tensor, "rows"]) -> Batch:
    def some(columns: Any) -> Any:
        if isinstance(columns, dict):
            return {name: column[cut] for name, column in columns.items()}
        return None if columns is None else columns[cut]

    names = [field.name for field in fields(batch) if field.init]
    return Batch(**{name: some(getattr(batch, name)) for name in names})
