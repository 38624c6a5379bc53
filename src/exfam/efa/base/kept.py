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
    """Outputs of all items at some elements that were computed before."""

    def __init__(self, groups: Groups, n_items: int, dtype: torch.dtype) -> None:
        element = torch.from_numpy(groups.elements())
        # The row of an element, -1 for others.
        self.row = torch.full((groups.n_rows,), -1)
        self.row[element] = torch.arange(len(element))
        self.known = torch.zeros(len(element), dtype=torch.bool)
        # Pages that are never written take no memory.
        self.outputs = torch.empty(len(element), n_items, dtype=dtype)

    def put(self, row: Int64[Tensor, "rows"], outputs: Float[Tensor, "rows items"]) -> None:
        for some in chunks_of(len(row), max(1, _AT_ONCE // outputs.shape[1])):
            new = outputs[some]
            if self.outputs.dtype == torch.float16:
                # Finer near 0; what is added to all items of a row does not matter.
                new = new - new.mean(1, keepdim=True)
            self.outputs.index_copy_(0, row[some], new.cpu().to(self.outputs.dtype))
        self.known[row] = True


class KeptOutputs:
    """A base whose outputs at the elements of some data are computed once.

    Those of `train` in training mode are kept in half precision, those of `held_out` in evaluation
    mode exactly; None for none. Both are groups of the same data. No other groups may be shown to
    it, except in evaluation mode without `held_out`: their elements have the same numbers.
    """

    def __init__(self, base: Any, *, train: Groups | None, held_out: Groups | None) -> None:
        self.base, n_items = base, base.n_items
        self._rough = None if train is None else _Store(train, n_items, torch.float16)
        self._exact = None if held_out is None else _Store(held_out, n_items, torch.float32)

    @classmethod
    def of(cls, base: Any, train: Groups, held_out: Groups | None) -> "KeptOutputs":
        """As much as fits into memory."""
        trains = 2 * train.n_elements * base.n_items <= MOST_BYTES
        validates = held_out is not None and 4 * held_out.n_elements * base.n_items <= MOST_BYTES
        return cls(base, train=train if trains else None, held_out=held_out if validates else None)

    def forget_training(self) -> None:
        """Keep no outputs of training elements any longer."""
        self._rough = None

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        found = self._find(batch, where)
        if found is None:
            return self.base.outputs(batch, where, chosen)
        store, row = found
        # Faster than one index of both dimensions.
        columns, first, n = chosen.cpu(), int(chosen[0]) if len(chosen) else 0, len(chosen)
        if torch.equal(columns, torch.arange(first, first + n)):
            rows = store.outputs[:, first : first + n].index_select(0, row)
        else:
            rows = store.outputs.index_select(0, row).gather(1, columns.expand(len(row), n))
        return rows.to(device=chosen.device, dtype=torch.float32)

    def own(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"] | None:
        """The output of one item a row; None where they are not kept, and the base computes all."""
        found = self._find(batch, where)
        if found is None:
            alone: Any = getattr(self.base, "own", None)
            return None if alone is None else alone(batch, where, item)
        store, row = found
        return store.outputs[row, item.cpu()].to(device=item.device, dtype=torch.float32)

    def _find(self, batch: Batch, where: Where) -> tuple[_Store, Int64[Tensor, "rows"]] | None:
        """Where outputs at these elements are kept, after this call at least; None if they are not.

        What a context range shows has other outputs in the group that it is an element of.
        """
        store = self._rough if self.base.training else self._exact
        if store is None or batch.steps_back[where].any():
            return None
        row = store.row[batch.element[where].cpu()]
        if (row < 0).any():
            return None
        new = (~store.known[row]).nonzero()[:, 0].to(where[0].device)
        if len(new):
            every = torch.arange(self.base.n_items, device=where[0].device)
            outputs = self.base.outputs(batch, (where[0][new], where[1][new]), every)
            store.put(row[new.cpu()], outputs)
        return store, row
