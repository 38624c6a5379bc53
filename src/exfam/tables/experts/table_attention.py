"""Table networks of one linear attention layer: each cell of a row is an expert."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from exfam.checks import DataError, ExfamError
from exfam.columns.results import PlottedResult, in_rows
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
from exfam.families import Categorical, Histogram
from exfam.positions.attention import PositionAttention, encoding_weights, with_term
from exfam.tables.answers.distributions import TableModel, table_blocks
from exfam.tables.data import Cells, TableSchema
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.networks.parts import CellTokens


@dataclass(frozen=True, eq=False, repr=False)
class TableExperts(PlottedResult):
    """The experts of each row and target: exact for a linear network, for one of an ensemble.

    Outputs are logits of labels and bins, and for other families their parameters, of standardized
    values; targets with fewer outputs than others have zeros after their own.
    Source: "Bidirectional attention as a mixture of continuous word experts", theorem 2.
    """

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    experts: Experts
    scores: ScoreComponents
    similarities: SimilarityComponents

    picture = "column_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `row`, `target`, `column`, `output` (its number), `weight` and `part`.

        `weight`: the mean over heads
        """
        axes = {"row": None, "target": self.targets, "column": self.columns, "output": None}
        weight = np.broadcast_to(self.weights.mean(2)[..., None], self.parts.shape)
        return in_rows(axes, {"weight": weight, "part": self.parts})

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

    An absent cell of the columns in `mask_absent` is a MASK token; any other is no part.
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
        return [self.schema.index(name) for name in names]

    def sentences(self, cells: Cells) -> Sentences:
        code = torch.from_numpy(cells.code.astype("int64"))
        masked = torch.zeros_like(code, dtype=torch.bool)
        hidden = self.indices(self.mask_absent)
        masked[:, hidden] = code[:, hidden] < 0
        return Sentences(code, torch.from_numpy(cells.fraction.copy()), self.first, masked)

    def experts(self, cells: Cells, targets: Sequence[str]) -> Experts:
        return as_experts(self.attention, self.sentences(cells), self.indices(targets))

    def explained(self, cells: Cells, targets: Sequence[str]) -> TableExperts:
        sentences, indices = self.sentences(cells), self.indices(targets)
        return TableExperts(
            self.schema.names,
            tuple(targets),
            experts=as_experts(self.attention, sentences, indices),
            scores=score_components(self.attention, sentences, indices),
            similarities=similarity_components(self.attention, sentences, indices),
        )

    def row_blocks(self, n_rows: int, *, n_targets: int) -> Iterator[slice]:
        """Slices of rows, one after another, whose contributions fit in memory."""
        network = self.attention
        numbers = n_targets * network.layer.n_heads * network.readout[..., 0].numel()
        return table_blocks(n_rows, numbers=numbers)


def attention_of_table(model: object, *, member: Any = 0) -> TableAttention:
    """A table model as a mixture of experts, exactly: theorem 2 with the model's own weights."""
    linear: Any = model
    if not (isinstance(model, TableModel) and hasattr(model, "linear_attention")):
        raise ExfamError(
            "`model` must be one linear attention layer for exact experts, got "
            f"{type(model).__name__}. Fit a linear table model, or EFA with n_layers=1, "
            "connection='residual' and head_hidden_dim=0."
        )
    attention = linear.linear_attention(member)
    hidden = tuple(model.schema.names[column] for column in linear.masked_columns)
    return TableAttention(attention, model.schema, mask_absent=hidden)


def removal_effects(
    experts: Experts, targets: Sequence[int]
) -> Float[Tensor, "rows targets positions params"]:
    """The logits minus those with a cell made absent: exact, and without another pass.

    Without expert j the others' weights are divided by their sum: F - F_-j =
    sum_h (F^h - sum_(k != j) pi^h_k f^h_k / sum_(k != j) pi^h_k).
    """
    pi, f = experts.weights, experts.contributions
    others = 1 - torch.eye(pi.shape[-1], dtype=pi.dtype)
    weighted = pi[..., None] * f
    left = torch.einsum("kj,rthkp->rthjp", others, weighted)
    share = (pi @ others).clamp_min(torch.finfo(pi.dtype).tiny)
    effects = (weighted.sum(3, keepdim=True) - left / share[..., None]).sum(2)
    still = (pi == 0).all(2)
    still[:, torch.arange(len(targets)), list(targets)] = True
    return effects.masked_fill(still[..., None], 0.0)


def cell_importance(
    logits: Float[Tensor, "rows params"], effects: Float[Tensor, "rows positions params"]
) -> Float[Tensor, "rows positions"]:
    """Nats by which labels are less certain without each cell: KL(p || p without it)."""
    log_probs = logits.log_softmax(-1)[:, None]
    without = (logits[:, None] - effects).log_softmax(-1)
    return (log_probs.exp() * (log_probs - without)).sum(-1).clamp_min(0.0)


def expert_importance(
    model: TableModel, cells: Cells, target: str
) -> Float64[np.ndarray, "rows columns"]:
    """How much each cell matters to a target, the mean over the members of an ensemble.

    Of labels and bins `cell_importance`, in nats; of others the change of the first parameter.
    """
    index = model.schema.index(target)
    family = model.families[index]
    n_members = len(model.eta(cells[:1], [index])[0])
    total = np.zeros(cells.code.shape)
    for member in range(n_members):
        table = attention_of_table(model, member=member)
        for block in table.row_blocks(len(cells), n_targets=1):
            experts = table.experts(cells[block], [target])
            effects = removal_effects(experts, [index])[:, 0, :, : family.n_params]
            if isinstance(family, (Categorical, Histogram)):
                importance = cell_importance(experts.logits[:, 0, : family.n_params], effects)
            else:
                importance = effects[..., 0].abs()
            total[block] += importance.double().numpy()
    return total / n_members


@dataclass(frozen=True, eq=False, repr=False)
class ExpertSummary(PlottedResult):
    """What each column does for each target, over all rows; a target's own column is its MASK.

    `weight`: mean of pi, absent cells counting 0; sums to 1 over columns
    `size`, `spread`: mean length of what the column adds to the logits, and its standard deviation
    `effect`: mean over rows of the length of `removal_effects`
    """

    targets: tuple[str, ...]
    columns: tuple[str, ...]
    weight: Float64[np.ndarray, "targets heads columns"]
    size: Float64[np.ndarray, "targets columns"]
    spread: Float64[np.ndarray, "targets columns"]
    effect: Float64[np.ndarray, "targets columns"]

    picture = "size_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """One entry for each target and column: names, mean weight over heads, the rest."""
        figures = {key: getattr(self, key) for key in ("size", "spread", "effect")}
        axes = {"target": self.targets, "column": self.columns}
        return in_rows(axes, {"weight": self.weight.mean(1), **figures})


def summarize_experts(table: TableAttention, cells: Cells, targets: Sequence[str]) -> ExpertSummary:
    """Means over all rows of what each column's expert does for each target."""
    if not len(cells):
        raise ExfamError("`cells` must have at least one row, got none.")
    indices = table.indices(targets)
    weight, size, effect, first, second = (torch.zeros(()) for _ in range(5))
    center: Tensor | None = None
    for block in table.row_blocks(len(cells), n_targets=len(indices)):
        experts = table.experts(cells[block], targets)
        parts = experts.parts.double()
        # Squares of differences from about the mean keep their digits.
        center = parts.mean(0) if center is None else center
        first, second = first + (parts - center).sum(0), second + (parts - center).square().sum(0)
        weight, size = weight + experts.weights.double().sum(0), size + parts.norm(dim=-1).sum(0)
        effect = effect + removal_effects(experts, indices).double().norm(dim=-1).sum(0)
    n = len(cells)
    variance = (second / n - (first / n).square()).clamp_min(0.0)
    return ExpertSummary(
        targets=tuple(targets),
        columns=table.schema.names,
        weight=(weight / n).numpy(),
        size=(size / n).numpy(),
        spread=variance.sum(-1).sqrt().numpy(),
        effect=(effect / n).numpy(),
    )


def table_attention(
    model: object, cells: Cells, *, term: str = "both", member: int = 0
) -> PositionAttention:
    """Attention of a fitted table model from each hidden column to all columns, over rows."""
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
    network = fitted.network
    vectors = network.tokens.positions[member].detach().cpu()
    if network.places is None:
        encoding: Encoding = LearnedAbsolute(*vectors.shape, generator=torch.Generator())
        cast(Any, encoding).table.weight.data.copy_(vectors)
    else:
        encoding = network.places.members[member]
    return PositionAttention(
        weights=weights,
        positional=encoding_weights(encoding, len(vectors), head_dim=network.head_dim),
        elsewhere=torch.zeros_like(weights[..., 0]),
        n_averaged=len(cells),
        direction="bidirectional",
    )
