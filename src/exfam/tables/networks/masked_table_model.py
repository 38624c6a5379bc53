"""A table's model, and what it is fitted by: every cell given those that are shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import ExfamError, check_whole
from exfam.experts import LinearAttention
from exfam.families import Family
from exfam.layers import RandomPart, unrounded
from exfam.tables.data import Cells, TableSchema
from exfam.tables.networks.batch import ABSENT, MASKED, CellBatch, RowWeights, TableRows
from exfam.tables.networks.linear import LinearTableNetwork
from exfam.tables.networks.parts import AttentionWeights, Outputs, TableNetwork
from exfam.tables.networks.standardized import FamilyBank, StandardizedFamily
from exfam.training.precision import if_wide

_NUMBERS_AT_ONCE = 4_000_000


class MaskedTableModel(RandomPart):
    """p(cell | the other cells of its row that are there), for every column of a table."""

    def __init__(
        self, network: TableNetwork, *, schema: TableSchema, standardized: list[StandardizedFamily]
    ) -> None:
        super().__init__()
        self.network, self.schema = network, schema
        self.n_members = network.n_members
        self.bank = FamilyBank(standardized)
        # Absent cells of these are shown as MASK tokens.
        self.masked_columns = [schema.index(name) for name in network.settings.masked_columns]

    @property
    def families(self) -> tuple[Family, ...]:
        """The family of each column's value, in the value's own unit."""
        return tuple(column.own for column in self.bank.standardized)

    def rows(
        self,
        cells: Cells,
        weight: RowWeights = None,
        *,
        generator: np.random.Generator | None = None,
    ) -> TableRows:
        """Cells as batches of standardized values; a `generator` gives members orders."""
        orders = None
        if generator is not None:
            orders = np.stack([generator.permutation(len(cells)) for _ in range(self.n_members)])
        columns = self.bank.standardized
        center, scale = (np.array([getattr(c, k) for c in columns]) for k in ("center", "scale"))
        return TableRows(cells, center=center, scale=scale, weight=weight, orders=orders)

    def forward(self, batch: CellBatch, targets: Sequence[int]) -> Outputs:
        return self.network(self._shown(batch), targets)

    def weights(self, batch: CellBatch, targets: Sequence[int]) -> AttentionWeights:
        """Attention weights of the target columns; a row sums to 1, absent cells have 0."""
        return self.network.weights(self._shown(batch), targets)

    def log_prob(
        self, batch: CellBatch, shown: CellBatch, targets: Sequence[int]
    ) -> Float[Tensor, "members batch targets"]:
        """Nats of each target's value, given the cells of `shown`; 0 where it is absent."""
        with if_wide(self.network.settings.embed_dim, shown.code.device):
            eta, columns = self(shown, targets), list(targets)
        nats = self.bank.log_prob(unrounded(eta), batch.value[..., columns], targets)
        return torch.where(batch.present[..., columns], nats, 0.0)

    def log_prob_by_scale(
        self, batch: CellBatch, targets: Sequence[int], log_scales: Sequence[float]
    ) -> Float[Tensor, "scales members batch targets"]:
        """As `log_prob`, with each of these added to the log of the targets' scales."""
        eta, columns = self(batch, targets), list(targets)
        has_scale = [self.bank.standardized[target].has_scale for target in targets]
        wider = torch.zeros_like(eta[0, 0])
        if any(has_scale):
            wider[:, 1] = torch.tensor(has_scale).to(wider)
        value, present = batch.value[..., columns], batch.present[..., columns]
        nats = [self.bank.log_prob(eta + added * wider, value, targets) for added in log_scales]
        return torch.where(present, torch.stack(nats), 0.0)

    @torch.no_grad()
    def widen(self, target: int, log_scale: float) -> None:
        """Add to the log of a column's scale in all rows, if its family has a scale."""
        if self.bank.standardized[target].has_scale:
            self.network.readout.bias[:, target, 1] += log_scale

    def _shown(self, batch: CellBatch) -> CellBatch:
        if not self.masked_columns:
            return batch
        code = batch.code.clone()
        part = code[..., self.masked_columns]
        code[..., self.masked_columns] = torch.where(part < 0, MASKED, part)
        return replace(batch, code=code)

    @torch.inference_mode()
    def eta(
        self, cells: Cells, targets: Sequence[int]
    ) -> list[Float[Tensor, "members rows _params"]]:
        """For each target column, float64 parameters of its family by member and row."""
        self.eval()
        sizes = [self.families[target].n_params for target in targets]
        shape = self.n_members, len(cells)
        out = [torch.empty(*shape, size, dtype=torch.float64) for size in sizes]
        for rows, batch in self.chunks(cells, len(targets)) if out else ():
            eta = self(batch, targets)
            for k, size in enumerate(sizes):
                out[k][:, rows] = eta[:, :, k, :size].double().cpu()
        return out

    def chunks(self, cells: Cells, n_targets: int) -> Iterator[tuple[slice, CellBatch]]:
        """All rows in order, as many at a time as fit into memory for that many targets."""
        rows = self.rows(cells)
        row_numbers = self.n_members * cells.code.shape[1] * (n_targets * 8 + 64)
        size = max(1, _NUMBERS_AT_ONCE // row_numbers)
        device = next(self.parameters()).device
        for first in range(0, len(cells), size):
            part = slice(first, min(first + size, len(cells)))
            yield part, rows.pad(np.arange(part.start, part.stop)).to(device)

    @torch.inference_mode()
    def expert_weights(self, cells: Cells, target: int) -> Float64[np.ndarray, "rows columns"]:
        """The weight of each column's expert for a target, the mean over heads and members."""
        self.eval()
        weights = [
            self.weights(batch, [target])[:, 0, :, :, 0] for _, batch in self.chunks(cells, 1)
        ]
        return torch.cat(weights, 1).double().mean((0, 2)).cpu().numpy()

    def check_member(self, member: Any) -> None:
        check_whole("member", member, least=0)
        if member >= self.n_members:
            raise ExfamError(f"`member` must be in 0 .. {self.n_members - 1}, got {member}.")

    def linear_attention(self, member: Any = 0) -> LinearAttention:
        """All weights of one member, in the standardized unit."""
        self.check_member(member)
        if not isinstance(self.network, LinearTableNetwork):
            raise ExfamError(
                "`network` must be 'linear' for the expert view, got a network with layer norm and "
                "ReLU, where a sum over experts is not exact. Fit with network='linear'."
            )
        return self.network.linear_attention(member)


MASKINGS = {"absent": ABSENT, "mask": MASKED}


@dataclass(frozen=True)
class MaskedCells:
    """Minus the log-probability of cells given the others of their row, and how many there are.

    In training all columns are targets, or `n_targets` drawn at random in each step, and always the
    response, which has `response_share` of the weight. Of every row a share drawn uniformly from 0
    to `extra_masking` of the cells is hidden besides. In evaluation only the response is a target.
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
        by_target = torch.ones(len(targets))
        share, others = self.response_share, len(targets) - 1
        if share is not None and self.response is not None and others:
            by_target *= (1 - share) * len(targets) / others
            by_target[targets.index(self.response)] = share * len(targets)
        weight = batch.present[..., targets].to(nats.dtype) * by_target.to(nats)
        if batch.weight is not None:
            weight = weight * batch.weight[..., None]
        weight = weight.expand(nats.shape)
        return (nats * weight).sum(), weight.sum()

    def _targets(self, model: MaskedTableModel) -> list[int]:
        if not model.training and self.response is not None:
            return [self.response]
        every = [model.schema.index(name) for name in model.schema.targets]
        if not model.training or len(every) <= self.n_targets:
            return every
        device, generator = next(model.parameters()).device, model.generator
        order = torch.randperm(len(every), generator=generator, device=device)
        chosen = [every[k] for k in order[: self.n_targets].tolist()]
        if self.response is not None and self.response not in chosen:
            chosen[0] = self.response
        return sorted(chosen)

    def _shown(self, batch: CellBatch, model: MaskedTableModel) -> CellBatch:
        if not any(self.extra_masking):
            return batch
        _, rows, columns = batch.code.shape
        most = torch.tensor(self.extra_masking, device=batch.code.device)
        uniform = partial(torch.rand, generator=model.generator, device=most.device)
        share = uniform(model.n_members, rows, 1) * most.view(-1, 1, 1)
        hidden = uniform(model.n_members, rows, columns) < share
        code = torch.where(hidden & batch.present, MASKINGS[self.masked_as], batch.code)
        return replace(batch, code=code)
