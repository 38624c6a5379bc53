"""Outputs of a base, kept while a correction is trained: they stay the same in all epochs."""

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.efa.base.sets import Where
from exfam.groups import Batch, Groups

# What kept outputs take at most, in bytes.
MOST_BYTES = 1_000_000_000


class _Store:
    """Outputs of all items at elements that were computed before."""

    def __init__(self, n_rows: int, n_items: int, dtype: torch.dtype) -> None:
        self.known = torch.zeros(n_rows, dtype=torch.bool)
        # Pages that are never written take no memory.
        self.outputs = torch.empty(n_rows, n_items, dtype=dtype)

    def put(self, element: Int64[Tensor, "rows"], outputs: Float[Tensor, "rows items"]) -> None:
        if self.outputs.dtype == torch.float16:
            # Finer near 0; what is added to all items of a row does not matter.
            outputs = outputs - outputs.mean(1, keepdim=True)
        self.outputs[element] = outputs.cpu().to(self.outputs.dtype)
        self.known[element] = True


class KeptOutputs:
    """A base whose outputs at training and validation elements are computed once.

    Those of training elements, in training mode, are kept in half precision; those of validation
    elements, in evaluation mode, exactly. No other groups may be shown to it.
    """

    def __init__(self, base: Any, train: Groups, validation: Groups | None) -> None:
        self.base = base
        self._of_training = _Store(train.n_rows, base.n_items, torch.float16)
        n_rows = 0 if validation is None else validation.n_rows
        self._of_validation = _Store(n_rows, base.n_items, torch.float32)

    @staticmethod
    def fit(n_items: int, train: Groups, validation: Groups | None) -> bool:
        """Whether the outputs of so many elements fit into memory."""
        n_validation = 0 if validation is None else validation.n_elements
        return (2 * train.n_elements + 4 * n_validation) * n_items <= MOST_BYTES

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        if self._is_new(batch, where):
            return self.base.outputs(batch, where, chosen)
        store, element = self._known(batch, where)
        every = len(chosen) == self.base.n_items
        rows = store.outputs[element] if every else store.outputs[element[:, None], chosen.cpu()]
        return rows.to(device=chosen.device, dtype=torch.float32)

    def own(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"] | None:
        """The output of one item a row; None where they are not kept."""
        if self._is_new(batch, where):
            return None
        store, element = self._known(batch, where)
        return store.outputs[element, item.cpu()].to(device=item.device, dtype=torch.float32)

    def _is_new(self, batch: Batch, where: Where) -> bool:
        # What a context range shows has other outputs in the group that it is an element of.
        return bool(batch.steps_back[where].any())

    def _known(self, batch: Batch, where: Where) -> tuple[_Store, Int64[Tensor, "rows"]]:
        store = self._of_training if self.base.training else self._of_validation
        element = batch.element[where].cpu()
        new = (~store.known[element]).nonzero()[:, 0].to(where[0].device)
        if len(new):
            every = torch.arange(self.base.n_items, device=where[0].device)
            rows = self.base.outputs(batch, (where[0][new], where[1][new]), every)
            store.put(element[new.cpu()], rows)
        return store, element
