"""What each column's expert does for each target, over all rows of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.tables.data import Cells
from exfam.tables.experts.importance import removal_effects
from exfam.tables.experts.table_attention import TableAttention


@dataclass(frozen=True, eq=False)
class ExpertSummary:
    """What each column does for each target, over all rows; a target's own column is its MASK.

    `weight`: mean of pi, absent cells counting 0; sums to 1 over columns
    `size`: mean over rows of the length (over outputs) of what the column adds to the logits
    `spread`: how much that varies from row to row: root of the summed variances of the outputs
    `effect`: mean over rows of the length of `removal_effects`
    """

    targets: tuple[str, ...]
    columns: tuple[str, ...]
    weight: Float64[np.ndarray, "targets heads columns"]
    size: Float64[np.ndarray, "targets columns"]
    spread: Float64[np.ndarray, "targets columns"]
    effect: Float64[np.ndarray, "targets columns"]

    def to_dict(self) -> dict[str, np.ndarray]:
        """One entry for each target and column: names, mean weight over heads, the rest."""
        target, column = np.indices(self.size.shape).reshape(2, -1)
        return {
            "target": np.array(self.targets, dtype=object)[target],
            "column": np.array(self.columns, dtype=object)[column],
            "weight": self.weight.mean(1).ravel(),
            "size": self.size.ravel(),
            "spread": self.spread.ravel(),
            "effect": self.effect.ravel(),
        }


def summarize_experts(table: TableAttention, cells: Cells, targets: Sequence[str]) -> ExpertSummary:
    """Means over all rows of what each column's expert does for each target.

    Raises ExfamError without rows, DataError for an unknown name.
    """
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
