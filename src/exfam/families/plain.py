"""Families with one law for all items: the face once, the formulas in hooks."""

from abc import abstractmethod

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families.base import Family, check_dispersion
from exfam.families.numeric import check_probability


class PlainFamily(Family):
    """A family that is the same for all items.

    A new one writes the hooks below, whose `eta` is checked and whose `value`, of the dtype of
    `eta`, lies in the support.
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
    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        """The columns before the dispersion."""

    @abstractmethod
    def _initial_eta(self, value: Tensor) -> Tensor: ...

    def in_support(
        self, value: Real[Tensor, "*#shape"], item: Int[Tensor, "*#shape"] | None = None
    ) -> Bool[Tensor, "..."]:
        """Whether each value can occur. NaN and infinite values never can."""
        return self._in_support(value)

    def log_prob(
        self,
        value: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Log-probability (or density) in nats; -inf with gradient 0 outside the support."""
        self.check_eta(eta)
        value = value.to(eta.dtype)
        inside = self._in_support(value)
        log_prob = self._log_prob(torch.where(inside, value, self._inside), eta)
        return torch.where(inside, log_prob, -torch.inf)

    def mean(
        self, eta: Float[Tensor, "*#shape params"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Expected value, in the unit of the value."""
        self.check_eta(eta)
        return self._mean(eta)

    def variance(
        self, eta: Float[Tensor, "*#shape params"], *, item: Int[Tensor, "*#shape"] | None = None
    ) -> Float[Tensor, "..."]:
        """Variance, in the squared unit of the value."""
        self.check_eta(eta)
        return self._variance(eta)

    def cdf(
        self,
        value: Real[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """P(Y <= value), for any real number; NaN for NaN."""
        self.check_eta(eta)
        value = value.to(eta.dtype)
        below = self._cdf(torch.where(value.isfinite(), value, self._inside), eta).to(eta.dtype)
        below = torch.where(value.isinf(), (value > 0).to(eta.dtype), below)
        return below.masked_fill(value.isnan() | eta.isnan().any(-1), torch.nan)

    def quantile(
        self,
        p: float | Float[Tensor, "*#shape"],
        eta: Float[Tensor, "*#shape params"],
        *,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """The smallest possible value whose cdf reaches `p`, in [0, 1]."""
        self.check_eta(eta)
        found = self._quantile(check_probability(p, eta), eta).to(eta.dtype)
        return found.masked_fill(eta.isnan().any(-1), torch.nan)

    def sample(
        self,
        eta: Float[Tensor, "*#shape params"],
        *,
        generator: torch.Generator,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "..."]:
        """One draw for each `eta`, from a generator on the device of `eta`."""
        self.check_eta(eta)
        with torch.no_grad():
            drawn = self._sample(eta.nan_to_num(), generator)
        return drawn.masked_fill(eta.isnan().any(-1), torch.nan)

    def from_mean(
        self,
        mean: Float[Tensor, "*#shape"],
        *,
        dispersion: Float[Tensor, "*#shape dispersion"] | None = None,
        item: Int[Tensor, "*#shape"] | None = None,
    ) -> Float[Tensor, "*out params"]:
        """The `eta` whose mean is `mean`, moved into the interior of the range of means."""
        dispersion = check_dispersion(self, mean, dispersion)
        shape = torch.broadcast_shapes(mean.shape, dispersion.shape[:-1])
        dispersion = dispersion.expand(*shape, self.n_dispersion)
        return torch.cat([self._from_mean(mean.expand(shape), dispersion), dispersion], -1)

    def initial_eta(
        self, value: Real[Tensor, " n"], *, item: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, " params"]:
        """The `eta` that fits all `value` as one sample, by likelihood or by moments."""
        inside = value[self._in_support(value)]
        if inside.numel() == 0:
            raise ExfamError(
                f"`value` must hold at least one number in the support of {self} to start from, "
                f"{self.support}, got none among {value.numel()}."
            )
        dtype = value.dtype if value.is_floating_point() else torch.get_default_dtype()
        return self._initial_eta(inside.double()).to(dtype)


class ExponentialFamily(PlainFamily):
    """p(y; eta) = h(y) exp(natural(eta)^T T(y) - A(natural)), and the mean of T is grad A."""

    @abstractmethod
    def natural(self, eta: Float[Tensor, "*shape params"]) -> Float[Tensor, "*shape statistics"]:
        """Natural parameters, one for each sufficient statistic."""

    @abstractmethod
    def sufficient_statistic(
        self, value: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape statistics"]:
        """T(y)."""

    @abstractmethod
    def log_normalizer(
        self, natural: Float[Tensor, "*shape statistics"]
    ) -> Float[Tensor, "*shape"]:
        """A(natural), in nats."""

    @abstractmethod
    def log_base_measure(self, value: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """log h(y), in nats."""

    def mean_statistic(
        self, eta: Float[Tensor, "*shape params"]
    ) -> Float[Tensor, "*shape statistics"]:
        """The mean of T: grad A at natural(eta), by automatic differentiation.

        >>> from exfam.families import Bernoulli
        >>> Bernoulli().mean_statistic(torch.zeros(1))
        tensor([0.5000])
        """

        def total(natural: Tensor) -> Tensor:
            return self.log_normalizer(natural).sum()

        return torch.func.grad(total)(self.natural(eta))

    def paper_loss(
        self, value: Real[Tensor, "*#shape"], eta: Float[Tensor, "*#shape params"]
    ) -> Float[Tensor, "..."]:
        """A(natural) - natural^T T(y): minus the log-likelihood without log h, as papers print.

        Not a likelihood: it differs from -log_prob by a term of the value alone.

        >>> from exfam.families import Poisson
        >>> Poisson(shift=1).paper_loss(torch.tensor([3.0]), torch.zeros(1, 1))
        tensor([1.])
        """
        self.check_eta(eta)
        natural = self.natural(eta)
        statistic = self.sufficient_statistic(value.to(eta.dtype))
        return self.log_normalizer(natural) - (natural * statistic).sum(-1)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        natural = self.natural(eta)
        exponent = (natural * self.sufficient_statistic(value)).sum(-1)
        return exponent - self.log_normalizer(natural) + self.log_base_measure(value)
