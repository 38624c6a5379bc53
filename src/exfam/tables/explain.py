"""Estimators of tables as mixtures of experts: each cell of a row is one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from exfam.checks import ExfamError, check_whole
from exfam.experts import Experts, ScoreComponents, SimilarityComponents
from exfam.tables.answers.similarity import ColumnSimilarity, column_similarity
from exfam.tables.data import Cells, TableSchema
from exfam.tables.experts.faithfulness import DeletionInsertion, faithfulness
from exfam.tables.experts.importance import expert_importance
from exfam.tables.experts.table_attention import TableAttention
from exfam.tables.experts.view import table_experts
from exfam.tables.networks.masked_table_model import MaskedTableModel
from exfam.tables.shift.report import Weights

__all__ = [
    "TableExperts",
    "attention_of",
    "expert_faithfulness",
    "expert_weights",
    "experts_of",
    "similarity_of_columns",
]


@dataclass(frozen=True, eq=False)
class TableExperts:
    """The experts of each row and target: exact for a linear network, for one of an ensemble.

    `columns`: all columns; at a target's own place stands its MASK token
    `experts`, `scores`, `similarities`: weights and contributions, and what scores and
        contributions are sums of, as tensors (see exfam.experts)

    Outputs are logits of labels and bins, and for other laws their parameters, of standardized
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


def attention_of(model: MaskedTableModel, *, member: Any) -> TableAttention:
    """One member as a mixture of experts.

    Raises ExfamError for a deep network, or a member that the ensemble does not have.
    """
    check_whole("member", member, least=0)
    if member >= model.n_members:
        raise ExfamError(f"`member` must be in 0 .. {model.n_members - 1}, got {member}.")
    attention = table_experts(model, member=member)
    assert isinstance(attention, TableAttention)
    return attention


def experts_of(attention: TableAttention, cells: Cells, targets: Sequence[str]) -> TableExperts:
    """Weights, contributions and their components, all rows at once."""
    return TableExperts(
        attention.schema.names,
        tuple(targets),
        experts=attention.experts(cells, targets),
        scores=attention.scores(cells, targets),
        similarities=attention.similarities(cells, targets),
    )


def expert_weights(model: MaskedTableModel, target: str) -> Weights:
    """The weight of each column's expert for a target, the mean over heads and members."""
    place = model.schema.place(target)

    @torch.inference_mode()
    def weights(cells: Cells) -> Float64[np.ndarray, "rows columns"]:
        model.eval()
        told = [model.weights(batch, [place])[:, 0, :, :, 0] for _, batch in model.chunks(cells, 1)]
        return torch.cat(told, 1).double().mean((0, 2)).cpu().numpy()

    return weights


def expert_faithfulness(
    model: MaskedTableModel, cells: Cells, target: str, *, seed: int
) -> dict[str, DeletionInsertion]:
    """Deletion and insertion in the order of `expert_importance`.

    Beside "experts" it tells the same of "permutation" importance and of a "random" order.
    """
    importance = expert_importance(model, cells, target)
    return faithfulness(model, cells, target, importances={"experts": importance}, seed=seed)


def similarity_of_columns(model: MaskedTableModel, schema: TableSchema) -> ColumnSimilarity:
    """Cosines between the columns' encodings, the mean over the members of an ensemble.

    Raises ExfamError for an encoding without vectors.
    """
    if not model.network.tokens.positions.any():
        raise ExfamError(
            "`encoding` must give columns vectors to compare, 'learned' or 'sinusoidal', got one "
            "that gives none. Fit with encoding='learned'."
        )
    positions = model.network.tokens.positions.detach().double().cpu().numpy()
    each = [column_similarity(one, schema.names).cosine for one in positions]
    return ColumnSimilarity(schema.names, np.mean(each, axis=0))
