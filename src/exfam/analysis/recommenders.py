"""Baselines that rank the catalog from the items of a group: popularity, item-kNN, EASE.

Each is linear in the context: the score of item d is `bias[d]` plus the sum of `weights[j, d]`
over the distinct items j of the context. A target's context is all other elements of its group
(`bidirectional`) or the earlier ones (`causal`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int64

from exfam.analysis.scores import ranks
from exfam.checks import DataError, check_choice, check_positive
from exfam.groups import Groups

__all__ = ["LinearRecommender", "ease", "item_knn", "popularity"]

_ENTRIES_AT_ONCE = 4_000_000
# Ties, such as those of an empty context, go to the more popular item: a weak baseline flatters us.
_TIE_BREAK = 1e-9


@dataclass(frozen=True, eq=False)
class LinearRecommender:
    """Scores of all items, linear in which items the context holds."""

    bias: Float[np.ndarray, "items"]
    weights: Float[np.ndarray, "items items"]

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
        return np.concatenate(parts) if parts else np.empty((0, len(self.bias)))

    def ranks(
        self, groups: Groups, *, direction: str = "bidirectional", exclude: bool = False
    ) -> Float[np.ndarray, "targets"]:
        """Rank of every target's own item among all items, 1 the first; memory stays bounded.

        >>> train = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 0, 2])
        >>> popularity(train).ranks(train)
        array([1. , 2.5, 1. , 2.5])
        """
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
            scores = self.bias + present @ self.weights
            if exclude:
                scores[present] = -np.inf
            yield scores, item


def popularity(groups: Groups) -> LinearRecommender:
    """Scores items by the number of groups that hold them.

    >>> popularity(Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 0, 2])).bias
    array([2., 1., 1.])
    """
    together = _together(groups)
    return LinearRecommender(together.diagonal().copy(), np.zeros_like(together))


def item_knn(groups: Groups, *, n_neighbors: int = 20) -> LinearRecommender:
    """Scores an item by its cosine with those of its nearest neighbors that the context holds.

    The vector of an item says which groups hold it.

    >>> knn = item_knn(Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 0, 2]))
    >>> knn.weights[0].round(3)
    array([0.   , 0.707, 0.707])
    """
    check_positive("n_neighbors", n_neighbors)
    together = _together(groups)
    norms = np.sqrt(together.diagonal())
    scale = np.maximum(norms[:, None] * norms, 1.0)
    cosine = together / scale
    np.fill_diagonal(cosine, 0.0)
    if n_neighbors < len(norms):
        far = np.argpartition(-cosine, n_neighbors - 1, axis=0)[n_neighbors:]
        np.put_along_axis(cosine, far, 0.0, axis=0)
    return LinearRecommender(_tie_break(together), cosine)


def ease(groups: Groups, *, ridge: float = 100.0) -> LinearRecommender:
    """EASE: the items x items ridge regression of what a group holds on the rest of it.

    Source: Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data.

    >>> ease(Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 0, 2]), ridge=1.0).weights[1].round(3)
    array([ 0.5, 0. , -0.2])
    """
    check_positive("ridge", ridge)
    together = _together(groups)
    regularized = together + ridge * np.eye(len(together))
    inverse = np.linalg.inv(regularized)
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0.0)
    return LinearRecommender(_tie_break(together), weights)


def _tie_break(together: Float[np.ndarray, "items items"]) -> Float[np.ndarray, "items"]:
    held = together.diagonal()
    return _TIE_BREAK * held / max(held.max(initial=0.0), 1.0)


def _together(groups: Groups) -> Float[np.ndarray, "items items"]:
    """How many groups hold both of two items; on the diagonal, how many hold one."""
    if groups.item is None:
        raise DataError("`groups` must have items, got none. Name the item column.")
    element = groups.elements()
    item = groups.item[element]
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    known = item >= 0
    held = scipy.sparse.csr_array(
        (np.ones(known.sum()), (group[known], item[known])), shape=(len(groups), groups.n_items)
    )
    held.data[:] = 1.0  # an item held twice is held
    return (held.T @ held).toarray()


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
) -> tuple[Bool[np.ndarray, "targets items"], Int64[np.ndarray, "targets"]]:
    """Which items the context of each target holds, and the target's own item."""
    batch = groups.pad(np.arange(len(groups)))
    assert batch.item is not None
    item = np.where(batch.present.numpy(), batch.item.numpy(), -1)
    target = batch.target.numpy()
    seen = np.zeros((*item.shape, n_items), dtype=np.int32)
    np.put_along_axis(seen, np.maximum(item, 0)[..., None], (item >= 0)[..., None], axis=2)
    if direction == "causal":
        context = np.cumsum(seen, axis=1, dtype=seen.dtype) - seen
    else:
        context = seen.sum(axis=1, keepdims=True, dtype=seen.dtype) - seen
    return context[target] > 0, item[target]
