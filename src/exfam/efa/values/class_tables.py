"""How often items have their classes, and sums of that over the other cells of a group."""

from dataclasses import dataclass, replace
from typing import no_type_check

import numpy as np
from jaxtyping import Float64
from numba import njit

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.features import ValueFeatures

# How many cells the margin counts as in an item's table.
_MARGIN_CELLS = 10.0


@dataclass(frozen=True, eq=False)
class ClassTable:
    """Shares of classes overall, and of every item; the last row is that of unseen items."""

    margin: Float64[np.ndarray, "classes"]
    share: Float64[np.ndarray, "items classes"]

    def add_features(
        self, features: ValueFeatures, cells: ValueCells, *, causal: bool
    ) -> ValueFeatures:
        """Fill in `others`, `expected` and `share`; values of `cells` are classes from 0 on."""
        n_items = len(self.share) - 1
        rows = np.where((cells.item >= 0) & (cells.item < n_items), cells.item, n_items)
        shape = (cells.n_cells, len(self.margin))
        others, expected = np.zeros(shape), np.zeros(shape)
        classes = np.where(cells.observed, cells.value, -1).astype(np.int64)
        _sum_others(cells.offset, rows, classes, self.share, causal, others, expected)
        return replace(features, others=others, expected=expected, share=self.share[rows])


def class_table(cells: ValueCells, n_items: int, n_classes: int) -> ClassTable:
    """Counted from training cells, whose values are classes from 0 on."""
    cells = cells.only_observed()
    code = cells.item * n_classes + cells.value.astype(np.int64)
    count = np.bincount(code, minlength=n_items * n_classes).reshape(n_items, n_classes)
    margin = (count.sum(0) + 1.0) / (count.sum() + n_classes)
    count = np.vstack([count, np.zeros(n_classes)])
    share = (count + _MARGIN_CELLS * margin) / (count.sum(1, keepdims=True) + _MARGIN_CELLS)
    return ClassTable(margin, share)


@njit(cache=True, nogil=True)
@no_type_check
def _sum_others(offset, rows, classes, share, causal, others, expected):
    n_classes = share.shape[1]
    seen, wanted = np.empty(n_classes), np.empty(n_classes)
    for u in range(len(offset) - 1):
        seen[:] = 0.0
        wanted[:] = 0.0
        for n in range(offset[u], offset[u + 1]):
            for k in range(n_classes):
                others[n, k], expected[n, k] = seen[k], wanted[k]
            if classes[n] >= 0:
                seen[classes[n]] += 1.0
                for k in range(n_classes):
                    wanted[k] += share[rows[n], k]
        if causal:
            continue
        for n in range(offset[u], offset[u + 1]):
            for k in range(n_classes):
                others[n, k], expected[n, k] = seen[k], wanted[k]
            if classes[n] >= 0:
                others[n, classes[n]] -= 1.0
                for k in range(n_classes):
                    expected[n, k] -= share[rows[n], k]
