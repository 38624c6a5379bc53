"""The same rows with fewer and fewer cells: what members are fitted to and pooled by."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from exfam.tables.base.encode import TableCode
from exfam.tables.base.fill import GaussianFill
from exfam.tables.base.pool import SHARES
from exfam.tables.data import Cells

# Shares of the cells that are hidden in a row of training, drawn anew for each.
_HIDDEN_SHARES = (0.1, 0.2, 0.35, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class View:
    """Rows as members see them: features of linear predictors, and numbers for trees."""

    features: Float64[np.ndarray, "rows features"]
    for_trees: Float64[np.ndarray, "rows columns_and_count"]
    share_missing: Float64[np.ndarray, "rows"]

    def __getitem__(self, rows: np.ndarray) -> "View":
        return View(self.features[rows], self.for_trees[rows], self.share_missing[rows])

    def widened(self, numbers: Float64[np.ndarray, "rows more"]) -> "View":
        """With more numbers, after the features and after the numbers for trees."""
        return View(
            np.hstack([self.features, numbers]),
            np.hstack([self.for_trees, numbers]),
            self.share_missing,
        )


@dataclass(frozen=True, eq=False)
class PartView:
    """A view of some rows alone, by their index among all."""

    view: View
    position: Int64[np.ndarray, "rows"]

    def __getitem__(self, rows: np.ndarray) -> View:
        return self.view[self.position[rows]]


def view_of(code: TableCode, fill: GaussianFill, cells: Cells) -> View:
    """The rows as they are, missing cells filled in."""
    missing = code.missing(cells)
    filled = fill(code.numbers(cells))
    share = missing.mean(1) if missing.shape[1] else np.zeros(len(cells))
    return View(code.features(filled, missing), code.for_trees(filled, cells), share)


def training_views(
    code: TableCode,
    fill: GaussianFill,
    cells: Cells,
    *,
    random: np.random.Generator,
    n_masked: int,
) -> list[View]:
    """The rows as they are, and with cells hidden, at a rate drawn for each row."""
    n_rows = len(cells)
    views = [view_of(code, fill, cells)]
    for _ in range(n_masked):
        rate = random.choice(_HIDDEN_SHARES, size=(n_rows, 1))
        views.append(view_of(code, fill, _hidden(code, cells, rate, random)))
    return views


def held_views(
    code: TableCode,
    fill: GaussianFill,
    cells: Cells,
    *,
    random: np.random.Generator,
    held: Bool[np.ndarray, "rows"],
) -> list[PartView]:
    """The rows that are held out, with each of SHARES of their cells hidden."""
    rows = np.flatnonzero(held)
    position = np.cumsum(held) - 1
    hidden = [_hidden(code, cells[rows], share, random) for share in SHARES]
    return [PartView(view_of(code, fill, own), position) for own in hidden]


def _hidden(
    code: TableCode,
    cells: Cells,
    rate: float | Float64[np.ndarray, "rows 1"],
    random: np.random.Generator,
) -> Cells:
    shown = np.ones(cells.value.shape, dtype=bool)
    shown[:, list(code.columns)] = random.random((len(cells), len(code.columns))) >= rate
    return cells.where(shown)
