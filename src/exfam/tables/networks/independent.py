"""The table model that reads no context: every column has one distribution."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Family
from exfam.tables.data import Cells, TableSchema


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """A table model whose distribution of a column is the same in every row.

    `marginals`: the parameters of each column's distribution, float64
    """

    schema: TableSchema
    families: tuple[Family, ...]
    marginals: tuple[Float[Tensor, " _params"], ...]

    def eta(self, cells: Cells, targets: Sequence[int]) -> list[Float[Tensor, "1 rows _params"]]:
        """The marginal parameters of each target, repeated for each row."""
        return [self.marginals[target].expand(1, len(cells), -1) for target in targets]


def independent_columns(
    cells: Cells, *, schema: TableSchema, families: Sequence[Family]
) -> IndependentColumns:
    """The distributions that fit each column's present cells as one sample.

    Raises ExfamError if a column has no cell that its family can produce.
    """
    marginals = []
    for column, family in enumerate(families):
        value = torch.from_numpy(cells.value[:, column].copy())
        marginals.append(family.initial_eta(value[~value.isnan()]).double())
    return IndependentColumns(schema, tuple(families), tuple(marginals))
