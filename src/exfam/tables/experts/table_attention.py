"""Table networks of one linear attention layer: each cell of a row is an expert."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from exfam.checks import DataError
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
from exfam.tables.data.cells import Cells
from exfam.tables.data.schema import TableSchema

__all__ = ["TableAttention"]


@dataclass(frozen=True, eq=False)
class TableAttention:
    """One member of a linear table network, and how cells are its tokens.

    Its outputs are logits of labels and bins, and parameters of other laws in the unit in which
    the network was trained: that of standardized values.

    Columns have tokens of their own, one column's after another's, if the network has as many
    tokens as all columns together; else they share them. An absent cell of the columns in
    `mask_absent` is a MASK token; any other is no part of its sentence. Targets are names of
    columns; their places in tensors are in the order given. A column with fewer outputs than
    another has rows of zeros after its own. Raises DataError for an unknown name.

    >>> import numpy as np
    >>> from exfam.tables.data.columns import Column
    >>> from exfam.experts import random_network
    >>> columns = [Column(name, "categorical", labels=np.arange(3)) for name in "abc"]
    >>> network = random_network(torch.Generator().manual_seed(0), n_tokens=9)
    >>> table = TableAttention(network, TableSchema(tuple(columns)))
    >>> code = np.array([[0, 2, -1]], np.int32)
    >>> cells = Cells(code, np.zeros((1, 3), np.float32), code.astype(float))
    >>> table.sentences(cells).token.tolist()
    [[0, 5, 0]]
    >>> table.experts(cells, ["c"]).logits.shape
    torch.Size([1, 1, 4])
    """

    attention: LinearAttention
    schema: TableSchema
    mask_absent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.places(self.mask_absent)
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

    def places(self, names: Sequence[str]) -> list[int]:
        """Where the columns of these names are. Raises DataError for an unknown one."""
        return [self.schema.place(name) for name in names]

    def sentences(self, cells: Cells) -> Sentences:
        """The rows as sentences of tokens."""
        code = torch.from_numpy(cells.code.astype("int64"))
        masked = torch.zeros_like(code, dtype=torch.bool)
        hidden = self.places(self.mask_absent)
        masked[:, hidden] = code[:, hidden] < 0
        return Sentences(code, torch.from_numpy(cells.fraction.copy()), self.first, masked)

    def experts(self, cells: Cells, targets: Sequence[str]) -> Experts:
        """Weights and contributions of each cell to the outputs of each target column."""
        return as_experts(self.attention, self.sentences(cells), self.places(targets))

    def scores(self, cells: Cells, targets: Sequence[str]) -> ScoreComponents:
        """The four components of each cell's score."""
        return score_components(self.attention, self.sentences(cells), self.places(targets))

    def similarities(self, cells: Cells, targets: Sequence[str]) -> SimilarityComponents:
        """The four components of each cell's contribution."""
        return similarity_components(self.attention, self.sentences(cells), self.places(targets))

    def row_blocks(self, n_rows: int, *, n_targets: int) -> list[slice]:
        """Slices of rows, one after another, whose contributions fit in memory."""
        network = self.attention
        each = n_targets * network.n_heads * network.n_positions * network.readout.shape[1]
        size = max(1, _MAX_NUMBERS // max(1, each))
        return [slice(first, first + size) for first in range(0, n_rows, size)]


# Numbers in the largest array at a time.
_MAX_NUMBERS = 4_000_000
