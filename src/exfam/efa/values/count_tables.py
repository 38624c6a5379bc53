"""How often exact values occurred: overall, of an item, and among the other cells of a group."""

from dataclasses import dataclass
from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int64
from numba import njit

from exfam.efa.values.cells import ValueCells

# How many cells the margin counts as beside an item's and a group's own counts.
_FOR_ITEM, _FOR_GROUP = 5.0, 1.0
N_ATOMS = 3


@dataclass(frozen=True, eq=False)
class CountTable:
    """Training values overall, sorted, and of items: `keys` are item * size + rank of the value."""

    values: Float64[np.ndarray, "values"]
    cumulative: Float64[np.ndarray, "bounds"]
    keys: Int64[np.ndarray, "cells"]
    offset: Int64[np.ndarray, "items_and_bounds"]

    @property
    def n_items(self) -> int:
        """Items in the table; one more row, without values, stands for all others."""
        return len(self.offset) - 2

    def item_count(self, item: Int64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """How many training values an item has."""
        return np.diff(self.offset)[self._row(item)].astype(np.float64)

    def margin_below(self, value: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
        """The share of training values up to `value`."""
        return self.cumulative[np.searchsorted(self.values, value, side="right")]

    def margin_at(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The share of training values equal to `value`."""
        left = np.searchsorted(self.values, value, side="left")
        return self.margin_below(value) - self.cumulative[left]

    def item_below(
        self, item: Int64[np.ndarray, "cells"], value: Float64[np.ndarray, "cells"]
    ) -> Float64[np.ndarray, "cells"]:
        """How many of the item's training values are at most `value`."""
        row, rank = self._row(item), np.searchsorted(self.values, value, side="right")
        found = np.searchsorted(self.keys, row * (len(self.values) + 1) + rank, side="left")
        return (found - self.offset[row]).astype(np.float64)

    def item_at(
        self, item: Int64[np.ndarray, "cells"], value: Float64[np.ndarray, "cells"]
    ) -> Float64[np.ndarray, "cells"]:
        """How many of the item's training values equal `value`."""
        # Values are whole numbers.
        return self.item_below(item, value) - self.item_below(item, value - 1)

    def _row(self, item: Int64[np.ndarray, "cells"]) -> Int64[np.ndarray, "cells"]:
        return np.where((item >= 0) & (item < self.n_items), item, self.n_items)


def count_table(cells: ValueCells, n_items: int) -> CountTable:
    """Counted from training cells, whose values are whole numbers."""
    cells = cells.only_observed()
    values, rank, count = np.unique(cells.value, return_inverse=True, return_counts=True)
    cumulative = np.concatenate([[0.0], np.cumsum(count) / max(cells.n_cells, 1)])
    keys = np.sort(cells.item * (len(values) + 1) + rank)
    per_item = np.append(np.bincount(cells.item, minlength=n_items), 0)
    offset = np.concatenate([[0], np.cumsum(per_item)]).astype(np.int64)
    return CountTable(values, cumulative, keys.astype(np.int64), offset)


def count_others(
    cells: ValueCells, value: Float64[np.ndarray, "cells"], *, causal: bool, equal: bool
) -> Float64[np.ndarray, "cells"]:
    """How many others of the group, or earlier ones, have at most, or exactly, a cell's `value`."""
    found = np.empty(cells.n_cells)
    _count(cells.offset, cells.value, value, causal, equal, found)
    return found


@njit(cache=True, nogil=True)
@no_type_check
def _count(offset, own, value, causal, equal, found):
    for u in range(len(offset) - 1):
        low, high = offset[u], offset[u + 1]
        for n in range(low, high):
            total = 0
            for j in range(low, n if causal else high):
                if j != n and (own[j] == value[n] if equal else own[j] <= value[n]):
                    total += 1
            found[n] = total


def atom_probabilities(
    table: CountTable,
    cells: ValueCells,
    value: Float64[np.ndarray, "cells"],
    n_context: Float64[np.ndarray, "cells"],
    *,
    causal: bool,
    below: bool = False,
) -> Float64[np.ndarray, "cells three"]:
    """Of one value a cell, by the margin, the item and the group's others; or of at most it."""
    if below:
        margin, of_item = table.margin_below(value), table.item_below(cells.item, value)
    else:
        margin, of_item = table.margin_at(value), table.item_at(cells.item, value)
    others = count_others(cells, value, causal=causal, equal=not below)
    item = (of_item + _FOR_ITEM * margin) / (table.item_count(cells.item) + _FOR_ITEM)
    group = (others + _FOR_GROUP * margin) / (n_context + _FOR_GROUP)
    return np.column_stack([margin, item, group])


def atom_means(
    table: CountTable,
    cells: ValueCells,
    n_context: Float64[np.ndarray, "cells"],
    transformed: Float64[np.ndarray, "values"],
    others: Float64[np.ndarray, "cells"],
) -> Float64[np.ndarray, "cells three"]:
    """Means of a function of the value, by the same three.

    `transformed` is the function of the table's values, `others` its sum over the group's others.
    """
    margin = float(np.diff(table.cumulative) @ transformed)
    row, rank = np.divmod(table.keys, len(table.values) + 1)
    total = np.bincount(row, transformed[rank], table.n_items + 1)
    count, index = table.item_count(cells.item), table._row(cells.item)
    item = (total[index] + _FOR_ITEM * margin) / (count + _FOR_ITEM)
    group = (others + _FOR_GROUP * margin) / (n_context + _FOR_GROUP)
    return np.column_stack([np.full(cells.n_cells, margin), item, group])
