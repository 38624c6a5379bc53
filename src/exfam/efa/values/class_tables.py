"""How often items have certain values, and sums of that over the other cells of a group."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.features import ValueFeatures


@dataclass(frozen=True)
class Counted:
    """What a table counts: some values, or bins between edges, the outer ones open.

    `numbers`: the values, or the edges, increasing. `margin_cells`: how many cells the margin
    counts as in an item's shares.
    """

    numbers: tuple[float, ...]
    margin_cells: float
    are_edges: bool = False

    @property
    def n(self) -> int:
        """How many are counted."""
        return len(self.numbers) + self.are_edges

    def index(self, value: Float64[np.ndarray, "cells"]) -> Int64[np.ndarray, "cells"]:
        """Which one each value is, -1 for others and NaN. An edge lies in the lower bin."""
        numbers = np.array(self.numbers)
        at = np.searchsorted(numbers, value).astype(np.int64)
        if self.are_edges:
            return np.where(np.isnan(value), -1, at)
        at = at.clip(max=self.n - 1)
        return np.where(numbers[at] == value, at, -1)


@dataclass(frozen=True, eq=False)
class ClassTable:
    """Shares of what is counted, overall and of every item; the last row is of unseen items."""

    counted: Counted
    margin: Float64[np.ndarray, "classes"]
    share: Float64[np.ndarray, "items classes"]

    def index(self, value: Float64[np.ndarray, "cells"]) -> Int64[np.ndarray, "cells"]:
        """See `Counted.index`."""
        return self.counted.index(value)

    def add_features(
        self, features: ValueFeatures, cells: ValueCells, *, causal: bool
    ) -> ValueFeatures:
        """Fill in `others`, `expected` and `share`."""
        from exfam.kernels.value_passes import sum_others

        n_items = len(self.share) - 1
        rows = np.where((cells.item >= 0) & (cells.item < n_items), cells.item, n_items)
        shape = (cells.n_cells, len(self.margin))
        others, expected = np.zeros(shape), np.zeros(shape)
        own = self.index(cells.value)
        sum_others(cells.offset, rows, own, self.share, causal, others, expected)
        return replace(features, others=others, expected=expected, share=self.share[rows])


def class_table(cells: ValueCells, n_items: int, counted: Counted) -> ClassTable:
    """Counted from training cells."""
    n, own = counted.n, counted.index(cells.value)
    code = (cells.item * n + own)[own >= 0]
    count = np.bincount(code, minlength=n_items * n).reshape(n_items, n)
    margin = (count.sum(0) + 1.0) / (count.sum() + n)
    count = np.vstack([count, np.zeros(n)])
    weight = counted.margin_cells
    share = (count + weight * margin) / (count.sum(1, keepdims=True) + weight)
    return ClassTable(counted, margin, share)
