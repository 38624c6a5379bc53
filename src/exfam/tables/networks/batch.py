"""Rows of a table as tensors, and as what a fit learns from."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from exfam.groups.batch import on_device
from exfam.tables.data import Cells

ABSENT = -1
# A cell that is shown as the MASK token.
MASKED = -2
_BLOCK = 1 << 16

RowWeights = Float64[np.ndarray, "*members rows"] | None


@dataclass(frozen=True, eq=False)
class CellBatch:
    """Cells of some rows. `members` is 1, or of each part one set for each member of an ensemble.

    `code`: the token of a cell, ABSENT (-1) or MASKED (-2)
    `fraction`: how far a cell lies from its token towards the next; None if no cell lies between
    `value`: the number that the column's family knows, standardized; 0 where absent
    """

    code: Int64[Tensor, "#members batch columns"]
    fraction: Float32[Tensor, "#members batch columns"] | None
    value: Float32[Tensor, "#members batch columns"]
    weight: Float32[Tensor, "#members batch"] | None = None

    @property
    def present(self) -> Bool[Tensor, "members batch columns"]:
        return self.code >= 0

    @property
    def between(self) -> Float32[Tensor, "members batch columns"] | None:
        """`fraction` of the cells that are seen as themselves; 0 for those absent or masked."""
        if self.fraction is None:
            return None
        return torch.where(self.present, self.fraction, 0.0)

    def to(self, device: torch.device) -> "CellBatch":
        return CellBatch(**on_device(vars(self), device))


@dataclass(frozen=True, eq=False)
class TableRows:
    """All rows of a table as batches of (value - center) / scale; `orders`: of each member."""

    cells: Cells
    center: Float64[np.ndarray, "columns"]
    scale: Float64[np.ndarray, "columns"]
    weight: RowWeights = None
    orders: Int64[np.ndarray, "members rows"] | None = None

    @property
    def lengths(self) -> Int64[np.ndarray, "rows"]:
        return np.full(len(self.cells), self.cells.code.shape[1], dtype=np.int64)

    def total(self, first: int, last: int) -> float:
        """Sum of the weights of all present cells of rows from `first` to before `last`."""
        total = 0.0
        for start in range(first, last, _BLOCK):
            rows = slice(start, min(start + _BLOCK, last))
            present = (self.cells.code[rows] >= 0).sum(1)
            weight = np.ones(1) if self.weight is None else self.weight[..., rows]
            total += float((present * weight).mean(tuple(range(weight.ndim - 1))).sum())
        return total

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        order = generator.permutation(len(self.cells))
        size = batch_size or max(1, (max_tokens or 1) // self.cells.code.shape[1])
        yield from np.split(order, np.arange(size, len(order), size))

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        size = max(1, max_tokens // self.cells.code.shape[1])
        yield from np.split(np.arange(len(self.cells)), np.arange(size, len(self.cells), size))

    def pad(self, index: Int64[np.ndarray, "batch"]) -> CellBatch:
        cells = self.cells
        rows = index if self.orders is None else self.orders[:, index]
        value = (cells.value[rows] - self.center) / self.scale
        weight = None
        if self.weight is not None:
            own = self.weight.ndim == rows.ndim == 2
            members = np.arange(len(rows))[:, None]
            weight = self.weight[members, rows] if own else self.weight[..., rows]
        return cell_batch(cells.code[rows], cells.fraction[rows], value, weight)

    def fingerprint(self) -> dict[str, str]:
        """A digest of the cells, of how they are standardized, and of the weights."""
        cells = self.cells
        arrays = (cells.code, cells.fraction, cells.value, self.center, self.scale)
        total = sha256()
        for array in (*arrays, self.weight, self.orders):
            if array is None:
                total.update(b"none")
                continue
            total.update(f"{array.dtype.str} {array.shape}".encode())
            total.update(np.ascontiguousarray(array).data)
        return {"cells": total.hexdigest()[:16]}

    def read_at_random(self) -> AbstractContextManager[None]:
        return nullcontext()


def cell_batch(
    code: np.ndarray, fraction: np.ndarray, value: np.ndarray, weight: np.ndarray | None = None
) -> CellBatch:
    """Arrays of rows and columns as tensors, one set or one for each member; values are finite."""
    sets = (-1, *code.shape[-2:])
    most = np.finfo(np.float32).max
    value = np.clip(np.nan_to_num(value, nan=0.0), -most, most)
    between = bool(fraction.any())
    return CellBatch(
        torch.from_numpy(code.astype(np.int64).reshape(sets)),
        torch.from_numpy(fraction.astype(np.float32).reshape(sets)) if between else None,
        torch.from_numpy(value.astype(np.float32).reshape(sets)),
        None if weight is None else torch.from_numpy(np.atleast_2d(weight).astype(np.float32)),
    )
