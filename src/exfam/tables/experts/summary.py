"""What each column's expert does for each target, over all rows of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.experts import Experts
from exfam.families import Categorical, Histogram
from exfam.tables.data import Cells
from exfam.tables.experts.table_attention import TableAttention, attention_of_table
from exfam.tables.networks.table_network import TableModel


def removal_effects(
    experts: Experts, targets: Sequence[int]
) -> Float[Tensor, "rows targets positions params"]:
    """The logits minus those with a cell made absent: exact, and without another pass.

    Without expert j the others' weights are divided by their sum: F - F_-j =
    sum_h (F^h - sum_(k != j) pi^h_k f^h_k / sum_(k != j) pi^h_k). `targets` are the positions of
    the experts' targets; a target's own MASK, which is always there, has effect 0, as absent cells
    do.
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
    """Nats by which labels are less certain without each cell: KL(p || p without it).

    `logits`: of one target's labels or bins; `effects`: of its `removal_effects`
    """
    log_probs = logits.log_softmax(-1)[:, None]
    without = (logits[:, None] - effects).log_softmax(-1)
    return (log_probs.exp() * (log_probs - without)).sum(-1).clamp_min(0.0)


def expert_importance(
    model: TableModel, cells: Cells, target: str
) -> Float64[np.ndarray, "rows columns"]:
    """How much each cell matters to a target, from weights and contributions alone.

    Of labels and bins `cell_importance`, in nats; of other families the change of the first
    parameter without the cell, in the network's unit. Mean over the members of an ensemble; 0 for
    absent cells and the target's own. Raises ExfamError for a model without an exact expert view,
    DataError for an unknown name.
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
