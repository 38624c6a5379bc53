"""Numbers of either sign, some of them orders of magnitude off."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from exfam.checks import check_positive
from exfam.families.base import Eta, Level, Numbers, PlainFamily, Values
from exfam.families.student_t import StudentT


@dataclass(frozen=True)
class SinhStudentT(PlainFamily):
    """Numbers of either sign over many orders of magnitude: y = bend sinh(L), L is Student's t.

    Numbers well below `bend`, in the unit of y, are nearly Student's t themselves; the logarithms
    of those far above it are. So 0 and negative numbers have densities, as incomes, changes and
    amounts of rain need.

    Parameters are those of StudentT, of L = asinh(y / bend). The median is bend sinh(eta0); there
    is no mean, given as inf, and `from_mean` takes a mean as the median.

    Raises ExfamError unless bend > 0.

    >>> SinhStudentT(bend=2.0).log_prob(torch.zeros(1), torch.zeros(1, 3))
    tensor([-1.6940])
    >>> SinhStudentT().quantile(0.5, torch.tensor([3.0, 0.0, 0.0]))
    tensor(10.0179)
    """

    bend: float = 1.0
    name: ClassVar[str] = "sinh-student-t"
    equivariance: ClassVar[str] = "scale"
    support: ClassVar[str] = "a finite number"
    has_mean: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("bend", self.bend)

    @cached_property
    def latent(self) -> StudentT:
        """The distribution of L."""
        return StudentT()

    @property
    def n_dispersion(self) -> int:
        return self.latent.n_dispersion

    def rescaled(self, scale: float) -> "SinhStudentT":
        return SinhStudentT(self.bend / scale)

    def to_latent(self, value: Values) -> Numbers:
        """L of each value."""
        return (value / self.bend).asinh()

    def from_latent(self, latent: Numbers) -> Numbers:
        """The value of each L, at most the largest number there is."""
        most = torch.finfo(latent.dtype).max
        return (self.bend * latent.sinh()).clamp(-most, most)

    def _in_support(self, value: Tensor) -> Tensor:
        return value.isfinite()

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        unit = value / self.bend
        log_slope = torch.hypot(torch.ones_like(unit), unit).log() + math.log(self.bend)
        return self.latent.log_prob(unit.asinh(), eta) - log_slope

    def _mean(self, eta: Tensor) -> Tensor:
        return torch.where(eta.isnan().any(-1), torch.nan, torch.inf).to(eta.dtype)

    def _variance(self, eta: Tensor) -> Tensor:
        return self._mean(eta)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        return self.latent.cdf(self.to_latent(value.double()), eta.double())

    def above(self, value: Values, eta: Eta) -> Numbers:
        return self.latent.above(self.to_latent(value.double()), eta)

    def quantile_above(self, p: Level, eta: Eta) -> Numbers:
        return self.bend * self.latent.quantile_above(p, eta).sinh()

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return self.bend * self.latent.quantile(p, eta.double()).sinh()

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        return self.from_latent(self.latent.sample(eta, generator=generator))

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return self.to_latent(mean).unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        return self.latent.initial_eta(self.to_latent(value))
