"""Tweedie's compound Poisson-gamma distribution: amounts of claims or rain, with exact zeros."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families import base
from exfam.families.likelihood import likeliest
from exfam.families.numeric import stirling

_LEAST_POWER, _MOST_POWER = 1.01, 1.99
_NODES = 96  # of the series of the density: 8 standard deviations on both sides
_MOST_NODES = 512  # of the cdf's
_REACH, _MARGIN = 8.5, 12.0
_ROWS = 16384  # at a time
_ITERATIONS = 100
_LEAST_LOG = -700.0
_NEAR = 1e-12  # of logarithms
_ROUNDING = 2e-15  # of a sum of probabilities, by its size
_LOWEST = -1e30


@dataclass(frozen=True)
class Tweedie(base.PlainFamily):
    """Sums of a Poisson number of gamma amounts: mean exp(eta0), variance exp(eta1) mean^power.

    `power`: from 1.01 (nearly counts) to 1.99 (nearly gamma)

    With m = exp(eta0), phi = exp(eta1): P(0) = exp(-m^(2 - power) / (phi (2 - power))), and above 0
    there is a density, a series of which all terms above exp(-50) of the largest are summed: exact
    to 1e-9 nats where phi is above 1e-6 (Dunn and Smyth 2005, Series evaluation of Tweedie
    exponential dispersion model densities). eta0 is bounded by 30 and eta1 by 20 on both sides.

    Raises ExfamError for another `power`.

    >>> Tweedie().log_prob(torch.tensor([0.0, 1.0]), torch.zeros(2, 2))
    tensor([-2.0000, -1.0286])
    """

    power: float = 1.5
    name: ClassVar[str] = "tweedie"
    equivariance: ClassVar[str] = "scale"
    has_log_link: ClassVar[bool] = True
    support: ClassVar[str] = "a finite number >= 0"
    hint: ClassVar[str] = "Use Gaussian() for numbers of either sign."
    n_dispersion: ClassVar[int] = 1
    _inside: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        number = isinstance(self.power, int | float) and not isinstance(self.power, bool)
        if not (number and _LEAST_POWER <= self.power <= _MOST_POWER):
            raise ExfamError(
                f"`power` must be a number from {_LEAST_POWER} to {_MOST_POWER}, got "
                f"{self.power!r}. Use Poisson() for counts and Gamma() for numbers above 0."
            )

    @property
    def _shape(self) -> float:
        """Of one gamma amount."""
        return (2 - self.power) / (self.power - 1)

    def _logs(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """Log mean and log phi."""
        log_mean = base.bounded(eta[..., 0], -base.MAX_LOG_MEAN, base.MAX_LOG_MEAN)
        return log_mean, base.bounded(
            eta[..., 1], -base.MAX_LOG_DISPERSION, base.MAX_LOG_DISPERSION
        )

    def _log_rate(self, eta: Tensor) -> Tensor:
        """Log of the mean number of amounts."""
        log_mean, log_phi = self._logs(eta)
        return (2 - self.power) * log_mean - log_phi - math.log(2 - self.power)

    def _log_unit(self, eta: Tensor) -> Tensor:
        """Log of the scale of the amounts."""
        log_mean, log_phi = self._logs(eta)
        return log_phi + math.log(self.power - 1) + (self.power - 1) * log_mean

    def has_mass(self, value: base.Values, item: base.Items = None) -> Tensor:
        return value == 0

    def _in_support(self, value: Tensor) -> Tensor:
        return (value >= 0) & (value < torch.inf)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        exact, number = eta.double(), value.double()
        log_value = torch.where(value > 0, number, 1.0).log()
        log_mean, log_phi = self._logs(exact)
        t, low, high = log_value - log_mean, self.power - 1, 2 - self.power
        # Half the unit deviance over phi: 0 at the mean.
        gap = (t.exp() / low - (high * t).exp() / (low * high) + 1 / high).clamp(min=0)
        deviance = (high * log_mean - log_phi).exp() * gap
        log_peak = high * log_value - log_phi - math.log(high)
        above = self._log_height(log_peak) - log_value - deviance
        nats = torch.where(value > 0, above, -self._log_rate(exact).exp())
        return nats.clamp(min=_LOWEST).to(eta.dtype)

    def _log_height(self, log_peak: Tensor) -> Tensor:
        """Log of the series over the exponential of its saddle point, a function of where that is.

        The gradient by the saddle point is the mean number of amounts, less it.
        """
        with torch.no_grad():
            parts = [self._series(rows) for rows in log_peak.flatten().split(_ROWS)]
            height, slope = (
                torch.cat(part).reshape(log_peak.shape) for part in zip(*parts, strict=True)
            )
        return height + slope * (log_peak - log_peak.detach())

    def _series(self, log_peak: Tensor) -> tuple[Tensor, Tensor]:
        peak = log_peak.exp()
        n, stride = _counts(peak, 1 / math.sqrt(1 + self._shape), _NODES)
        at = peak.unsqueeze(-1)
        excess = (n - at) / at
        # (1 + u) log(1 + u) - u, exact near 0.
        near = excess.abs() < 1e-4
        far = (1 + excess) * torch.log1p(excess) - excess
        bend = torch.where(near, excess.square() / 2 - excess**3 / 6, far)
        term = -(1 + self._shape) * at * bend + stirling(n) + stirling(n * self._shape) - n.log()
        share = term.softmax(-1)
        slope = (1 + self._shape) * (share * (n - at)).sum(-1)
        return term.logsumexp(-1) + stride.log(), slope

    def _mean(self, eta: Tensor) -> Tensor:
        return self._logs(eta)[0].exp()

    def _variance(self, eta: Tensor) -> Tensor:
        log_mean, log_phi = self._logs(eta)
        return (log_phi + self.power * log_mean).exp()

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        log_rate, log_unit = self._log_rate(exact), self._log_unit(exact)
        given = torch.broadcast_tensors(value.double(), log_rate, log_unit)
        rows = zip(*(part.flatten().split(_ROWS) for part in given), strict=True)
        below = torch.cat([self._cdf_of(*row) for row in rows]).reshape(given[0].shape)
        return torch.where(value < 0, 0.0, below)

    def _cdf_of(self, value: Tensor, log_rate: Tensor, log_unit: Tensor) -> Tensor:
        rate, scaled = log_rate.exp(), (value.clamp(min=0).log() - log_unit).exp()
        n, stride = _counts(rate, 1.0, _MOST_NODES)
        log_share = n * log_rate[:, None] - rate[:, None] - (n + 1).lgamma()
        # What all numbers but none have together is 1 - exp(-rate), however they are rounded.
        share = -torch.expm1(-rate)[:, None] * log_share.softmax(-1)
        below = torch.special.gammainc(n * self._shape, scaled[:, None].expand_as(n))
        return ((-rate).exp() + (share * below).sum(-1)).clamp(0, 1)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        level, none = torch.broadcast_tensors(p, (-self._log_rate(exact).exp()).exp())
        value = torch.where(level < 1, torch.zeros_like(level), torch.inf)
        inner = (level > none) & (level < 1)
        if bool(inner.any()):
            value[inner] = self._search(level[inner], exact.expand(*level.shape, 2)[inner])
        return value

    def _search(self, level: Tensor, eta: Tensor) -> Tensor:
        """Quantiles above 0: Newton's steps of logarithms, halving where these lead outside."""
        low = torch.full_like(level, _LEAST_LOG)
        rate = self._log_rate(eta).exp()
        most = (rate + 10 * rate.sqrt() + 20) * self._shape
        high = self._log_unit(eta) + (most + 10 * most.sqrt() + 50).log()
        at = self._logs(eta)[0].minimum(high)
        active = torch.arange(len(level), device=level.device)
        for _ in range(_ITERATIONS):
            own, value = eta[active], at[active].exp()
            miss = self._cdf(value, own) - level[active]
            below = miss < 0
            low[active] = torch.where(below, at[active], low[active])
            high[active] = torch.where(below, high[active], at[active])
            slope = (self._log_prob(value, own) + at[active]).exp()
            step = at[active] - miss / slope.clamp(min=torch.finfo(slope.dtype).tiny)
            between = (step >= low[active]) & (step <= high[active])
            step = torch.where(between, step, (low[active] + high[active]) / 2)
            moved = ((step - at[active]).abs() > _NEAR) & (miss.abs() > _ROUNDING * level[active])
            at[active] = step
            active = active[moved]
            if not len(active):
                break
        return at.exp()

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        exact = eta.double()
        n = torch.poisson(self._log_rate(exact).exp(), generator=generator)
        unit = torch._standard_gamma(n.clamp(min=1) * self._shape, generator=generator)
        limits = torch.finfo(eta.dtype)
        amount = (unit * self._log_unit(exact).exp()).clamp(limits.tiny, limits.max)
        return torch.where(n > 0, amount, 0.0).to(eta.dtype)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.clamp(min=base.INTERIOR).log().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood: the mean is that of the sample."""
        least = 0.5 * float(value[value > 0].amin()) if (value > 0).any() else 1.0
        log_mean = value.mean().clamp(min=least / len(value)).log()
        unit = value / log_mean.exp()
        start = float(unit.var(correction=0).clamp(0.01, 100).log())
        (log_phi,) = likeliest(
            lambda y, at: self._log_prob(y, torch.cat([0 * at, at])),
            unit,
            [start],
            bounds=[(-14.0, 14.0)],
        )
        return torch.stack([log_mean, log_phi + (2 - self.power) * log_mean])


def _counts(center: Tensor, narrowing: float, most: int) -> tuple[Tensor, Tensor]:
    """Numbers n >= 1 around `center`, where a sum over Poisson's n lives, and their stride.

    A wide sum is taken at every so many numbers: of a smooth bell that is exact.
    """
    center = center.nan_to_num()
    reach = _REACH * narrowing * (center + 1).sqrt() + _MARGIN
    first = (center - reach).floor().clamp(min=1)
    size = (center + reach).ceil() - first + 1
    stride = (size / most).ceil().clamp(min=1)
    steps = min(most, int(size.amax()))
    return first[:, None] + stride[:, None] * torch.arange(steps).to(center), stride
