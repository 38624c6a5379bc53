"""The table model that reads no context: every column has one law."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Family
from exfam.tables.networks.table_model import TableCells, TableColumns

__all__ = ["IndependentColumns", "independent_columns"]


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """A table model whose law of a column is the same in every row: what others must beat.

    `marginals`: the parameters of each column's law, float64

    >>> from exfam.tables.data.schema import TableSchema
    >>> IndependentColumns(TableSchema(()), families=(), marginals=()).families
    ()
    """

    schema: TableColumns
    families: tuple[Family, ...]
    marginals: tuple[Float[Tensor, " _params"], ...]

    def eta(
        self, cells: TableCells, targets: Sequence[int]
    ) -> list[Float[Tensor, "1 rows _params"]]:
        """The marginal parameters of each target, repeated for each row."""
        return [self.marginals[place].expand(1, len(cells), -1) for place in targets]


def independent_columns(
    cells: TableCells, *, schema: TableColumns, families: Sequence[Family]
) -> IndependentColumns:
    """The laws that fit each column's present cells as one sample (see Family.initial_eta).

    Raises ExfamError if a column has no cell that its family can produce.

    >>> import numpy as np
    >>> from exfam.tables.data.cells import Cells
    >>> from exfam.tables.data.columns import Column
    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.families import Categorical
    >>> code = np.array([[0], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), code.astype(float))
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> model = independent_columns(cells, schema=schema, families=[Categorical(2)])
    >>> model.families[0].probs(model.eta(cells, [0])[0])[0, 0].tolist()
    [0.5, 0.5]
    """
    marginals = []
    for place, family in enumerate(families):
        value = torch.from_numpy(cells.value[:, place].copy())
        marginals.append(family.initial_eta(value[~value.isnan()]).double())
    return IndependentColumns(schema, tuple(families), tuple(marginals))
