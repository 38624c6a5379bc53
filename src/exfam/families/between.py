"""What any family has between two numbers: log mass with gradients, mean and variance.

The mass is a difference of cdfs, or of what lies above where most lies below; its slopes by the
parameters are central differences, exact to 1e-7. A narrow interval's mass is an integral of the
density, and where less than 1e-290 is left, that of its likeliest end.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families.base import Family

_STEP = 1e-4  # of parameters; of a location in units of the spread
LOST = 1e-290
_NARROW = 1e-5  # of the mass on the side that is smaller
_X, _W = np.polynomial.legendre.leggauss(24)
# Cubes: nodes gather at the likelier end.
_AT, _SHARE = ((_X + 1) / 2) ** 3, _W * 1.5 * ((_X + 1) / 2) ** 2
# Levels of an integral from 0 on, the substitution of Takahasi and Mori (1974).
_T = np.arange(-6.05, 3.2, 0.09)
_LEVEL = 1 / (1 + np.exp(-np.pi * np.sinh(_T)))
_OF_LEVEL = 0.09 * np.pi * np.cosh(_T) * _LEVEL / (1 + np.exp(np.pi * np.sinh(_T)))
_LEAST_LEVEL = 1e-305
_FRACTION = 0.31371  # no whole number, nor one of steps
_COUNTS, _ROWS = 2048, 2048  # summed at a time
_LOWEST = -1e30
_FARTHEST = 1e150  # of numbers whose squares are finite

Ends = Float[Tensor, "*#shape"]


def has_jumps(family: Family) -> bool:
    """Whether a family knows whole numbers only, or those of a list."""
    near = torch.tensor([_FRACTION, 1 + _FRACTION, -_FRACTION], dtype=torch.float64)
    return bool(family.categories) or not bool(family.in_support(near).any())


def with_slopes(
    family: Family, function: Callable[[Tensor], Tensor], eta: Float[Tensor, "*#shape params"]
) -> Float[Tensor, "*out"]:
    """A smooth function of a family's parameters with first derivatives, by central differences."""
    with torch.no_grad():
        value = function(eta)
    if not (eta.requires_grad and torch.is_grad_enabled()):
        return value
    for k in range(eta.shape[-1]):
        with torch.no_grad():
            step = torch.zeros_like(eta)
            step[..., k] = _STEP if k else _STEP * _spread_of(family, eta)
            slope = (function(eta + step) - function(eta - step)) / (2 * step[..., k])
        moved = eta[..., k] - eta[..., k].detach()
        value = value + slope.nan_to_num(posinf=0.0, neginf=0.0) * moved
    return value


def _spread_of(family: Family, eta: Tensor) -> Tensor | float:
    """Half of what lies between the quartiles, where the first parameter is a location, else 1."""
    if family.equivariance != "location-scale":
        return 1.0
    width = family.quantile(0.75, eta) - family.quantile(0.25, eta)
    return (width / 2).clamp(1e-12, 1e12)


def sides(
    family: Family, low: Ends, high: Ends, eta: Float[Tensor, "*#shape params"]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The parts of (low, high] below the median and above, by levels from either end.

    Those below are levels a to b of the cdf, those above c to d of what lies above.
    """
    a, b = (family.cdf(end, eta).clamp(max=0.5) for end in (low, high))
    c, d = (family.above(end, eta).clamp(max=0.5) for end in (high, low))
    return a, b, c, d


def mass_of(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """The mass of `sides`."""
    return (b - a).clamp(min=0) + (d - c).clamp(min=0)


def log_between(
    family: Family, low: Ends, high: Ends, eta: Float[Tensor, "*#shape params"]
) -> Float[Tensor, "*out"]:
    """log P(low < Y <= high), in double precision and with gradient; at least -1e30."""
    low, high, _ = torch.broadcast_tensors(low.double(), high.double(), eta[..., 0])
    exact = eta.double().expand(*low.shape, -1)

    def difference(at: Tensor) -> Tensor:
        return mass_of(*sides(family, low, high, at)).clamp(min=torch.finfo(at.dtype).tiny).log()

    nats = with_slopes(family, difference, exact)
    hard, upper = _hard(family, low, high, exact.detach())
    if not bool(hard.any()):
        return nats
    where = (hard.flatten().nonzero()[:, 0],)
    ends = low.flatten()[where], high.flatten()[where], upper.flatten()[where]
    integral = _of_end(family, *ends, exact.reshape(-1, exact.shape[-1])[where])
    return nats.flatten().index_put(where, integral.clamp(min=_LOWEST)).reshape(nats.shape)


def _hard(family: Family, low: Tensor, high: Tensor, eta: Tensor) -> tuple[Tensor, Tensor]:
    """Where a difference is not precise, and whether the interval lies above the median."""
    with torch.no_grad():
        a, b, c, d = sides(family, low, high, eta)
        mass = mass_of(a, b, c, d)
        narrow = (mass < _NARROW * torch.minimum(b, d)) & (high - low).isfinite()
        return (mass < LOST) | (narrow & (not has_jumps(family))), a >= 0.5


def _of_end(family: Family, low: Tensor, high: Tensor, upper: Tensor, eta: Tensor) -> Tensor:
    """The integral of the density from the likelier end, over at most 1 where little is left."""
    if has_jumps(family):
        count = torch.where(upper, low.floor() + family.spacing, high.floor())
        return family.log_prob(count, eta)
    width = (high - low).clamp(max=1.0)
    end = torch.where(upper, low, high)
    reach = torch.where(upper, width, -width)
    at = end.unsqueeze(-1) + reach.unsqueeze(-1) * torch.from_numpy(_AT).to(end)
    nats = family.log_prob(at, eta.unsqueeze(-2)) + torch.from_numpy(np.log(_SHARE)).to(end)
    return nats.logsumexp(-1) + width.log()


def by_rows(
    function: Callable[..., tuple[Tensor, Tensor]], *given: Float[Tensor, "..."]
) -> tuple[Tensor, Tensor]:
    """`function` of some rows of parameters, and of numbers beside them, at a time."""
    *numbers, eta = given
    flat = [number.flatten() for number in numbers] + [eta.reshape(-1, eta.shape[-1])]
    with torch.no_grad():
        parts = [
            function(*rows) for rows in zip(*(part.split(_ROWS) for part in flat), strict=True)
        ]
    first, second = zip(*parts, strict=True)
    shape = eta.shape[:-1]
    return torch.cat(first).reshape(shape), torch.cat(second).reshape(shape)


def moments_between(
    family: Family, low: Ends, high: Ends, eta: Float[Tensor, "*#shape params"]
) -> tuple[Float[Tensor, "*out"], Float[Tensor, "*out"]]:
    """Mean and variance of what lies in (low, high], in double precision, without gradient."""
    low, high, _ = torch.broadcast_tensors(low.double(), high.double(), eta[..., 0])
    exact = eta.double().nan_to_num().expand(*low.shape, -1)
    of_ends = _of_counts if has_jumps(family) else _of_pieces
    mean, variance = by_rows(functools.partial(of_ends, family), low, high, exact)
    levels = sides(family, low, high, exact)
    if has_jumps(family):
        low = torch.where(low.isfinite(), low.floor() + family.spacing, low)
    lost = mass_of(*levels) < LOST
    mean = torch.where(lost, torch.where(levels[0] >= 0.5, low, high), mean).clamp(low, high)
    variance = torch.where(lost, 0.0, variance).nan_to_num().clamp(min=0)
    unknown = eta.isnan().any(-1)
    return mean.masked_fill(unknown, torch.nan), variance.masked_fill(unknown, torch.nan)


def masses_of(family: Family) -> tuple[float, ...]:
    """Values of a continuous family that have probabilities of their own."""
    listed = getattr(family, "masses", (0.0,))
    at = torch.tensor(listed, dtype=torch.float64)
    return tuple(at[family.has_mass(at)].tolist())


def just_below(value: float) -> float:
    """The next number below."""
    return float(np.nextafter(value, -np.inf))


def _of_pieces(family: Family, low: Tensor, high: Tensor, eta: Tensor) -> tuple[Tensor, Tensor]:
    """Of continuous families, piece by piece between values with probabilities of their own."""
    edges = [low]
    for mass in masses_of(family):
        for end in (just_below(mass), mass):
            edges.append(torch.full_like(low, end).clamp(low, high))
    weights, means, variances = [], [], []
    for left, right in zip(edges, [*edges[1:], high], strict=True):
        levels = sides(family, left, right, eta)
        mean, variance = _of_levels(family, eta, levels)
        weights.append(mass_of(*levels))
        means.append(mean)
        variances.append(variance)
    return combined(weights, means, variances)


def combined(
    masses: Sequence[Tensor], means: Sequence[Tensor], variances: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Mean and variance of parts together; one without mass may have any."""
    mass, mean, variance = (torch.stack(list(part)) for part in (masses, means, variances))
    weight = mass / mass.sum(0).clamp(min=1e-300)
    total = torch.where(weight > 0, weight * mean, 0.0).sum(0)
    square = weight * (variance + (mean - total).square())
    return total, torch.where(weight > 0, square, 0.0).sum(0)


def _of_levels(family: Family, eta: Tensor, levels: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Integrals of quantiles over their levels, from both ends."""
    a, b, c, d = (level.unsqueeze(-1) for level in levels)
    level, share = (torch.from_numpy(part).to(eta) for part in (_LEVEL, _OF_LEVEL))
    inner = eta.unsqueeze(-2)
    below = (a + (b - a).clamp(min=0) * level).clamp(_LEAST_LEVEL, 1)
    beyond = (c + (d - c).clamp(min=0) * level).clamp(_LEAST_LEVEL, 1)
    value = torch.cat([family.quantile(below, inner), family.quantile_above(beyond, inner)], -1)
    # Some quantiles of levels near 1e-300 are not found by scipy, and weigh nothing.
    unknown = value.isnan()
    value = value.masked_fill(unknown, 0.0).clamp(-_FARTHEST, _FARTHEST)
    weight = torch.cat([(b - a).clamp(min=0) * share, (d - c).clamp(min=0) * share], -1)
    weight = weight.masked_fill(unknown, 0.0)
    weight = weight / weight.sum(-1, keepdim=True).clamp(min=1e-300)
    mean = (weight * value).sum(-1)
    return mean, (weight * (value - mean.unsqueeze(-1)).square()).sum(-1)


def _of_counts(family: Family, low: Tensor, high: Tensor, eta: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over what is in between, or all moments less those of what is below."""
    first = family.quantile(0.0, eta)
    start = torch.where(low.isfinite(), low.floor() + family.spacing, first).maximum(first)
    mass = mass_of(*sides(family, low, high, eta)).clamp(min=1e-300)
    bounded = bool(high.isfinite().all())
    ends = (start, high) if bounded else (first, start - family.spacing)
    center = start if bounded else family.mean(eta)
    one, two = _sums(family, *ends, eta, center)
    if not bounded:
        one, two = -one, family.variance(eta) - two
    gap = one / mass
    return center + gap, two / mass - gap.square()


def _sums(
    family: Family, first: Tensor, last: Tensor, eta: Tensor, center: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums of (y - center) p(y) and (y - center)^2 p(y) over y from `first` to `last`."""
    one, two = torch.zeros_like(center), torch.zeros_like(center)
    number = int(((last - first) / family.spacing).amax().clamp(min=-1)) + 1
    for part in torch.arange(number).to(center).split(_COUNTS):
        value = first.unsqueeze(-1) + family.spacing * part
        mass = family.log_prob(value, eta.unsqueeze(-2)).exp()
        mass = torch.where(value <= last.unsqueeze(-1), mass, 0.0)
        gap = value - center.unsqueeze(-1)
        one, two = one + (mass * gap).sum(-1), two + (mass * gap.square()).sum(-1)
    return one, two
