"""Outputs of a base, kept while a correction is trained: they stay the same in all epochs."""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.catalog.linear import chunks_of
from exfam.efa.base.sets import Where
from exfam.groups import Batch, Groups

# What kept outputs of training elements, and of others, take at most, in bytes.
MOST_BYTES = 1_000_000_000
# Outputs that are taken in at a time, as many as a processor's cache holds.
_AT_ONCE = 2**18


class _Store:
    """Outputs of all items at elements that were computed before."""

    def __init__(self, n_rows: int, n_items: int, dtype: torch.dtype) -> None:
        self.known = torch.zeros(n_rows, dtype=torch.bool)
        # Pages that are never written take no memory.
        self.outputs = torch.empty(n_rows, n_items, dtype=dtype)

    def put(self, element: Int64[Tensor, "rows"], outputs: Float[Tensor, "rows items"]) -> None:
        for rows in chunks_of(len(element), max(1, _AT_ONCE // outputs.shape[1])):
            some = outputs[rows]
            if self.outputs.dtype == torch.float16:
                # Finer near 0; what is added to all items of a row does not matter.
                some = some - some.mean(1, keepdim=True)
            self.outputs.index_copy_(0, element[rows], some.cpu().to(self.outputs.dtype))
        self.known[element] = True


class KeptOutputs:
    """A base whose outputs at the elements of some data are computed once.

    Those in training mode are kept in half precision, if `trains`; those in evaluation mode
    exactly, if `validates`: whether validation groups are some of the data, too. No other groups
    may be shown to it, except in evaluation mode where it does not: their elements have the same
    numbers.
    """

    def __init__(self, base: Any, groups: Groups, *, validates: bool, trains: bool = True) -> None:
        self.base, shape = base, (groups.n_rows, base.n_items)
        self._rough = _Store(*shape, torch.float16) if trains else None
        self._exact = _Store(*shape, torch.float32) if validates else None

    @classmethod
    def of(cls, base: Any, groups: Groups, train: Groups, held_out: Groups | None) -> "KeptOutputs":
        """As much as fits into memory; `held_out`: of the groups, for validation."""
        trains = 2 * train.n_elements * base.n_items <= MOST_BYTES
        validates = held_out is not None and 4 * held_out.n_elements * base.n_items <= MOST_BYTES
        return cls(base, groups, trains=trains, validates=validates)

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        store = self._store_of(batch, where)
        if store is None:
            return self.base.outputs(batch, where, chosen)
        element = self._known(store, batch, where)
        # Faster than one index of both dimensions.
        columns, first, n = chosen.cpu(), int(chosen[0]) if len(chosen) else 0, len(chosen)
        if torch.equal(columns, torch.arange(first, first + n)):
            rows = store.outputs[:, first : first + n].index_select(0, element)
        else:
            rows = store.outputs.index_select(0, element).gather(1, columns.expand(len(element), n))
        return rows.to(device=chosen.device, dtype=torch.float32)

    def own(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"] | None:
        """The output of one item a row; None where they are not kept, and the base computes all."""
        store = self._store_of(batch, where)
        if store is None:
            alone: Any = getattr(self.base, "own", None)
            return None if alone is None else alone(batch, where, item)
        element = self._known(store, batch, where)
        return store.outputs[element, item.cpu()].to(device=item.device, dtype=torch.float32)

    def _store_of(self, batch: Batch, where: Where) -> _Store | None:
        """Where outputs at these elements are kept; None if they are not."""
        # What a context range shows has other outputs in the group that it is an element of.
        if batch.steps_back[where].any():
            return None
        return self._rough if self.base.training else self._exact

    def _known(self, store: _Store, batch: Batch, where: Where) -> Int64[Tensor, "rows"]:
        """The elements at `where`, whose outputs are then kept."""
        element = batch.element[where].cpu()
        new = (~store.known[element]).nonzero()[:, 0].to(where[0].device)
        if len(new):
            every = torch.arange(self.base.n_items, device=where[0].device)
            rows = self.base.outputs(batch, (where[0][new], where[1][new]), every)
            store.put(element[new.cpu()], rows)
        return element
