"""Continuous families on standardized values, so that the unit of a column changes nothing.

y = center + scale * z, and the parameters `eta` are those of z. Densities, moments and quantiles
are in the unit of y, exactly: log p(y) = log p(z) - log(scale). `scaled_to` takes center and scale
from training values. With them, y -> a y + b gives the same z, to the bit but for rounding, and
hence the same fit.

>>> from exfam.families import Gaussian
>>> family = scaled_to(Gaussian(), torch.tensor([1e-8, 3e-8, 2e-8, 5e-8, 2e-8]))
>>> round(family.center * 1e8, 6)
2.0
>>> round(family.mean(torch.tensor([1.0, 0.0])).item() / family.scale, 3)
2.349
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from exfam.checks import ExfamError, check_positive
from exfam.families.base import Family, compressed
from exfam.families.per_item import PerItem

# Standardized values are whole multiples of this where networks see them: what the rounding of
# a y + b leaves in their last bits would grow in the course of a fit.
_STEP = 2.0**-20
# In single precision; a density this far out is 0 for all purposes, but not minus infinity nats.
_FARTHEST = 1e18
# Nats of which the sum of a billion is a number still.
_LOWEST = -1e299
# Inputs of networks grow by logarithms from here on.
_FAR_INPUT = 100.0
_NORMAL_MAD, _NORMAL_Q90 = 0.6745, 1.6449  # quantiles of |z| of a normal law, levels .5 and .9
_ROUNDING = 1e-13  # relative to the center: the spread of equal numbers


@dataclass(frozen=True)
class Scaled(Family):
    """The law of center + scale * z, where z has the law of `family` in that unit.

    `family` is in the unit of y: what it holds fixed, such as Gaussian(scale=2.0), is divided by
    `scale`. It must be one that shifts and scales map onto itself (`equivariance`), and `center`
    must be 0 where only scales do.

    Raises ExfamError for another family or center.

    >>> from exfam.families import Gaussian
    >>> family = Scaled(Gaussian(scale=2.0), center=100.0, scale=10.0)
    >>> family.mean(torch.tensor([0.5])), family.variance(torch.tensor([0.5])).round(decimals=4)
    (tensor(105.), tensor(4.))
    """

    family: Family
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
    def of_units(self) -> Family:
        """The family of z."""
        return self.family.rescaled(self.scale)

    @property
    def n_params(self) -> int:
        """As many as those of the family of z."""
        return self.of_units.n_params

    @property
    def n_dispersion(self) -> int:
        """As many as those of the family of z."""
        return self.of_units.n_dispersion

    @property
    def support(self) -> str:
        """That of the family."""
        return self.family.support

    @property
    def hint(self) -> str:
        """That of the family."""
        return self.family.hint

    def standardize(
        self, value: Real[Tensor, "*#shape"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """z in float64, rounded as networks see it: multiples of 2^-20, or to single precision."""
        unit = self.to_units(value)
        if self.family.equivariance == "location-scale":
            unit = (unit / _STEP).round() * _STEP
        return self._single(unit).double()

    def restore(
        self, unit: Real[Tensor, "*#shape"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """center + scale * z, in float64."""
        return self.center + self.scale * unit.double()

    def network_input(
        self, value: Real[Tensor, "*#shape"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """z, beyond 100 its logarithm."""
        return compressed(self.standardize(value), _FAR_INPUT)

    def to_units(self, value: Real[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """z in float64, not rounded."""
        return (value.double() - self.center) / self.scale

    def _single(self, unit: Tensor) -> Tensor:
        """Single precision, in which no finite number becomes infinite and none above 0 is 0."""
        near = torch.where(unit.isfinite(), unit.clamp(-_FARTHEST, _FARTHEST), unit)
        tiny = torch.finfo(torch.float32).tiny
        return torch.where((unit > 0) & (near < tiny), tiny, near).float()

    def _as(self, dtype: torch.dtype, value: Tensor) -> Tensor:
        """z for parameters of this dtype."""
        if dtype is torch.float64:
            return self.to_units(value)
        return self.standardize(value).to(dtype)

    def in_support(
        self, value: Real[Tensor, "*#shape"], item: Int[Tensor, "*#shape"] | None = None
    ) -> Bool[Tensor, "..."]:
        """Whether each value can occur. NaN and infinite values never can."""
        return self.family.in_support(value)

    def log_prob(
        self,
        value: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Log-density in nats a unit of y; -inf with gradient 0 outside the support only."""
        unit = self._as(eta.dtype, value)
        nats = self.of_units.log_prob(unit, eta)
        lowest = max(torch.finfo(eta.dtype).min / 2, _LOWEST)
        nats = torch.where(self.of_units.in_support(unit), nats.clamp(min=lowest), nats)
        return nats - math.log(self.scale)

    def unit_log_prob(
        self,
        unit: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Log-density of z."""
        return self.of_units.log_prob(unit, eta)

    def mean(
        self, eta: Float[Tensor, "*#shape params"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Expected value, in the unit of y."""
        return self.restore(self.of_units.mean(eta)).to(eta.dtype)

    def variance(
        self, eta: Float[Tensor, "*#shape params"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Variance, in the squared unit of y."""
        # One factor after the other: the square of a scale may be too small for a number.
        variance = self.scale * (self.scale * self.of_units.variance(eta).double())
        return variance.clamp(max=torch.finfo(eta.dtype).max).to(eta.dtype)

    def cdf(
        self,
        value: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """P(Y <= value), for any real number; NaN for NaN."""
        return self.of_units.cdf(self.to_units(value).to(eta.dtype), eta)

    def quantile(
        self,
        p: float | Float[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """The smallest possible value whose cdf reaches `p`."""
        return self.restore(self.of_units.quantile(p, eta)).to(eta.dtype)

    def sample(
        self,
        eta: Float[Tensor, "*#shape params"],
        *,
        generator: torch.Generator,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """One draw for each `eta`, in the unit of y."""
        return self.restore(self.of_units.sample(eta, generator=generator)).to(eta.dtype)

    def from_mean(
        self,
        mean: Float[Tensor, "*#shape"],
        *,
        dispersion: Float[Tensor, "*#shape dispersion"] | None = None,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "*out params"]:
        """The `eta` whose mean, in the unit of y, is `mean`."""
        return self.of_units.from_mean(self.to_units(mean).to(mean.dtype), dispersion=dispersion)

    def initial_eta(
        self, value: Real[Tensor, " n"], *, item: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, " params"]:
        """The `eta` that fits all `value` as one sample."""
        eta = self.of_units.initial_eta(self.standardize(value))
        return eta.to(value.dtype if value.is_floating_point() else torch.get_default_dtype())


def scaled_to(
    family: Family, value: Real[Tensor, " n"], *, item: Int[Tensor, " n"] | None = None
) -> Family:
    """`family` on values standardized as training values are; as it is if it has no scale.

    `PerItem` has each of its families on the values of its own items, which `item` names by codes.

    >>> from exfam.families import Gaussian, Poisson
    >>> scaled_to(Gaussian(), torch.tensor([10.0, 30.0, 20.0])).center
    20.0
    >>> scaled_to(Poisson(), torch.tensor([1.0, 3.0]))
    Poisson(shift=0, link='log')
    """
    if isinstance(family, PerItem):
        return _per_item(family, value, item)
    if family.equivariance == "none":
        return family
    numbers = value.detach().cpu().double()
    numbers = numbers[family.in_support(numbers)]
    if not len(numbers):
        return family
    if family.equivariance == "scale":
        return Scaled(family, 0.0, _scale_of_positive(numbers.numpy()))
    return Scaled(family, *location_and_scale(numbers.numpy()))


def _per_item(family: PerItem, value: Tensor, item: Tensor | None) -> PerItem:
    which = family.which(item)
    own = {one: scaled_to(one, value[which == index]) for index, one in enumerate(family.distinct)}
    families: Mapping[int | np.integer | str, Family] = {
        code: own[one] for code, one in family.families.items()
    }
    return PerItem(families, None if family.default is None else own[family.default])


def location_and_scale(value: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """A median and a robust scale > 0 of finite numbers, which follow them through a y + b.

    The scale is the median distance from the median, in units of a normal law's standard deviation;
    where most numbers are all but equal, the ninth decile of the distances, then their root mean
    square. Equal numbers have their size as scale, zeros 1.

    >>> location_and_scale(np.array([1.0, 2.0, 4.0, 1e9]))
    (2.0, 1.4825796886582654)
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


def _scale_of_positive(value: Float[np.ndarray, "n"]) -> float:
    """The median of the numbers above 0, which must be >= 0; 1 if there is none."""
    above = value[value > 0]
    return _entry(above, 0.5) if len(above) else 1.0


def _entry(value: Float[np.ndarray, "n"], level: float) -> float:
    """The lower quantile of that level, one of the numbers."""
    index = int((len(value) - 1) * level)
    return float(np.partition(value, index)[index])
