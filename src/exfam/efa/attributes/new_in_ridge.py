"""Ridge scores of items that no group of the fit holds, from items that are like them.

With shares w of the old items that a new one is like, P the precision of the old ones and n their
counts, the new item has

    P_new,j = sum of v_k P_kj over k other than j / (1 - v_j),   v_k proportional to w_k / P_kk,
    1 / P_new,new = (sum of w_k / P_kk) * n_new / (sum of w_k n_k).

Its score then weighs each item of the context as the old items' scores do together, in proportion
to how popular it is, and the scores of all others take it as they take the old items on average:
an item is never compared to itself. The enlarged precision is a precision like any other, so that
what leaves an element out of its own context does so for new items too.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64

from exfam.efa.base.ridge import RidgeItems, precision_dtype

_LEAST = 1e-9
# What scores of new items and those from them are multiplied by: they are guesses.
STRENGTH = 0.6


@dataclass(frozen=True, eq=False)
class NewItems:
    """Items to be taken in: their codes, the shares of old items, and how often they would occur.

    `share`: of codes of the enlarged catalog, 0 for the new items themselves.
    """

    codes: Int64[np.ndarray, "new"]
    share: Float[np.ndarray, "new items"]
    count: Float[np.ndarray, "new"]


def without_items(base: RidgeItems, hidden: Int64[np.ndarray, "hidden"]) -> RidgeItems:
    """The base of a regression that these items take no part in; their codes stay.

    Exact: the inverse of a part of a matrix is a Schur complement in its inverse.
    """
    row = base.row.cpu().numpy()
    gone = row[hidden][row[hidden] >= 0]
    keep = np.setdiff1d(np.arange(len(base.precision)), gone)
    precision = base.precision.cpu().to(precision_dtype(len(base.precision)))
    kept, across = precision[keep][:, keep], precision[keep][:, gone]
    kept = kept - across @ torch.linalg.solve(precision[gone][:, gone], across.T)
    new_row = np.full(len(precision) + 1, -1)  # the last entry is that of items without a row
    new_row[keep] = np.arange(len(keep))
    without = _ridge(base, kept, new_row[row], base.count.cpu())
    if base.classes is not None:
        # What all classes hold alike says nothing of them.
        chance = base.classes.probability.cpu().clone()
        chance[hidden] = chance[hidden].mean((1, 2), keepdim=True)
        without.classes = base.classes.with_probability(chance)
    return without


def with_new_items(base: RidgeItems, new: NewItems, *, n_items: int) -> RidgeItems:
    """The base of an enlarged catalog; codes of old items stay."""
    row, count = np.full(n_items, -1), torch.zeros(n_items)
    row[: base.n_items], count[: base.n_items] = base.row.cpu().numpy(), base.count.cpu()
    n_old, order = len(base.precision), np.flatnonzero(row >= 0)
    share = np.zeros((len(new.codes), n_old))
    share[:, row[order]] = new.share[:, order]
    mean_count = new.share @ count.double().numpy()
    cross, diagonal = _like_old_ones(base, share, new.count / np.maximum(mean_count, _LEAST))
    enlarged = torch.zeros(n_old + len(new.codes), n_old + len(new.codes))
    enlarged[:n_old, :n_old] = base.precision.cpu()
    enlarged[n_old:] = torch.from_numpy(STRENGTH * cross).float()
    enlarged[:n_old, n_old:] = enlarged[n_old:, :n_old].T
    enlarged.diagonal()[n_old:] = torch.from_numpy(diagonal).float()
    row[new.codes] = n_old + np.arange(len(new.codes))
    count[new.codes] = torch.from_numpy(new.count).float()
    larger = _ridge(base, enlarged, row, count)
    larger.n_counted = base.n_counted
    if base.classes is not None:
        old = base.classes.probability.cpu()
        like = torch.from_numpy(new.share[:, : len(old)]).to(old) @ old.flatten(1)
        by_count = torch.from_numpy(new.count / np.maximum(mean_count, _LEAST)).to(old)
        chance = old.new_zeros(n_items, *old.shape[1:])
        chance[: len(old)] = old
        chance[new.codes] = (like * by_count[:, None]).clamp_min(_LEAST).view(-1, *old.shape[1:])
        larger.classes = base.classes.with_probability(chance)
    return larger


def _like_old_ones(
    base: RidgeItems,
    share: Float[np.ndarray, "new covered"],
    frequency: Float[np.ndarray, "new"],
) -> tuple[Float[np.ndarray, "new all"], Float[np.ndarray, "new"]]:
    """Rows of the precision for new items, the diagonal apart; `frequency`: by that of old ones."""
    # Few old items have a share in a new one: sparse products.
    precision = base.precision.cpu().to(precision_dtype(len(base.precision))).numpy()
    own = np.diagonal(precision)
    share = share / np.maximum(share.sum(1, keepdims=True), _LEAST)
    rest = share / own
    weight = rest / np.maximum(rest.sum(1, keepdims=True), _LEAST)
    held = scipy.sparse.csr_array(weight.astype(precision.dtype))
    together = held @ precision
    cross = (together - weight * own) / np.maximum(1 - weight, _LEAST)
    among = (held @ together.T).T - (held * own) @ held.T
    among /= np.maximum(1 - (held @ held.T).toarray(), _LEAST)
    diagonal = 1 / np.maximum(rest.sum(1) * frequency, _LEAST)
    return np.concatenate([cross, among], axis=1), diagonal


def _ridge(
    base: RidgeItems,
    precision: Float[torch.Tensor, "covered covered"],
    row: Int64[np.ndarray, "items"],
    count: Float[torch.Tensor, "items"],
) -> RidgeItems:
    """With the numbers of a base, on its device; rows in the order of the items' codes."""
    covered = np.flatnonzero(row >= 0)
    order, in_order = row[covered], np.full(len(row), -1)
    in_order[covered] = np.arange(len(covered))
    if (np.diff(order) < 0).any():
        precision = precision[order][:, order]
    ridge = RidgeItems(
        precision.float().contiguous(),
        row=torch.from_numpy(in_order),
        count=count,
        numbers=base.numbers.cpu().clone(),
    )
    ridge.least_size = base.least_size
    return ridge.to(base.precision.device).eval()
