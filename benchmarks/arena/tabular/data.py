"""Tables with a response, and the cells of rows that tasks hide."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int64, Shaped

COMPLETE, COLUMNS = "complete", "columns"
# Shares of the cells that are missing at random, one task each.
SHARES = {COMPLETE: 0.0, "10 %": 0.1, "30 %": 0.3, "50 %": 0.5}
# In the last task whole columns are missing, one of so many.
TASKS = (*SHARES, COLUMNS)
COLUMNS_PER_MISSING = 3
N_FIFTHS = 5

Response = Shaped[np.ndarray, "rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Cells of rows, texts or numbers, and the response: a code of a label, or a number."""

    cells: pd.DataFrame
    response: Response

    def take(self, index: Int64[np.ndarray, "kept"] | Bool[np.ndarray, "rows"]) -> "Rows":
        return Rows(
            self.cells[index] if index.dtype == bool else self.cells.iloc[index],
            self.response[index],
        )

    def __len__(self) -> int:
        return len(self.response)


@dataclass(frozen=True, eq=False)
class Shown:
    """What a task shows of rows: hidden cells are missing."""

    cells: pd.DataFrame
    task: str


@dataclass(frozen=True, eq=False, kw_only=True)
class TableData:
    """A table, split. `labels`: of the response's codes, None where it is a number.

    `ordered`: whether labels are numbers in order
    `left_out`: how many test rows are left out since training lacks their labels
    `in_order`: whether rows are in the order of time, and test rows the last ones
    """

    train: Rows
    test: Rows
    labels: Shaped[np.ndarray, "labels"] | None = None
    ordered: bool = False
    left_out: int = 0
    in_order: bool = False

    @property
    def n_items(self) -> int:
        return self.train.cells.shape[1]

    @property
    def n_labels(self) -> int | None:
        return None if self.labels is None else len(self.labels)

    @property
    def missing(self) -> list[str]:
        """The columns that the last task lacks."""
        return missing_columns(self.train.cells)

    def sizes(self) -> dict[str, Any]:
        """What a table says of the data: groups are rows, items columns, elements cells."""
        parts = {"train": self.train, "test": self.test}
        return {
            "n_items": self.n_items,
            "groups": {name: len(part) for name, part in parts.items()},
            "elements": {name: int(part.cells.count().sum()) for name, part in parts.items()},
            "left_out": {},
            "new_labels": self.left_out,
            "n_labels": self.n_labels,
            "ordered": self.ordered,
            "missing_columns": self.missing,
        }


def missing_columns(cells: pd.DataFrame) -> list[str]:
    """A third of the columns, drawn with seed 0."""
    n_columns = cells.shape[1]
    order = np.random.default_rng(0).permutation(n_columns)
    gone = np.sort(order[: max(1, round(n_columns / COLUMNS_PER_MISSING))])
    return cells.columns[gone].tolist()


def shown(cells: pd.DataFrame, task: str, *, seed: int) -> Shown:
    """The rows as the task shows them; what a larger share shows, a smaller one does as well."""
    if task == COLUMNS:
        hidden = np.broadcast_to(cells.columns.isin(missing_columns(cells)), cells.shape)
    else:
        hidden = np.random.default_rng(seed).random(cells.shape) < SHARES[task]
    return Shown(cells.mask(hidden), task)


def fifths(response: np.ndarray, *, by_label: bool, seed: int) -> Int64[np.ndarray, "rows"]:
    """A number from 0 to 4 for each row, at random; with labels, equally many within each."""
    order = np.random.default_rng(seed).permutation(len(response))
    if by_label:
        order = order[np.argsort(response[order], kind="stable")]
    fifth = np.empty(len(response), dtype=np.int64)
    fifth[order] = np.arange(len(response)) % N_FIFTHS
    return fifth
