"""Steps that a GPU takes while the host prepares the next one: what came of them is read later."""

import torch
from torch import Tensor, nn

from exfam.training.adamw import OnDevice, Optimizer
from exfam.training.optimizer import gradient_norm
from exfam.training.protocol import Sums


class StepsAhead:
    """Backward passes and the optimizer's steps without waiting for the device.

    The host reads nats, weight and norm of a step after it has launched the next one. A step whose
    numbers are not finite, or whose batch weighs nothing, moves no parameter.
    """

    def __init__(self, optimizer: Optimizer, *, clip: float | None) -> None:
        self._optimizer, self._clip = optimizer, clip
        self._last: _Copied | None = None

    def take(
        self, nats: Tensor, weight: Tensor, parameters: list[nn.Parameter], *, unit: float | None
    ) -> Sums:
        """A step on nats a `unit`, None for the batch's weight; the sums of the step before."""
        weight = weight.to(nats.device)
        (nats / (weight if unit is None else unit)).backward()
        norm = gradient_norm([p.grad for p in parameters if p.grad is not None])
        numbers = torch.stack([own.detach().double() for own in (nats, weight, norm)])
        divisor = None if self._clip is None else (norm / self._clip).clamp_min(1.0)
        self._optimizer.step(OnDevice(numbers.isfinite().all() & (weight != 0), divisor))
        sums = self.outstanding()
        self._last = _Copied(numbers)
        return sums

    def outstanding(self) -> Sums:
        """Those of the last step, once."""
        last, self._last = self._last, None
        return (0.0, 0.0) if last is None else last.sums()


class _Copied:
    """Nats, weight and norm of a step, on their way to the host."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers.to("cpu", non_blocking=True)
        self._event = torch.cuda.Event() if numbers.is_cuda else None
        if self._event is not None:
            self._event.record()

    def sums(self) -> Sums:
        """Nats and weight; NaN in place of nats if the gradients were not finite."""
        if self._event is not None:
            self._event.synchronize()
        nats, weight, norm = self._numbers.tolist()
        # A batch that weighs nothing has no gradients to speak of.
        return nats + 0.0 * norm if weight else nats, weight
