"""What families made of another family share."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families.base import Family, PlainFamily
from exfam.families.between import has_jumps, masses_of, with_slopes
from exfam.families.numeric import bisected, finite_in

_BISECTIONS = 64
_FARTHEST = 1e4  # of a location from its start, in units of its own size


def check_wrapped(family: object, name: str) -> None:
    """Raise ExfamError unless the family is one distribution for all items."""
    if not isinstance(family, PlainFamily):
        raise ExfamError(
            f"`family` of {name} must be a family that is the same for all items, got {family!r}. "
            "Pass an instance such as exfam.families.Poisson()."
        )


class Wrapped(PlainFamily):
    """A family made of another one, whose parameters come first among its own.

    `family`: the one it is made of, the same for all items
    """

    family: Family
    # Options in the unit of values, which wrapping leaves scales of, but not shifts.
    in_unit: ClassVar[tuple[str, ...]] = ()

    @property
    def n_dispersion(self) -> int:
        return self.family.n_dispersion

    @property
    def n_params(self) -> int:
        return self.family.n_params

    @property
    def has_mean(self) -> bool:  # type: ignore[override]
        return self.family.has_mean

    @property
    def has_log_link(self) -> bool:  # type: ignore[override]
        return self.family.has_log_link

    @property
    def equivariance(self) -> str:  # type: ignore[override]
        return "none" if self.family.equivariance == "none" else "scale"

    def rescaled(self, scale: float) -> "Wrapped":
        """With all numbers in the unit of values divided by `scale`."""
        numbers: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name) / scale
            for name in self.in_unit
            if self.equivariance == "scale"
        }
        return replace(self, family=self.family.rescaled(scale), **numbers)  # type: ignore[type-var]

    @property
    def jumps(self) -> bool:
        """Whether the family wrapped knows whole numbers only, or those of a list."""
        return has_jumps(self.family)

    @property
    def spacing(self) -> float:
        return self.family.spacing

    @property
    def masses(self) -> tuple[float, ...]:
        """Where a continuous family may have probabilities."""
        return masses_of(self.family)

    def _of_steps(self, value: Tensor, p: Tensor, eta: Tensor) -> Tensor:
        """Quantiles that rounding may have moved by a step are put right, where there are steps."""
        if not self.jumps:
            return value
        enough = (self._cdf(value - self.spacing, eta) >= p) & (p > 0)
        value = torch.where(enough, value - self.spacing, value)
        return torch.where(self._cdf(value, eta) < p, value + self.spacing, value)


class OfMoments(Wrapped):
    """A family made of another one whose mean and variance are computed together."""

    @abstractmethod
    def moments(self, eta: Float[Tensor, "*shape params"]) -> tuple[Tensor, Tensor]:
        """Mean and variance, in double precision and without gradient."""

    def _mean(self, eta: Tensor) -> Tensor:
        if not self.has_mean:
            return self.family.mean(eta)
        mean = with_slopes(self.family, lambda at: self.moments(at)[0], eta.double())
        return finite_in(mean, eta).masked_fill(eta.isnan().any(-1), torch.nan)

    def _variance(self, eta: Tensor) -> Tensor:
        return finite_in(self.moments(eta)[1], eta) if self.has_mean else self.family.variance(eta)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        """By bisection: the mean rises with the location, the one column before `dispersion`."""
        if not self.has_mean:
            return self.family.from_mean(mean, dispersion=dispersion)[..., :1]
        if self.n_params - self.n_dispersion != 1:
            raise ExfamError(
                f"`family` must be determined by its mean to be built from one, got {self}. "
                "Use initial_eta, or a family such as Gaussian."
            )
        inner = dispersion[..., : self.family.n_dispersion]
        start = self.family.from_mean(mean.double(), dispersion=inner.double())[..., :1]
        wanted, spread = mean.double().unsqueeze(-1), dispersion.double()
        reach = 60 + 2 * start.abs()
        if self.family.n_dispersion:
            reach = reach + (spread[..., :1].exp() * _FARTHEST).clamp(max=1e12)

        def enough(location: Tensor) -> Tensor:
            return self._mean(torch.cat([location, spread], -1))[..., None] >= wanted

        found = bisected(start - reach, start + reach, enough, times=_BISECTIONS)
        return torch.where(wanted.isnan(), wanted, found).to(mean.dtype)
