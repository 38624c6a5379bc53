"""Deeper networks of the cells of a row: attention, layer norm and feed-forward blocks.

Every target is hidden behind the MASK token in a copy of the row of its own.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.checks import check_choice
from exfam.layers import Dropout
from exfam.tables.networks.batch import ABSENT, MASKED, CellBatch
from exfam.tables.networks.linear import look_up_between
from exfam.tables.networks.parts import (
    AttentionWeights,
    ColumnEncodings,
    Outputs,
    StackedLayerNorm,
    StackedLinear,
    TableNetwork,
    TableSettings,
)

NORMS = ("pre", "post")


class _Block(nn.Module):
    def __init__(
        self,
        n_members: int,
        settings: TableSettings,
        *,
        generator: torch.Generator,
        places: ColumnEncodings | None,
    ) -> None:
        super().__init__()
        self.places = places
        embed, hidden = settings.embed_dim, settings.feed_forward_dim
        inner = settings.n_heads * settings.head_dim

        def layer(n_in: int, n_out: int) -> StackedLinear:
            return StackedLinear(n_members, n_in, n_out, generator=generator)

        self.query, self.key, self.value = (layer(embed, inner) for _ in range(3))
        self.out = layer(inner, embed)
        self.wide, self.narrow = layer(embed, hidden), layer(hidden, embed)
        self.norms = nn.ModuleList(StackedLayerNorm(n_members, embed) for _ in range(2))
        self.dropout = Dropout(settings.dropout)
        self.heads, self.post = (settings.n_heads, settings.head_dim), settings.norm == "post"

    def forward(
        self,
        x: Float[Tensor, "members copies columns embed"],
        may_attend: Bool[Tensor, "members copies columns"],
        column: Int64[Tensor, "members copies"] | None = None,
    ) -> Float[Tensor, "members copies queries embed"]:
        """What becomes of every cell, or of that of one column alone."""
        seen = x if self.post else self.norms[0](x)
        own, queries = x, seen
        if column is not None:
            index = column[..., None, None]
            own, queries = x.take_along_dim(index, 2), seen.take_along_dim(index, 2)
        weights, value = self._weights_and_values(queries, seen, may_attend, column)
        attended = self.out((weights @ value).transpose(2, 3).flatten(3))
        own = own + self.dropout(attended)
        if self.post:
            own = self.norms[0](own)
            return self.norms[1](own + self.dropout(self._feed(own)))
        return own + self.dropout(self._feed(self.norms[1](own)))

    def weights(
        self,
        x: Float[Tensor, "members copies columns embed"],
        may_attend: Bool[Tensor, "members copies columns"],
    ) -> Float[Tensor, "members copies heads columns columns"]:
        seen = x if self.post else self.norms[0](x)
        return self._weights_and_values(seen, seen, may_attend, None)[0]

    def _weights_and_values(
        self, queries: Tensor, seen: Tensor, may_attend: Tensor, column: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        query, key, value = (
            layer(x).unflatten(-1, self.heads).transpose(2, 3)
            for layer, x in ((self.query, queries), (self.key, seen), (self.value, seen))
        )
        scale = math.sqrt(self.heads[1])
        if self.places is None:
            score = query @ key.mT / scale
        else:
            at = torch.arange(key.shape[3], device=key.device)[None]
            own = at[None] if column is None else column[..., None]
            score = self.places.scores(query, key, own, at, scale=1 / scale)
        score = score.masked_fill(~may_attend[:, :, None, None], -torch.inf)
        return score.softmax(-1), value

    def _feed(self, x: Tensor) -> Tensor:
        return self.narrow(self.wide(x).relu())


class DeepTableNetwork(TableNetwork):
    """Transformer blocks over the cells of a row, the target's replaced by MASK."""

    def add_layers(self, settings: TableSettings, generator: torch.Generator) -> None:
        check_choice("norm", settings.norm, NORMS)
        members = self.n_members
        self.blocks = nn.ModuleList(
            _Block(members, settings, generator=generator, places=self.places)
            for _ in range(settings.n_layers)
        )
        pre = settings.norm == "pre"
        self.last = StackedLayerNorm(members, settings.embed_dim) if pre else nn.Identity()

    def forward(self, batch: CellBatch, targets: Sequence[int]) -> Outputs:
        columns = torch.tensor(list(targets), device=batch.code.device)
        n_rows = batch.code.shape[1]
        hidden = [self.of_copies(batch, column.expand(1, n_rows)) for column in columns]
        return self.readout(torch.stack(hidden, 2), targets)

    def of_copies(
        self, batch: CellBatch, columns: Int64[Tensor, "#members batch"]
    ) -> Float[Tensor, "members batch embed"]:
        """The hidden vector at a column of each row, which is hidden behind MASK."""
        own = torch.arange(batch.code.shape[-1], device=columns.device) == columns[..., None]
        code = torch.where(own, MASKED, batch.code).expand(self.n_members, -1, -1)
        x = self._vectors(CellBatch(code, batch.fraction, batch.value))
        for block in self.blocks[:-1]:
            x = block(x, code != ABSENT)
        # Of the last block only the target's vector is needed.
        column = columns.expand(self.n_members, -1)
        return self.last(self.blocks[-1](x, code != ABSENT, column))[:, :, 0]

    def weights(self, batch: CellBatch, targets: Sequence[int]) -> AttentionWeights:
        every = []
        for target in targets:
            code = batch.code.expand(self.n_members, -1, -1).clone()
            code[..., target] = MASKED
            x = self._vectors(CellBatch(code, batch.fraction, batch.value))
            layers = []
            for module in self.blocks:
                block = cast(_Block, module)
                layers.append(block.weights(x, code != ABSENT)[:, :, :, target])
                x = block(x, code != ABSENT)
            every.append(torch.stack(layers, 1))
        return torch.stack(every, 4)

    def _vectors(self, batch: CellBatch) -> Float[Tensor, "members batch columns embed"]:
        index = self.tokens.entry_index(batch.code)
        return look_up_between(self.tokens.entries(), index, batch.between)
