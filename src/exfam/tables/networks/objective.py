"""The masked likelihood of table rows: every cell given those that are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.tables.networks.batch import ABSENT, MASKED, CellBatch
from exfam.tables.networks.masked_table_model import MaskedTableModel

MASKINGS = {"absent": ABSENT, "mask": MASKED}


@dataclass(frozen=True)
class MaskedCells:
    """Minus the log-probability of cells given the others of their row, and how many there are.

    In training all columns are targets, each hidden in turn; of a wide table `n_targets` columns
    drawn at random in each step, and always the response. Of every row a share drawn uniformly from
    0 to `extra_masking` of the cells is hidden besides. In evaluation only the response is a target
    (all columns, if there is none), and all other cells are shown.

    `response`: index of the column that the fit is for, None if for all alike
    `response_share`: of the weight of a row's targets; None to weigh the response like others
    `extra_masking`: in [0, 1]; several members of an ensemble may have shares of their own
    `masked_as`: how such cells are shown: "absent", not at all, or "mask", as the MASK token
    """

    response: int | None
    response_share: float | None
    extra_masking: tuple[float, ...]
    masked_as: str
    n_targets: int

    def __call__(
        self, model: MaskedTableModel, batch: CellBatch
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The sum of the nats over cells and members, and of the weights."""
        targets = self._targets(model)
        shown = self._shown(batch, model) if model.training else batch
        nats = -model.log_prob(batch, shown, targets)
        weight = batch.present[..., targets].to(nats.dtype) * self._weights(targets).to(nats)
        if batch.weight is not None:
            weight = weight * batch.weight[..., None]
        weight = weight.expand(nats.shape)
        return (nats * weight).sum(), weight.sum()

    def _targets(self, model: MaskedTableModel) -> list[int]:
        if not model.training and self.response is not None:
            return [self.response]
        every = model.targets
        if not model.training or len(every) <= self.n_targets:
            return every
        device, generator = next(model.parameters()).device, model.generator
        order = torch.randperm(len(every), generator=generator, device=device)
        chosen = [every[k] for k in order[: self.n_targets].tolist()]
        if self.response is not None and self.response not in chosen:
            chosen[0] = self.response
        return sorted(chosen)

    def _weights(self, targets: Sequence[int]) -> Float[Tensor, "targets"]:
        weight = torch.ones(len(targets))
        share, others = self.response_share, len(targets) - 1
        if share is not None and self.response is not None and others:
            weight *= (1 - share) * len(targets) / others
            weight[list(targets).index(self.response)] = share * len(targets)
        return weight

    def _shown(self, batch: CellBatch, model: MaskedTableModel) -> CellBatch:
        if not any(self.extra_masking):
            return batch
        _, rows, columns = batch.code.shape
        most = torch.tensor(self.extra_masking, device=batch.code.device)
        uniform = partial(torch.rand, generator=model.generator, device=most.device)
        share = uniform(model.n_members, rows, 1) * most.view(-1, 1, 1)
        hidden = uniform(model.n_members, rows, columns) < share
        code = torch.where(hidden & batch.present, MASKINGS[self.masked_as], batch.code)
        return CellBatch(code, batch.fraction, batch.value, batch.weight)
