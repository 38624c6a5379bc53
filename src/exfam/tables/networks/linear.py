"""The network of the theorem: one layer of linear attention over the cells of a row.

Without layer norm, ReLU or dropout a prediction is exactly a mixture of experts, one per cell.
Queries depend on the target column alone, keys and values on the column and the token alone:
scores are looked up in a table, and all targets of a row share one pass.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from exfam.checks import ExfamError
from exfam.experts import AttentionLayer, LinearAttention
from exfam.layers import normal
from exfam.tables.networks.batch import ABSENT, CellBatch
from exfam.tables.networks.parts import (
    AttentionWeights,
    Outputs,
    TableNetwork,
    TableSettings,
)

# The score of what is not there: its weight is exactly 0. Not minus infinity, since nothing lies
# between that and itself.
_NEVER = -1e30

Blanks = Float[Tensor, "members targets embed"]


class LinearTableNetwork(TableNetwork):
    """Linear attention from every column's MASK token to the cells of the row.

    x_m = c_MASK + p_m; h = x_m + sum_j pi_mj W_O W_V x_j; F = W'' (I + W') h, `readout` W''.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 2.1.
    """

    def add_layers(self, settings: TableSettings, generator: torch.Generator) -> None:
        n_members, embed = self.n_members, settings.embed_dim
        inner = self.n_heads * self.head_dim

        def draws(rows: int, columns: int, scale: float = 1.0) -> nn.Parameter:
            shape = (n_members, rows, columns)
            return nn.Parameter(normal(*shape, scale=scale * rows**-0.5, generator=generator))

        self.query, self.key, self.value = (draws(embed, inner) for _ in range(3))
        self.out = draws(inner, embed)
        self.hidden = draws(embed, embed, 0.5)

    def forward(self, batch: CellBatch, targets: Sequence[int]) -> Outputs:
        targets = list(targets)
        blanks = self.tokens.blanks()[:, targets]
        score, value = self._scores_and_values(batch, targets, blanks)
        # One product with the values of all heads, of which each needs its own, takes less time
        # than one small product for each head.
        every = (score.softmax(2).mT @ value).unflatten(2, (self.n_heads, -1))
        seen, of_own = every.split([every.shape[-1] - 1, 1], -1)
        seen = seen.unflatten(-1, (self.n_heads, -1)).diagonal(dim1=2, dim2=4)
        own_value = self._by_head(blanks @ self.value).transpose(1, 2)[:, :, None]
        context = seen.permute(0, 2, 1, 4, 3) + own_value * of_own.permute(0, 3, 1, 2, 4)
        # What follows the attention is linear: its matrices are multiplied once, not for each row.
        weight, bias = self.readout.of(targets)
        weight = weight + weight @ self.hidden.mT[:, None]
        start = (weight @ blanks[..., None])[..., 0] + bias
        added = context.flatten(3) @ (weight @ self.out.mT[:, None]).mT
        return (added + start[:, :, None]).transpose(1, 2)

    def _scores_and_values(
        self, batch: CellBatch, targets: list[int], blanks: Blanks
    ) -> tuple[Tensor, Tensor]:
        between = batch.between
        if between is not None:
            between = functional.pad(between, (0, 1))
        # The entry of every cell, and last that of the expert of the target's own column.
        absent = self.tokens.plan.n_entries + self.tokens.plan.n_columns
        index = torch.where(batch.code == ABSENT, absent, self.tokens.entry_index(batch.code))
        index = functional.pad(index, (0, 1), value=absent + 1).expand(self.n_members, -1, -1)
        cells = look_up_between(self._table(targets, blanks), index, between)
        n_scores = self.n_heads * len(targets)
        score, value = cells.split([n_scores, cells.shape[-1] - n_scores], -1)
        return score, value

    def weights(self, batch: CellBatch, targets: Sequence[int]) -> AttentionWeights:
        targets = list(targets)
        score, _ = self._scores_and_values(batch, targets, self.tokens.blanks()[:, targets])
        weights = score.softmax(2).unflatten(-1, (self.n_heads, -1)).permute(0, 1, 3, 4, 2)
        own = torch.eye(batch.code.shape[-1], dtype=weights.dtype, device=weights.device)[targets]
        return (weights[..., :-1] + own * weights[..., -1:])[:, None]

    def _table(self, targets: list[int], blanks: Blanks) -> Float[Tensor, "members entries width"]:
        """For every entry that could stand in a cell its scores, then its value, of every head.

        After them an absent cell, and the expert of a target's own column, its MASK token.
        """
        vectors = self.tokens.entries()
        scores, own_score = self._scores(vectors, blanks, targets)
        columns = self._entry_columns()
        own = columns[:, None] == torch.tensor(targets, device=columns.device)
        scores = scores.masked_fill(own[:, None], _NEVER)
        scores = torch.cat([scores, torch.full_like(own_score, _NEVER), own_score], 1)
        value = vectors @ self.value
        last = functional.pad(value.new_ones(len(value), 1, 1), (value.shape[-1], 0, 1, 0))
        value = torch.cat([functional.pad(value, (0, 1)), last], 1)
        return torch.cat([scores.flatten(2), value], -1)

    def _scores(self, vectors: Tensor, blanks: Blanks, targets: list[int]) -> tuple[Tensor, Tensor]:
        """Scores of the targets with all entries, and with the MASK tokens of their own columns."""
        query, key = self._by_head(blanks @ self.query), self._by_head(vectors @ self.key)
        scale = math.sqrt(self.head_dim)
        if self.places is None:
            query = query / scale
            own = (query * self._by_head(blanks @ self.key)).sum(-1)[:, None]
            return (key @ query.mT).transpose(1, 2), own
        column = torch.tensor(targets, device=key.device)
        columns = column[None, None], self._entry_columns()[None]
        scores = self.places.scores(query[:, None], key[:, None], *columns, scale=1 / scale)
        by_entry = scores[:, 0].permute(0, 3, 1, 2)
        masks = by_entry[:, -self.tokens.plan.n_columns :]
        return by_entry, masks[:, column].diagonal(dim1=1, dim2=3)[:, None]

    def _entry_columns(self) -> Int64[Tensor, "entries"]:
        columns = self.tokens.entry_columns
        every = torch.arange(self.tokens.plan.n_columns, device=columns.device)
        return torch.cat([columns, every])

    def _by_head(
        self, x: Float[Tensor, "members rows inner"]
    ) -> Float[Tensor, "members heads rows head_dim"]:
        return x.unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2)

    def linear_attention(self, member: int = 0) -> LinearAttention:
        """All weights of one member, in double precision."""
        if self.places is not None and not self.places.only_vectors:
            raise ExfamError(
                "`encoding` must be 'learned', 'sinusoidal' or 'none' for the expert view, got one "
                "that changes scores. Fit with encoding='learned'."
            )
        shape = (self.n_heads, self.head_dim)

        def of(parameter: Tensor) -> Tensor:
            return parameter[member].detach().double().cpu()

        query, key, value = (
            of(weight).mT.unflatten(0, shape) for weight in (self.query, self.key, self.value)
        )
        zero, embed = query.new_zeros, query.shape[-1]
        layer = AttentionLayer(
            query=query,
            key=key,
            value=value,
            query_bias=zero(shape),
            value_bias=zero(shape),
            out=of(self.out).unflatten(0, shape).mT,
            out_bias=zero(embed),
            hidden=of(self.hidden).mT,
            hidden_bias=zero(embed),
            scale=self.head_dim**-0.5,
        )
        weight, bias = self.readout.columns()
        n_columns = self.tokens.plan.n_columns
        return LinearAttention(
            tokens=of(self.tokens.tokens()),
            mask=of(self.tokens.blank)[0],
            positions=of(self.tokens.positions),
            layers=(layer,),
            readout=of(weight).expand(n_columns, -1, -1),
            readout_bias=of(bias).expand(n_columns, -1),
        )


def look_up_between(
    table: Float[Tensor, "members entries width"],
    index: Int64[Tensor, "members batch columns"],
    fraction: Float[Tensor, "#members batch columns"] | None,
) -> Float[Tensor, "members batch columns width"]:
    """Rows of each member's table; between a row and the next by `fraction` of the way."""
    members, entries, width = table.shape
    first = torch.arange(members, device=index.device)[:, None, None] * entries
    flat, index = table.reshape(members * entries, width), index + first
    low = functional.embedding(index, flat)
    if fraction is None:
        return low
    # A cell with fraction 0 may be the last of its column: the entry after it is not read.
    high = functional.embedding(index + (fraction > 0), flat)
    return torch.lerp(low, high, fraction[..., None].to(low.dtype))
