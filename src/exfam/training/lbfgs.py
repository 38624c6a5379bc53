"""L-BFGS as torch has it, without importing torch's compiler."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

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


def find_minimum(
    loss: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    n_steps: int = 200,
    tolerance: float = 1e-12,
    least_slope: float = 1e-9,
) -> Tensor:
    """Where a smooth function of a few numbers is smallest, from `start`, in its precision.

    The search ends where numbers change by less than `tolerance`, or no slope is larger than
    `least_slope`.
    """
    numbers = start.detach().clone().requires_grad_()
    optimizer = LBFGS(
        [numbers],
        max_iter=n_steps,
        tolerance_grad=least_slope,
        tolerance_change=tolerance,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(numbers)
        value.backward()
        return value

    optimizer.step(closure)
    return numbers.detach()
