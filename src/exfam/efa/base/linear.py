"""Scores that are linear in the context, with a link that makes them probabilities.

The score of item j is the sum of `weights[i, j]` over the distinct items i of the context, as in
EASE and item-kNN. With popularity added, a power of it is the probability, over all items,

    p_j ~ (chance(s_j) + kappa pop_j)^c,    chance(s) = softplus(100 s) / 100 or max(s, 0),

with c and log kappa that are lines in the log of how many items the context has. The order of items
is that of the scores, but for what popularity adds: between scores that are nearly the same.
"""

from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.efa.base.ridge_link import LinkInputs, chance_of
from exfam.efa.base.sets import Where, groups_of, indicator
from exfam.groups import Batch

# Sizes of contexts differ up to this, and their logs are counted from that of 4 or 5 items.
MOST_IN_CONTEXT, _MEAN_LOG_SIZE = 1_000, 1.5
# Powers are above 0, so that what has the higher score is more likely.
LEAST_POWER = 0.05
# Of c and log kappa, at a context of 4 or 5 items and by its log size.
LINEAR_START = ((1.5, 0.0), (0.0, 0.0))

# Of items by items, dense or sparse.
Table = Any
Rows = Float[np.ndarray, "rows items"]


class LinearItems(nn.Module):
    """Outputs of every item at every element, from weights between items and a link.

    `weights`: dense, or sparse where most are 0. `smooth`: whether scores may be negative.
    """

    log_popularity: Tensor
    numbers: Tensor

    def __init__(
        self, weights: Table, *, count: Float[np.ndarray, "items"], direction: str, smooth: bool
    ) -> None:
        super().__init__()
        self.direction, self.smooth = direction, smooth
        share = (count + 0.5) / (count + 0.5).sum()
        self.register_buffer("log_popularity", torch.from_numpy(np.log(share)).float())
        self.register_buffer("numbers", torch.tensor(LINEAR_START))
        self.is_sparse = scipy.sparse.issparse(weights)
        if self.is_sparse:
            weights = scipy.sparse.csr_array(weights)
            self.register_buffer("pointer", torch.from_numpy(weights.indptr.astype(np.int64)))
            self.register_buffer("column", torch.from_numpy(weights.indices.astype(np.int64)))
            self.register_buffer("weight", torch.from_numpy(weights.data).float())
        else:
            self.register_buffer("weight", torch.from_numpy(weights).float())

    @classmethod
    def empty(cls, shape: dict[str, Any], *, direction: str, smooth: bool) -> "LinearItems":
        """One whose numbers are to be loaded; `shape`: as `shape()` gives it."""
        n_items, weights = int(shape["n_items"]), None
        base = cls(np.zeros((0, 0)), count=np.zeros(n_items), direction=direction, smooth=smooth)
        if shape["n_entries"] is None:
            weights = torch.zeros(n_items, n_items)
        else:
            weights, base.is_sparse = torch.zeros(int(shape["n_entries"])), True
            base.register_buffer("pointer", torch.zeros(n_items + 1, dtype=torch.int64))
            base.register_buffer("column", torch.zeros(len(weights), dtype=torch.int64))
        base.register_buffer("weight", weights)
        return base

    def shape(self) -> dict[str, int | None]:
        """What an empty one of the same shape is built by."""
        weight: Any = self.weight
        return {"n_items": self.n_items, "n_entries": len(weight) if self.is_sparse else None}

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return len(self.log_popularity)

    @property
    def weights(self) -> Table:
        """Of each item of the context (rows) for each scored one."""
        weight: Any = self.weight.cpu().numpy()  # type: ignore[operator]
        if not self.is_sparse:
            return weight
        column, pointer = (getattr(self, name).cpu().numpy() for name in ("column", "pointer"))
        return scipy.sparse.csr_array((weight, column, pointer), shape=(self.n_items,) * 2)

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        return self.linked(self.link_inputs(batch, where, chosen))

    def linked(self, inputs: LinkInputs) -> Float[Tensor, "rows chosen"]:
        """Outputs of scores, by the equation of this file."""
        line = self.numbers[0] + self.numbers[1] * inputs.log_size[:, None]
        power, log_kappa = line[:, :1].clamp_min(LEAST_POWER), line[:, 1:]
        share = (log_kappa + inputs.log_popularity).exp_()
        return share.add_(self.chance(inputs.score)).log_().mul_(power)

    def chance(self, score: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows chosen"]:
        """Scores as probabilities."""
        return chance_of(score) if self.smooth else score.clamp_min(0.0)

    def link_inputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> LinkInputs:
        """What the outputs of the chosen items at the elements at `where` are made of."""
        batch, where = groups_of(batch, where)
        columns, device = chosen.cpu().numpy(), chosen.device
        score, size = self._sums(batch, where, _as_slice(columns))
        log_size = torch.from_numpy(np.log(np.clip(size, 1, MOST_IN_CONTEXT)) - _MEAN_LOG_SIZE)
        popularity = self.log_popularity[chosen].expand(len(score), -1)
        return LinkInputs(
            torch.from_numpy(score).to(device), popularity, log_size.float().to(device)
        )

    def _sums(
        self, batch: Batch, where: Where, columns: Any
    ) -> tuple[Rows, Int64[np.ndarray, "rows"]]:
        """Scores of some items at some elements, and how many items their contexts have."""
        item, row, position = _known_items(batch), *(part.cpu().numpy() for part in where)
        weights, shape = self.weights, (len(item), self.n_items)
        if self.direction == "causal":
            sees = np.arange(item.shape[1]) < position[:, None]
            entry, seen = np.nonzero(sees & (item[row] >= 0))
            held = indicator(entry, item[row[entry], seen], (len(row), self.n_items))
            return _product(held, weights, columns), np.diff(held.indptr)
        group, at = np.nonzero(item >= 0)
        held = indicator(group, item[group, at], shape)
        own = item[row, position]
        times = (item[row] == own[:, None]).sum(1)
        lacks = np.flatnonzero((own >= 0) & (times == 1))
        score = _product(held, weights, columns)[row]
        for first in range(0, len(lacks), 1_000):
            some = lacks[first : first + 1_000]
            score[some] -= _dense(weights[own[some]][:, columns])
        size = np.diff(held.indptr)[row]
        size[lacks] -= 1
        return score, size

    def contributions(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
        """The score of one item a row without context, 0, and what each element adds to it.

        NaN for what is no known item of the context; an item that it has several times counts once,
        in equal shares.
        """
        known, scored = _known_items(batch), item.cpu().numpy()
        row, position = (part.cpu().numpy() for part in where)
        seen, at = known[row], np.arange(known.shape[1])
        before = at < position[:, None] if self.direction == "causal" else at != position[:, None]
        in_context = before & (seen >= 0)
        same = (seen[:, :, None] == seen[:, None]) & in_context[:, None]
        entry, element = np.nonzero(in_context)
        weights = self.weights
        added = np.full(seen.shape, np.nan)
        own = np.asarray(weights[seen[entry, element], scored[entry]]).ravel()
        added[entry, element] = own / same.sum(-1)[entry, element]
        return torch.zeros(len(item)), torch.from_numpy(added).float()


def _known_items(batch: Batch) -> Int64[np.ndarray, "groups length"]:
    """Codes of what is present, else -1."""
    assert batch.item is not None
    return torch.where(batch.present, batch.item.long(), -1).cpu().numpy()


def _as_slice(columns: Int64[np.ndarray, "chosen"]) -> Any:
    """Columns that stand together as a slice, which takes no copy."""
    first, last = (int(columns[0]), int(columns[-1])) if len(columns) else (0, -1)
    is_run = last - first + 1 == len(columns) and (np.diff(columns) == 1).all()
    return slice(first, last + 1) if is_run else columns


def _product(held: scipy.sparse.csr_array, weights: Table, columns: Any) -> Rows:
    """Sums of rows of some columns of a table."""
    if scipy.sparse.issparse(weights):
        return _dense((held @ weights)[:, columns])
    return _dense(held @ weights[:, columns])


def _dense(rows: Any) -> Rows:
    return np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows, dtype=np.float32)
