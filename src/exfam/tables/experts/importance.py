"""How much each cell matters, from the experts' weights and contributions alone."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.experts import Experts
from exfam.families import Categorical, Histogram
from exfam.tables.data import Cells
from exfam.tables.experts.table_attention import attention_of_table
from exfam.tables.networks.table_model import TableModel


def removal_effects(
    experts: Experts, targets: Sequence[int]
) -> Float[Tensor, "rows targets positions params"]:
    """The logits minus those with a cell made absent: exact, and without another pass.

    Without expert j the others' weights are divided by their sum: F - F_-j =
    sum_h (F^h - sum_(k != j) pi^h_k f^h_k / sum_(k != j) pi^h_k). `targets` are the positions of
    the experts' targets; a target's own MASK, which is always there, has effect 0, as absent cells
    do.

    >>> from exfam.experts import Sentences, as_experts, random_network
    >>> network = random_network(torch.Generator().manual_seed(0))
    >>> row = Sentences(torch.tensor([[0, -1, 2]]))
    >>> effects = removal_effects(as_experts(network, row, [2]), [2])[0, 0].abs().sum(-1)
    >>> [bool(effect > 0) for effect in effects]
    [True, False, False]
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

    >>> effects = torch.tensor([[[1.0, 1.0], [1.0, -1.0]]])
    >>> cell_importance(torch.tensor([[1.0, -1.0]]), effects)
    tensor([[0.0000, 0.3278]])
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
