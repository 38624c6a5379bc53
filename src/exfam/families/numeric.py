"""Numbers that stay finite: bounded exponents, Stirling remainders, cdf searches, checks."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from torch.nn.functional import logsigmoid

from exfam.checks import ExfamError

MAX_LOG_MEAN = 30.0  # means and rates up to 1e13: their squares still fit float32
MAX_LOG_DISPERSION = 20.0  # scales and shapes between 2e-9 and 5e8
INTERIOR = 1e-6  # how far `from_mean` keeps a mean from the ends of its range
_LARGE = 10.0  # from here on four terms of Stirling's series are exact to 1e-12


def bounded(x: Float[Tensor, "*shape"], low: float, high: float) -> Float[Tensor, "*shape"]:
    """`x` kept in [low, high]; the gradient passes, so that a run that overshoots comes back.

    >>> bounded(torch.tensor([-40.0, 1.0, 40.0]), -30.0, 30.0)
    tensor([-30.,   1.,  30.])
    """
    return x.clamp(low, high).detach() + (x - x.detach())


def softplus(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """log(1 + exp(x)), to full precision at any x.

    >>> softplus(torch.tensor([-10.0, 0.0, 10.0]))
    tensor([4.5399e-05, 6.9315e-01, 1.0000e+01])
    """
    return -logsigmoid(-x)


def _series(x: Tensor) -> Tensor:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 10."""
    inverse = 1 / x
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))


def stirling(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x log x - x - lgamma(x), without cancellation at large x.

    >>> stirling(torch.tensor([1.0, 5e8]))
    tensor([-1.0000,  9.0961])
    """
    small = x.clamp(max=_LARGE)
    large = x.clamp(min=_LARGE)
    direct = small * small.log() - small - small.lgamma()
    series = 0.5 * large.log() - 0.5 * math.log(2 * math.pi) - _series(large)
    return torch.where(x < _LARGE, direct, series)


def log_rising_factorial(
    x: Float[Tensor, "*#shape"], k: Float[Tensor, "*#shape"]
) -> Float[Tensor, "..."]:
    """lgamma(x + k) - lgamma(x) - k log x, for k >= 0, without cancellation at large x.

    >>> log_rising_factorial(torch.tensor([1.0, 1e8]), torch.tensor([3.0, 3.0]))
    tensor([1.7918, 0.0000])
    """
    small = x.clamp(max=_LARGE)
    large = x.clamp(min=_LARGE)
    direct = (small + k).lgamma() - small.lgamma() - k * small.log()
    series = (large + k - 0.5) * torch.log1p(k / large) - k
    return torch.where(x < _LARGE, direct, series + _series(large + k) - _series(large))


def integers_from(value: Real[Tensor, "*shape"], low: int) -> Bool[Tensor, "*shape"]:
    """Whether each value is a finite integer >= `low`.

    >>> integers_from(torch.tensor([0.0, 1.0, 1.5, torch.inf]), 1)
    tensor([False,  True, False, False])
    """
    return (value >= low) & (value < torch.inf) & (value == value.floor())


def check_integer(name: str, value: object, *, at_least: int | None = None) -> None:
    """Raise ExfamError unless `value` is an integer, not below `at_least`.

    >>> check_integer("n", 5, at_least=1)
    """
    right = isinstance(value, int) and not isinstance(value, bool)
    if not right or (at_least is not None and value < at_least):  # type: ignore[operator]
        rule = "an integer" if at_least is None else f"an integer >= {at_least}"
        raise ExfamError(f"`{name}` must be {rule}, got {value!r}.")


def check_probability(p: float | Tensor, like: Tensor) -> Float[Tensor, "..."]:
    """`p` as a float64 tensor beside `like`; raises ExfamError unless all are in [0, 1].

    >>> check_probability(0.5, torch.zeros(2))
    tensor(0.5000, dtype=torch.float64)
    """
    level = torch.as_tensor(p, dtype=torch.float64, device=like.device)
    outside = ~((level >= 0) & (level <= 1))
    if outside.any():
        raise ExfamError(f"`p` must be in [0, 1], got {level[outside][0].item():g}.")
    return level


def through_scipy(function: Callable[..., Any], *args: Tensor) -> Float[Tensor, "..."]:
    """A scipy ufunc of tensors, in float64 and without gradient, on the device of the first.

    >>> from scipy.special import ndtr
    >>> through_scipy(ndtr, torch.zeros(1))
    tensor([0.5000], dtype=torch.float64)
    """
    arrays = [arg.detach().to("cpu", torch.float64).numpy() for arg in args]
    return torch.as_tensor(function(*arrays), dtype=torch.float64, device=args[0].device)


def search_integer(
    cdf: Callable[[Tensor], Tensor], p: Float[Tensor, "*#shape"], shape: tuple[int, ...]
) -> Float[Tensor, "..."]:
    """The smallest k in 0, 1, 2, ... with cdf(k) >= p, by doubling and halving; inf at p = 1.

    >>> search_integer(lambda k: 1 - 0.5 ** (k + 1), torch.tensor([0.5, 0.6, 1.0]), (3,))
    tensor([0., 1., inf])
    """
    level = p.expand(torch.broadcast_shapes(p.shape, shape))
    low = torch.full_like(level, -1.0)
    high = torch.zeros_like(level)
    below = (cdf(high) < level) & (level < 1)
    while below.any():
        low = torch.where(below, high, low)
        high = torch.where(below, 2 * high + 1, high)
        # A cdf that rounds to just under 1 would never end the search.
        below = (cdf(high) < level) & (level < 1) & (high < 2.0**60)
    while (high - low > 1).any():
        middle = ((low + high) / 2).floor()
        reached = cdf(middle) >= level
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return torch.where(level < 1, high, torch.inf)


def finite_quantile(
    cdf: Float[Tensor, "*#shape categories"], p: Float[Tensor, "*#shape"]
) -> Int[Tensor, "..."]:
    """The index of the first category whose cdf reaches `p`.

    >>> finite_quantile(torch.tensor([0.2, 0.7, 1.0]), torch.tensor([0.1, 0.5, 1.0]))
    tensor([0, 1, 2])
    """
    return (cdf[..., :-1] < p.unsqueeze(-1)).sum(-1)


def pick(
    table: Float[Tensor, "*#shape categories"], index: Int[Tensor, "*#shape"]
) -> Float[Tensor, "..."]:
    """The entry at `index` of each row.

    >>> pick(torch.tensor([0.2, 0.7, 0.1]), torch.tensor([1, 0]))
    tensor([0.7000, 0.2000])
    """
    shape = torch.broadcast_shapes(table.shape[:-1], index.shape)
    rows = table.expand(*shape, table.shape[-1])
    return rows.gather(-1, index.expand(shape).unsqueeze(-1)).squeeze(-1)
