"""The network of the theorem: one layer of linear attention over the cells of a row.

No layer norm, ReLU or dropout: then what is told of a cell is exactly a mixture of experts, one a
cell of the row. Queries depend on the target column alone, keys and values on the column and the
token alone: scores are looked up in a table, and all targets of a row share one pass.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from exfam.layers import normal
from exfam.models.experts import LinearAttention
from exfam.models.tables.batch import ABSENT, CellBatch
from exfam.models.tables.readout import Readout
from exfam.models.tables.tokens import CellTokens

__all__ = ["LinearTableNetwork", "look_up"]

# What a hidden cell's score is replaced by: exp(-1e9) is 0 in single and in double precision.
_NEVER = -1e9


class LinearTableNetwork(nn.Module):
    """Linear attention from every column's MASK token to the cells of the row.

    x_m = c_MASK + p_m; h = x_m + sum_j pi_mj W_O W_V x_j; F = W'' (I + W') h, `readout` W''.
    Source: "Bidirectional attention as a mixture of continuous word experts", section 2.1.
    """

    def __init__(
        self,
        tokens: CellTokens,
        readout: Readout,
        *,
        n_heads: int,
        head_dim: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.tokens, self.readout = tokens, readout
        self.n_heads, self.head_dim = n_heads, head_dim
        n_members, _, embed = tokens.blank.shape
        inner = n_heads * head_dim

        def draws(rows: int, columns: int, scale: float = 1.0) -> nn.Parameter:
            shape = (n_members, rows, columns)
            return nn.Parameter(normal(*shape, scale=scale * rows**-0.5, generator=generator))

        self.query, self.key, self.value = (draws(embed, inner) for _ in range(3))
        self.out = draws(inner, embed)
        self.hidden = draws(embed, embed, 0.5)

    @property
    def n_members(self) -> int:
        """Networks side by side."""
        return self.tokens.blank.shape[0]

    def forward(
        self, batch: CellBatch, targets: Sequence[int]
    ) -> Float[Tensor, "members batch targets params"]:
        """Parameters of each target column given the other cells of its row that are there."""
        return self.readout(self._hidden(batch, list(targets)), targets)

    def _hidden(
        self, batch: CellBatch, targets: list[int]
    ) -> Float[Tensor, "members batch targets embed"]:
        vectors = self.tokens.entries()
        blanks = self.tokens.blanks()[:, targets]
        scores = self._scores(vectors, blanks)
        values = vectors @ self.value
        context = self._context(batch, targets, scores, values)
        members, rows, n_targets, inner = context.shape
        flat = context.reshape(members, rows * n_targets, inner) @ self.out
        seen = flat.view(members, rows, n_targets, -1) + blanks[:, None]
        flat = seen.reshape(members, rows * n_targets, -1)
        return seen + (flat @ self.hidden).view_as(seen)

    def _scores(
        self,
        vectors: Float[Tensor, "members entries embed"],
        blanks: Float[Tensor, "members targets embed"],
    ) -> Float[Tensor, "members entries targets heads"]:
        """What a cell's score would be, for every entry that could stand there."""
        shape = (self.n_heads, self.head_dim)
        query = (blanks @ self.query).unflatten(-1, shape)
        key = (vectors @ self.key).unflatten(-1, shape)
        scores = torch.einsum("mqhe,mnhe->mnqh", query, key)
        return scores / math.sqrt(self.head_dim)

    def _context(
        self,
        batch: CellBatch,
        targets: list[int],
        scores: Float[Tensor, "members entries targets heads"],
        values: Float[Tensor, "members entries inner"],
    ) -> Float[Tensor, "members batch targets inner"]:
        members, _, n_targets, heads = scores.shape
        n_columns = batch.code.shape[-1]
        index = self.tokens.entry_index(batch.code).expand(self.n_members, -1, -1)
        between, rows = batch.between, index.shape[1]
        score = look_up(scores.flatten(2), index, between).view(
            members, rows, n_columns, n_targets, heads
        )
        value = look_up(values, index, between).view(members, rows, n_columns, heads, self.head_dim)
        score = score.masked_fill((batch.code == ABSENT)[..., None, None], _NEVER)
        # The expert at the target's own place is the MASK token, whatever stands there.
        own = torch.arange(n_columns, device=score.device)[:, None] == torch.tensor(
            targets, device=score.device
        )
        place = self.tokens.plan.n_entries + torch.tensor(targets, device=score.device)
        own_score = scores[:, place, torch.arange(n_targets)]
        score = torch.where(own[..., None], own_score[:, None, None], score)
        weight = score.softmax(2)
        own_weight = (weight * own[..., None]).sum(2)
        weight = weight.masked_fill(own[..., None], 0.0)
        # One product of matrices for every row and head.
        context = weight.permute(0, 1, 4, 3, 2) @ value.transpose(2, 3)
        own_value = values[:, place].view(members, 1, n_targets, heads, self.head_dim)
        context = context.transpose(2, 3) + own_weight[..., None] * own_value
        return context.flatten(3)

    def linear_attention(self, member: int = 0) -> LinearAttention:
        """All weights of one member, in double precision."""
        shape = (self.n_heads, self.head_dim)

        def of(parameter: Tensor) -> Tensor:
            return parameter[member].detach().double().cpu()

        query, key, value = (
            of(weight).mT.unflatten(0, shape) for weight in (self.query, self.key, self.value)
        )
        zero = query.new_zeros
        embed = query.shape[-1]
        weight, bias = self.readout.columns()
        n_columns = self.tokens.plan.n_columns
        return LinearAttention(
            tokens=of(self.tokens.tokens()),
            mask=of(self.tokens.blank)[0],
            positions=of(self.tokens.positions),
            query=query,
            key=key,
            value=value,
            query_bias=zero(shape),
            value_bias=zero(shape),
            out=of(self.out).unflatten(0, shape).mT,
            out_bias=zero(embed),
            hidden=of(self.hidden).mT,
            hidden_bias=zero(embed),
            readout=of(weight).expand(n_columns, -1, -1),
            readout_bias=of(bias).expand(n_columns, -1),
            scale=self.head_dim**-0.5,
        )


def look_up(
    table: Float[Tensor, "members entries width"],
    index: Int64[Tensor, "members batch columns"],
    fraction: Float[Tensor, "#members batch columns"] | None,
) -> Float[Tensor, "members batch columns width"]:
    """Rows of each member's table; between a row and the next by `fraction` of the way.

    >>> table = torch.tensor([[[0.0], [2.0]]])
    >>> look_up(table, torch.tensor([[[0, 1]]]), torch.tensor([[[0.25, 0.0]]])).flatten()
    tensor([0.5000, 2.0000])
    """
    members, entries, width = table.shape
    first = torch.arange(members, device=index.device)[:, None, None] * entries
    flat, index = table.reshape(members * entries, width), index + first
    low = functional.embedding(index, flat)
    if fraction is None:
        return low
    # A cell with fraction 0 may be the last of its column: the entry after it is not read.
    high = functional.embedding(index + (fraction > 0), flat)
    return torch.lerp(low, high, fraction[..., None].to(low.dtype))
