"""What every family is: p(y; eta), exact and in nats.

    Family
    ├── PlainFamily                 one distribution for all items
    │   ├── ExponentialFamily       T, A and log h; mean of T = grad A
    │   │   ├── Bernoulli, Binomial, Poisson, Exponential, Gaussian, Categorical, VonMises
    │   ├── NegativeBinomial, Gamma, Ordinal, StudentT, Histogram
    │   ├── RoundedStudentT, LogNormal, LogStudentT, Beta, Weibull, Tweedie
    │   ├── CensoredStudentT, RoundedRootStudentT, SinhStudentT
    │   ├── Wrapped                 made of another family
    │   │   ├── ZeroInflated, Hurdle, ZeroOneInflatedBeta
    │   │   ├── Truncated, Censored, Discretized
    │   ├── IntervalCensored        the interval that another family's number lies in
    ├── PerItem                     the element's item chooses the family
    └── Scaled                      a continuous family on standardized values

`eta` is the raw output of a network, any real number: the family's own link turns it into
parameters, `bounded` where an overflow would follow.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from exfam.checks import ExfamError

# Values broadcast against eta[..., 0]; results have the dtype and device of eta.
Values = Real[Tensor, "*#shape"]
Eta = Float[Tensor, "*#shape params"]
Items = Int[Tensor, "*#shape"] | None
Numbers = Float[Tensor, "..."]
Statistics = Float[Tensor, "*#shape statistics"]
Level = float | Float[Tensor, "*#shape"]
Mean = Float[Tensor, "*#shape"]
Spread = Float[Tensor, "*#shape dispersion"] | None
Sample = Real[Tensor, " n"]
SampleItems = Int[Tensor, " n"] | None

MAX_LOG_MEAN = 30.0  # means and rates up to 1e13: their squares still fit float32
MAX_LOG_DISPERSION = 20.0  # scales and shapes between 2e-9 and 5e8
INTERIOR = 1e-6  # how far `from_mean` keeps a mean from the ends of its range
# Inputs of networks grow by logarithms from here on, where values are not standardized.
FAR_INPUT = 1e6


def bounded(x: Float[Tensor, "*shape"], low: float, high: float) -> Float[Tensor, "*shape"]:
    """`x` kept in [low, high]; the gradient passes, so that a run that overshoots comes back."""
    return x.clamp(low, high).detach() + (x - x.detach())


def compressed(x: Float[Tensor, "*shape"], limit: float) -> Float[Tensor, "*shape"]:
    """`x` within +-limit as it is, beyond it growing by logarithms: smooth, monotone, finite."""
    size = x.abs()
    beyond = limit * (1 + (size.clamp(min=limit) / limit).log())
    return torch.where(size <= limit, x, x.sign() * beyond)


class Family(ABC):
    """The distribution of one value given its parameters `eta`, `n_params` in the last dimension.

    `item` (codes from 0) is read by `PerItem` only. `cdf` and `quantile` may carry no gradient.
    """

    name: ClassVar[str]
    # Changes of unit that map the family onto itself: "none", "scale" (y -> a y, a > 0) or
    # "location-scale" (y -> a y + b; eta0 is the location and eta1, if any, the log of the scale).
    # Estimators standardize values accordingly: see `scaled_to`.
    equivariance: ClassVar[str] = "none"
    # Whether the mean is finite: if not, `mean` is infinite and a prediction shows the median.
    has_mean: ClassVar[bool] = True

    # Whether the first parameter is the logarithm of a size: adding c makes values exp(c) times as
    # large, so that an exposure may be added to it.
    has_log_link: ClassVar[bool] = False

    @property
    def n_dispersion(self) -> int:
        """How many parameters, the last ones, say how spread the value is, not where it lies.

        A head may make these constants, or one constant an item, instead of network outputs.
        """
        return 0

    @property
    def n_params(self) -> int:
        """How many network outputs one value needs."""
        return 1 + self.n_dispersion

    @property
    @abstractmethod
    def support(self) -> str:
        """The values with positive probability, in words that follow "must be"."""

    @property
    def hint(self) -> str:
        """What to do about a value outside the support."""
        return ""

    @property
    def categories(self) -> tuple[int | float, ...]:
        """The possible values of a finite family, in order; empty if there is no end of them."""
        return ()

    @property
    def spacing(self) -> float:
        """How far apart values of a family with jumps are."""
        return 1.0

    @property
    def n_categories(self) -> int | None:
        """The number of possible values, None if there is no end of them."""
        return len(self.categories) or None

    @abstractmethod
    def in_support(self, value: Values, item: Items = None) -> Bool[Tensor, "..."]:
        """Whether each value can occur. NaN and infinite values never can."""

    def has_mass(self, value: Values, item: Items = None) -> Bool[Tensor, "..."]:
        """Whether a value of a continuous family has a probability of its own, not a density."""
        return torch.zeros_like(value, dtype=torch.bool)

    @abstractmethod
    def log_prob(self, value: Values, eta: Eta, *, item: Items = None) -> Numbers:
        """Log-probability (or density) in nats, base measure included.

        Outside the support it is -inf with gradient 0, so that `torch.where` can hide padding.
        """

    @abstractmethod
    def mean(self, eta: Eta, *, item: Items = None) -> Numbers:
        """Expected value, in the unit of the value; infinite for families without a mean."""

    @abstractmethod
    def variance(self, eta: Eta, *, item: Items = None) -> Numbers:
        """Variance, in the squared unit of the value."""

    @abstractmethod
    def cdf(self, value: Values, eta: Eta, *, item: Items = None) -> Numbers:
        """P(Y <= value), for any real number; NaN for NaN."""

    @abstractmethod
    def quantile(self, p: Level, eta: Eta, *, item: Items = None) -> Numbers:
        """The smallest possible value whose cdf reaches `p`.

        Raises ExfamError if a `p` is not in [0, 1].
        """

    def above(self, value: Values, eta: Eta) -> Numbers:
        """P(Y > value) in double precision, however little it is where a family knows it."""
        return 1 - self.cdf(value.double(), eta.double())

    def quantile_above(self, p: Level, eta: Eta) -> Numbers:
        """The value that `p` lies above, in double precision: quantile(1 - p), exact at small p."""
        return self.quantile(1 - torch.as_tensor(p, dtype=torch.float64), eta.double())

    @abstractmethod
    def sample(self, eta: Eta, *, generator: torch.Generator, item: Items = None) -> Numbers:
        """One draw for each `eta`, from a generator on the device of `eta`."""

    @abstractmethod
    def from_mean(self, mean: Mean, *, dispersion: Spread = None, item: Items = None) -> Eta:
        """The `eta` whose mean is `mean`, moved into the interior of the range of means.

        For a family without a mean it is the median instead.
        `dispersion` fills the last `n_dispersion` columns (0 by default).
        Raises ExfamError if the mean does not determine the family.
        """

    @abstractmethod
    def initial_eta(self, value: Sample, *, item: SampleItems = None) -> Float[Tensor, " params"]:
        """The `eta` that fits all `value` as one sample, by likelihood or by moments.

        Values outside the support are left out, and probabilities of 0 are kept half an
        observation away from 0. Raises ExfamError if no value is left.
        """

    @property
    def of_units(self) -> "Family":
        """The family of standardized values: this one unless `Scaled`."""
        return self

    def rescaled(self, scale: float) -> "Family":
        """The family of value / scale: what is held fixed in the unit of values is divided by it.

        >>> from exfam.families import Gaussian
        >>> Gaussian(scale=6.0).rescaled(2.0)
        Gaussian(scale=3.0)
        """
        return self

    def standardize(self, value: Values, *, item: Items = None) -> Numbers:
        """Values in the unit that parameters are in, float64: as they are unless `Scaled`."""
        return value.double()

    def restore(self, unit: Values, *, item: Items = None) -> Numbers:
        """The values that `standardize` brings to `unit`, but for its rounding, float64."""
        return unit.double()

    def unit_log_prob(self, unit: Values, eta: Eta, *, item: Items = None) -> Numbers:
        """Log-probability in nats of standardized values: as `log_prob` unless `Scaled`."""
        return self.log_prob(unit, eta, item=item)

    def network_input(self, value: Values, *, item: Items = None) -> Numbers:
        """Standardized values as inputs of networks, float64: finite layers whatever the value."""
        return compressed(self.standardize(value, item=item), FAR_INPUT)

    def probs(self, eta: Eta, *, item: Items = None) -> Float[Tensor, "*out categories"]:
        """Probabilities of all `categories`, which sum to 1.

        Raises ExfamError if the family has no finite list of categories.
        """
        if not self.categories:
            raise ExfamError(
                f"`family` must have finitely many values to list their probabilities, got {self}."
                " Use log_prob or quantile."
            )
        value = torch.tensor(self.categories, dtype=eta.dtype, device=eta.device)
        items = None if item is None else item.unsqueeze(-1)
        return self.log_prob(value, eta.unsqueeze(-2), item=items).exp()

    def check_eta(self, eta: Tensor) -> None:
        """Raise ExfamError unless `eta` has `n_params` columns."""
        if eta.dim() == 0 or eta.shape[-1] != self.n_params:
            raise ExfamError(
                f"`eta` must have {self.n_params} columns for {self}, got shape {tuple(eta.shape)}."
            )

    def check_dispersion(self, mean: Tensor, dispersion: Tensor | None) -> Tensor:
        """`dispersion` beside `mean`, zeros for None; ExfamError for other columns than its own."""
        if dispersion is None:
            return mean.new_zeros(self.n_dispersion)
        if dispersion.shape[-1:] != (self.n_dispersion,):
            raise ExfamError(
                f"`dispersion` must have {self.n_dispersion} columns for {self}, "
                f"got shape {tuple(dispersion.shape)}."
            )
        return dispersion.to(mean)


class PlainFamily(Family):
    """A family that is the same for all items.

    A new one writes the hooks below, whose `eta` is checked and whose `value`, of the dtype of
    `eta`, lies in the support. `_from_mean` gives the columns before the dispersion.
    """

    @property
    def _inside(self) -> float:
        """Some value of the support, put where a value is outside."""
        return 0.0

    @abstractmethod
    def _in_support(self, value: Tensor) -> Tensor: ...

    @abstractmethod
    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor: ...

    @abstractmethod
    def _mean(self, eta: Tensor) -> Tensor: ...

    @abstractmethod
    def _variance(self, eta: Tensor) -> Tensor: ...

    @abstractmethod
    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor: ...

    @abstractmethod
    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor: ...

    @abstractmethod
    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor: ...

    @abstractmethod
    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor: ...

    @abstractmethod
    def _initial_eta(self, value: Tensor) -> Tensor: ...

    def in_support(self, value: Values, item: Items = None) -> Bool[Tensor, "..."]:
        return self._in_support(value)

    def log_prob(self, value: Values, eta: Eta, *, item: Items = None) -> Numbers:
        self.check_eta(eta)
        value = value.to(eta.dtype)
        inside = self._in_support(value)
        log_prob = self._log_prob(torch.where(inside, value, self._inside), eta)
        return torch.where(inside, log_prob, -torch.inf)

    def mean(self, eta: Eta, *, item: Items = None) -> Numbers:
        self.check_eta(eta)
        return self._mean(eta)

    def variance(self, eta: Eta, *, item: Items = None) -> Numbers:
        self.check_eta(eta)
        return self._variance(eta)

    def cdf(self, value: Values, eta: Eta, *, item: Items = None) -> Numbers:
        self.check_eta(eta)
        value = value.to(eta.dtype)
        below = self._cdf(torch.where(value.isfinite(), value, self._inside), eta).to(eta.dtype)
        below = torch.where(value.isinf(), (value > 0).to(eta.dtype), below)
        return below.masked_fill(value.isnan() | eta.isnan().any(-1), torch.nan)

    def quantile(self, p: Level, eta: Eta, *, item: Items = None) -> Numbers:
        self.check_eta(eta)
        level = torch.as_tensor(p, dtype=torch.float64, device=eta.device)
        outside = ~((level >= 0) & (level <= 1))
        if outside.any():
            raise ExfamError(f"`p` must be in [0, 1], got {level[outside][0].item():g}.")
        return self._quantile(level, eta).to(eta.dtype).masked_fill(eta.isnan().any(-1), torch.nan)

    def sample(self, eta: Eta, *, generator: torch.Generator, item: Items = None) -> Numbers:
        self.check_eta(eta)
        with torch.no_grad():
            drawn = self._sample(eta.nan_to_num(), generator)
        return drawn.masked_fill(eta.isnan().any(-1), torch.nan)

    def from_mean(self, mean: Mean, *, dispersion: Spread = None, item: Items = None) -> Eta:
        dispersion = self.check_dispersion(mean, dispersion)
        shape = torch.broadcast_shapes(mean.shape, dispersion.shape[:-1])
        dispersion = dispersion.expand(*shape, self.n_dispersion)
        return torch.cat([self._from_mean(mean.expand(shape), dispersion), dispersion], -1)

    def initial_eta(self, value: Sample, *, item: SampleItems = None) -> Float[Tensor, " params"]:
        inside = value[self._in_support(value)]
        if inside.numel() == 0:
            raise ExfamError(
                f"`value` must hold at least one number in the support of {self} to start from, "
                f"{self.support}, got none among {value.numel()}."
            )
        dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
        return self._initial_eta(inside.double()).to(dtype)


class ExponentialFamily(PlainFamily):
    """p(y; eta) = h(y) exp(natural(eta)^T T(y) - A(natural)), and the mean of T is grad A.

    >>> from exfam.families import Poisson
    >>> Poisson().natural(torch.zeros(1)), Poisson().log_normalizer(torch.zeros(1))
    (tensor([0.]), tensor(1.))
    """

    @abstractmethod
    def natural(self, eta: Eta) -> Statistics:
        """Natural parameters, one for each sufficient statistic."""

    def sufficient_statistic(self, value: Values) -> Statistics:
        """T(y); y itself unless a family says otherwise."""
        return value.unsqueeze(-1)

    @abstractmethod
    def log_normalizer(self, natural: Statistics) -> Numbers:
        """A(natural), in nats."""

    def log_base_measure(self, value: Values) -> Numbers:
        """log h(y), in nats; 0 unless a family says otherwise."""
        return torch.zeros_like(value)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        natural = self.natural(eta)
        exponent = (natural * self.sufficient_statistic(value)).sum(-1)
        return exponent - self.log_normalizer(natural) + self.log_base_measure(value)


# By name, those that users register too.
FAMILIES: dict[str, type[Family]] = {}
