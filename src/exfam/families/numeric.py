"""Functions of counts and categories that stay exact: Stirling remainders, searches of cdfs."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn.functional import logsigmoid

from exfam.checks import ExfamError

_LARGE = 10.0  # from here on four terms of Stirling's series are exact to 1e-12


def softplus(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log(1 + exp(x)), to full precision at any x."""
    return -logsigmoid(-x)


def at_most_finite(log_moment: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """exp of it, or nearly the largest number where that is infinite."""
    return log_moment.clamp(max=math.log(torch.finfo(log_moment.dtype).max) - 1e-3).exp()


def finite_in(
    moment: Float[Tensor, "*shape"], eta: Float[Tensor, "*shape params"]
) -> Float[Tensor, "*shape"]:
    """A moment in the precision of `eta`, at most the largest number there."""
    most = torch.finfo(eta.dtype).max
    return moment.clamp(-most, most).to(eta.dtype)


def _series(x: Tensor) -> Tensor:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 10."""
    inverse = 1 / x
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))


def stirling(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x log x - x - lgamma(x), without cancellation at large x."""
    small = x.clamp(max=_LARGE)
    large = x.clamp(min=_LARGE)
    direct = small * small.log() - small - small.lgamma()
    series = 0.5 * large.log() - 0.5 * math.log(2 * math.pi) - _series(large)
    return torch.where(x < _LARGE, direct, series)


def log_rising_factorial(
    x: Float[Tensor, "*#shape"], k: Float[Tensor, "*#shape"]
) -> Float[Tensor, "..."]:
    """lgamma(x + k) - lgamma(x) - k log x, for k >= 0, without cancellation at large x."""
    small = x.clamp(max=_LARGE)
    large = x.clamp(min=_LARGE)
    direct = (small + k).lgamma() - small.lgamma() - k * small.log()
    series = (large + k - 0.5) * torch.log1p(k / large) - k
    return torch.where(x < _LARGE, direct, series + _series(large + k) - _series(large))


def integers_from(value: Real[Tensor, "*shape"], low: int) -> Bool[Tensor, "*shape"]:
    """Whether each value is a finite integer >= `low`."""
    return (value >= low) & (value < torch.inf) & (value == value.floor())


def check_integer(name: str, value: object, *, at_least: int | None = None) -> None:
    """Raise ExfamError unless `value` is Python's own integer, not below `at_least`."""
    right = isinstance(value, int) and not isinstance(value, bool)
    if not right or (at_least is not None and value < at_least):  # type: ignore[operator]
        rule = "an integer" if at_least is None else f"an integer >= {at_least}"
        raise ExfamError(f"`{name}` must be {rule}, got {value!r}.")


def through_scipy(function: Callable[..., Any], *args: Tensor) -> Float[Tensor, "..."]:
    """A scipy ufunc of tensors, in float64 and without gradient, on the device of the first."""
    arrays = [arg.detach().to("cpu", torch.float64).numpy() for arg in args]
    return torch.as_tensor(function(*arrays), dtype=torch.float64, device=args[0].device)


def bisected(
    low: Float[Tensor, "*shape"],
    high: Float[Tensor, "*shape"],
    enough: Callable[[Tensor], Tensor],
    *,
    times: int,
) -> Float[Tensor, "*shape"]:
    """The least number between both that is enough, where all larger ones are, by halving."""
    for _ in range(times):
        middle = (low + high) / 2
        if not bool(((low < middle) & (middle < high)).any()):
            break
        reached = enough(middle)
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return high


def search_integer(
    cdf: Callable[[Tensor], Tensor], p: Float[Tensor, "*#shape"], shape: tuple[int, ...]
) -> Float[Tensor, "..."]:
    """The smallest k in 0, 1, 2, ... with cdf(k) >= p, by doubling and halving; inf at p = 1."""
    level = p.expand(torch.broadcast_shapes(p.shape, shape))
    low = torch.full_like(level, -1.0)
    high = torch.zeros_like(level)
    below = (cdf(high) < level) & (level < 1)
    while below.any():
        low = torch.where(below, high, low)
        high = torch.where(below, 2 * high + 1, high)
        # A cdf that rounds to just under 1 would never end the search.
        below = (cdf(high) < level) & (level < 1) & (high < 2.0**60)
    while True:
        middle = low + ((high - low) / 2).floor()
        # Beyond 2^53 two neighbors are more than 1 apart.
        between = (low < middle) & (middle < high)
        if not between.any():
            return torch.where(level < 1, high, torch.inf)
        reached = cdf(middle) >= level
        low = torch.where(between & ~reached, middle, low)
        high = torch.where(between & reached, middle, high)


def finite_quantile(
    cdf: Float[Tensor, "*#shape categories"], p: Float[Tensor, "*#shape"]
) -> Int[Tensor, "..."]:
    """The index of the first category whose cdf reaches `p`."""
    return (cdf[..., :-1] < p.unsqueeze(-1)).sum(-1)


def pick(
    table: Float[Tensor, "*#shape categories"], index: Int[Tensor, "*#shape"]
) -> Float[Tensor, "..."]:
    """The entry at `index` of each row."""
    shape = torch.broadcast_shapes(table.shape[:-1], index.shape)
    rows = table.expand(*shape, table.shape[-1])
    return rows.gather(-1, index.expand(shape).unsqueeze(-1)).squeeze(-1)
