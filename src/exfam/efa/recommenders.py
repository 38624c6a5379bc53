"""Baselines that rank the catalog from the items of a group: popularity, item-kNN, EASE.

Each is linear in the context: the score of item d is `bias[d]` plus the sum of `weights[j, d]`
over the distinct items j of the context. A target's context is all other elements of its group
(`bidirectional`) or the earlier ones (`causal`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64

from exfam.checks import DataError, check_choice, check_positive
from exfam.efa.base.sets import held_items, indicator
from exfam.groups import Groups
from exfam.scores.metrics import ranks

_ENTRIES_AT_ONCE = 4_000_000
# EASE inverts a dense items x items array: three of them, 8 bytes a number, are held at a time.
_MOST_ITEMS_OF_EASE = 20_000
# Ties, such as those of an empty context, go to the more popular item: a weak baseline flatters us.
_TIE_BREAK = 1e-9


@dataclass(frozen=True, eq=False)
class LinearRecommender:
    """Scores of all items, linear in which items the context holds.

    `weights` is sparse where most of it is 0: large catalogs take little memory.
    """

    bias: Float[np.ndarray, "items"]
    weights: Float[np.ndarray, "items items"] | scipy.sparse.csr_array

    def scores(
        self, groups: Groups, *, direction: str = "bidirectional", exclude: bool = False
    ) -> Float[np.ndarray, "targets items"]:
        """Score of every item for every target, in the order of the groups' elements.

        With `exclude`, items of the context score -infinity. Elements that are no targets are
        context only; items of code -1 are no context.
        Raises DataError if the groups hold items that were not there in training.

        >>> train = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 0, 2])
        >>> popularity(train).scores(train[:1], exclude=True)
        array([[  2., -inf,   1.],
               [-inf,   1.,   1.]])
        """
        parts = [scores for scores, _ in self._parts(groups, direction, exclude)]
        return np.concatenate([np.empty((0, len(self.bias))), *parts])

    def ranks(
        self, groups: Groups, *, direction: str = "bidirectional", exclude: bool = False
    ) -> Float[np.ndarray, "targets"]:
        """Rank of every target's own item among all items, 1 the first; memory stays bounded."""
        parts = [ranks(*part) for part in self._parts(groups, direction, exclude)]
        return np.concatenate([np.empty(0), *parts])

    def _parts(
        self, groups: Groups, direction: str, exclude: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Scores and items of the targets, some groups at a time."""
        check_choice("direction", direction, ["bidirectional", "causal"])
        n_items = len(self.bias)
        if groups.item is None or groups.item.max(initial=-1) >= n_items:
            held = "no items" if groups.item is None else f"code {groups.item.max()}"
            raise DataError(
                f"`groups` must hold item codes below {n_items}, got {held}. "
                f"Encode them with the vocabulary of the training groups."
            )
        for some in _slices(groups, most=max(1, _ENTRIES_AT_ONCE // n_items)):
            present, item = _contexts(some, n_items, direction)
            added = present @ self.weights
            scores = self.bias + (added.toarray() if scipy.sparse.issparse(added) else added)
            if exclude:
                scores[present.nonzero()] = -np.inf
            yield scores, item


def popularity(groups: Groups) -> LinearRecommender:
    """Scores items by the number of groups that hold them."""
    count = _held(groups).sum(axis=0)
    return LinearRecommender(count, scipy.sparse.csr_array((len(count), len(count))))


def item_knn(groups: Groups, *, n_neighbors: int = 20, shrinkage: float = 0.0) -> LinearRecommender:
    """Scores an item by its cosine with those of its nearest neighbors that the context holds.

    The vector of an item says which groups hold it. Memory is that of the neighbors and of some
    items' cosines at a time.

    `shrinkage`: added to the product of the norms, so that items that were seen together once or
        twice are not the nearest of all; for large catalogs
    """
    check_positive("n_neighbors", n_neighbors)
    check_positive("shrinkage", shrinkage, zero=True)
    held = _held(groups)
    count = held.sum(axis=0)
    holders, by_holder = held.T.tocsr(), held.tocsc()
    # As many pairs as an item's groups have items: no fewer than the items it is ever held with.
    pairs = np.cumsum(holders @ held.sum(axis=1))
    columns, first = [], 0
    while first < len(count):
        done = pairs[first - 1] if first else 0.0
        last = max(first + 1, int(np.searchsorted(pairs, done + _ENTRIES_AT_ONCE, side="right")))
        together = (holders @ by_holder[:, first:last]).tocoo()
        kept = together.row != together.col + first
        row, column = together.row[kept], together.col[kept]
        scale = np.sqrt(count[row]) * np.sqrt(count[column + first]) + shrinkage
        cosine = together.data[kept] / scale
        # The largest values of each column.
        order = np.lexsort((-cosine, column))
        row, column, cosine = row[order], column[order], cosine[order]
        near = np.arange(len(column)) - np.searchsorted(column, column) < n_neighbors
        pairs_kept = cosine[near], (row[near], column[near])
        columns.append(scipy.sparse.csc_array(pairs_kept, shape=together.shape))
        first = last
    return LinearRecommender(_tie_break(count), scipy.sparse.hstack(columns, format="csr"))


def ease(groups: Groups, *, ridge: float = 100.0) -> LinearRecommender:
    """EASE: the items x items ridge regression of what a group holds on the rest of it.

    Raises DataError for catalogs whose dense arrays would take too much memory.
    Source: Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data.
    """
    check_positive("ridge", ridge)
    if groups.n_items > _MOST_ITEMS_OF_EASE:
        needed = 3 * 8 * groups.n_items**2 / 1e9
        raise DataError(
            f"`groups` must have at most {_MOST_ITEMS_OF_EASE:,} items for ease, got "
            f"{groups.n_items:,}, whose dense arrays would take {needed:,.0f} GB of memory. "
            "Use item_knn."
        )
    held = _held(groups)
    count = held.sum(axis=0)
    # Items that no group has weigh nothing.
    there = np.flatnonzero(count)
    regularized = torch.from_numpy((held[:, there].T @ held[:, there]).toarray())
    regularized.diagonal().add_(ridge)
    # Symmetric: half the work of another inverse.
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(regularized)).numpy()
    inverse /= -inverse.diagonal()
    np.fill_diagonal(inverse, 0.0)
    weights = inverse
    if len(there) < len(count):
        weights = np.zeros((len(count), len(count)))
        weights[np.ix_(there, there)] = inverse
    return LinearRecommender(_tie_break(count), weights)


def _tie_break(count: Float[np.ndarray, "items"]) -> Float[np.ndarray, "items"]:
    return _TIE_BREAK * count / max(count.max(initial=0.0), 1.0)


def _held(groups: Groups) -> scipy.sparse.csr_array:
    """Groups x items: 1 where a group holds an item."""
    if groups.item is None:
        raise DataError("`groups` must have items, got none. Name the item column.")
    return held_items(groups, groups.n_items)


def _slices(groups: Groups, *, most: int) -> Iterator[Groups]:
    """Runs of groups that take at most `most` elements side by side, or one larger group."""
    first = longest = 0
    for index, length in enumerate(groups.lengths.tolist()):
        longest = max(longest, length)
        if index > first and (index - first + 1) * longest > most:
            yield groups[first:index]
            first, longest = index, length
    if first < len(groups):
        yield groups[first:]


def _contexts(
    groups: Groups, n_items: int, direction: str
) -> tuple[scipy.sparse.csr_array, Int64[np.ndarray, "targets"]]:
    """Which items the context of each target holds, and the target's own item."""
    batch = groups.pad(np.arange(len(groups)))
    assert batch.item is not None
    item = np.where(batch.present.numpy(), batch.item.numpy(), -1)
    target = batch.target.numpy()
    position = np.arange(item.shape[1])
    sees = position < position[:, None] if direction == "causal" else position != position[:, None]
    group, at, seen = np.nonzero(target[:, :, None] & sees & (item >= 0)[:, None, :])
    row = np.cumsum(target.ravel()).reshape(target.shape)[group, at] - 1
    present = indicator(row, item[group, seen], (int(target.sum()), n_items), dtype=np.float64)
    return present, item[target]
