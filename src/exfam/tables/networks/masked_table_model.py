"""A table's model: a network, the laws of the columns, and rows as users have them."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.experts import LinearAttention
from exfam.families import Family
from exfam.randomness import RandomPart
from exfam.tables.networks.batch import MASKED, CellBatch, TableRows
from exfam.tables.networks.column_heads import ColumnLaw, LawBank
from exfam.tables.networks.deep import DeepTableNetwork
from exfam.tables.networks.linear import LinearTableNetwork
from exfam.tables.networks.table_model import TableCells, TableColumns

__all__ = ["MaskedTableModel"]

_NUMBERS_AT_ONCE = 4_000_000


class MaskedTableModel(RandomPart):
    """p(cell | the other cells of its row that are there), for every column of a table.

    `n_members`: networks side by side
    `masked_columns`: places of columns whose absent cells are shown as MASK tokens; those of all
        others are not there at all
    """

    def __init__(
        self,
        network: LinearTableNetwork | DeepTableNetwork,
        *,
        schema: TableColumns,
        laws: Sequence[ColumnLaw],
        masked_columns: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.network, self.schema = network, schema
        self.n_members = network.n_members
        self.bank = LawBank(laws)
        self.masked_columns = list(masked_columns)

    @property
    def laws(self) -> tuple[ColumnLaw, ...]:
        """One a column."""
        return self.bank.laws

    @property
    def targets(self) -> list[int]:
        """Places of the columns that can be predicted: dates are inputs alone."""
        return [k for k, column in enumerate(self.schema.columns) if not column.input_only]

    @property
    def families(self) -> tuple[Family, ...]:
        """The family of each column's value, in the value's own unit."""
        return tuple(law.own for law in self.laws)

    def rows(
        self,
        cells: TableCells,
        weight: Float64[np.ndarray, "*members rows"] | None = None,
        *,
        generator: np.random.Generator | None = None,
    ) -> TableRows:
        """Cells as a source of batches in the unit of the laws.

        With a `generator` each member has an order of the rows of its own.
        """
        orders = None
        if generator is not None:
            orders = np.stack([generator.permutation(len(cells)) for _ in range(self.n_members)])
        center = np.array([law.center for law in self.laws])
        scale = np.array([law.scale for law in self.laws])
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
        """Nats of each target's value, given the cells of `shown`; 0 where it is not known."""
        eta = self(shown, targets)
        places = list(targets)
        told = self.bank.log_prob(eta, batch.value[..., places], targets)
        return torch.where(batch.present[..., places], told, 0.0)

    def log_prob_by_scale(
        self, batch: CellBatch, targets: Sequence[int], log_scales: Sequence[float]
    ) -> Float[Tensor, "scales members batch targets"]:
        """As `log_prob`, with each of these added to the log of the targets' scales.

        Laws without a scale are as they are.
        """
        eta, places = self(batch, targets), list(targets)
        has_scale = [self.laws[target].has_scale for target in targets]
        wider = torch.zeros_like(eta[0, 0])
        if any(has_scale):
            wider[:, 1] = torch.tensor(has_scale).to(wider)
        value, present = batch.value[..., places], batch.present[..., places]
        nats = [self.bank.log_prob(eta + each * wider, value, targets) for each in log_scales]
        return torch.where(present, torch.stack(nats), 0.0)

    @torch.no_grad()
    def widen(self, target: int, log_scale: float) -> None:
        """Add to the log of a column's scale in all rows, if its law has a scale."""
        if self.laws[target].has_scale:
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
        self, cells: TableCells, targets: Sequence[int]
    ) -> list[Float[Tensor, "members rows _params"]]:
        """For each target column, float64 parameters of its law, one set a member and row.

        Each is given all cells of the row that are present, but never the target's own.
        """
        self.eval()
        families = self.families
        out = [
            torch.empty(self.n_members, len(cells), families[t].n_params, dtype=torch.float64)
            for t in targets
        ]
        if not out:
            return []
        for rows, batch in self.chunks(cells, len(targets)):
            told = self(batch, targets)
            for place, target in enumerate(targets):
                own = told[:, :, place, : families[target].n_params]
                out[place][:, rows] = own.double().cpu()
        return out

    def chunks(self, cells: TableCells, n_targets: int) -> Iterator[tuple[slice, CellBatch]]:
        """All rows in order, as many at a time as fit into memory for that many targets."""
        rows = self.rows(cells)
        n_columns = cells.code.shape[1]
        each = self.n_members * n_columns * (n_targets * 8 + 64)
        size = max(1, _NUMBERS_AT_ONCE // each)
        device = next(self.parameters()).device
        for first in range(0, len(cells), size):
            part = slice(first, min(first + size, len(cells)))
            yield part, rows.pad(np.arange(part.start, part.stop)).to(device)

    def linear_attention(self, member: int = 0) -> LinearAttention:
        """All weights of one member, in the standardized unit.

        Raises ExfamError for a network with layer norm or ReLU.
        """
        if not isinstance(self.network, LinearTableNetwork):
            raise ExfamError(
                "`network` must be 'linear' for the expert view, got a network with layer norm and "
                "ReLU, where a sum over experts is not exact. Fit with network='linear'."
            )
        return self.network.linear_attention(member)
