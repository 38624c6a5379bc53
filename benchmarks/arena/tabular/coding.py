"""Cells as numbers: codes of texts for trees, or a matrix of features for all else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

Matrix = Float[np.ndarray, "rows columns"]


@dataclass(frozen=True, eq=False)
class Coder:
    """Numbers as they are and codes of texts; NaN for what is missing or new."""

    texts: Mapping[str, Sequence[str]]

    def codes(self, cells: pd.DataFrame) -> Matrix:
        columns = [self._codes(cells[name], name) for name in cells.columns]
        return np.column_stack(columns)

    def places(self, cells: pd.DataFrame) -> list[int]:
        """Which columns are texts."""
        return [index for index, name in enumerate(cells.columns) if name in self.texts]

    def _codes(self, column: pd.Series, name: str) -> np.ndarray:
        if name not in self.texts:
            return column.to_numpy(dtype=np.float64)
        codes = pd.Categorical(column, categories=self.texts[name]).codes.astype(np.float64)
        return np.where(codes < 0, np.nan, codes)


def learn_coder(cells: pd.DataFrame) -> Coder:
    """The texts of each column that has some."""
    is_text = [name for name in cells.columns if not pd.api.types.is_numeric_dtype(cells[name])]
    return Coder({name: sorted(cells[name].dropna().unique()) for name in is_text})
