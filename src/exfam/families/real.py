"""The Gaussian, and continuous families on standardized values: a column's unit changes nothing.

y = center + scale * z, and the parameters `eta` are those of z. Densities, moments and quantiles
are in the unit of y, exactly: log p(y) = log p(z) - log(scale). `scaled_to` takes center and scale
from training values. With them, y -> a y + b gives the same z, to the bit but for rounding, and
hence the same fit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from exfam.checks import ExfamError, check_positive
from exfam.families import base
from exfam.families.per_item import PerItem

LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)
# Standardized values are whole multiples of this where networks see them: what the rounding of
# a y + b leaves in their last bits would grow in the course of a fit.
_STEP = 2.0**-20
# In single precision; a density this far out is 0 for all purposes, but not minus infinity nats.
_FARTHEST = 1e18
# Nats of which the sum of a billion is a number still.
_LOWEST = -1e299
# Inputs of networks grow by logarithms from here on.
_FAR_INPUT = 100.0
_NORMAL_MAD, _NORMAL_Q90 = 0.6745, 1.6449  # quantiles of |z| of a Gaussian, levels .5 and .9
_ROUNDING = 1e-13  # relative to the center: the spread of equal numbers


@dataclass(frozen=True)
class Gaussian(base.ExponentialFamily):
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
        return self if self.scale is None else Gaussian(scale=self.scale / scale)

    @property
    def n_dispersion(self) -> int:
        return 1 if self.scale is None else 0

    def _log_scale(self, eta: Tensor) -> Tensor:
        if self.scale is not None:
            return eta.new_tensor(math.log(self.scale))
        return base.bounded(eta[..., 1], -base.MAX_LOG_DISPERSION, base.MAX_LOG_DISPERSION)

    def natural(self, eta: base.Eta) -> base.Statistics:
        precision = (-2 * self._log_scale(eta)).exp()
        first = eta[..., 0] * precision
        if self.scale is not None:
            return first.unsqueeze(-1)
        return torch.stack([first, -0.5 * precision], -1)

    def sufficient_statistic(self, value: base.Values) -> base.Statistics:
        return torch.stack([value, value**2][: self.n_params], -1)

    def log_normalizer(self, natural: base.Statistics) -> base.Numbers:
        if self.scale is not None:
            return 0.5 * (self.scale * natural[..., 0]) ** 2
        first, second = natural.unbind(-1)
        return -(first**2) / (4 * second) - 0.5 * (-2 * second).log()

    def log_base_measure(self, value: base.Values) -> base.Numbers:
        if self.scale is None:
            return torch.full_like(value, -LOG_ROOT_TWO_PI)
        return -0.5 * (value / self.scale) ** 2 - math.log(self.scale) - LOG_ROOT_TWO_PI

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        # The square completed: natural^T T - A would cancel where |mean| is far above the scale.
        log_scale = self._log_scale(eta)
        z = (value - eta[..., 0]) * (-log_scale).exp()
        return -0.5 * z * z - log_scale - LOG_ROOT_TWO_PI

    def _in_support(self, value: Tensor) -> Tensor:
        return value.isfinite()

    def _mean(self, eta: Tensor) -> Tensor:
        return eta[..., 0]

    def _variance(self, eta: Tensor) -> Tensor:
        return (2 * self._log_scale(eta)).exp().expand(eta.shape[:-1])

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        z = (value - eta[..., 0]) * (-self._log_scale(eta)).exp()
        return torch.special.erfc(z * -_ROOT_HALF) / 2  # ndtr has no digits in the lower tail

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        return self.cdf(-value.double(), mirrored(eta))

    def quantile_above(self, p: base.Level, eta: base.Eta) -> base.Numbers:
        return -self.quantile(p, mirrored(eta))

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


def mirrored(eta: Float[Tensor, "*shape params"]) -> Float[Tensor, "*shape params"]:
    """Of -y, where y is as far below its location as above; in double precision."""
    return torch.cat([-eta[..., :1], eta[..., 1:]], -1).double()


@dataclass(frozen=True)
class Scaled(base.Family):
    """The distribution of center + scale * z, where z has that of `family` in that unit.

    `family` is in the unit of y: what it holds fixed, such as Gaussian(scale=2.0), is divided by
    `scale`. It must be one that shifts and scales map onto itself (`equivariance`), and `center`
    must be 0 where only scales do.

    Raises ExfamError for another family or center.
    """

    family: base.Family
    center: float
    scale: float

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        allowed = {"scale": self.center == 0, "location-scale": math.isfinite(self.center)}
        if not allowed.get(self.family.equivariance, False):
            raise ExfamError(
                "`family` must be one that its shifts and scales map onto itself, got "
                f"{self.family} with center {self.center:g}. Leave such a family as it is."
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the family of the values."""
        return self.family.name

    @cached_property
    def of_units(self) -> base.Family:
        """The family of z."""
        return self.family.rescaled(self.scale)

    @property
    def n_params(self) -> int:
        return self.of_units.n_params

    @property
    def n_dispersion(self) -> int:
        return self.of_units.n_dispersion

    @property
    def has_mean(self) -> bool:  # type: ignore[override]
        return self.family.has_mean

    @property
    def has_log_link(self) -> bool:  # type: ignore[override]
        return self.family.has_log_link

    @property
    def support(self) -> str:
        return self.family.support

    @property
    def hint(self) -> str:
        return self.family.hint

    def standardize(self, value: base.Values, *, item: base.Items = None) -> base.Numbers:
        """z in float64, rounded as networks see it: multiples of 2^-20, or to single precision."""
        unit = self.to_units(value)
        if self.family.equivariance == "location-scale":
            unit = (unit / _STEP).round() * _STEP
        return self._single(unit).double()

    def restore(self, unit: base.Values, *, item: base.Items = None) -> base.Numbers:
        """center + scale * z, in float64."""
        return self.center + self.scale * unit.double()

    def network_input(self, value: base.Values, *, item: base.Items = None) -> base.Numbers:
        """z, beyond 100 its logarithm."""
        return base.compressed(self.standardize(value), _FAR_INPUT)

    def to_units(self, value: base.Values) -> base.Numbers:
        """z in float64, not rounded."""
        return (value.double() - self.center) / self.scale

    def _single(self, unit: Tensor) -> Tensor:
        """Single precision, in which no finite number becomes infinite and none above 0 is 0."""
        near = torch.where(unit.isfinite(), unit.clamp(-_FARTHEST, _FARTHEST), unit)
        tiny = torch.finfo(torch.float32).tiny
        return torch.where((unit > 0) & (near < tiny), tiny, near).float()

    def in_support(self, value: base.Values, item: base.Items = None) -> Bool[Tensor, "..."]:
        return self.family.in_support(value)

    def has_mass(self, value: base.Values, item: base.Items = None) -> Bool[Tensor, "..."]:
        return self.family.has_mass(value)

    def _finite(self, moment: Tensor, eta: Tensor) -> Tensor:
        """A moment in the precision of `eta`, finite where the family has one."""
        most = torch.finfo(eta.dtype).max if self.has_mean else torch.inf
        return moment.clamp(-most, most).to(eta.dtype)

    def log_prob(
        self, value: base.Values, eta: base.Eta, *, item: base.Items = None
    ) -> base.Numbers:
        """Log-density in nats a unit of y; -inf with gradient 0 outside the support only."""
        exact = eta.dtype is torch.float64
        unit = self.to_units(value) if exact else self.standardize(value).to(eta.dtype)
        nats = self.of_units.log_prob(unit, eta)
        lowest = max(torch.finfo(eta.dtype).min / 2, _LOWEST)
        nats = torch.where(self.of_units.in_support(unit), nats.clamp(min=lowest), nats)
        return torch.where(self.of_units.has_mass(unit), nats, nats - math.log(self.scale))

    def unit_log_prob(
        self, unit: base.Values, eta: base.Eta, *, item: base.Items = None
    ) -> base.Numbers:
        return self.of_units.log_prob(unit, eta)

    def mean(self, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        return self._finite(self.restore(self.of_units.mean(eta)), eta)

    def variance(self, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        # One factor after the other: the square of a scale may be too small for a number.
        variance = self.scale * (self.scale * self.of_units.variance(eta).double())
        return self._finite(variance, eta)

    def cdf(self, value: base.Values, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        return self.of_units.cdf(self.to_units(value).to(eta.dtype), eta)

    def quantile(self, p: base.Level, eta: base.Eta, *, item: base.Items = None) -> base.Numbers:
        return self.restore(self.of_units.quantile(p, eta)).to(eta.dtype)

    def sample(
        self, eta: base.Eta, *, generator: torch.Generator, item: base.Items = None
    ) -> base.Numbers:
        drawn, most = self.of_units.sample(eta, generator=generator), torch.finfo(eta.dtype).max
        return self.restore(drawn).clamp(-most, most).to(eta.dtype)

    def from_mean(
        self, mean: base.Mean, *, dispersion: base.Spread = None, item: base.Items = None
    ) -> base.Eta:
        return self.of_units.from_mean(self.to_units(mean).to(mean.dtype), dispersion=dispersion)

    def initial_eta(
        self, value: base.Sample, *, item: base.SampleItems = None
    ) -> Float[Tensor, " params"]:
        eta = self.of_units.initial_eta(self.standardize(value))
        return eta.to(value.dtype if value.is_floating_point() else torch.get_default_dtype())


def scaled_to(
    family: base.Family, value: base.Sample, *, item: base.SampleItems = None
) -> base.Family:
    """`family` on values standardized as training values are; as it is if it has no scale.

    `PerItem` has each of its families on the values of its own items, which `item` names by codes.
    """
    if isinstance(family, PerItem):
        which = family.which(item)
        own = {
            part: scaled_to(part, value[which == index])
            for index, part in enumerate(family.distinct)
        }
        families: Mapping[int | np.integer | str, base.Family] = {
            code: own[part] for code, part in family.families.items()
        }
        return PerItem(families, None if family.default is None else own[family.default])
    if family.equivariance == "none":
        return family
    tensor = value.detach().cpu().double()
    numbers = tensor[family.in_support(tensor)].numpy()
    if not len(numbers):
        return family
    if family.equivariance == "location-scale":
        return Scaled(family, *location_and_scale(numbers))
    above = numbers[numbers > 0]
    return Scaled(family, 0.0, _entry(above, 0.5) if len(above) else 1.0)


def location_and_scale(value: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """A median and a robust scale > 0 of finite numbers, which follow them through a y + b.

    The scale is the median distance from the median, in units of a Gaussian's standard deviation;
    where most numbers are all but equal, the ninth decile of the distances, then their root mean
    square. Equal numbers have their size as scale, zeros 1.
    """
    # Entries, not means of two: their distance from the center is exactly 0 in any unit.
    center = _entry(value, 0.5)
    distance = np.abs(value - center)
    middle, wide = _entry(distance, 0.5) / _NORMAL_MAD, _entry(distance, 0.9) / _NORMAL_Q90
    largest = float(distance.max())
    candidates = [middle if middle > 1e-3 * wide else wide]
    if largest > 0:
        candidates.append(largest * float(np.sqrt(np.mean((distance / largest) ** 2))))
    for scale in candidates:
        if scale > _ROUNDING * abs(center):
            return center, scale
    return center, abs(center) or 1.0


def _entry(value: Float[np.ndarray, "n"], level: float) -> float:
    """The lower quantile of that level, one of the numbers."""
    index = int((len(value) - 1) * level)
    return float(np.partition(value, index)[index])
