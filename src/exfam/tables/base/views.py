"""Rows as members see them, missing numbers filled in, and with fewer and fewer cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.linalg.lapack import dposv

from exfam.tables.base.encode import TableCode
from exfam.tables.base.pool import SHARES
from exfam.tables.data import Cells

# How far the correlations are shrunk to none: by numbers per row, at most half, plus a little.
_MOST_SHRINKAGE, _LEAST_SHRINKAGE = 0.5, 0.02
_LEAST_SPREAD = 1e-6
_TINY = 1e-200
# Of more numbers a system of equations for each row takes minutes: all are solved together.
_MANY_NUMBERS, _MOST_STEPS, _PRECISION = 400, 200, 1e-9

# Shares of the cells that are hidden in a row of training, drawn anew for each.
_HIDDEN_SHARES = (0.1, 0.2, 0.35, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class GaussianFill:
    """Means, spreads and shrunk correlations of all numbers of a row."""

    mean: Float64[np.ndarray, " numbers"]
    spread: Float64[np.ndarray, " numbers"]
    correlation: Float64[np.ndarray, "numbers numbers"]

    def __call__(
        self, numbers: Float64[np.ndarray, "rows numbers"]
    ) -> Float64[np.ndarray, "rows numbers"]:
        """The rows with each NaN replaced by its conditional mean given the row's others."""
        z = (numbers - self.mean) / self.spread
        missing = np.isnan(z)
        filled = np.where(missing, 0.0, z)
        rows = np.flatnonzero(missing.any(1))
        if z.shape[1] > _MANY_NUMBERS and len(rows):
            filled[rows] = _filled_together(self.correlation, filled[rows], ~missing[rows])
            return np.where(missing, filled * self.spread + self.mean, numbers)
        for pattern, own in _by_pattern(missing[rows]):
            absent, seen = pattern.nonzero()[0], (~pattern).nonzero()[0]
            if len(seen):
                # All eigenvalues are positive; scipy.linalg.solve takes five times as long.
                with_seen = self.correlation[seen]
                _, weights, _ = dposv(with_seen[:, seen], with_seen[:, absent])
                row = rows[own][:, None]
                filled[row, absent] = z[row, seen] @ weights
        return np.where(missing, filled * self.spread + self.mean, numbers)

    def without(self, dropped: Bool[np.ndarray, " numbers"]) -> "GaussianFill":
        """The joint Gaussian of the other numbers."""
        kept = ~dropped
        return GaussianFill(
            self.mean[kept], self.spread[kept], self.correlation[np.ix_(kept, kept)]
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean, "spread": self.spread, "correlation": self.correlation}


def _filled_together(
    correlation: Float64[np.ndarray, "numbers numbers"],
    z: Float64[np.ndarray, "rows numbers"],
    seen: Bool[np.ndarray, "rows numbers"],
) -> Float64[np.ndarray, "rows numbers"]:
    """Conditional means of the numbers that are not `seen`, by conjugate gradients of all rows."""
    weights, rest = np.zeros_like(z), np.where(seen, z, 0.0)
    direction, size = rest, (rest**2).sum(1)
    enough = np.maximum(_PRECISION**2 * size, _TINY)
    for _ in range(_MOST_STEPS):
        if (size <= enough).all():
            break
        curved = np.where(seen, direction @ correlation, 0.0)
        step = (size / np.maximum((direction * curved).sum(1), _TINY))[:, None]
        weights, rest = weights + step * direction, rest - step * curved
        before, size = size, (rest**2).sum(1)
        direction = rest + (size / np.maximum(before, _TINY))[:, None] * direction
    filled: np.ndarray = weights @ correlation
    return filled


def _by_pattern(
    missing: Bool[np.ndarray, "rows numbers"],
) -> list[tuple[Bool[np.ndarray, " numbers"], Int64[np.ndarray, " own"]]]:
    """Which numbers are missing, and the rows that miss just these."""
    if not len(missing):
        return []
    packed = np.packbits(missing, axis=1)
    _, first, index = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(index, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(index))[:-1])
    return [(missing[k], rows) for k, rows in zip(first, groups, strict=True)]


def learn_fill(numbers: Float64[np.ndarray, "rows numbers"]) -> GaussianFill:
    """The joint Gaussian of rows with gaps: correlations of the pairs that are there, shrunk."""
    present = ~np.isnan(numbers)
    count = np.maximum(present.sum(0), 1)
    mean = np.where(present, numbers, 0.0).sum(0) / count
    centered = np.where(present, numbers - mean, 0.0)
    spread = np.sqrt((centered**2).sum(0) / count)
    spread = np.where(spread > _LEAST_SPREAD, spread, 1.0)
    z, seen = centered / spread, present.astype(np.float64)
    pairs = np.maximum(seen.T @ seen, 1.0)
    correlation = np.clip(z.T @ z / pairs, -1.0, 1.0)
    n_rows, n_numbers = numbers.shape
    shrinkage = min(_MOST_SHRINKAGE, n_numbers / max(n_rows, 1)) + _LEAST_SHRINKAGE
    correlation = (1 - shrinkage) * correlation
    np.fill_diagonal(correlation, 1.0)
    return GaussianFill(mean, spread, _positive(correlation, least=_LEAST_SHRINKAGE / 2))


def _positive(correlation: np.ndarray, *, least: float) -> np.ndarray:
    """The nearest matrix without eigenvalues below `least`: pairs with gaps may make some."""
    if not len(correlation):
        return correlation
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= least:
        return correlation
    positive: np.ndarray = (vectors * np.maximum(values, least)) @ vectors.T
    return positive


@dataclass(frozen=True, eq=False)
class View:
    """Rows as members see them: features of linear predictors, and numbers for trees.

    `plain`: numbers in units of their spread, and what is missing, without steps
    `missing`: the columns without a cell; `share_missing`: by `TableCode.share_missing`
    `outside`: how far numbers lie beyond those of training, in their units
    """

    features: Float64[np.ndarray, "rows features"]
    for_trees: Float64[np.ndarray, "rows columns_and_count"]
    plain: Float64[np.ndarray, "rows numbers_and_columns"]
    missing: Bool[np.ndarray, "rows columns"]
    outside: Float64[np.ndarray, "rows"]
    share_missing: Float64[np.ndarray, "rows"]

    def __getitem__(self, rows: np.ndarray) -> "View":
        return View(*(part[rows] for part in vars(self).values()))

    def widened(self, numbers: Float64[np.ndarray, "rows more"]) -> "View":
        """With more numbers, after those of all members."""
        parts = {name: getattr(self, name) for name in ("features", "for_trees", "plain")}
        return replace(self, **{name: np.hstack([own, numbers]) for name, own in parts.items()})


@dataclass(frozen=True, eq=False)
class PartView:
    """A view of some rows alone, by their index among all."""

    view: View
    position: Int64[np.ndarray, "rows"]

    def __getitem__(self, rows: np.ndarray) -> View:
        return self.view[self.position[rows]]


def view_of(code: TableCode, fill: GaussianFill, cells: Cells) -> View:
    """The rows as they are, missing cells filled in."""
    value = code.values(cells)
    missing, filled = np.isnan(value), fill(code.numbers(value))
    parts = (
        code.features(filled, missing),
        code.for_trees(filled, value),
        code.plain(filled, missing),
    )
    return View(*parts, missing, code.outside(filled, missing), code.share_missing(missing))


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


def without_new_labels(
    code: TableCode, cells: Cells, held: Sequence[Bool[np.ndarray, "rows"]]
) -> Cells:
    """Cells without labels of held rows that no other row has, as labels of new rows will be.

    `held`: by fold; one that holds all rows has no others
    """
    shown = np.ones(cells.value.shape, dtype=bool)
    columns = np.array(code.columns, dtype=np.int64)[code.is_label]
    for own in held:
        for k in columns if not own.all() else ():
            value = cells.value[:, k]
            shown[own, k] &= np.isin(value[own], value[~own])
    return cells.where(shown)


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
