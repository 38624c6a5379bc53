"""All cells of a table, encoded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of all rows, by the columns of a schema.

    `code`: the token of a cell; -1 where it is absent: missing, or a label that training did
        not have
    `fraction`: in [0, 1), how far the cell lies from its token towards the next one; 0 for labels
        and bins
    `value`: the number itself, in its own unit, or the code of a label; NaN where absent

    Indexed by a slice, indices or a boolean array of rows it gives the cells of these rows.
    """

    code: Int32[np.ndarray, "rows columns"]
    fraction: Float32[np.ndarray, "rows columns"]
    value: Float64[np.ndarray, "rows columns"]

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, rows: slice | Sequence[int] | np.ndarray) -> "Cells":
        return Cells(self.code[rows], self.fraction[rows], self.value[rows])

    @property
    def present(self) -> Bool[np.ndarray, "rows columns"]:
        """Whether a cell is there."""
        return self.code >= 0

    def where(self, shown: np.ndarray) -> "Cells":
        """The cells for which `shown` is True, the others absent."""
        return self.replaced(~shown, Cells.absent(1, self.code.shape[1]))

    def replaced(self, where: np.ndarray, other: "Cells") -> "Cells":
        """The same cells, where `where` is True those of `other`."""
        return Cells(
            np.where(where, other.code, self.code),
            np.where(where, other.fraction, self.fraction),
            np.where(where, other.value, self.value),
        )

    def hide(self, columns: Sequence[int] | np.ndarray) -> "Cells":
        """The same cells with those of the columns of these indices absent."""
        return self.where(~np.isin(np.arange(self.code.shape[1]), np.asarray(columns)))

    def columns(self, columns: Sequence[int]) -> "Cells":
        """The cells of the columns of these indices, in this order."""
        return Cells(self.code[:, columns], self.fraction[:, columns], self.value[:, columns])

    @staticmethod
    def absent(n_rows: int, n_columns: int) -> "Cells":
        """Rows without any cell."""
        shape = (n_rows, n_columns)
        return Cells(
            np.full(shape, -1, np.int32), np.zeros(shape, np.float32), np.full(shape, np.nan)
        )

    @staticmethod
    def concatenate(parts: Sequence["Cells"]) -> "Cells":
        """The rows of all parts, one after another; all of one schema."""
        return Cells(
            np.concatenate([part.code for part in parts]),
            np.concatenate([part.fraction for part in parts]),
            np.concatenate([part.value for part in parts]),
        )
