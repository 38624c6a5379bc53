"""Batch: a padded view of some groups, as tensors."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """Some groups side by side, padded to the longest.

    Padding has `present` False, `element` -1 and zeros elsewhere. An item of -1 is one that the
    vocabulary does not know. A value that is not `observed` reads 0. Elements of context ranges
    come before a group's own and are never targets; `steps_back` counts the ranges from the last
    one, which is 1 step back, to the first, and is 0 for own elements and padding.

    >>> from exfam.groups import Groups
    >>> groups = Groups(start=[0, 2], stop=[2, 3], item=[4, 1, 3])
    >>> batch = groups.pad([0, 1])
    >>> batch.item
    tensor([[4, 1],
            [3, 0]])
    >>> batch.present
    tensor([[ True,  True],
            [ True, False]])
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

    @property
    def n_targets(self) -> int:
        """How many elements are targets.

        >>> from exfam.groups import Groups
        >>> Groups(start=[0], stop=[3]).pad([0]).n_targets
        3
        """
        return int(self.target.sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device.

        >>> from exfam.groups import Groups
        >>> Groups(start=[0], stop=[3]).pad([0]).to("cpu").n_targets
        3
        """
        moved: dict[str, Any] = {
            field.name: _to(getattr(self, field.name), device) for field in fields(self)
        }
        return Batch(**moved)


def _to(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, dict):
        return {name: tensor.to(device) for name, tensor in value.items()}
    return None if value is None else value.to(device)
