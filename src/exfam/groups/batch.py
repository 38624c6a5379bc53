"""Groups side by side as tensors, padded; here alone do groups need torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from exfam.groups.flat import Index

# Rows and columns of elements, in order.
Where = tuple[Int64[Tensor, "rows"], Int64[Tensor, "rows"]]

# Attributes are cut off there: differences of numbers of this size fit single precision.
LARGEST = 1e37


@dataclass(frozen=True, eq=False)
class Batch:
    """Some groups side by side, padded to the longest.

    Padding has `present` False, `element` -1 and zeros elsewhere. An item of -1 is one that the
    vocabulary does not know. A value that is not `observed` reads 0, as does one that is `missing`
    where others of its element are not (see `has_value`). Elements of context ranges
    come before a group's own and are never targets; `steps_back` counts the ranges from the last
    one, which is 1 step back, to the first, and is 0 for own elements and padding.
    """

    item: Int64[Tensor, "batch length"] | None
    values: dict[str, Float[Tensor, "batch length"]]
    attributes: dict[str, Tensor]
    group_attributes: dict[str, Tensor]
    position: Tensor
    present: Bool[Tensor, "batch length"]
    target: Bool[Tensor, "batch length"]
    observed: Bool[Tensor, "batch length"]
    element: Int64[Tensor, "batch length"]
    steps_back: Int64[Tensor, "batch length"]
    weight: Float32[Tensor, "batch length"] | None = None
    missing: dict[str, Bool[Tensor, "batch length"]] = field(default_factory=dict)
    # What was worked out once, and the batch that this one is a copy of on another device.
    _once: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_targets(self) -> int:
        """How many elements are targets."""
        return int(self.target.sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        if torch.device(device) == self.element.device:
            return self
        columns = [part.name for part in fields(self) if part.init]
        moved = Batch(**{name: on_device(getattr(self, name), device) for name in columns})
        moved._once["original"] = self.original
        return moved

    @property
    def original(self) -> "Batch":
        """The batch that this one was moved from: there the host reads without waiting."""
        own: Batch = self._once.get("original", self)
        return own

    def item_targets(self) -> Where:
        """Rows and columns of the targets whose items are known."""
        assert self.item is not None
        return self._worked_out("items", lambda own: _where(own.target & (own.item >= 0)))

    def has_value(self, column: str) -> Bool[Tensor, "batch length"]:
        """Which elements have a value of that column."""
        missing = self.missing.get(column)
        return self.observed if missing is None else self.observed & ~missing

    def value_targets(self, column: str) -> Where:
        """Rows and columns of the targets that have a value of that column."""
        name = f"values {column}" if column in self.missing else "values"
        return self._worked_out(name, lambda own: _where(own.target & own.has_value(column)))

    def shared_position(self) -> Tensor:
        """`position`; where all groups count alike (0, 1, 2, ..., say), one row for all of them.

        Encodings then work on one row. Padding, which nothing sees, goes on counting.
        """
        row = self._worked_out("position", _shared_row)
        return self.position if row is None else row.expand(*self.position.shape)

    def _worked_out(self, name: str, work: Callable[[Any], Any]) -> Any:
        """What follows from the columns, worked out where that needs no waiting for a device."""
        if name not in self._once:
            own = self.original
            found = work(own) if own is self else own._worked_out(name, work)
            self._once[name] = found if own is self else on_device(found, self.present.device)
        return self._once[name]


def _where(chosen: Bool[Tensor, "batch length"]) -> Where:
    row, column = chosen.nonzero(as_tuple=True)
    return row, column


def _shared_row(batch: Batch) -> Tensor | None:
    position, present = batch.position, batch.present
    if position.ndim != 2 or not position.numel():
        return None
    longest = position[present.sum(1).argmax()][None]
    return longest if bool(((position == longest) | ~present).all()) else None


def on_device(value: Any, device: torch.device | str) -> Any:
    """Tensors, or dictionaries or tuples of them, copied there without a wait."""
    if isinstance(value, dict):
        return {name: on_device(tensor, device) for name, tensor in value.items()}
    if isinstance(value, tuple):
        return tuple(on_device(tensor, device) for tensor in value)
    if value is not None and torch.device(device).type == "cuda" and not value.is_cuda:
        # From memory that stays in place the copy goes on while the host does.
        return value.pin_memory().to(device, non_blocking=True)
    return None if value is None else value.to(device)


def pad_column(
    column: np.ndarray,
    element: Int64[np.ndarray, "..."],
    dtype: type,
    *,
    keep: Bool[np.ndarray, "..."] | None = None,
) -> Tensor:
    """`column[element]` as a tensor, 0 at padding and where not `keep`.

    Values are padded as float64: single precision would round those that lie close to each other
    and far from 0.
    """
    if len(column) == 0:
        return torch.from_numpy(np.zeros(element.shape + column.shape[1:], dtype=dtype))
    # Fancy indexing copies, so the tensor made of it never shares memory with the column.
    picked = column[element].astype(dtype, copy=False)
    picked[element < 0 if keep is None else ~keep] = 0
    return torch.from_numpy(picked)


def pad_values(
    columns: Mapping[str, np.ndarray],
    element: Index,
    observed: Bool[np.ndarray, "elements"] | None,
) -> tuple[
    dict[str, Tensor], Bool[Tensor, "batch length"], dict[str, Bool[Tensor, "batch length"]]
]:
    """Value columns, which elements have any value, and where columns lack theirs."""
    has = element >= 0
    if observed is not None and observed.size:
        has = has & observed[element]
    values = {name: pad_column(own, element, np.float64, keep=has) for name, own in columns.items()}
    is_nan = {name: value.isnan() for name, value in values.items()}
    missing = {name: lacks for name, lacks in is_nan.items() if lacks.any()}
    for name, lacks in missing.items():
        values[name][lacks] = 0.0
    any_value = torch.from_numpy(has)
    if values and len(missing) == len(values):
        any_value &= ~torch.stack(list(missing.values())).all(0)
    return values, any_value, missing


def as_attributes(columns: Mapping[str, np.ndarray], index: np.ndarray) -> dict[str, Tensor]:
    """Rows of the columns at `index` (0 where -1): integer columns as codes, others as floats.

    Codes are int64; floats are float32 and get a last dimension of their own if they have none.
    """
    return {name: _as_attribute(column, index) for name, column in columns.items()}


def _as_attribute(column: np.ndarray, index: np.ndarray) -> Tensor:
    if column.dtype.kind in "iu" and column.ndim == 1:
        return pad_column(column, index, np.int64)
    numbers = pad_column(column, index, np.float64).clip(-LARGEST, LARGEST).float()
    return numbers.unsqueeze(-1) if column.ndim == 1 else numbers


def pad_position(
    column: np.ndarray | None, element: Index, *, tied: Bool[np.ndarray, "elements"] | None = None
) -> Tensor:
    """Positions of the elements, 0 at padding: int64 or float64; 0, 1, 2, ... without a column.

    Without a column, `tied` elements share the position of the one before them (default None).
    """
    if column is None:
        counted = np.broadcast_to(np.arange(element.shape[1]), element.shape)
        if tied is not None and tied.size:
            # The first element that a group shows is tied to none, whatever lies before it.
            follows = np.diff(element, axis=1) == 1
            counted = np.cumsum(~(tied[element[:, 1:]] & follows), axis=1)
            counted = np.pad(counted, ((0, 0), (1, 0)))
        return torch.from_numpy(counted * (element >= 0))
    return pad_column(column, element, np.int64 if column.dtype.kind in "iub" else np.float64)
