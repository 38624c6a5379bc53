"""Which elements of its own map and of earlier maps an element attends to."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.checks import check_positive
from exfam.geometry import check_metric, nearest
from exfam.groups import Batch


class OwnElements(NamedTuple):
    """Which columns of a batch hold own elements; `valid` is False where a group has fewer."""

    column: Int64[Tensor, "batch own"]
    valid: Bool[Tensor, "batch own"]


def own_elements(batch: Batch) -> OwnElements:
    """The own elements of each group, in order."""
    is_own = batch.present & (batch.steps_back == 0)
    count = is_own.sum(1)
    nth = torch.arange(max(1, int(count.max())), device=count.device)
    first = torch.argsort((~is_own).int(), dim=1, stable=True)
    return OwnElements(first[:, : len(nth)], nth < count[:, None])


class Keys(NamedTuple):
    """What own elements may attend to, and how tensors of all elements are laid out for that.

    `column`: of each own element's keys, None if all elements of the group are keys in order. With
    columns, each own element is a row of its own, with one query.
    `may_attend`: which of the keys it may see
    """

    own: OwnElements
    column: Int64[Tensor, "batch own key"] | None
    may_attend: Bool[Tensor, "batch own key"]

    @property
    def allowed(self) -> Bool[Tensor, "rows query key"]:
        """`may_attend`, by rows and queries."""
        return self.may_attend if self.column is None else self.may_attend.flatten(0, 1)[:, None]

    def at_own(self, x: Float[Tensor, "batch length dim"]) -> Float[Tensor, "rows query dim"]:
        """What belongs to the own elements, as queries."""
        own = x.take_along_dim(self.own.column[..., None], 1)
        return own if self.column is None else own.flatten(0, 1)[:, None]

    def at_keys(self, x: Float[Tensor, "batch length dim"]) -> Float[Tensor, "rows key dim"]:
        """What belongs to their keys."""
        if self.column is None:
            return x
        first = x.shape[1] * torch.arange(len(x), device=x.device)
        flat = (self.column + first[:, None, None]).flatten()
        return x.flatten(0, 1).index_select(0, flat).unflatten(0, (-1, self.column.shape[2]))

    def part(self, cut: slice) -> "Keys":
        """Of some of the own elements."""
        own = OwnElements(self.own.column[:, cut], self.own.valid[:, cut])
        column = None if self.column is None else self.column[:, cut]
        return Keys(own, column, self.may_attend[:, cut])

    def back(self, x: Float[Tensor, "rows query *rest"]) -> Float[Tensor, "batch own *rest"]:
        """From rows and queries to groups and own elements."""
        return x if self.column is None else x[:, 0].unflatten(0, self.own.column.shape)


@dataclass(frozen=True)
class AllSites:
    """Every element attends to all others that are shown: quadratic in the number of sites."""

    def keys(self, batch: Batch, shown: Bool[Tensor, "batch length"], own: OwnElements) -> Keys:
        """Keys of every own element: all elements of the group."""
        other = torch.arange(shown.shape[1], device=shown.device) != own.column[..., None]
        return Keys(own, None, shown[:, None, :] & other)


@dataclass(frozen=True)
class NearestSites:
    """Every element attends to the `k` nearest others that are shown, on each map: linear in sites.

    Raises ExfamError for a `k` below 1 or another metric.
    """

    k: int
    metric: str

    def __post_init__(self) -> None:
        check_positive("k", self.k)
        check_metric(self.metric)

    def keys(self, batch: Batch, shown: Bool[Tensor, "batch length"], own: OwnElements) -> Keys:
        """Keys of every own element: `k` of its own map, then `k` of each earlier map."""
        n_maps = int(batch.steps_back.max()) + 1
        k = min(self.k, shown.shape[1])
        index = np.zeros((*own.column.shape, n_maps * (k + 1)), dtype=np.int64)
        is_key = np.zeros(index.shape, dtype=bool)
        columns = (batch.attributes["coordinates"], shown, batch.steps_back, *own)
        arrays = [column.cpu().numpy() for column in columns]
        rows: dict[bytes, int] = {}
        for row, parts in enumerate(zip(*arrays, strict=True)):
            # Maps that show the same sites have the same neighbors.
            first = rows.setdefault(b"".join(part.tobytes() for part in parts), row)
            if first == row:
                self._search(parts, index[row], is_key[row], k=k)
            else:
                index[row], is_key[row] = index[first], is_key[first]
        device = shown.device
        return Keys(own, torch.from_numpy(index).to(device), torch.from_numpy(is_key).to(device))

    def _search(
        self,
        parts: tuple[np.ndarray, ...],
        index: Int64[np.ndarray, "own key"],
        is_key: Bool[np.ndarray, "own key"],
        *,
        k: int,
    ) -> None:
        """The neighbors of one group, written into `index`, and into `is_key` which are some."""
        places, seen, steps_back, own, valid = parts
        queries = own[valid]
        for back in range(index.shape[1] // (k + 1)):
            among = np.flatnonzero(seen & (steps_back == back))
            if not len(among) or not len(queries):
                continue
            near, _ = nearest(places[queries], places[among], k=k + 1, metric=self.metric)
            chosen = among[near]
            keep = chosen != queries[:, None]
            # Without itself among the k + 1, the farthest goes.
            keep &= keep.cumsum(1) <= k
            columns = slice(back * (k + 1), back * (k + 1) + near.shape[1])
            index[: len(queries), columns] = chosen
            is_key[: len(queries), columns] = keep
