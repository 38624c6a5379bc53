"""Families of counts: Bernoulli, binomial, Poisson, negative binomial."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exfam.checks import ExfamError, check_choice
from exfam.families import base
from exfam.families.numeric import (
    check_integer,
    integers_from,
    log_rising_factorial,
    search_integer,
    softplus,
    through_scipy,
)

_LINKS = ("log", "one-plus-exp")


class Successes(base.ExponentialFamily):
    """Successes among independent trials: T = y, A = trials * log(1 + exp(eta))."""

    @property
    @abstractmethod
    def trials(self) -> int: ...

    def natural(self, eta: base.Eta) -> base.Statistics:
        return eta

    def log_normalizer(self, natural: base.Statistics) -> base.Numbers:
        return self.trials * softplus(natural[..., 0])

    def log_base_measure(self, value: base.Values) -> base.Numbers:
        n = value.new_tensor(self.trials + 1.0)
        return n.lgamma() - (value + 1).lgamma() - (n - value).lgamma()

    def _in_support(self, value: Tensor) -> Tensor:
        return integers_from(value, 0) & (value <= self.trials)

    def _mean(self, eta: Tensor) -> Tensor:
        return self.trials * eta[..., 0].sigmoid()

    def _variance(self, eta: Tensor) -> Tensor:
        return self.trials * eta[..., 0].sigmoid() * (-eta[..., 0]).sigmoid()

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import betaincc

        k = value.floor().clamp(0, self.trials - 1)
        rate = eta[..., 0].double().sigmoid()
        below_end = through_scipy(betaincc, k + 1, self.trials - k, rate)
        return torch.where(value < 0, 0.0, torch.where(value >= self.trials, 1.0, below_end))

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        return self.cdf(self.trials - 1 - value.double().floor(), -eta.double())

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        quantile = search_integer(lambda k: self._cdf(k, exact), p, eta.shape[:-1])
        return quantile.clamp(max=self.trials)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        rate = eta[..., 0].sigmoid()
        return torch.binomial(torch.full_like(rate, self.trials), rate, generator=generator)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return (mean / self.trials).clamp(base.INTERIOR, 1 - base.INTERIOR).logit().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        total = value.numel() * self.trials
        return (value.sum() / total).clamp(0.5 / total, 1 - 0.5 / total).logit().unsqueeze(-1)


@dataclass(frozen=True)
class Bernoulli(Successes):
    """0 or 1: P(1) = sigmoid(eta). T = y, A = log(1 + exp(eta)), h = 1.

    >>> Bernoulli().log_prob(torch.tensor([0.0, 1.0]), torch.zeros(2, 1))
    tensor([-0.6931, -0.6931])
    """

    name: ClassVar[str] = "bernoulli"
    support: ClassVar[str] = "0 or 1"
    hint: ClassVar[str] = "Use Binomial(n) or Poisson() for counts."
    categories: ClassVar[tuple[int, ...]] = (0, 1)
    trials: ClassVar[int] = 1

    def log_base_measure(self, value: base.Values) -> base.Numbers:
        return torch.zeros_like(value)


@dataclass(frozen=True)
class Binomial(Successes):
    """Successes among `n` trials: log p = y eta - n log(1 + exp(eta)) + log C(n, y).

    >>> Binomial(2).probs(torch.zeros(1))
    tensor([0.2500, 0.5000, 0.2500])
    """

    n: int
    name: ClassVar[str] = "binomial"

    def __post_init__(self) -> None:
        check_integer("n", self.n, at_least=1)

    @property
    def trials(self) -> int:
        return self.n

    @property
    def support(self) -> str:
        return f"an integer from 0 to {self.n}"

    @property
    def hint(self) -> str:
        if self.n == 1:
            return "Use a larger n, or Poisson() for counts without an end."
        ratings = f"Ordinal({self.n}, start=1) for ratings 1 to {self.n}"
        return f"Use a larger n, Poisson() for counts without an end, or {ratings}."

    @property
    def categories(self) -> tuple[int, ...]:
        return tuple(range(self.n + 1))


class _Counts(base.PlainFamily):
    """Whole numbers from `shift` on."""

    shift: int

    @property
    def support(self) -> str:
        return f"an integer >= {self.shift}"

    @property
    def hint(self) -> str:
        if self.shift > 0:
            return f"Use {type(self).__name__}(shift=0) for counts from 0."
        return "Use Gaussian() for real numbers."

    @property
    def _inside(self) -> float:
        return float(self.shift)

    def quantile_above(self, p: base.Level, eta: base.Eta) -> base.Numbers:
        level, exact = torch.as_tensor(p, dtype=torch.float64, device=eta.device), eta.double()
        count = search_integer(
            lambda k: -self.above(k + self.shift, exact), -level, exact.shape[:-1]
        )
        return torch.where(level > 0, count + self.shift, torch.inf)

    def _in_support(self, value: Tensor) -> Tensor:
        return integers_from(value, self.shift)


@dataclass(frozen=True)
class Poisson(_Counts, base.ExponentialFamily):
    """Counts from `shift`: y - shift ~ Poisson(rate), T = y - shift, A = rate, h = 1 / T!.

    link="log": rate = exp(eta), the EFA paper's v1 (with shift=1 for ratings from 1).
    link="one-plus-exp": rate = 1 + exp(eta), its v2, which has no shift.
    exp(eta) stops growing at exp(30). Source: EFA paper, section 4.1, proposition 3.

    >>> Poisson(shift=1).mean(torch.zeros(1))
    tensor(2.)
    >>> Poisson(link="one-plus-exp").mean(torch.zeros(1))
    tensor(2.)
    """

    shift: int = 0
    link: str = "log"
    name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        check_integer("shift", self.shift)
        check_choice("link", self.link, _LINKS)
        if self.link == "one-plus-exp" and self.shift != 0:
            raise ExfamError(
                f'`shift` must be 0 with link="one-plus-exp", got {self.shift}. '
                'Use link="log" for shifted counts.'
            )

    @property
    def has_log_link(self) -> bool:  # type: ignore[override]
        return self.link == "log" and self.shift == 0

    def natural(self, eta: base.Eta) -> base.Statistics:
        exponent = base.bounded(eta, -torch.inf, base.MAX_LOG_MEAN)
        return exponent if self.link == "log" else softplus(exponent)

    def sufficient_statistic(self, value: base.Values) -> base.Statistics:
        return (value - self.shift).unsqueeze(-1)

    def log_normalizer(self, natural: base.Statistics) -> base.Numbers:
        return natural[..., 0].exp()

    def log_base_measure(self, value: base.Values) -> base.Numbers:
        return -(value - self.shift + 1).lgamma()

    def _rate(self, eta: Tensor) -> Tensor:
        return self.natural(eta)[..., 0].exp()

    def _mean(self, eta: Tensor) -> Tensor:
        return self._rate(eta) + self.shift

    def _variance(self, eta: Tensor) -> Tensor:
        return self._rate(eta)

    def _count_cdf(self, count: Tensor, rate: Tensor) -> Tensor:
        inside = torch.special.gammaincc(count.floor().clamp(min=0) + 1, rate)
        return torch.where(count < 0, 0.0, inside)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        return self._count_cdf(value.double() - self.shift, self._rate(eta.double()))

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        count = value.double().floor() - self.shift
        rate = self._rate(eta.double())
        inside = torch.special.gammainc(*torch.broadcast_tensors(count.clamp(min=0) + 1, rate))
        return torch.where(count < 0, 1.0, inside)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        rate = self._rate(eta.double())
        return search_integer(lambda k: self._count_cdf(k, rate), p, rate.shape) + self.shift

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        return torch.poisson(self._rate(eta), generator=generator) + self.shift

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        start = self.shift if self.link == "log" else 1
        return (mean - start).clamp(min=base.INTERIOR).log().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        # exp(eta) is also the gradient's factor with one-plus-exp: near 0 it would never move.
        low = 0.5 / value.numel() if self.link == "log" else 0.01
        start = self.shift if self.link == "log" else 1
        return (value.mean() - start).clamp(min=low).log().unsqueeze(-1)


@dataclass(frozen=True)
class NegativeBinomial(_Counts):
    """Counts from `shift` with variance mu + mu^2 / r above that: mu = exp(eta0), r = exp(eta1).

    p(shift + k) = C(k + r - 1, k) (mu / (r + mu))^k (r / (r + mu))^r; Poisson(mu) as r grows.
    eta0 is bounded above by 30, eta1 by 20 on both sides.

    >>> NegativeBinomial().variance(torch.zeros(2))
    tensor(2.)
    """

    shift: int = 0
    name: ClassVar[str] = "negative-binomial"
    n_dispersion: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_integer("shift", self.shift)

    @property
    def has_log_link(self) -> bool:  # type: ignore[override]
        return self.shift == 0

    def _logs(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """log mu and log r."""
        log_mean = base.bounded(eta[..., 0], -torch.inf, base.MAX_LOG_MEAN)
        return log_mean, base.bounded(
            eta[..., 1], -base.MAX_LOG_DISPERSION, base.MAX_LOG_DISPERSION
        )

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        count = value - self.shift
        log_mean, log_size = self._logs(eta)
        size = log_size.exp()
        choices = log_rising_factorial(size, count) - (count + 1).lgamma()
        return choices + count * log_mean - (count + size) * softplus(log_mean - log_size)

    def _mean(self, eta: Tensor) -> Tensor:
        return self._logs(eta)[0].exp() + self.shift

    def _variance(self, eta: Tensor) -> Tensor:
        log_mean, log_size = self._logs(eta)
        return log_mean.exp() + (2 * log_mean - log_size).exp()

    def _count_cdf(self, count: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import betaincc

        log_mean, log_size = self._logs(eta)
        k = count.floor().clamp(min=0)
        above = (log_mean - log_size).sigmoid()
        inside = through_scipy(betaincc, k + 1, log_size.exp(), above)
        return torch.where(count < 0, 0.0, inside)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        return self._count_cdf(value.double() - self.shift, eta.double())

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        from scipy.special import betainc

        log_mean, log_size = self._logs(eta.double())
        count = value.double().floor() - self.shift
        share = (log_mean - log_size).sigmoid()
        inside = through_scipy(betainc, count.clamp(min=0) + 1, log_size.exp(), share)
        return torch.where(count < 0, 1.0, inside)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        return search_integer(lambda k: self._count_cdf(k, exact), p, eta.shape[:-1]) + self.shift

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        log_mean, log_size = self._logs(eta)
        unit = torch._standard_gamma(log_size.exp(), generator=generator)
        return torch.poisson(unit * (log_mean - log_size).exp(), generator=generator) + self.shift

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return (mean - self.shift).clamp(min=base.INTERIOR).log().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        mean = (value.mean() - self.shift).clamp(min=0.5 / value.numel())
        excess = (value.var(correction=0) - mean).clamp(min=base.INTERIOR)
        return torch.stack([mean.log(), (mean**2 / excess).log().clamp(-5.0, 8.0)])
