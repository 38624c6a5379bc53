"""The parameters under which a sample is most likely, by quasi-Newton steps within bounds."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

Bounds = Sequence[tuple[float | None, float | None]]
_REACH = 20.0  # of a fit's parameters from their start


def maximize_nats(
    nats: Callable[[Tensor], Tensor],
    start: Sequence[float],
    *,
    bounds: Bounds,
    device: torch.device,
) -> Float64[Tensor, "params"]:
    """Parameters near `start`, on `device`, at which `nats`, a smooth function, is largest."""
    from scipy.optimize import minimize

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        with torch.enable_grad():
            params = torch.tensor(at, device=device, requires_grad=True)
            total = -nats(params)
            (gradient,) = torch.autograd.grad(total, params)
        return float(total.detach()), gradient.cpu().numpy()

    options = {"ftol": 1e-15, "gtol": 1e-8}
    first = np.array(start, dtype=np.float64)
    result = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return torch.as_tensor(result.x, dtype=torch.float64, device=device)


def likeliest(
    log_prob: Callable[[Tensor, Tensor], Tensor],
    value: Float[Tensor, "n"],
    start: Float[Tensor, "params"] | Sequence[float],
    *,
    bounds: Bounds | None = None,
) -> Float64[Tensor, "params"]:
    """The parameters near `start` under which a sample is most likely, equal values at once."""
    number, times = value.unique(return_counts=True)
    share, first = times / len(value), [float(at) for at in start]
    return maximize_nats(
        lambda at: (share * log_prob(number, at)).sum(),
        first,
        bounds=bounds or [(at - _REACH, at + _REACH) for at in first],
        device=value.device,
    )
