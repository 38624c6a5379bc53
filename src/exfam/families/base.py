"""The face every family shows: p(y; eta), exact and in nats.

    Family
    ├── PlainFamily                 one law for all items (plain.py)
    │   ├── ExponentialFamily       T, A and log h; mean of T = grad A
    │   │   ├── Bernoulli, Binomial, Poisson, Exponential, Gaussian, Categorical
    │   ├── NegativeBinomial, Gamma, Ordinal, StudentT, Histogram
    ├── PerItem                     the element's item chooses the law
    └── Scaled                      a continuous law on standardized values (scaled.py)

`eta` is the raw output of a network, any real number: the family's own link turns it into
parameters, bounded where an overflow would follow (see `bounded` in numeric.py).
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from exfam.checks import ExfamError

# Inputs of networks grow by logarithms from here on, where values are not standardized.
FAR_INPUT = 1e6


class Family(ABC):
    """The law of one value given its parameters `eta`, whose last dimension is `n_params`.

    Values broadcast against `eta[..., 0]`. Results have the dtype and device of `eta`. `item`
    (codes from 0) is read by `PerItem` only. `cdf` and `quantile` may carry no gradient.
    """

    name: ClassVar[str]
    # Changes of unit that map the family onto itself: "none", "scale" (y -> a y, a > 0) or
    # "location-scale" (y -> a y + b). Estimators standardize values accordingly: see `scaled_to`.
    equivariance: ClassVar[str] = "none"

    @property
    def n_params(self) -> int:
        """How many network outputs one value needs."""
        return 1

    @property
    def n_dispersion(self) -> int:
        """How many of them, the last ones, say how spread the value is, not where it lies.

        A head may make these constants, or one constant an item, instead of network outputs.
        """
        return 0

    @property
    @abstractmethod
    def support(self) -> str:
        """The values with positive probability, in words that follow "must be"."""

    @property
    def hint(self) -> str:
        """What to do about a value outside the support."""
        return ""

    @property
    def categories(self) -> tuple[int, ...]:
        """The possible values of a finite family, in order; empty if there is no end of them."""
        return ()

    @property
    def n_categories(self) -> int | None:
        """The number of possible values, None if there is no end of them."""
        return len(self.categories) or None

    @abstractmethod
    def in_support(
        self, value: Real[Tensor, "*#shape"], item: Int[Tensor, "*#shape"] | None = None
    ) -> Bool[Tensor, "..."]:
        """Whether each value can occur. NaN and infinite values never can."""

    @abstractmethod
    def log_prob(
        self,
        value: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Log-probability (or density) in nats, base measure included.

        Outside the support it is -inf with gradient 0, so that `torch.where` can hide padding.
        """

    @abstractmethod
    def mean(
        self, eta: Float[Tensor, "*#shape params"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Expected value, in the unit of the value."""

    @abstractmethod
    def variance(
        self, eta: Float[Tensor, "*#shape params"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Variance, in the squared unit of the value."""

    @abstractmethod
    def cdf(
        self,
        value: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """P(Y <= value), for any real number; NaN for NaN."""

    @abstractmethod
    def quantile(
        self,
        p: float | Float[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """The smallest possible value whose cdf reaches `p`.

        Raises ExfamError if a `p` is not in [0, 1].
        """

    @abstractmethod
    def sample(
        self,
        eta: Float[Tensor, "*#shape params"],
        *,
        generator: torch.Generator,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """One draw for each `eta`, from a generator on the device of `eta`."""

    @abstractmethod
    def from_mean(
        self,
        mean: Float[Tensor, "*#shape"],
        *,
        dispersion: Float[Tensor, "*#shape dispersion"] | None = None,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "*out params"]:
        """The `eta` whose mean is `mean`, moved into the interior of the range of means.

        `dispersion` fills the last `n_dispersion` columns (0 by default).
        Raises ExfamError if the mean does not determine the family.
        """

    @abstractmethod
    def initial_eta(
        self, value: Real[Tensor, " n"], *, item: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, " params"]:
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

    def standardize(
        self, value: Real[Tensor, "*#shape"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Values in the unit that parameters are in, float64: as they are unless `Scaled`."""
        return value.double()

    def restore(
        self, unit: Real[Tensor, "*#shape"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """The values that `standardize` brings to `unit`, but for its rounding, float64."""
        return unit.double()

    def unit_log_prob(
        self,
        unit: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Log-probability in nats of standardized values: as `log_prob` unless `Scaled`."""
        return self.log_prob(unit, eta, item=item)

    def network_input(
        self, value: Real[Tensor, "*#shape"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Standardized values as inputs of networks, float64: finite layers whatever the value."""
        return compressed(self.standardize(value, item=item), FAR_INPUT)

    def probs(
        self, eta: Float[Tensor, "*#shape params"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "*out categories"]:
        """Probabilities of all `categories`, which sum to 1.

        Raises ExfamError if the family has no finite list of categories.
        """
        if not self.categories:
            raise ExfamError(
                f"`family` must have finitely many values to list their probabilities, got {self}."
                " Use log_prob or quantile."
            )
        value = torch.tensor(self.categories, dtype=eta.dtype, device=eta.device)
        each = None if item is None else item.unsqueeze(-1)
        return self.log_prob(value, eta.unsqueeze(-2), item=each).exp()

    def check_eta(self, eta: Tensor) -> None:
        """Raise ExfamError unless `eta` has `n_params` columns."""
        if eta.dim() == 0 or eta.shape[-1] != self.n_params:
            raise ExfamError(
                f"`eta` must have {self.n_params} columns for {self}, got shape {tuple(eta.shape)}."
            )


def compressed(x: Float[Tensor, "*shape"], limit: float) -> Float[Tensor, "*shape"]:
    """`x` within +-limit as it is, beyond it growing by logarithms: smooth, monotone, finite.

    >>> compressed(torch.tensor([-5.0, 100.0, 1e20]), 100.0).round()
    tensor([  -5.,  100., 4245.])
    """
    size = x.abs()
    beyond = limit * (1 + (size.clamp(min=limit) / limit).log())
    return torch.where(size <= limit, x, x.sign() * beyond)


def check_dispersion(family: Family, mean: Tensor, dispersion: Tensor | None) -> Tensor:
    """`dispersion` beside `mean`, zeros for None; ExfamError unless it has `n_dispersion` columns.

    >>> from exfam.families import Gamma
    >>> check_dispersion(Gamma(), torch.ones(2), None)
    tensor([0.])
    """
    if dispersion is None:
        return mean.new_zeros(family.n_dispersion)
    if dispersion.shape[-1:] != (family.n_dispersion,):
        raise ExfamError(
            f"`dispersion` must have {family.n_dispersion} columns for {family}, "
            f"got shape {tuple(dispersion.shape)}."
        )
    return dispersion.to(mean)
