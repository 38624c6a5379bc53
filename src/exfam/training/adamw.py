"""AdamW and plain descent, as torch's optimizers of these names, at less overhead.

The first optimizer of torch's own that a process makes imports torch's compiler, for more than a
CPU second, and every step of one goes through hooks. Fits of a few seconds have no use for either.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Group = dict[str, Any]


class OnDevice(NamedTuple):
    """What the device knows of a step when the host has not waited for it.

    `taken`: whether any parameter moves; `divisor`: of the gradients, None for 1
    """

    taken: Bool[Tensor, ""]
    divisor: Float[Tensor, ""] | None = None


class Optimizer(ABC):
    """Groups of parameters, each with settings of its own, and what is kept of each parameter."""

    def __init__(
        self, parameters: Iterable[nn.Parameter] | Iterable[Group], **defaults: Any
    ) -> None:
        listed: list[Any] = list(parameters)
        groups = listed if listed and isinstance(listed[0], dict) else [{"params": listed}]
        self.param_groups = [
            {**defaults, **group, "params": list(group["params"])} for group in groups
        ]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self, known: OnDevice | None = None) -> None:
        """Move each parameter that has a gradient, unless it is `known` on the device not to."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if moved:
                self._move(moved, [parameter.grad for parameter in moved], group, known)

    @abstractmethod
    def _move(
        self, parameters: list[Any], gradients: list[Tensor], group: Group, known: OnDevice | None
    ) -> None:
        """One step of some parameters of a group."""

    def state_dict(self) -> dict[str, Any]:
        """What is kept of each parameter, by its number."""
        numbered = enumerate(self._parameters)
        return {"state": {k: self.state[p] for k, p in numbered if p in self.state}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        parameters = self._parameters
        self.state = {
            parameters[k]: {name: kept.to(parameters[k].device) for name, kept in own.items()}
            for k, own in state["state"].items()
        }

    @property
    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]


class AdamW(Optimizer):
    """`torch.optim.AdamW(…, fused=True)`, to the same bits.

    >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = AdamW([weight], lr=0.5, weight_decay=0.0)
    >>> weight.square().sum().backward()
    >>> optimizer.step()
    >>> weight.detach().round(decimals=3)
    tensor([ 0.5000, -1.5000])
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter] | Iterable[Group],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.01,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, lr=lr, betas=betas, weight_decay=weight_decay, eps=eps)

    def _move(
        self, parameters: list[Any], gradients: list[Tensor], group: Group, known: OnDevice | None
    ) -> None:
        kept = [self._moments(parameter) for parameter in parameters]
        steps = [own["step"] for own in kept]
        skipped = None if known is None else (~known.taken).float()
        torch._foreach_add_(steps, 1)
        (beta1, beta2) = group["betas"]
        torch._fused_adamw_(
            parameters,
            gradients,
            [own["exp_avg"] for own in kept],
            [own["exp_avg_sq"] for own in kept],
            [],
            steps,
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            grad_scale=None if known is None else known.divisor,
            found_inf=skipped,
        )
        if skipped is not None:
            torch._foreach_sub_(steps, [skipped] * len(steps))

    def _moments(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        if parameter not in self.state:
            zeros = (torch.zeros_like(parameter.data) for _ in range(2))
            step = torch.zeros((), dtype=torch.float32, device=parameter.device)
            self.state[parameter] = dict(
                zip(("step", "exp_avg", "exp_avg_sq"), (step, *zeros), strict=True)
            )
        return self.state[parameter]


class GradientDescent(Optimizer):
    """`torch.optim.SGD` without momentum and decay, to the same bits."""

    def __init__(self, parameters: Iterable[nn.Parameter] | Iterable[Group], *, lr: float) -> None:
        super().__init__(parameters, lr=lr)

    def _move(
        self, parameters: list[Any], gradients: list[Tensor], group: Group, known: OnDevice | None
    ) -> None:
        if known is not None:
            if known.divisor is not None:
                torch._foreach_div_(gradients, known.divisor)
            gradients = [own.where(known.taken, 0.0) for own in gradients]
        torch._foreach_add_(parameters, gradients, alpha=-group["lr"])
