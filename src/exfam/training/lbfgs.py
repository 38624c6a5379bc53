"""L-BFGS as torch has it, without importing torch's compiler."""

from typing import Any

import torch

# What a decorator wraps has no type.
_TORCHS: Any = torch.optim.Optimizer


class LBFGS(torch.optim.LBFGS):
    """`torch.optim.LBFGS`, the first of which imports torch's compiler, for more than a CPU second.

    These methods are torch's as they are before it decorates them against being compiled.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take more parameters."""
        _TORCHS.add_param_group.__wrapped__(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""
        _TORCHS.zero_grad.__wrapped__(self, set_to_none)
