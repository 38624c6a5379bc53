"""Table networks of one linear attention layer: each cell of a row is an expert."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.checks import DataError, ExfamError
from exfam.encodings import Encoding, LearnedAbsolute
from exfam.experts import (
    Experts,
    LinearAttention,
    ScoreComponents,
    Sentences,
    SimilarityComponents,
    as_experts,
    score_components,
    similarity_components,
)
from exfam.positions.attention import PositionAttention, encoding_weights, with_term
from exfam.tables.data import Cells, TableSchema
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.networks.table_network import TableModel
from exfam.tables.networks.tokens import CellTokens


@dataclass(frozen=True, eq=False)
class TableExperts:
    """The experts of each row and target: exact for a linear network, for one of an ensemble.

    `columns`: all columns; a target's own column is its MASK token
    `experts`, `scores`, `similarities`: weights and contributions, and what scores and
        contributions are sums of, as tensors (see exfam.experts)

    Outputs are logits of labels and bins, and for other families their parameters, of standardized
    values; targets with fewer outputs than others have zeros after their own.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.
    """

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    experts: Experts
    scores: ScoreComponents
    similarities: SimilarityComponents

    @property
    def weights(self) -> Float64[np.ndarray, "rows targets heads columns"]:
        """pi: how much each column counts; they sum to 1 over columns, absent cells have 0."""
        return self.experts.weights.numpy()

    @property
    def contributions(self) -> Float64[np.ndarray, "rows targets heads columns params"]:
        """f: what each column says of the outputs."""
        return self.experts.contributions.numpy()

    @property
    def parts(self) -> Float64[np.ndarray, "rows targets columns params"]:
        """What each column adds to the outputs: the sum over heads of weight times contribution."""
        return self.experts.parts.numpy()

    @property
    def outputs(self) -> Float64[np.ndarray, "rows targets params"]:
        """The network's outputs: the sum of all parts."""
        return self.experts.logits.numpy()


@dataclass(frozen=True, eq=False)
class TableAttention:
    """One member of a linear table network, and how cells are its tokens.

    Its outputs are logits of labels and bins, and parameters of other families in the unit in which
    the network was trained: that of standardized values.

    Columns have tokens of their own, one column's after another's, if the network has as many
    tokens as all columns together; else they share them. An absent cell of the columns in
    `mask_absent` is a MASK token; any other is no part of its sentence. Targets are names of
    columns, and lie in tensors in the order given. A column with fewer outputs than another has
    rows of zeros after its own. Raises DataError for an unknown name.
    """

    attention: LinearAttention
    schema: TableSchema
    mask_absent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.indices(self.mask_absent)
        if len(self.schema) != self.attention.n_positions:
            raise DataError(
                f"`schema` must have one column for each of {self.attention.n_positions} "
                f"positions of the network, got {len(self.schema)}."
            )

    @property
    def first(self) -> Int64[Tensor, "columns"]:
        """The row of each column's first token among the network's tokens."""
        sizes = torch.tensor([column.n_tokens for column in self.schema.columns])
        if int(sizes.sum()) != len(self.attention.tokens):
            return torch.zeros_like(sizes)
        return sizes.cumsum(0) - sizes

    def indices(self, names: Sequence[str]) -> list[int]:
        """The columns of these names. Raises DataError for an unknown one."""
        return [self.schema.index(name) for name in names]

    def sentences(self, cells: Cells) -> Sentences:
        """The rows as sentences of tokens."""
        code = torch.from_numpy(cells.code.astype("int64"))
        masked = torch.zeros_like(code, dtype=torch.bool)
        hidden = self.indices(self.mask_absent)
        masked[:, hidden] = code[:, hidden] < 0
        return Sentences(code, torch.from_numpy(cells.fraction.copy()), self.first, masked)

    def experts(self, cells: Cells, targets: Sequence[str]) -> Experts:
        """Weights and contributions of each cell to the outputs of each target column."""
        return as_experts(self.attention, self.sentences(cells), self.indices(targets))

    def explained(self, cells: Cells, targets: Sequence[str]) -> TableExperts:
        """The experts, and the four components of each cell's score and of its contribution."""
        sentences, indices = self.sentences(cells), self.indices(targets)
        return TableExperts(
            self.schema.names,
            tuple(targets),
            experts=as_experts(self.attention, sentences, indices),
            scores=score_components(self.attention, sentences, indices),
            similarities=similarity_components(self.attention, sentences, indices),
        )

    def row_blocks(self, n_rows: int, *, n_targets: int) -> list[slice]:
        """Slices of rows, one after another, whose contributions fit in memory."""
        network = self.attention
        numbers = n_targets * network.n_heads * network.n_positions * network.readout.shape[1]
        size = max(1, _MAX_NUMBERS // max(1, numbers))
        return [slice(first, first + size) for first in range(0, n_rows, size)]


# Numbers in the largest array at a time.
_MAX_NUMBERS = 4_000_000


def attention_of_table(model: object, *, member: Any = 0) -> TableAttention:
    """A table model as a mixture of experts, exactly: theorem 2 with the model's own weights.

    `member`: which of an ensemble (default 0)

    Raises ExfamError for a model that is no such mixture, naming what makes it inexact.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.
    """
    if not isinstance(model, TableModel):
        raise ExfamError(
            f"`model` must have attention, got {type(model).__name__}. Fit a linear table model, "
            "or EFA with n_layers=1, connection='residual' and head_hidden_dim=0."
        )
    linear: Any = model
    if not hasattr(linear, "linear_attention"):
        raise ExfamError(
            "`model` must be one linear attention layer for exact experts, got "
            f"{type(model).__name__}, a table model whose layer norm, ReLU or further layers make "
            "the expert view inexact. Fit the linear network."
        )
    attention = linear.linear_attention(member)
    hidden = tuple(model.schema.names[column] for column in linear.masked_columns)
    return TableAttention(attention, model.schema, mask_absent=hidden)


def table_attention(
    model: object, cells: Cells, *, term: str = "both", member: int = 0
) -> PositionAttention:
    """Attention of a fitted table model from each hidden column to all columns, over rows.

    In its own column a target sees its MASK token, which is the diagonal; absent cells have weight
    0. In a deep network the rows are those of each target's own copy of the row. What columns' own
    learned vectors make by themselves are their products over sqrt(length).

    `model`: a fitted estimator of tables, or a model of one
    `term`: "both" or "contextual", as in `group_attention`; without columns' own vectors as well
        (default "both")
    `member`: which of an ensemble (default 0)

    Raises ExfamError for another model, for a member that the ensemble does not have, and for the
    contextual term of an encoding that leaves none.
    """
    fitted = getattr(model, "members_", [model])[0]
    if not isinstance(fitted, MaskedTableModel):
        raise ExfamError(
            f"`model` must be one of tables, got {type(model).__name__}. Use `group_attention` for "
            "groups."
        )
    fitted.check_member(member)
    if not len(cells):
        raise ExfamError("`cells` must hold at least one row, got none.")
    seen = with_term(fitted, term).eval()
    if term == "contextual":
        for module in seen.modules():
            if isinstance(module, CellTokens):
                module.positions.data.zero_()
    columns = list(range(cells.code.shape[1]))
    total: Any = 0.0
    with torch.inference_mode():
        for _, batch in seen.chunks(cells, len(columns)):
            total = total + seen.weights(batch, columns)[member].double().sum(1).cpu()
    weights = total / len(cells)
    return PositionAttention(
        weights=weights,
        positional=_of_columns(fitted, member),
        elsewhere=torch.zeros_like(weights[..., 0]),
        n_averaged=len(cells),
        direction="bidirectional",
    )


def _of_columns(
    model: MaskedTableModel, member: int
) -> Float64[Tensor, "own_heads columns columns"]:
    network = model.network
    vectors = network.tokens.positions[member].detach().cpu()
    if network.places is None:
        encoding: Encoding = LearnedAbsolute(*vectors.shape, generator=torch.Generator())
        cast(Any, encoding).table.weight.data.copy_(vectors)
    else:
        encoding = network.places.members[member]
    return encoding_weights(encoding, len(vectors), head_dim=network.head_dim)
