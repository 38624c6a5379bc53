"""Positive numbers whose logarithm is Gaussian or Student's t."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from exfam.families.base import INTERIOR, Eta, Level, Numbers, PlainFamily, Values
from exfam.families.latent import OfLatent
from exfam.families.numeric import at_most_finite
from exfam.families.positive import PositiveNumbers
from exfam.families.real import Gaussian
from exfam.families.student_t import StudentT


class _OfLogarithms(PositiveNumbers):
    """Positive numbers whose logarithms have the distribution `of_logs`, with its parameters."""

    hint: ClassVar[str] = "Use Gaussian() or StudentT() for numbers of either sign."

    @property
    @abstractmethod
    def of_logs(self) -> PlainFamily:
        """The distribution of log y."""

    @property
    def n_dispersion(self) -> int:
        return self.of_logs.n_dispersion

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        log_value = value.log()
        return self.of_logs.log_prob(log_value, eta) - log_value

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        logs = value.double().clamp(min=0).log()
        return self.of_logs.cdf(logs, eta.double())

    def above(self, value: Values, eta: Eta) -> Numbers:
        return self.of_logs.above(value.double().clamp(min=0).log(), eta)

    def quantile_above(self, p: Level, eta: Eta) -> Numbers:
        return self.of_logs.quantile_above(p, eta).exp()

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return self.of_logs.quantile(p, eta.double()).exp()

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        limits = torch.finfo(eta.dtype)
        drawn = self.of_logs.sample(eta, generator=generator).exp()
        return drawn.clamp(limits.tiny, limits.max)

    def _initial_eta(self, value: Tensor) -> Tensor:
        return self.of_logs.initial_eta(value.log())


@dataclass(frozen=True)
class LogNormal(_OfLogarithms):
    """Positive numbers whose logarithm is Gaussian: log y ~ Normal(eta0, exp(eta1)).

    The median is exp(eta0) and the mean exp(eta0 + exp(2 eta1) / 2), at most what the precision of
    `eta` holds. eta1 is bounded by 20 on both sides.

    >>> LogNormal().log_prob(torch.tensor([1.0]), torch.zeros(1, 2))
    tensor([-0.9189])
    >>> LogNormal().mean(torch.zeros(2))
    tensor(1.6487)
    """

    name: ClassVar[str] = "log-normal"

    @cached_property
    def of_logs(self) -> Gaussian:
        """The Gaussian of log y."""
        return Gaussian()

    def _mean(self, eta: Tensor) -> Tensor:
        return at_most_finite(eta[..., 0] + self.of_logs.variance(eta) / 2)

    def _variance(self, eta: Tensor) -> Tensor:
        # exp(2 eta0 + v) (exp(v) - 1), where exp(v) may overflow or all but be 1.
        v = self.of_logs.variance(eta)
        return at_most_finite(2 * (eta[..., 0] + v) + (-torch.expm1(-v)).log())

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        eta = torch.cat([mean.unsqueeze(-1), dispersion], -1)
        location = mean.clamp(min=INTERIOR).log() - self.of_logs.variance(eta) / 2
        return location.unsqueeze(-1)


@dataclass(frozen=True)
class LogStudentT(_OfLogarithms, OfLatent):
    """Positive numbers, some of them orders of magnitude off: log y is Student's t.

    Parameters and `df` are those of StudentT, of log y. The median is exp(eta0); the mean and the
    variance are infinite, and `from_mean` takes a mean as the median.

    Raises ExfamError unless df > 2.

    >>> LogStudentT(df=4.0).log_prob(torch.tensor([1.0]), torch.zeros(1, 2))
    tensor([-0.9808])
    >>> LogStudentT().quantile(0.5, torch.zeros(3))
    tensor(1.)
    """

    df: float | None = None
    name: ClassVar[str] = "log-student-t"
    has_mean: ClassVar[bool] = False

    def __post_init__(self) -> None:
        StudentT(df=self.df)

    @cached_property
    def of_logs(self) -> StudentT:
        """Student's t of log y."""
        return StudentT(df=self.df)

    @property
    def latent(self) -> StudentT:
        return self.of_logs

    def to_latent(self, value: Tensor) -> Tensor:
        return value.log()

    def from_latent(self, latent: Tensor) -> Tensor:
        limits = torch.finfo(latent.dtype)
        return latent.exp().clamp(limits.tiny, limits.max)

    def log_slope(self, value: Tensor) -> Tensor:
        return -value.log()

    def latent_unit(self, scale: float) -> tuple[float, float]:
        return math.log(scale), 1.0

    def _mean(self, eta: Tensor) -> Tensor:
        return torch.where(eta.isnan().any(-1), torch.nan, torch.inf).to(eta.dtype)

    def _variance(self, eta: Tensor) -> Tensor:
        return self._mean(eta)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.clamp(min=INTERIOR).log().unsqueeze(-1)
