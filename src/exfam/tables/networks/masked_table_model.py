"""A table's model: a network, the families of the columns, and rows as users have them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import ExfamError, check_whole
from exfam.experts import LinearAttention
from exfam.families import Family
from exfam.layers import RandomPart
from exfam.tables.data import Cells, TableSchema
from exfam.tables.networks.batch import MASKED, CellBatch, TableRows
from exfam.tables.networks.linear import LinearTableNetwork
from exfam.tables.networks.standardized import FamilyBank, StandardizedFamily
from exfam.tables.networks.table_network import TableNetwork

_NUMBERS_AT_ONCE = 4_000_000


class MaskedTableModel(RandomPart):
    """p(cell | the other cells of its row that are there), for every column of a table.

    `n_members`: networks side by side
    `masked_columns`: indices of columns whose absent cells are shown as MASK tokens; those of all
        others are not there at all
    """

    def __init__(
        self,
        network: TableNetwork,
        *,
        schema: TableSchema,
        standardized: Sequence[StandardizedFamily],
        masked_columns: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.network, self.schema = network, schema
        self.n_members = network.n_members
        self.bank = FamilyBank(standardized)
        self.masked_columns = list(masked_columns)

    @property
    def targets(self) -> list[int]:
        """Indices of the columns that can be predicted: dates are inputs alone."""
        return [k for k, column in enumerate(self.schema.columns) if not column.input_only]

    @property
    def families(self) -> tuple[Family, ...]:
        """The family of each column's value, in the value's own unit."""
        return tuple(column.own for column in self.bank.standardized)

    def rows(
        self,
        cells: Cells,
        weight: Float64[np.ndarray, "*members rows"] | None = None,
        *,
        generator: np.random.Generator | None = None,
    ) -> TableRows:
        """Cells as a source of batches of standardized values.

        With a `generator` each member has an order of the rows of its own.
        """
        orders = None
        if generator is not None:
            orders = np.stack([generator.permutation(len(cells)) for _ in range(self.n_members)])
        center = np.array([column.center for column in self.bank.standardized])
        scale = np.array([column.scale for column in self.bank.standardized])
        return TableRows(cells, center=center, scale=scale, weight=weight, orders=orders)

    def forward(
        self, batch: CellBatch, targets: Sequence[int]
    ) -> Float[Tensor, "members batch targets params"]:
        """Parameters of the standardized values of the target columns."""
        return self.network(self._shown(batch), targets)

    def weights(
        self, batch: CellBatch, targets: Sequence[int]
    ) -> Float[Tensor, "members layers batch heads targets columns"]:
        """Attention weights of the target columns; a row sums to 1, absent cells have 0."""
        return self.network.weights(self._shown(batch), targets)

    def log_prob(
        self, batch: CellBatch, shown: CellBatch, targets: Sequence[int]
    ) -> Float[Tensor, "members batch targets"]:
        """Nats of each target's value, given the cells of `shown`; 0 where it is absent."""
        eta, columns = self(shown, targets), list(targets)
        nats = self.bank.log_prob(eta, batch.value[..., columns], targets)
        return torch.where(batch.present[..., columns], nats, 0.0)

    def log_prob_by_scale(
        self, batch: CellBatch, targets: Sequence[int], log_scales: Sequence[float]
    ) -> Float[Tensor, "scales members batch targets"]:
        """As `log_prob`, with each of these added to the log of the targets' scales.

        Families without a scale are as they are.
        """
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
        return CellBatch(code, batch.fraction, batch.value, batch.weight)

    @torch.inference_mode()
    def eta(
        self, cells: Cells, targets: Sequence[int]
    ) -> list[Float[Tensor, "members rows _params"]]:
        """For each target column, float64 parameters of its family by member and row."""
        self.eval()
        families = self.families
        out = [
            torch.empty(self.n_members, len(cells), families[t].n_params, dtype=torch.float64)
            for t in targets
        ]
        if not out:
            return []
        for rows, batch in self.chunks(cells, len(targets)):
            eta = self(batch, targets)
            for k, target in enumerate(targets):
                out[k][:, rows] = eta[:, :, k, : families[target].n_params].double().cpu()
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
        """Raise ExfamError for a member that the ensemble does not have."""
        check_whole("member", member, least=0)
        if member >= self.n_members:
            raise ExfamError(f"`member` must be in 0 .. {self.n_members - 1}, got {member}.")

    def linear_attention(self, member: Any = 0) -> LinearAttention:
        """All weights of one member, in the standardized unit.

        Raises ExfamError for a network with layer norm or ReLU, and for a member that is not there.
        """
        self.check_member(member)
        if not isinstance(self.network, LinearTableNetwork):
            raise ExfamError(
                "`network` must be 'linear' for the expert view, got a network with layer norm and "
                "ReLU, where a sum over experts is not exact. Fit with network='linear'."
            )
        return self.network.linear_attention(member)
