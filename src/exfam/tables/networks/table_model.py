"""What questions to a table need of a model."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from exfam.families import Family
from exfam.tables.data import Cells, TableSchema


@runtime_checkable
class TableModel(Protocol):
    """The distribution of each cell of a row given those of its other cells that are present.

    >>> from exfam.families import Categorical
    >>> isinstance(Categorical(2), TableModel)
    False
    """

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

        Each is given all cells of the row that are present, but never the target's own: the
        other targets of the same call are visible to it.
        """
