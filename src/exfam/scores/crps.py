"""The continuous ranked probability score: how far a predicted distribution lies from a value."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Family, Gaussian, Histogram, Scaled, StudentT, ZeroOneInflatedBeta
from exfam.families.mixtures import Mixture
from exfam.families.numeric import log_rising_factorial

_ENTRIES_AT_ONCE = 2_000_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
# Between the quantiles of these levels a cdf is smooth; what lies beyond them weighs 1e-20.
_LOWER = (1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.05, 0.2)
_LEVELS = (*_LOWER, 0.5, *(1 - p for p in reversed(_LOWER)))
_TAIL = 1e-10
_NEAR_ENDS = tuple(sorted(end for k in range(13) for end in (10.0**-k / 2, 1 - 10.0**-k / 2)))
_FARTHEST = 1e300  # sums of what is this far are numbers still
_WIDEST = 2048  # whole numbers that are summed one by one
_PIECES = 64  # of the numbers between two quantiles, where these are more


def crps(mixture: Mixture, value: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """The integral of (F(x) - 1[value <= x])^2 over x, in the unit of the value; lower is better.

    At least 0; without spread, the distance to the value, so that the mean over rows compares with
    mean absolute errors. NaN where the value is, infinite for infinite values and for families
    without a mean, whose tail has no finite integral.

    In closed form for mixtures of Gaussians and single Student's t; a sum for whole numbers,
    to 1e-4 of the spread where it has thousands of them; otherwise an integral between the
    members' quantiles, to 1e-5 of the spread.
    Sources: Gneiting & Raftery (2007), eq. 20 and 21; Grimit et al. (2006), eq. 2; Jordan, Krueger
    & Lerch (2019), appendix A.

    >>> mixture = Mixture(Gaussian(scale=1.0), torch.zeros(1, 2, 1))
    >>> crps(mixture, torch.tensor([0.0, 3.0]))
    tensor([0.2337, 2.4366])
    """
    double = mixture.double()
    exact = value.double()
    if isinstance(double.family, Scaled):
        unit = replace(double, family=double.family.of_units)
        scores = double.family.scale * crps(unit, double.family.to_units(exact))
        return scores.to(mixture.eta.dtype)
    endless = exact.isinf()
    if not double.family.has_mean:
        endless = endless | (double.mean().isposinf() & ~exact.isnan())
    out = torch.where(endless, torch.inf, torch.nan).to(exact)
    ready = ~endless & exact.isfinite() & double.eta.isfinite().all(-1).all(0)
    jumps = double.has_jumps(exact)
    whole, smooth = (torch.nonzero(ready & kind)[:, 0] for kind in (jumps, ~jumps))
    if len(whole):
        out[whole] = _of_whole_numbers(double[whole], exact[whole])
    if len(smooth):
        out[smooth] = _of_real_numbers(double[smooth], exact[smooth])
    return out.to(mixture.eta.dtype)


def _of_real_numbers(mixture: Mixture, value: Tensor) -> Tensor:
    members = len(mixture.eta)
    # A subclass may have another density.
    if type(mixture.family) is Gaussian:
        return _in_chunks(_gaussians, mixture, value, members)
    if type(mixture.family) is StudentT and members == 1:
        return _student_t(mixture.family, mixture.eta[0], value)
    nodes = (min(2, members) * len(_LEVELS) + len(_kinks(mixture.family))) * len(_NODES)
    return _in_chunks(_integral, mixture, value, nodes * members)


def _of_whole_numbers(mixture: Mixture, value: Tensor) -> Tensor:
    categories = mixture.family.categories
    if categories:
        step = mixture.family.spacing
        ends = torch.tensor([*categories, categories[-1] + step], dtype=value.dtype) / step
        below = torch.nn.functional.pad(mixture.probs().cumsum(-1), (0, 1), value=1.0)
        return step * _steps(value / step, ends.expand(len(value), -1), below)
    low, high = (_quantiles(mixture, [p])[..., 0] for p in (_TAIL, 1 - _TAIL))
    low, width = low.amin(0), high.amax(0) - low.amin(0) + 1
    out = torch.empty_like(value)
    wide = width > _WIDEST
    if wide.any():
        entries = min(2, len(mixture.eta)) * len(_LEVELS) * _PIECES * len(mixture.eta)
        out[wide] = _in_chunks(_many_steps, mixture[wide], value[wide], entries)
    # Rows of like widths together: a chunk sums as many numbers as its widest row needs.
    order = torch.nonzero(~wide)[:, 0]
    order = order[width[order].argsort()]
    while len(order):
        ends = torch.arange(float(width[order[-1]]) + 1, dtype=value.dtype)
        size = max(1, _ENTRIES_AT_ONCE // (len(ends) * len(mixture.eta)))
        chosen, order = order[-size:], order[:-size]
        ends = low[chosen, None] + ends
        part = mixture[chosen]
        out[chosen] = _steps(value[chosen], ends, _cdf(part, ends))
    return out


def _in_chunks(
    score: Callable[[Mixture, Tensor], Tensor], mixture: Mixture, value: Tensor, entries: int
) -> Tensor:
    """`score` of some rows at a time, as memory for `entries` numbers a row allows."""
    size = max(1, _ENTRIES_AT_ONCE // entries)
    chunks = torch.arange(len(value)).split(size)
    return torch.cat([score(mixture[rows], value[rows]) for rows in chunks])


def _cdf(mixture: Mixture, at: Tensor) -> Tensor:
    """P(Y <= at), for several numbers a row."""
    item = None if mixture.item is None else mixture.item[:, None]
    return mixture.average(mixture.family.cdf(at, mixture.eta.unsqueeze(-2), item=item))


def _quantiles(mixture: Mixture, levels: list[float]) -> Tensor:
    """Each member's quantiles (members, rows, levels)."""
    item = None if mixture.item is None else mixture.item[:, None]
    p = torch.tensor(levels, dtype=mixture.eta.dtype)
    return mixture.family.quantile(p, mixture.eta.unsqueeze(-2), item=item)


def _breaks(mixture: Mixture, value: Tensor) -> Tensor:
    """Numbers by row, in order, between which the cdf is smooth; `value` (rows, more) are some."""
    quantiles = _quantiles(mixture, list(_LEVELS)).movedim(0, -1).flatten(1).sort(-1).values
    quantiles = quantiles.clamp(-_FARTHEST, _FARTHEST)
    # Many members: every so many of their quantiles are as dense as two members' own.
    kept = min(2, len(mixture.eta)) * len(_LEVELS)
    index = torch.linspace(0, quantiles.shape[1] - 1, kept).round().long()
    return torch.cat([quantiles[:, index], value], -1).sort(-1).values


def _kinks(family: Family) -> tuple[float, ...]:
    """Numbers at which the density jumps, or between which it may rise without bound."""
    if isinstance(family, ZeroOneInflatedBeta):
        return _NEAR_ENDS
    return family.edges if isinstance(family, Histogram) else ()


def _integral(mixture: Mixture, value: Tensor) -> Tensor:
    """By Gauss-Legendre between breaks, the value and jumps of the density being some of them."""
    kinks = value.new_tensor(_kinks(mixture.family)).expand(len(value), -1)
    breaks = _breaks(mixture, torch.cat([value[:, None], kinks], -1))
    low, half = breaks[:, :-1, None], breaks.diff(dim=-1)[..., None] / 2
    nodes = low + half * torch.from_numpy(_NODES + 1)
    below = _cdf(mixture, nodes.flatten(1)).reshape(nodes.shape)
    height = torch.where(nodes < value[:, None, None], below, 1 - below) ** 2
    return (half * height * torch.from_numpy(_WEIGHTS)).sum((-2, -1))


def _many_steps(mixture: Mixture, value: Tensor) -> Tensor:
    """A sum over more numbers than can be visited: their cdf is all but straight between breaks."""
    own = value.floor()
    breaks = _breaks(mixture, torch.stack([own, own + 1], -1))
    # Closer at the lower end, where counts are steep.
    share = (torch.arange(_PIECES, dtype=value.dtype) / _PIECES) ** 2
    ends = (breaks[:, :-1, None] + breaks.diff(dim=-1)[..., None] * share).floor().flatten(1)
    ends = torch.cat([ends, breaks[:, -1:]], -1)
    return _steps(value, ends, _cdf(mixture, ends))


def _steps(value: Tensor, ends: Tensor, below: Tensor) -> Tensor:
    """The integral for a cdf with steps at whole numbers, of which `ends` (rows, n) are some.

    `below` is the cdf at `ends`, 0 before the first and 1 from the last on. Between two of them the
    height is a line in the number, exactly so where they are neighbors.
    """
    width, left, right = ends.diff(dim=-1), below[:, :-1], below[:, 1:]
    # How much of each step lies below the value: all, nothing, or a part of the value's own step.
    share = (value[:, None] - ends[:, :-1]).clamp(0, 1)
    first = share * left**2 + (1 - share) * (1 - left) ** 2
    last = share * right**2 + (1 - share) * (1 - right) ** 2
    inside = (width * (first + last) + (first - last)).sum(-1) / 2
    beyond = (ends[:, 0] - value).clamp(min=0) + (value - ends[:, -1]).clamp(min=0)
    return inside + beyond


def _mean_distance(center: Tensor, sd: Tensor) -> Tensor:
    """E |Z| of a Gaussian Z: A(center, sd^2) in Grimit et al. (2006)."""
    z = center / sd
    density = (-0.5 * z * z).exp() / math.sqrt(2 * math.pi)
    return 2 * sd * density + center * (2 * torch.special.ndtr(z) - 1)


def _gaussians(mixture: Mixture, value: Tensor) -> Tensor:
    """E |Y - value| - E |Y - Y'| / 2, pair of members by pair."""
    mean, variance = mixture.family.mean(mixture.eta), mixture.family.variance(mixture.eta)
    score = mixture.average(_mean_distance(value - mean, variance.sqrt()))
    for k in range(len(mean)):
        apart = _mean_distance(mean[k] - mean, (variance[k] + variance).sqrt())
        share = 1 / len(mean) if mixture.weight is None else mixture.weight[k]
        score = score - 0.5 * share * mixture.average(apart)
    return score


def _student_t(family: StudentT, eta: Tensor, value: Tensor) -> Tensor:
    location, scale, df = family.parameters(eta)
    z = (value - location) / scale
    outward = z * (2 * family.cdf(value, eta) - 1)
    density = family.log_prob(value, eta).exp() * scale
    spread = 2 * density * (df + z * z) / (df - 1)
    # B(1/2, df - 1/2) / B(1/2, df / 2)^2, where B(1/2, b) = sqrt(pi) gamma(b) / gamma(b + 1/2).
    half = torch.full_like(df, 0.5)
    single = log_rising_factorial(df - 0.5, half) + 0.5 * (df - 0.5).log()
    double = log_rising_factorial(df / 2, half) + 0.5 * (df / 2).log()
    ratio = (2 * double - single).exp() / math.sqrt(math.pi)
    return scale * (outward + spread - 2 * df.sqrt() / (df - 1) * ratio)
