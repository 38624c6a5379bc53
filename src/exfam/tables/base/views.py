"""The same rows with fewer and fewer cells: what members are fitted to and pooled by."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from exfam.tables.base.encode import TableCode
from exfam.tables.base.fill import GaussianFill
from exfam.tables.base.pool import SHARES
from exfam.tables.data import Cells

# Shares of the cells that are hidden in a row of training, drawn anew for each.
_HIDDEN_SHARES = (0.1, 0.2, 0.35, 0.5, 0.75)
_N_MASKED = 3


@dataclass(frozen=True, eq=False)
class View:
    """Rows as members see them: features of linear predictors, and numbers for trees."""

    features: Float64[np.ndarray, "rows features"]
    for_trees: Float64[np.ndarray, "rows columns_and_count"]
    share_missing: Float64[np.ndarray, "rows"]

    def __getitem__(self, rows: np.ndarray) -> "View":
        return View(self.features[rows], self.for_trees[rows], self.share_missing[rows])


def view_of(code: TableCode, fill: GaussianFill, cells: Cells) -> View:
    """The rows as they are, missing cells filled in."""
    missing = code.missing(cells)
    filled = fill(code.numbers(cells))
    share = missing.mean(1) if missing.shape[1] else np.zeros(len(cells))
    return View(code.features(filled, missing), code.for_trees(filled, cells), share)


def training_views(
    code: TableCode, fill: GaussianFill, cells: Cells, *, random: np.random.Generator
) -> list[View]:
    """The rows as they are, and three times with cells hidden, at a rate drawn for each row."""
    n_rows = len(cells)
    views = [view_of(code, fill, cells)]
    for _ in range(_N_MASKED):
        rate = random.choice(_HIDDEN_SHARES, size=(n_rows, 1))
        views.append(view_of(code, fill, _hidden(code, cells, rate, random)))
    return views


def held_views(
    code: TableCode,
    fill: GaussianFill,
    cells: Cells,
    *,
    random: np.random.Generator,
    shares: Sequence[float] = SHARES[1:],
) -> list[View]:
    """The rows with each of these shares of their cells hidden."""
    return [view_of(code, fill, _hidden(code, cells, share, random)) for share in shares]


def _hidden(
    code: TableCode,
    cells: Cells,
    rate: float | Float64[np.ndarray, "rows 1"],
    random: np.random.Generator,
) -> Cells:
    shown = np.ones(cells.value.shape, dtype=bool)
    shown[:, list(code.columns)] = random.random((len(cells), len(code.columns))) >= rate
    return cells.where(shown)
