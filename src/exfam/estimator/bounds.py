"""Tensors of a model that is loaded are bounded by those that its folder holds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Beyond what is stored: masks, positions and tables that models compute, and steps of doing so.
_SPARE_NUMBERS, _SPARE_STEPS = 50_000_000, 8_000
_COPIES, _STEPS = 8, 500
# Operations that are given a length rather than a shape.
_RANGES = (torch.ops.aten.arange, torch.ops.aten.linspace, torch.ops.aten.eye)


class Bounded(TorchDispatchMode):
    """Within it, tensors have as many numbers together as a model of these tensors may have.

    Raises ValueError before more is allocated, and where building takes too many steps.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.numbers = _SPARE_NUMBERS + _COPIES * sum(tensor.numel() for tensor in tensors.values())
        self.steps = _SPARE_STEPS + _STEPS * len(tensors)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        shapes = [shape for shape in args if isinstance(shape, list | tuple)]
        lengths = [shape for shape in shapes if all(type(length) is int for length in shape)]
        wanted = max((math.prod(max(n, 1) for n in shape) for shape in lengths), default=0)
        if getattr(func, "overloadpacket", None) in _RANGES:
            wanted = int(max(abs(argument) for argument in args))
        self.steps -= 1
        if wanted > self.numbers or self.steps < 0:
            raise ValueError("a configuration of a far larger model than its tensors are of")
        result = func(*args, **(kwargs or {}))
        if wanted and isinstance(result, torch.Tensor):
            self.numbers -= result.numel()
        return result
