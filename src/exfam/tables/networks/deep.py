"""Deeper networks of the cells of a row: attention, layer norm and feed-forward blocks.

Every target is hidden behind the MASK token in a copy of the row of its own, so that its
distribution is exactly that given the other cells.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.checks import check_choice
from exfam.randomness import Dropout
from exfam.tables.networks.batch import ABSENT, MASKED, CellBatch
from exfam.tables.networks.column_encodings import ColumnEncodings
from exfam.tables.networks.linear import look_up
from exfam.tables.networks.readout import Readout
from exfam.tables.networks.stacked import StackedLayerNorm, StackedLinear
from exfam.tables.networks.tokens import CellTokens

__all__ = ["NORMS", "DeepTableNetwork"]

NORMS = ("pre", "post")


class _Block(nn.Module):
    """Self-attention and a ReLU network, each with a residual and a layer norm."""

    def __init__(
        self,
        sizes: tuple[int, int],
        *,
        n_heads: int,
        head_dim: int,
        feed_forward_dim: int,
        dropout: float,
        norm: str,
        generator: torch.Generator,
        places: ColumnEncodings | None,
    ) -> None:
        super().__init__()
        self.places = places
        members, embed = sizes
        inner = n_heads * head_dim

        def layer(n_in: int, n_out: int) -> StackedLinear:
            return StackedLinear(members, n_in, n_out, generator=generator)

        self.query, self.key, self.value = (layer(embed, inner) for _ in range(3))
        self.out = layer(inner, embed)
        self.wide, self.narrow = layer(embed, feed_forward_dim), layer(feed_forward_dim, embed)
        self.norms = nn.ModuleList(StackedLayerNorm(members, embed) for _ in range(2))
        self.dropout = Dropout(dropout)
        self.heads, self.post = (n_heads, head_dim), norm == "post"

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
        """Attention weights of every cell."""
        seen = x if self.post else self.norms[0](x)
        return self._weights_and_values(seen, seen, may_attend, None)[0]

    def _weights_and_values(
        self, queries: Tensor, seen: Tensor, may_attend: Tensor, column: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        query, key, value = (
            layer(x).unflatten(-1, self.heads).transpose(2, 3)
            for layer, x in ((self.query, queries), (self.key, seen), (self.value, seen))
        )
        score = self._scores(query, key, column)
        score = score.masked_fill(~may_attend[:, :, None, None], -torch.inf)
        return score.softmax(-1), value

    def _scores(self, query: Tensor, key: Tensor, column: Tensor | None) -> Tensor:
        scale = math.sqrt(self.heads[1])
        if self.places is None:
            return query @ key.mT / scale
        keys = torch.arange(key.shape[3], device=key.device)[None]
        queries = keys[None] if column is None else column[..., None]
        return self.places.scores(query, key, queries, keys, scale=1 / scale)

    def _feed(self, x: Tensor) -> Tensor:
        return self.narrow(self.wide(x).relu())


class DeepTableNetwork(nn.Module):
    """Transformer blocks over the cells of a row, the target's replaced by MASK.

    `norm`: "post" as in the paper's tables, "pre" for more than one or two layers.
    `places`: encodings of the columns, None for vectors of their own (default None); its name is
        that of its tensors in saved models

    Raises ExfamError for another `norm`.
    """

    def __init__(
        self,
        tokens: CellTokens,
        readout: Readout,
        *,
        n_heads: int,
        head_dim: int,
        n_layers: int,
        feed_forward_dim: int,
        dropout: float,
        norm: str,
        generator: torch.Generator,
        places: ColumnEncodings | None = None,
    ) -> None:
        super().__init__()
        check_choice("norm", norm, NORMS)
        self.tokens, self.readout, self.places = tokens, readout, places
        self.n_heads, self.head_dim = n_heads, head_dim
        members, _, embed = tokens.blank.shape
        self.blocks = nn.ModuleList(
            _Block(
                (members, embed),
                n_heads=n_heads,
                head_dim=head_dim,
                feed_forward_dim=feed_forward_dim,
                dropout=dropout,
                norm=norm,
                generator=generator,
                places=places,
            )
            for _ in range(n_layers)
        )
        self.last = StackedLayerNorm(members, embed) if norm == "pre" else nn.Identity()

    @property
    def n_members(self) -> int:
        """Networks side by side."""
        return self.tokens.blank.shape[0]

    def forward(
        self, batch: CellBatch, targets: Sequence[int]
    ) -> Float[Tensor, "members batch targets params"]:
        """Parameters of each target column given the other cells of its row that are there."""
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

    def weights(
        self, batch: CellBatch, targets: Sequence[int]
    ) -> Float[Tensor, "members layers batch heads targets columns"]:
        """Weights of each target on each column by layer, the target behind MASK in its copy."""
        return torch.stack([self._weights(batch, target) for target in targets], 4)

    def _weights(
        self, batch: CellBatch, target: int
    ) -> Float[Tensor, "members layers batch heads columns"]:
        code = batch.code.expand(self.n_members, -1, -1).clone()
        code[..., target] = MASKED
        x, may_attend = self._vectors(CellBatch(code, batch.fraction, batch.value)), code != ABSENT
        weights = []
        for module in self.blocks:
            block = cast(_Block, module)
            weights.append(block.weights(x, may_attend)[:, :, :, target])
            x = block(x, may_attend)
        return torch.stack(weights, 1)

    def _vectors(self, batch: CellBatch) -> Float[Tensor, "members batch columns embed"]:
        index = self.tokens.entry_index(batch.code)
        return look_up(self.tokens.entries(), index, batch.between)
