"""Families of positive numbers: gamma, exponential, Weibull."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exfam.families import base
from exfam.families.likelihood import maximize_nats
from exfam.families.numeric import at_most_finite, stirling, through_scipy

_SIGN_HINT = "Use Gaussian() for numbers of either sign."
_SMALL = 1e-5  # squares of it are all that is left of a variance's series
_MOST_LOG = 50.0  # of logarithms in units of their spread


def _logs(eta: Tensor) -> tuple[Tensor, Tensor]:
    """Log mean or scale, and log shape."""
    log_size = base.bounded(eta[..., 0], -base.MAX_LOG_MEAN, base.MAX_LOG_MEAN)
    log_shape = base.bounded(eta[..., 1], -base.MAX_LOG_DISPERSION, base.MAX_LOG_DISPERSION)
    return log_size, log_shape


class PositiveNumbers(base.PlainFamily):
    """Families of numbers above 0 whose first parameter is the logarithm of a size."""

    equivariance: ClassVar[str] = "scale"
    has_log_link: ClassVar[bool] = True
    support: ClassVar[str] = "a finite number > 0"
    hint: ClassVar[str] = _SIGN_HINT
    _inside: ClassVar[float] = 1.0

    def _in_support(self, value: Tensor) -> Tensor:
        return (value > 0) & (value < torch.inf)


@dataclass(frozen=True)
class Gamma(PositiveNumbers):
    """Positive numbers with mean exp(eta0), shape a = exp(eta1) and variance mean^2 / a.

    log p = a log(a / mean) - lgamma(a) + (a - 1) log y - a y / mean. eta0 is bounded by 30 and
    eta1 by 20 on both sides.

    >>> Gamma().log_prob(torch.tensor([1.0]), torch.zeros(1, 2))
    tensor([-1.])
    """

    name: ClassVar[str] = "gamma"
    n_dispersion: ClassVar[int] = 1

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        log_mean, log_shape = _logs(eta)
        shape, log_value = log_shape.exp(), value.log()
        distance = log_value - log_mean
        return shape * (distance - distance.expm1()) + stirling(shape) - log_value

    def _mean(self, eta: Tensor) -> Tensor:
        return _logs(eta)[0].exp()

    def _variance(self, eta: Tensor) -> Tensor:
        log_mean, log_shape = _logs(eta)
        return (2 * log_mean - log_shape).exp()

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        log_mean, log_shape = _logs(eta.double())
        scaled = value.double().clamp(min=0) * (log_shape - log_mean).exp()
        return torch.special.gammainc(log_shape.exp(), scaled)

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        log_mean, log_shape = _logs(eta.double())
        scaled = value.double().clamp(min=0) * (log_shape - log_mean).exp()
        return torch.special.gammaincc(*torch.broadcast_tensors(log_shape.exp(), scaled))

    def quantile_above(self, p: base.Level, eta: base.Eta) -> base.Numbers:
        from scipy.special import gammainccinv

        log_mean, log_shape = _logs(eta.double())
        level = torch.as_tensor(p, dtype=torch.float64, device=eta.device)
        return through_scipy(gammainccinv, log_shape.exp(), level) * (log_mean - log_shape).exp()

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import gammaincinv

        log_mean, log_shape = _logs(eta.double())
        unit = through_scipy(gammaincinv, log_shape.exp(), p)
        return unit * (log_mean - log_shape).exp()

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        log_mean, log_shape = _logs(eta)
        unit = torch._standard_gamma(log_shape.exp(), generator=generator)
        return (unit * (log_mean - log_shape).exp()).clamp(min=torch.finfo(eta.dtype).tiny)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.clamp(min=base.INTERIOR).log().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood: Minka (2002), Estimating a gamma distribution, eq. 10 and 11."""
        mean = value.mean()
        gap = (mean.log() - value.log().mean()).clamp(min=1e-8)
        shape = (3 - gap + ((gap - 3) ** 2 + 24 * gap).sqrt()) / (12 * gap)
        for _ in range(4):
            slope = shape * (1 - shape * torch.special.polygamma(1, shape))
            shape = 1 / (1 / shape + (shape.log() - gap - shape.digamma()) / slope)
        return torch.stack([mean.log(), shape.log().clamp(-5.0, 18.0)])


@dataclass(frozen=True)
class Exponential(base.ExponentialFamily):
    """Waiting times with mean exp(eta): T = y, natural = -1 / mean, A = log mean, h = 1.

    eta is bounded by 30 on both sides.

    >>> Exponential().log_prob(torch.tensor([2.0]), torch.zeros(1, 1))
    tensor([-2.])
    """

    name: ClassVar[str] = "exponential"
    equivariance: ClassVar[str] = "scale"
    has_log_link: ClassVar[bool] = True
    support: ClassVar[str] = "a finite number >= 0"
    hint: ClassVar[str] = _SIGN_HINT

    def natural(self, eta: base.Eta) -> base.Statistics:
        return -(-base.bounded(eta, -base.MAX_LOG_MEAN, base.MAX_LOG_MEAN)).exp()

    def log_normalizer(self, natural: base.Statistics) -> base.Numbers:
        return -(-natural[..., 0]).log()

    def _in_support(self, value: Tensor) -> Tensor:
        return (value >= 0) & (value < torch.inf)

    def _mean(self, eta: Tensor) -> Tensor:
        return base.bounded(eta[..., 0], -base.MAX_LOG_MEAN, base.MAX_LOG_MEAN).exp()

    def _variance(self, eta: Tensor) -> Tensor:
        return self._mean(eta) ** 2

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        return -torch.expm1(-value.clamp(min=0) / self._mean(eta))

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        return (-value.double().clamp(min=0) / self._mean(eta.double())).exp()

    def quantile_above(self, p: base.Level, eta: base.Eta) -> base.Numbers:
        return -torch.as_tensor(p, dtype=torch.float64).log() * self._mean(eta.double())

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return -torch.log1p(-p) * self._mean(eta.double())

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        mean = self._mean(eta)
        return mean * torch.empty_like(mean).exponential_(generator=generator)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.clamp(min=base.INTERIOR).log().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        return value.mean().clamp(min=base.INTERIOR).log().unsqueeze(-1)


@dataclass(frozen=True)
class Weibull(PositiveNumbers):
    """Lifetimes: P(Y > y) = exp(-(y / scale)^shape), scale = exp(eta0) and shape = exp(eta1).

    The hazard rises with time where shape > 1 and falls where it is below; Exponential() is shape
    1. The mean is scale Gamma(1 + 1 / shape), at most what the precision of `eta` holds. eta0 is
    bounded by 30 and eta1 by 20 on both sides.

    >>> Weibull().log_prob(torch.tensor([2.0]), torch.zeros(1, 2))
    tensor([-2.])
    """

    name: ClassVar[str] = "weibull"
    n_dispersion: ClassVar[int] = 1

    def _log_hazard(self, value: Tensor, eta: Tensor) -> Tensor:
        """log of (y / scale)^shape, at most what a finite exp allows."""
        log_scale, log_shape = _logs(eta)
        most = 0.4 * math.log(torch.finfo(eta.dtype).max)
        return (log_shape.exp() * (value.log() - log_scale)).clamp(max=most)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        log_hazard = self._log_hazard(value, eta)
        return _logs(eta)[1] + log_hazard - value.log() - log_hazard.exp()

    def _mean(self, eta: Tensor) -> Tensor:
        return at_most_finite(self._log_moment(eta, 1))

    def _log_moment(self, eta: Tensor, power: int) -> Tensor:
        log_scale, log_shape = _logs(eta)
        return power * log_scale + (1 + power * (-log_shape).exp()).lgamma()

    def _variance(self, eta: Tensor) -> Tensor:
        exact = eta.double()
        gap = self._log_moment(exact, 2) - 2 * self._log_moment(exact, 1)
        # 1 + trigamma(1) / shape^2 of large shapes, whose moments are all but equal.
        inverse = (-_logs(exact)[1]).exp()
        near = math.pi**2 / 6 * inverse.square()
        log_excess = torch.where(inverse < _SMALL, near.log(), _log_expm1(gap))
        return at_most_finite((2 * self._log_moment(exact, 1) + log_excess).to(eta.dtype))

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        at = value.double().clamp(min=torch.finfo(torch.float64).tiny)
        below = -torch.expm1(-self._log_hazard(at, eta.double()).exp())
        return torch.where(value > 0, below, 0.0)

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        at = value.double().clamp(min=torch.finfo(torch.float64).tiny)
        above = (-self._log_hazard(at, eta.double()).exp()).exp()
        return torch.where(value > 0, above, 1.0)

    def quantile_above(self, p: base.Level, eta: base.Eta) -> base.Numbers:
        level = torch.as_tensor(p, dtype=torch.float64, device=eta.device)
        return self._of_hazard(-level.log(), eta.double())

    def _of_hazard(self, hazard: Tensor, eta: Tensor) -> Tensor:
        log_scale, log_shape = _logs(eta)
        value = (log_scale + hazard.log() * (-log_shape).exp()).exp()
        return torch.where(hazard.isposinf(), torch.inf, value)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return self._of_hazard(-torch.log1p(-p), eta.double())

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        limits, exact = torch.finfo(eta.dtype), eta.double()
        uniform = torch.empty_like(exact[..., 0]).uniform_(generator=generator)
        drawn = self._quantile(uniform.clamp(min=2.0**-54), exact)
        return drawn.clamp(limits.tiny, limits.max).to(eta.dtype)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        start = torch.cat([torch.zeros_like(mean).unsqueeze(-1), dispersion], -1)
        location = mean.clamp(min=base.INTERIOR).log() - self._log_moment(start, 1)
        return location.unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood, from the moments of the logarithms."""
        logs = value.log()
        center = float(logs.mean())
        spread = max(float(logs.std(correction=0)), 1e-6)
        unit = ((logs - center) / spread).clamp(max=_MOST_LOG)

        def nats(at: Tensor) -> Tensor:
            log_hazard = at[1].exp() * (unit - at[0])
            return (at[1] + log_hazard - log_hazard.exp()).mean()

        bounds = [(-5.0, 50.0), (-5.0, 5.0)]
        at = maximize_nats(nats, [0.45, 0.25], bounds=bounds, device=value.device)
        return torch.stack([center + spread * at[0], at[1] - math.log(spread)])


def _log_expm1(x: Tensor) -> Tensor:
    """log(exp(x) - 1) of x > 0, without overflow."""
    return x + torch.log(-torch.expm1(-x.clamp(min=torch.finfo(x.dtype).tiny)))
