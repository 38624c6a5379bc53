"""Parts of networks of table rows, for all members of an ensemble at once.

All tokens of all columns are numbered one after another: the entry of code c in column s is
start[s] + c. An entry's vector is c_token + p_column; with shared categories, the same code has
the same token in every column.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from exfam.encodings import Encoding, NoEncoding, pair_scores
from exfam.layers import normal
from exfam.tables.networks.batch import MASKED, CellBatch

# The encoding that is a part of the tokens themselves: one free vector per column.
OWN_VECTORS = "learned"
_TOKEN_SCALE, _DIRECTION_SCALE, _READOUT_SCALE = 0.1, 0.3, 0.3

Outputs = Float[Tensor, "members batch targets params"]
AttentionWeights = Float[Tensor, "members layers batch heads targets columns"]


class ColumnEncodings(nn.Module):
    """Positional encodings of the columns 0 .. n_columns - 1, one for each member."""

    def __init__(self, encodings: Sequence[Encoding], *, n_columns: int) -> None:
        super().__init__()
        self.encodings = nn.ModuleList(encodings)
        self.n_columns = n_columns

    @property
    def members(self) -> list[Encoding]:
        return [cast(Encoding, encoding) for encoding in self.encodings]

    @property
    def only_vectors(self) -> bool:
        """Whether scores are plain products of tokens, with added vectors or without."""
        return all(isinstance(member, NoEncoding) or member.embeds for member in self.members)

    def vectors(self, embed_dim: int) -> Float[Tensor, "members columns embed"]:
        """The fixed vectors that are added to the tokens of each column; zeros without any."""
        position = torch.arange(self.n_columns)[None]
        vectors = [member.embed(position) for member in self.members]
        added = [vector[0] for vector in vectors if vector is not None]
        if added:
            return torch.stack(added).detach()
        return torch.zeros(len(vectors), self.n_columns, embed_dim)

    def scores(
        self,
        q: Float[Tensor, "members rows heads query head"],
        k: Float[Tensor, "members rows heads key head"],
        query_column: Int64[Tensor, "#members #rows query"],
        key_column: Int64[Tensor, "#rows key"],
        *,
        scale: float,
    ) -> Float[Tensor, "members rows heads query key"]:
        """Scores of all pairs of cells that stand in these columns."""
        n_rows = q.shape[1]
        query_columns = query_column.expand(len(self.members), n_rows, -1)
        key_column = key_column.expand(n_rows, -1)
        scores = []
        for member, own_q, own_k, own in zip(self.members, q, k, query_columns, strict=True):
            rotated = member.rotate(own_q, own), member.rotate(own_k, key_column)
            scores.append(pair_scores(member, *rotated, (own, key_column), scale=scale))
        return torch.stack(scores)


class StackedLinear(nn.Module):
    """A linear layer for each member; Glorot-normal weights, zero bias."""

    no_decay_parameters = ("bias",)

    def __init__(
        self, n_members: int, n_in: int, n_out: int, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        scale = (2.0 / (n_in + n_out)) ** 0.5
        weight = normal(n_members, n_in, n_out, scale=scale, generator=generator)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(n_members, 1, n_out))

    def forward(
        self, x: Float[Tensor, "members *shape n_in"]
    ) -> Float[Tensor, "members *shape n_out"]:
        flat = torch.baddbmm(self.bias, x.flatten(1, -2), self.weight)
        return flat.view(*x.shape[:-1], -1)


class StackedLayerNorm(nn.Module):
    """Layer norm with one gain and shift for each member."""

    no_decay_parameters = ("gain", "shift")

    def __init__(self, n_members: int, dim: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(n_members, dim))
        self.shift = nn.Parameter(torch.zeros(n_members, dim))

    def forward(
        self, x: Float[Tensor, "members *shape embed"]
    ) -> Float[Tensor, "members *shape embed"]:
        between = (slice(None), *[None] * (x.dim() - 2))
        return functional.layer_norm(x, x.shape[-1:]) * self.gain[between] + self.shift[between]


@dataclass(frozen=True)
class TokenPlan:
    """The tokens of a table's columns, `sizes` of them.

    `shared`: whether the same code is the same token in all columns
    `scores`: where a column's tokens lie on a line, in order; None for unordered ones
    `ordered`: for each member, whether a column's tokens start out along that line
    """

    sizes: tuple[int, ...]
    shared: bool
    scores: tuple[tuple[float, ...] | None, ...]
    ordered: tuple[tuple[bool, ...], ...]

    @property
    def n_members(self) -> int:
        return len(self.ordered)

    @property
    def n_columns(self) -> int:
        return len(self.sizes)

    @property
    def n_entries(self) -> int:
        return sum(self.sizes)

    @property
    def n_tokens(self) -> int:
        """Number of different tokens, MASK apart."""
        return max(self.sizes) if self.shared else self.n_entries

    @property
    def start(self) -> list[int]:
        """The entry of every column's first token."""
        return torch.tensor([0, *self.sizes]).cumsum(0)[:-1].tolist()

    @property
    def first(self) -> list[int]:
        """The token of every column's first code."""
        return [0] * self.n_columns if self.shared else self.start

    def token_scores(self) -> Float[Tensor, "members tokens"]:
        """Where each token lies on its column's line; 0 where there is none."""
        scores = torch.zeros(self.n_members, self.n_tokens)
        for member, ordered in enumerate(self.ordered):
            columns = zip(self.sizes, self.first, self.scores, ordered, strict=True)
            for size, first, own, uses in columns:
                if own is not None and uses:
                    scores[member, first : first + size] = torch.tensor(own)
        return scores


class CellTokens(nn.Module):
    """c_x + p_j of every entry, and c_MASK + p_j of every column.

    The token of an ordered column is a free vector plus its score along a direction that the column
    (all columns, where categories are shared) has.
    """

    no_decay_parameters = ("positions", "blank", "direction")

    positions: Tensor

    def __init__(
        self,
        plan: TokenPlan,
        *,
        embed_dim: int,
        generator: torch.Generator,
        positions: Float[Tensor, "members columns embed"] | None = None,
    ) -> None:
        super().__init__()
        self.plan = plan

        def draws(rows: int, scale: float) -> nn.Parameter:
            shape = (plan.n_members, rows, embed_dim)
            return nn.Parameter(normal(*shape, scale=scale, generator=generator))

        self.free = draws(plan.n_tokens, _TOKEN_SCALE)
        self.blank = draws(1, _TOKEN_SCALE)
        if positions is None:
            self.positions = draws(plan.n_columns, _TOKEN_SCALE)
        else:
            self.positions = nn.Buffer(positions, persistent=False)
        ordered = any(scores is not None for scores in plan.scores)
        n_directions = 0 if not ordered else 1 if plan.shared else plan.n_columns
        self.direction = draws(n_directions, _DIRECTION_SCALE)
        columns = torch.arange(plan.n_columns).repeat_interleave(torch.tensor(plan.sizes))
        firsts = zip(plan.sizes, plan.first, strict=True)
        tokens = torch.cat([torch.arange(size) + first for size, first in firsts])
        directions = torch.zeros(plan.n_tokens).long() if plan.shared else columns
        self.start = nn.Buffer(torch.tensor(plan.start), persistent=False)
        self.entry_tokens = nn.Buffer(tokens, persistent=False)
        self.entry_columns = nn.Buffer(columns, persistent=False)
        self.token_directions = nn.Buffer(directions, persistent=False)
        self.scores = nn.Buffer(plan.token_scores())

    def tokens(self) -> Float[Tensor, "members tokens embed"]:
        if not self.direction.shape[1]:
            return self.free
        directions = self.direction.index_select(1, self.token_directions)
        return torch.addcmul(self.free, self.scores[..., None], directions)

    def entries(self) -> Float[Tensor, "members entries embed"]:
        """c_x + p_j of every entry; the last entries are c_MASK + p_j of every column."""
        tokens = self.tokens()
        if self.plan.shared:
            tokens = tokens.index_select(1, self.entry_tokens)
        seen = tokens + self.positions.index_select(1, self.entry_columns)
        return torch.cat([seen, self.blanks()], 1)

    def entry_index(
        self, code: Int64[Tensor, "members batch columns"]
    ) -> Int64[Tensor, "members batch columns"]:
        """The entry of every cell; that of any token where a cell is absent."""
        columns = torch.arange(code.shape[-1], device=code.device)
        seen = code.clamp(min=0) + self.start
        return torch.where(code == MASKED, self.plan.n_entries + columns, seen)

    def blanks(self) -> Float[Tensor, "members columns embed"]:
        """c_MASK + p_j of every column."""
        return self.blank + self.positions


WeightAndBias = tuple[
    Float[Tensor, "members columns params embed"], Float[Tensor, "members columns params"]
]


class Readout(nn.Module):
    """W'' and b'' of every column, or the same of all columns that share their categories.

    `basis`: what the raw outputs of a column are multiplied by: directions that many parameters
        share are learned as fast as single parameters
    """

    no_decay_parameters = ("bias",)

    def __init__(
        self,
        basis: Float[Tensor, "members columns params raw"],
        bias: Float[Tensor, "columns params"],
        *,
        embed_dim: int,
        shared: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if shared:
            basis, bias = basis[:, :1], bias[:1]
        n_members, columns, _, raw = basis.shape
        shape = (n_members, columns, raw, embed_dim)
        scale = _READOUT_SCALE * embed_dim**-0.5
        self.raw = nn.Parameter(normal(*shape, scale=scale, generator=generator))
        self.bias = nn.Parameter(bias.expand(n_members, -1, -1).clone())
        self.basis = nn.Buffer(basis)
        self.shared = shared

    def forward(
        self, hidden: Float[Tensor, "members batch targets embed"], targets: Sequence[int]
    ) -> Float[Tensor, "members batch targets params"]:
        weight, bias = self.of(targets)
        return torch.einsum("mbte,mtpe->mbtp", hidden, weight) + bias[:, None]

    def of(self, targets: Sequence[int]) -> WeightAndBias:
        """W'' and b'' of each target column."""
        weight, bias = self.columns()
        if self.shared:
            n_targets = len(targets)
            return weight.expand(-1, n_targets, -1, -1), bias.expand(-1, n_targets, -1)
        if list(targets) == list(range(weight.shape[1])):
            return weight, bias
        chosen = torch.tensor(list(targets), device=weight.device)
        return weight.index_select(1, chosen), bias.index_select(1, chosen)

    def columns(self) -> WeightAndBias:
        """W'' and b'' of all columns that have their own."""
        return self.basis @ self.raw, self.bias


@dataclass(frozen=True)
class TableSettings:
    """What a network is made of, by parameters of estimators.

    `ordinal`: for each of the networks side by side
    `masked_columns`: names of columns whose absent cells are shown as MASK tokens
    `positive_in_units`: whether families of positive numbers are of values divided by their mean
    """

    network: str
    categories: str
    ordinal: tuple[bool, ...]
    embed_dim: int
    n_heads: int
    head_dim: int
    n_layers: int
    feed_forward_dim: int
    dropout: float
    norm: str
    masked_columns: tuple[str, ...]
    # Stored models older than these choices have none.
    encoding: str = OWN_VECTORS
    positive_in_units: bool = False


class TableNetwork(nn.Module, ABC):
    """Tokens of cells, attention between them, and a readout: one set of weights per member.

    `places`: encodings of the columns; its name is that of its tensors in saved models
    """

    def __init__(
        self,
        tokens: CellTokens,
        readout: Readout,
        settings: TableSettings,
        *,
        generator: torch.Generator,
        places: ColumnEncodings | None = None,
    ) -> None:
        super().__init__()
        self.tokens, self.readout, self.places = tokens, readout, places
        self.settings, self.n_heads, self.head_dim = settings, settings.n_heads, settings.head_dim
        self.n_members = tokens.plan.n_members
        self.add_layers(settings, generator)

    @abstractmethod
    def add_layers(self, settings: TableSettings, generator: torch.Generator) -> None:
        """Add the parts between tokens and readout."""

    @abstractmethod
    def forward(self, batch: CellBatch, targets: Sequence[int]) -> Outputs:
        """Parameters of each target column given the other cells of its row that are there."""

    @abstractmethod
    def weights(self, batch: CellBatch, targets: Sequence[int]) -> AttentionWeights:
        """Attention weights of each target; in its own column there is its MASK."""
