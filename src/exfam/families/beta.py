"""The beta distribution: shares, numbers between 0 and 1."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from exfam.families import base
from exfam.families.likelihood import maximize_nats
from exfam.families.numeric import stirling, through_scipy

_START_LOG_PRECISION = (-7.0, 18.0)


@dataclass(frozen=True)
class Beta(base.PlainFamily):
    """Numbers between 0 and 1 with mean m = sigmoid(eta0) and precision a + b = exp(eta1).

    log p = lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) log y + (b - 1) log(1 - y), where
    a = m exp(eta1) and b = (1 - m) exp(eta1); the variance is m (1 - m) / (1 + a + b). eta0 is
    bounded by 30 and eta1 by 20 on both sides.

    >>> Beta().log_prob(torch.tensor([0.5]), torch.tensor([[0.0, 1.3863]]))
    tensor([0.4055])
    """

    name: ClassVar[str] = "beta"
    support: ClassVar[str] = "a number > 0 and < 1"
    hint: ClassVar[str] = "Use Bernoulli() for 0 and 1, or Gaussian() for other numbers."
    n_dispersion: ClassVar[int] = 1
    _inside: ClassVar[float] = 0.5

    def _logs(self, eta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logarithms of the mean, of 1 - mean and of the precision."""
        logit = base.bounded(eta[..., 0], -base.MAX_LOG_MEAN, base.MAX_LOG_MEAN)
        log_precision = base.bounded(eta[..., 1], -base.MAX_LOG_DISPERSION, base.MAX_LOG_DISPERSION)
        return logsigmoid(logit), logsigmoid(-logit), log_precision

    def _shapes(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """a and b in double precision."""
        log_mean, log_rest, log_precision = self._logs(eta.double())
        return (log_mean + log_precision).exp(), (log_rest + log_precision).exp()

    def _in_support(self, value: Tensor) -> Tensor:
        return (value > 0) & (value < 1)

    def log_prob(
        self, value: base.Values, eta: base.Eta, *, item: base.Items = None
    ) -> base.Numbers:
        # Single precision would round values near 1 to 1.
        return super().log_prob(value, eta.double(), item=item).to(eta.dtype)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        log_mean, log_rest, log_precision = self._logs(eta)
        precision = log_precision.exp()
        log_value, log_other = value.log(), torch.log1p(-value)
        near_one = log_rest.exp() - (1 - value)
        distance = torch.where(value > 0.5, near_one, value - log_mean.exp())
        divergence = _gain(distance, log_value, log_mean) + _gain(-distance, log_other, log_rest)
        shapes = stirling((log_mean + log_precision).exp())
        shapes = shapes + stirling((log_rest + log_precision).exp()) - stirling(precision)
        return precision * divergence + shapes - log_value - log_other

    def _mean(self, eta: Tensor) -> Tensor:
        return self._logs(eta)[0].exp()

    def _variance(self, eta: Tensor) -> Tensor:
        log_mean, log_rest, log_precision = self._logs(eta)
        return (log_mean + log_rest).exp() / (1 + log_precision.exp())

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import betainc

        return through_scipy(betainc, *self._shapes(eta), value.double().clamp(0, 1))

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        from scipy.special import betaincc

        return through_scipy(betaincc, *self._shapes(eta), value.double().clamp(0, 1))

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import betaincinv

        inside = through_scipy(betaincinv, *self._shapes(eta), p)
        limits = torch.finfo(inside.dtype)
        # Only the levels 0 and 1 belong to the ends themselves.
        return torch.where((p > 0) & (p < 1), inside.clamp(limits.tiny, 1 - limits.eps / 2), p)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        first, second = (_log_gamma_draws(shape, generator) for shape in self._shapes(eta))
        limits = torch.finfo(eta.dtype)
        drawn = (first - second).sigmoid().to(eta.dtype)
        return drawn.clamp(limits.tiny, 1 - limits.eps / 2)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.clamp(base.INTERIOR, 1 - base.INTERIOR).logit().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood, from the moments."""
        mean = value.mean().clamp(base.INTERIOR, 1 - base.INTERIOR)
        variance = value.var(correction=0).clamp(min=base.INTERIOR)
        precision = (mean * (1 - mean) / variance - 1).clamp(0.1, 1e3)
        return maximize_nats(
            lambda eta: self._log_prob(value, eta).mean(),
            [float(mean.logit()), float(precision.log())],
            bounds=[(-base.MAX_LOG_MEAN, base.MAX_LOG_MEAN), _START_LOG_PRECISION],
            device=value.device,
        )


def _gain(distance: Tensor, log_part: Tensor, log_mean: Tensor) -> Tensor:
    """mean (log(1 + u) - u) with u = distance / mean and part = mean + distance."""
    mean = log_mean.exp()
    u = distance / mean
    near = u.abs() < 0.5
    inner = torch.where(near, u, 0.0)
    return mean * torch.where(near, torch.log1p(inner) - inner, log_part - log_mean - u)


def _log_gamma_draws(shape: Tensor, generator: torch.Generator) -> Tensor:
    """Logarithms of gamma draws, finite for the smallest shapes."""
    larger = torch._standard_gamma(shape + 1, generator=generator)
    uniform = torch.empty_like(shape).uniform_(generator=generator)
    return larger.log() + uniform.clamp(min=torch.finfo(shape.dtype).tiny).log() / shape
