"""The face that every model of table rows shows, and what it reads of a table.

Tables are made by `exfam.tables.data`; a model reads only the arrays and names told here.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32, Float64, Int32
from torch import Tensor

from exfam.families import Family

__all__ = ["TableCells", "TableColumn", "TableColumns", "TableModel"]


@runtime_checkable
class TableColumn(Protocol):
    """What a model may know of one column: `kind` is one of exfam.tables.data.columns.KINDS.

    >>> isinstance("a name", TableColumn)
    False
    """

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def kind(self) -> str:
        """How its values are to be read."""

    @property
    def n_tokens(self) -> int:
        """How many embeddings its cells choose from."""

    @property
    def knots(self) -> Float64[np.ndarray, " knots"] | None:
        """Of numbers and counts, where its tokens lie; with `binned`, the edges between them."""

    @property
    def binned(self) -> bool:
        """Whether numbers enter as bins."""

    @property
    def input_only(self) -> bool:
        """Whether nothing is predicted of it."""

    @property
    def center(self) -> float:
        """Mean of a column of numbers."""

    @property
    def scale(self) -> float:
        """Standard deviation of a column of numbers."""


@runtime_checkable
class TableColumns(Protocol):
    """The columns of a table, in order.

    >>> isinstance(["a name"], TableColumns)
    False
    """

    @property
    def columns(self) -> Sequence[TableColumn]:
        """All of them."""

    @property
    def names(self) -> Sequence[str]:
        """Their names."""

    def place(self, name: str) -> int:
        """Where the column of this name is."""


@runtime_checkable
class TableCells(Protocol):
    """Encoded rows. A cell is absent where its code is -1; its value is NaN then.

    >>> isinstance([0, 1], TableCells)
    False
    """

    @property
    def code(self) -> Int32[np.ndarray, "rows columns"]:
        """The token of each cell."""

    @property
    def fraction(self) -> Float32[np.ndarray, "rows columns"]:
        """How far the cell lies from its token towards the next, in [0, 1)."""

    @property
    def value(self) -> Float64[np.ndarray, "rows columns"]:
        """The number that the families know: the code of a label, or the number itself."""

    def __len__(self) -> int:
        """Number of rows."""


@runtime_checkable
class TableModel(Protocol):
    """The law of each cell of a row given those of its other cells that are present.

    `schema`: the columns that it knows
    `families`: one a column, the law of that column's `value`

    >>> from exfam.families import Categorical
    >>> isinstance(Categorical(2), TableModel)
    False
    """

    @property
    def schema(self) -> TableColumns:
        """The columns that it knows."""

    @property
    def families(self) -> tuple[Family, ...]:
        """One a column."""

    def eta(
        self, cells: TableCells, targets: Sequence[int]
    ) -> list[Float[Tensor, "members rows _params"]]:
        """For each target column, float64 parameters of its family, one set a member and row.

        Each is given all cells of the row that are present, but never the target's own: the
        other targets of the same call are visible to it.
        """
