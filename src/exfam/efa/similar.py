"""Items that stand for each other, and groups that have such items: cosines of vectors.

The vector of an item is what calls for it, in the model at hand: the weights that all other items
have in its score (ridge, item-kNN and EASE), else its center vector (attention, latent factors; of
values the loadings), else what the others lift it by, in nats (transitions alone). On simulated
themes, and on the genres of MovieLens, weights were nearer to the truth than lifts or pairs that
call for each other, and center vectors of attention nearer than its context vectors. In its own
score an item has the weight of the weightiest other, without which items of small themes, that call
for each other, would be alike in too little. The vector of a group is the mean of its items' unit
vectors, by which two halves of what a person likes find each other at least as often as by
probabilities of the next item, or hidden states.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Int64

from exfam.checks import ExfamError, check_whole
from exfam.columns.label_index import LabelIndex, index_of
from exfam.columns.results import PlottedResult
from exfam.efa.base.known import inner_base
from exfam.efa.base.linear import LinearItems
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.networks.based import BasedItems, network_of
from exfam.efa.networks.based_values import BasedValues, loadings
from exfam.efa.networks.efa_network import EFANetwork
from exfam.efa.networks.factor_network import LatentFactorItems, LatentFactorValues
from exfam.efa.recommend import item_codes, item_lifts
from exfam.efa.requests import requests_of
from exfam.groups import Groups
from exfam.groups.arrange import group_of_elements

# Items up to which all are compared with all by lifts.
MANY_ITEMS = 10_000
# Cosines that are held at a time.
_AT_ONCE = 4_000_000
# Rows, dense or sparse.
Vectors = Any


@dataclass(frozen=True, eq=False, repr=False)
class Similar(PlottedResult):
    """What is most similar to each item or group, the most similar first.

    `of`: its label; `labels`: the similar ones', None where there are no more; `similarity`:
    cosines in [-1, 1], NaN where there are no more; `by`: what they are cosines of.
    """

    kind: str
    of: np.ndarray
    labels: np.ndarray
    similarity: Float[np.ndarray, "of k"]
    by: str

    picture = "similar_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `item` or `group`, `rank` (from 1), `similar` and `similarity`."""
        n, k = self.similarity.shape
        there = ~np.isnan(self.similarity.ravel())
        columns = {
            self.kind: np.repeat(self.of, k),
            "rank": np.tile(np.arange(1, k + 1), n),
            "similar": self.labels.ravel(),
            "similarity": self.similarity.ravel(),
        }
        return {name: column[there] for name, column in columns.items()}

    def headline(self) -> str:
        """Of what, and by what."""
        n = f"{len(self.of):,}"
        return f"{type(self).__name__}: {self.kind}s like each of {n}, by cosines of {self.by}"


def similar_items(model: Any, items: Any, *, k: int) -> Similar:
    """The `k` items most similar to one, or to each of several; see `GroupEstimator`."""
    check_whole("k", k)
    items_of = item_directions(model)
    index = index_of(model._vocabulary, "item")
    is_list = isinstance(items, list | tuple | np.ndarray)
    listed = (
        list(items.tolist() if isinstance(items, np.ndarray) else items) if is_list else [items]
    )
    codes = item_codes(model._vocabulary, listed)
    rows = items_of.rows_of(codes)
    nearest, cosine = _nearest(items_of.queries(rows), items_of, own=rows, k=int(k))
    if items_of.item is not None:
        # Fewer have vectors: the others are similar to none.
        more = ((0, 0), (0, min(int(k), len(index.labels) - 1) - nearest.shape[1]))
        nearest = np.pad(
            np.where(nearest < 0, -1, items_of.item[nearest]), more, constant_values=-1
        )
        cosine = np.pad(cosine, more, constant_values=np.nan)
    return Similar("item", index.labels[codes], index.names_of(nearest), cosine, items_of.by)


def similar_groups(model: Any, groups: Groups, among: Groups | None, *, k: int) -> Similar:
    """The `k` groups `among` others that are most similar to each; see `GroupEstimator`."""
    check_whole("k", k)
    items_of = item_directions(model)
    by = f"means of items' {items_of.by}"
    own = Directions.of(_means(groups, items_of), by)
    others = own if among is None else Directions.of(_means(among, items_of), by)
    names, other_names = (
        np.arange(len(some)) if some.group_names is None else some.group_names
        for some in (groups, groups if among is None else among)
    )
    same = np.arange(len(groups)) if among is None else None
    nearest, cosine = _nearest(own.vectors, others, own=same, k=int(k))
    return Similar("group", names, LabelIndex(other_names).names_of(nearest), cosine, by)


@dataclass(frozen=True, eq=False)
class Directions:
    """Vectors of length 1, or 0 where `is_there` is False, and what they are.

    `item`: codes of the items that the rows are of, ascending; None for all items
    """

    vectors: Vectors
    by: str
    is_there: Bool[np.ndarray, "rows"]
    item: Int64[np.ndarray, "rows"] | None = None

    @classmethod
    def of(
        cls, vectors: Vectors, by: str, *, item: Int64[np.ndarray, "rows"] | None = None
    ) -> "Directions":
        """The directions of vectors."""
        unit = _unit(vectors)
        return cls(unit, by, np.asarray(abs(unit).sum(1)).ravel() > 0, item)

    def rows_of(self, codes: Int64[np.ndarray, "items"]) -> Int64[np.ndarray, "items"]:
        """The rows of items by their codes, -1 for those without one."""
        if self.item is None or not len(self.item):
            return codes if self.item is None else np.full_like(codes, -1)
        row = np.minimum(np.searchsorted(self.item, codes), len(self.item) - 1)
        return np.where(self.item[row] == codes, row, -1)

    def queries(self, rows: Int64[np.ndarray, "items"]) -> Vectors:
        """Their vectors, of row -1 zeros."""
        if self.item is None:
            return self.vectors[rows]
        there = (rows >= 0)[:, None]
        return self.vectors[rows] * there if len(self.vectors) else np.zeros((len(rows), 0))

    def size(self) -> int:
        """In bytes."""
        if not scipy.sparse.issparse(self.vectors):
            return int(self.vectors.nbytes)
        parts = (self.vectors.data, self.vectors.indices, self.vectors.indptr)
        return sum(part.nbytes for part in parts)


def item_directions(model: Any) -> Directions:
    """Of the vectors of the items, which the model keeps.

    Raises ExfamError for models in which all items are alike, and of too many items for lifts.
    """
    model._check_fitted()
    compute = partial(_item_directions, model)
    return requests_of(model).result("directions", model.members_, compute, size=Directions.size)


def _item_directions(model: Any) -> Directions:
    first = model.members_[0]
    part: Any = first.item_part
    base = inner_base(part.base) if isinstance(part, BasedItems) else None
    if isinstance(base, LinearItems):
        return Directions.of(_weights(base), "weights")
    if isinstance(base, RidgeItems):
        vectors, item = _partial_correlations(base)
        return Directions.of(vectors, "ridge weights", item=item)
    part = network_of(first.item_part) or first.item_part or first.value_part
    if isinstance(part, EFANetwork | LatentFactorItems | LatentFactorValues):
        return Directions.of(model.item_vectors_, "center vectors")
    if isinstance(part, BasedValues) and model.schema_.n_items:
        return Directions.of(loadings(part, model.schema_.n_items), "loadings")
    if base is not None:
        return Directions.of(_lifts(model), "lifts")
    raise ExfamError(
        f"`similar_items` needs a model that knows items apart, got {type(model).__name__}. Fit "
        "EFA, LatentFactor, EASE or ItemKNN to data with items."
    )


def _weights(base: LinearItems) -> scipy.sparse.csr_array:
    """Weights of all items in the score of each, of itself the largest one."""
    weights = scipy.sparse.csr_array(base.weights.T)
    largest = np.asarray(weights.max(axis=1).todense()).ravel()
    return scipy.sparse.csr_array(weights + scipy.sparse.diags_array(largest))


def _partial_correlations(
    base: RidgeItems,
) -> tuple[Float[np.ndarray, "covered columns"], Int64[np.ndarray, "covered"]]:
    """-P_ij / sqrt(P_ii P_jj) of items that are covered, and their codes.

    Of an item with itself it is the row's largest.
    """
    row, precision = base.row.cpu().numpy(), base.precision.cpu().numpy()
    spread = np.sqrt(np.diag(precision))
    partial = -precision / np.outer(spread, spread)
    np.fill_diagonal(partial, -np.inf)
    np.fill_diagonal(partial, partial.max(1, initial=0.0))
    item = np.flatnonzero(row >= 0)
    return partial[row[item]].astype(np.float32), item


def _lifts(model: Any) -> Float[np.ndarray, "items items"]:
    """How much each other item lifts an item, in nats, a row for each lifted one."""
    n_items = int(model.schema_.n_items or 0)
    if n_items > MANY_ITEMS:
        raise ExfamError(
            f"`similar_items` compares lifts of at most {MANY_ITEMS:,} items, got {n_items:,}. Fit "
            "with attention, which has vectors, or ItemKNN."
        )
    table = np.zeros((n_items, n_items), dtype=np.float32)
    for own, lift in item_lifts(model.members_, model.schema_):
        table[:, own] = lift.T
    return table


def _unit(vectors: Vectors) -> Vectors:
    """Rows of length 1, or of 0 where there is nothing."""
    if scipy.sparse.issparse(vectors):
        norm = np.sqrt(np.asarray(vectors.multiply(vectors).sum(1)).ravel())
        scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
        return scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ vectors)
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norm, out=np.zeros_like(vectors), where=norm > 0)


def _means(groups: Groups, items_of: Directions) -> Vectors:
    """Of each group, the sum of its items' vectors; 0 without known items."""
    if groups.item is None:
        raise ExfamError("`X` must have items for similar groups, got none. Name the item column.")
    item = groups.item[groups.elements()].astype(np.int64)
    item = np.where(item < 0, -1, items_of.rows_of(item))
    group = group_of_elements(groups)
    known = item >= 0
    pairs = (np.ones(int(known.sum()), dtype=np.float32), (group[known], item[known]))
    held = scipy.sparse.csr_array(pairs, shape=(len(groups), items_of.vectors.shape[0]))
    return held @ items_of.vectors


def _largest(numbers: Float[np.ndarray, "rows columns"], k: int) -> Int64[np.ndarray, "rows k"]:
    """Columns of the `k` largest numbers of each row, in order; equal ones as they come."""
    if len(numbers) * 4 * k > numbers.shape[1] or np.isnan(numbers).any():
        return np.argsort(-numbers, axis=1, kind="stable")[:, :k]
    best = np.empty((len(numbers), k), dtype=np.int64)
    for row, own in enumerate(numbers):
        among = np.flatnonzero(own >= np.partition(own, -k)[-k])
        best[row] = among[np.argsort(-own[among], kind="stable")[:k]]
    return best


def _nearest(
    queries: Vectors, among: Directions, *, own: Int64[np.ndarray, "queries"] | None, k: int
) -> tuple[Int64[np.ndarray, "queries k"], Float[np.ndarray, "queries k"]]:
    """Rows of the largest cosines with each query but its `own` row; -1 and NaN where none are."""
    n_queries, n_others = queries.shape[0], len(among.is_there)
    k = min(k, n_others - (own is not None))
    nearest = np.full((n_queries, max(k, 0)), -1)
    largest = np.full(nearest.shape, np.nan)
    for first in range(0, n_queries if k > 0 else 0, max(1, _AT_ONCE // max(1, n_others))):
        rows = slice(first, min(n_queries, first + max(1, _AT_ONCE // n_others)))
        cosine: Any = queries[rows] @ among.vectors.T
        cosine = cosine.toarray() if scipy.sparse.issparse(cosine) else np.array(cosine)
        cosine[:, ~among.is_there] = -np.inf
        cosine[np.asarray(abs(queries[rows]).sum(1)).ravel() == 0] = -np.inf
        if own is not None:
            cosine[np.arange(len(cosine)), own[rows]] = -np.inf
        best = _largest(cosine, k)
        some = np.take_along_axis(cosine, best, axis=1)
        nearest[rows] = np.where(np.isfinite(some), best, -1)
        largest[rows] = np.where(np.isfinite(some), np.clip(some, -1, 1), np.nan)
    return nearest, largest
