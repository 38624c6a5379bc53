"""How much each cell matters, from the experts' weights and contributions alone."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from exfam.experts import Experts
from exfam.families import Categorical, Histogram
from exfam.tables.answers.distributions import table_schema
from exfam.tables.data.cells import Cells
from exfam.tables.experts.table_attention import TableAttention
from exfam.tables.experts.view import table_experts
from exfam.tables.networks.table_model import TableModel

__all__ = ["cell_importance", "expert_importance", "parts_towards", "removal_effects"]


def removal_effects(
    experts: Experts, targets: Sequence[int]
) -> Float[Tensor, "rows targets positions params"]:
    """The logits minus those with a cell made absent: exact, and without another pass.

    Without expert j the others' weights are divided by their sum: F - F_-j =
    sum_h (F^h - sum_(k != j) pi^h_k f^h_k / sum_(k != j) pi^h_k). `targets` are places of the
    experts' targets; a target's own MASK, which is always there, has effect 0, as absent cells do.

    >>> from exfam.experts import Sentences, as_experts, random_network
    >>> network = random_network(torch.Generator().manual_seed(0))
    >>> effects = [
    ...     removal_effects(as_experts(network, Sentences(torch.tensor([row])), [2]), [2])
    ...     for row in ([0, 1, 2], [0, -1, 2])
    ... ]
    >>> effects[0][0, 0, 0].abs().sum() > 0, effects[1][0, 0, 1].abs().sum() < 1e-12
    (tensor(True), tensor(True))
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
    """Nats that a label's law loses, by its own judgment, without each cell: KL(p || p without it).

    `logits`: of one target's labels or bins; `effects`: of its `removal_effects`

    >>> effects = torch.tensor([[[1.0, 1.0], [1.0, -1.0]]])
    >>> cell_importance(torch.tensor([[1.0, -1.0]]), effects)
    tensor([[0.0000, 0.3278]])
    """
    law = logits.log_softmax(-1)[:, None]
    without = (logits[:, None] - effects).log_softmax(-1)
    return (law.exp() * (law - without)).sum(-1).clamp_min(0.0)


def parts_towards(
    parts: Float[Tensor, "rows positions params"], chosen: Int64[Tensor, "rows"]
) -> Float[Tensor, "rows positions"]:
    """What each cell adds to one chosen output a row: to a label, say, against the others.

    `parts`: of one target, as `Experts.parts` tells them. Measured against the mean of all outputs,
    as a number added to all changes no probability: positive where a cell speaks for the output.

    >>> parts = torch.tensor([[[2.0, 0.0], [1.0, 1.0]]])
    >>> parts_towards(parts, torch.tensor([0])).tolist()
    [[1.0, 0.0]]
    """
    index = chosen[:, None, None].expand(-1, parts.shape[1], 1)
    return parts.gather(-1, index)[..., 0] - parts.mean(-1)


def expert_importance(
    model: TableModel, cells: Cells, target: str
) -> Float64[np.ndarray, "rows columns"]:
    """How much each cell matters to what is told of a target, from weights and contributions alone.

    Of labels and bins `cell_importance`, in nats; of other laws the change of the first parameter
    without the cell, in the network's unit. Mean over the members of an ensemble; 0 for absent
    cells and the target's own. Raises ExfamError for a model without an exact expert view,
    DataError for an unknown name.

    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.tables.networks.independent import IndependentColumns
    >>> model = IndependentColumns(TableSchema(()), families=(), marginals=())
    >>> cells = Cells(np.zeros((1, 0), np.int32), np.zeros((1, 0), np.float32), np.zeros((1, 0)))
    >>> expert_importance(model, cells, "y")
    Traceback (most recent call last):
    exfam.checks.DataError: `name` must be a column of the table, one of , got 'y'.
    """
    place = table_schema(model).place(target)
    family = model.families[place]
    n_members = len(model.eta(cells[:1], [place])[0])
    total = np.zeros(cells.code.shape)
    for member in range(n_members):
        table = table_experts(model, member=member)
        assert isinstance(table, TableAttention)
        for block in table.row_blocks(len(cells), n_targets=1):
            experts = table.experts(cells[block], [target])
            effects = removal_effects(experts, [place])[:, 0, :, : family.n_params]
            if isinstance(family, (Categorical, Histogram)):
                told = cell_importance(experts.logits[:, 0, : family.n_params], effects)
            else:
                told = effects[..., 0].abs()
            total[block] += told.double().numpy()
    return total / n_members
