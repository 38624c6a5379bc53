"""Families of real numbers: Gaussian, gamma, exponential."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import check_positive
from exfam.families.numeric import (
    INTERIOR,
    MAX_LOG_DISPERSION,
    MAX_LOG_MEAN,
    bounded,
    stirling,
    through_scipy,
)
from exfam.families.plain import ExponentialFamily, PlainFamily

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_SIGN_HINT = "Use Gaussian() for numbers of either sign."


@dataclass(frozen=True)
class Gaussian(ExponentialFamily):
    """Real numbers around eta0. With `scale` known, T = y and natural = mean / scale^2.

    With scale=None, scale = exp(eta1), eta1 bounded by 20 on both sides, T = (y, y^2) and
    natural = (mean / scale^2, -1 / (2 scale^2)).

    >>> Gaussian(scale=1.0).log_prob(torch.tensor([0.0]), torch.zeros(1, 1))
    tensor([-0.9189])
    >>> Gaussian().n_params, Gaussian().n_dispersion
    (2, 1)
    """

    scale: float | None = None
    name: ClassVar[str] = "gaussian"
    equivariance: ClassVar[str] = "location-scale"
    support: ClassVar[str] = "a finite number"

    def __post_init__(self) -> None:
        if self.scale is not None:
            check_positive("scale", self.scale)

    def rescaled(self, scale: float) -> "Gaussian":
        """A known scale divided by `scale`."""
        return self if self.scale is None else Gaussian(scale=self.scale / scale)

    @property
    def n_params(self) -> int:
        """The mean, and log scale unless it is known."""
        return 1 + self.n_dispersion

    @property
    def n_dispersion(self) -> int:
        """1 unless the scale is known."""
        return 1 if self.scale is None else 0

    def _log_scale(self, eta: Tensor) -> Tensor:
        if self.scale is not None:
            return eta.new_tensor(math.log(self.scale))
        return bounded(eta[..., 1], -MAX_LOG_DISPERSION, MAX_LOG_DISPERSION)

    def natural(self, eta: Float[Tensor, "*shape params"]) -> Float[Tensor, "*shape statistics"]:
        """mean / scale^2, and -1 / (2 scale^2) unless the scale is known."""
        precision = (-2 * self._log_scale(eta)).exp()
        first = eta[..., 0] * precision
        if self.scale is not None:
            return first.unsqueeze(-1)
        return torch.stack([first, -0.5 * precision], -1)

    def sufficient_statistic(
        self, value: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape statistics"]:
        """y, and y^2 unless the scale is known."""
        return torch.stack([value, value**2][: self.n_params], -1)

    def log_normalizer(
        self, natural: Float[Tensor, "*shape statistics"]
    ) -> Float[Tensor, "*shape"]:
        """natural^2 scale^2 / 2, or -natural0^2 / (4 natural1) - log(-2 natural1) / 2."""
        if self.scale is not None:
            return 0.5 * (self.scale * natural[..., 0]) ** 2
        first, second = natural.unbind(-1)
        return -(first**2) / (4 * second) - 0.5 * (-2 * second).log()

    def log_base_measure(self, value: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The Gaussian of mean 0 and known scale, or -log(2 pi) / 2."""
        if self.scale is None:
            return torch.full_like(value, -_LOG_ROOT_TWO_PI)
        return -0.5 * (value / self.scale) ** 2 - math.log(self.scale) - _LOG_ROOT_TWO_PI

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        # The square completed: natural^T T - A would cancel where |mean| is far above the scale.
        log_scale = self._log_scale(eta)
        z = (value - eta[..., 0]) * (-log_scale).exp()
        return -0.5 * z * z - log_scale - _LOG_ROOT_TWO_PI

    def _in_support(self, value: Tensor) -> Tensor:
        return value.isfinite()

    def _mean(self, eta: Tensor) -> Tensor:
        return eta[..., 0]

    def _variance(self, eta: Tensor) -> Tensor:
        return (2 * self._log_scale(eta)).exp().expand(eta.shape[:-1])

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        return torch.special.ndtr((value - eta[..., 0]) * (-self._log_scale(eta)).exp())

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        return exact[..., 0] + self._log_scale(exact).exp() * torch.special.ndtri(p)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.empty_like(eta[..., 0]).normal_(generator=generator)
        return eta[..., 0] + self._log_scale(eta).exp() * noise

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        scale = value.std(correction=0)
        # Equal values would give scale 0: a thousandth of their size keeps the density finite.
        low = 1e-3 * value.mean().abs().clamp(min=1.0)
        return torch.stack([value.mean(), scale.clamp(min=low).log()])[: self.n_params]


@dataclass(frozen=True)
class Gamma(PlainFamily):
    """Positive numbers with mean exp(eta0), shape a = exp(eta1) and variance mean^2 / a.

    log p = a log(a / mean) - lgamma(a) + (a - 1) log y - a y / mean. eta0 is bounded by 30 and
    eta1 by 20 on both sides.

    >>> Gamma().log_prob(torch.tensor([1.0]), torch.zeros(1, 2))
    tensor([-1.])
    """

    name: ClassVar[str] = "gamma"
    equivariance: ClassVar[str] = "scale"
    support: ClassVar[str] = "a finite number > 0"
    hint: ClassVar[str] = _SIGN_HINT
    n_params: ClassVar[int] = 2
    n_dispersion: ClassVar[int] = 1
    _inside: ClassVar[float] = 1.0

    def _logs(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """Log mean and log shape."""
        log_mean = bounded(eta[..., 0], -MAX_LOG_MEAN, MAX_LOG_MEAN)
        return log_mean, bounded(eta[..., 1], -MAX_LOG_DISPERSION, MAX_LOG_DISPERSION)

    def _in_support(self, value: Tensor) -> Tensor:
        return (value > 0) & (value < torch.inf)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        log_mean, log_shape = self._logs(eta)
        shape, log_value = log_shape.exp(), value.log()
        distance = log_value - log_mean
        return shape * (distance - distance.expm1()) + stirling(shape) - log_value

    def _mean(self, eta: Tensor) -> Tensor:
        return self._logs(eta)[0].exp()

    def _variance(self, eta: Tensor) -> Tensor:
        log_mean, log_shape = self._logs(eta)
        return (2 * log_mean - log_shape).exp()

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        log_mean, log_shape = self._logs(eta.double())
        scaled = value.double().clamp(min=0) * (log_shape - log_mean).exp()
        return torch.special.gammainc(log_shape.exp(), scaled)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import gammaincinv

        log_mean, log_shape = self._logs(eta.double())
        unit = through_scipy(gammaincinv, log_shape.exp(), p)
        return unit * (log_mean - log_shape).exp()

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        log_mean, log_shape = self._logs(eta)
        unit = torch._standard_gamma(log_shape.exp(), generator=generator)
        return (unit * (log_mean - log_shape).exp()).clamp(min=torch.finfo(eta.dtype).tiny)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.clamp(min=INTERIOR).log().unsqueeze(-1)

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
class Exponential(ExponentialFamily):
    """Waiting times with mean exp(eta): T = y, natural = -1 / mean, A = log mean, h = 1.

    eta is bounded by 30 on both sides.

    >>> Exponential().log_prob(torch.tensor([2.0]), torch.zeros(1, 1))
    tensor([-2.])
    """

    name: ClassVar[str] = "exponential"
    equivariance: ClassVar[str] = "scale"
    support: ClassVar[str] = "a finite number >= 0"
    hint: ClassVar[str] = _SIGN_HINT

    def natural(self, eta: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape 1"]:
        """-1 / mean."""
        return -(-bounded(eta, -MAX_LOG_MEAN, MAX_LOG_MEAN)).exp()

    def sufficient_statistic(self, value: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape 1"]:
        """T(y) = y."""
        return value.unsqueeze(-1)

    def log_normalizer(self, natural: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape"]:
        """A = -log(-natural)."""
        return -(-natural[..., 0]).log()

    def log_base_measure(self, value: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """log h = 0."""
        return torch.zeros_like(value)

    def _in_support(self, value: Tensor) -> Tensor:
        return (value >= 0) & (value < torch.inf)

    def _mean(self, eta: Tensor) -> Tensor:
        return bounded(eta[..., 0], -MAX_LOG_MEAN, MAX_LOG_MEAN).exp()

    def _variance(self, eta: Tensor) -> Tensor:
        return self._mean(eta) ** 2

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        return -torch.expm1(-value.clamp(min=0) / self._mean(eta))

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return -torch.log1p(-p) * self._mean(eta.double())

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        mean = self._mean(eta)
        return mean * torch.empty_like(mean).exponential_(generator=generator)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.clamp(min=INTERIOR).log().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        return value.mean().clamp(min=INTERIOR).log().unsqueeze(-1)
