"""What questions to a table need of a model, and the model that reads no context."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Family
from exfam.tables.data import Cells, TableSchema


@runtime_checkable
class TableModel(Protocol):
    """The distribution of each cell of a row given those of its other cells that are present."""

    @property
    def schema(self) -> TableSchema:
        """The columns that it knows."""

    @property
    def families(self) -> tuple[Family, ...]:
        """One per column: the family of the column's `Cells.value`."""

    def eta(
        self, cells: Cells, targets: Sequence[int]
    ) -> list[Float[Tensor, "members rows _params"]]:
        """For each target column, float64 parameters of its family by member and row.

        Given all cells of the row that are present, but never the target's own.
        """


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """A table model whose distribution of a column is the same in every row."""

    schema: TableSchema
    families: tuple[Family, ...]
    marginals: tuple[Float[Tensor, " _params"], ...]

    def eta(self, cells: Cells, targets: Sequence[int]) -> list[Float[Tensor, "1 rows _params"]]:
        return [self.marginals[target].expand(1, len(cells), -1) for target in targets]


def independent_columns(
    cells: Cells, *, schema: TableSchema, families: Sequence[Family]
) -> IndependentColumns:
    """The distributions that fit each column's present cells as one sample."""
    marginals = []
    for column, family in enumerate(families):
        value = torch.from_numpy(cells.value[:, column].copy())
        marginals.append(family.initial_eta(value[~value.isnan()]).double())
    return IndependentColumns(schema, tuple(families), tuple(marginals))
