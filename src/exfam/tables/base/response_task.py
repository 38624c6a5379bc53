"""What the model of one column is fitted to, and which rows are held out meanwhile."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from exfam.tables.base.encode import TableCode
from exfam.tables.base.views import GaussianFill
from exfam.tables.data import Cells

# Of fewer rows none is held out.
FEWEST_ROWS = 4


@dataclass(frozen=True)
class Members:
    """Which members a model has beside its linear predictors.

    `sized`: whether held rows choose how large trees are; else the number of rows says it, and
        trees are fewer, of larger steps
    """

    network: bool = True
    trees: bool = True
    sized: bool = True


@dataclass(frozen=True, eq=False)
class ResponseTask:
    """What one column's model is fitted to: rows that have a response.

    `n_labels`: of labels; `ordered`: whether they have an order
    `held`: which rows each fold holds out; a fold that holds all is fitted to all
    `later`: of rows in the order of time the last ones, by which members fitted to those before are
        pooled; None pools by the rows that folds hold out
    `time`: the table's column of it, by whose last number later rows are known; without one all
        rows to come are later
    `scales`: on which of `unit.SCALES` numbers may be known
    """

    code: TableCode
    fill: GaussianFill
    cells: Cells
    y: Float64[np.ndarray, "rows"]
    weight: Float64[np.ndarray, "rows"]
    n_labels: int | None
    held: Bool[np.ndarray, "folds rows"]
    later: Bool[np.ndarray, "rows"] | None = None
    ordered: bool = False
    scales: tuple[str, ...] = ("identity",)
    time: int | None = None

    @property
    def held_by(self) -> list[Bool[np.ndarray, "rows"]]:
        """Which rows each fit holds out: those of the folds, and of the rows in order."""
        return [*self.held] if self.later is None else [*self.held, self.later]


def held_by_fold(
    n_rows: int, *, random: np.random.Generator, in_order: bool = False
) -> Bool[np.ndarray, "folds rows"]:
    """Which rows each fold holds out: of few rows each once, of many two fifths or one.

    `in_order`: whole stretches of rows, for rows in the order of time
    """
    if n_rows < FEWEST_ROWS:
        return np.ones((1, n_rows), dtype=bool)
    n_parts = min(n_rows, 4 if 1500 <= n_rows < 3000 else 5)
    part = np.arange(n_rows) * n_parts // n_rows
    if not in_order:
        part = random.permutation(part)
    n_folds = n_parts if n_rows < 3000 else (2 if n_rows < 15_000 else 1)
    return np.stack([part == n_parts - 1 - k for k in range(n_folds)])


def later_rows(n_rows: int) -> Bool[np.ndarray, "rows"] | None:
    """The last third of rows in the order of time; None of too few."""
    return np.arange(n_rows) >= n_rows * 2 // 3 if n_rows >= FEWEST_ROWS else None
