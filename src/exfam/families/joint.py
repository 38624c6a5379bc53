"""Distributions of several values together: real numbers, and counts that share a total.

Models predict such values one given the others before it, by families of one value each. These say
exactly what all of them together are, of any number of samples at once.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families.base import MAX_LOG_DISPERSION, MAX_LOG_MEAN, bounded
from exfam.families.likelihood import maximize_nats
from exfam.families.numeric import check_integer, log_rising_factorial

Values = Real[Tensor, "*#shape values"]
Eta = Float[Tensor, "*#shape params"]
Total = Real[Tensor, "*#shape"]
Numbers = Float[Tensor, "..."]

_REACH = 20.0  # of a fit's parameters from their start
_MOST_VALUES = 64


@dataclass(frozen=True)
class JointFamily(ABC):
    """p(y_1, ..., y_n; eta) of `n` values together, exact and in nats.

    `eta` is the raw output of a network, as that of a `Family`. Raises ExfamError for another
    number of values than 2 to 64.
    """

    n: int
    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_integer("n", self.n, at_least=2)
        if self.n > _MOST_VALUES:
            raise ExfamError(
                f"`n` must be at most {_MOST_VALUES} values together, got {self.n}. Name a family "
                "of one value for each of that many."
            )

    @property
    @abstractmethod
    def n_params(self) -> int:
        """How many network outputs the values need together."""

    @property
    @abstractmethod
    def support(self) -> str:
        """The values with positive probability, in words that follow "must be"."""

    @abstractmethod
    def in_support(self, value: Values) -> Bool[Tensor, "..."]:
        """Whether each row of values can occur."""

    @abstractmethod
    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor: ...

    @abstractmethod
    def initial_eta(self, value: Real[Tensor, "rows values"]) -> Float[Tensor, " params"]:
        """The `eta` under which all rows together are most likely."""

    def log_prob(self, value: Values, eta: Eta) -> Numbers:
        """Log-probability, or density, of all values of a row; -inf outside the support."""
        self._check(eta, self.n_params, "eta")
        self._check(value, self.n, "value")
        inside = self.in_support(value)
        value = torch.where(inside[..., None], value.to(eta.dtype), 1.0)
        return torch.where(inside, self._log_prob(value, eta), -torch.inf)

    def _check(self, given: Tensor, columns: int, name: str) -> None:
        if given.dim() == 0 or given.shape[-1] != columns:
            raise ExfamError(
                f"`{name}` must have {columns} columns for {self}, got shape {tuple(given.shape)}."
            )

    def _sample_inside(self, value: Tensor) -> Tensor:
        """A sample in double precision; ExfamError for rows that cannot occur."""
        self._check(value, self.n, "value")
        wrong = (~self.in_support(value)).nonzero()
        if len(wrong) or not len(value):
            got = (
                f"{value[wrong[0, 0]].tolist()} at row {int(wrong[0, 0])}" if len(wrong) else "none"
            )
            raise ExfamError(f"`value` must be rows of {self.support}, got {got}.")
        return value.double()

    def _indices(self, columns: Sequence[int]) -> list[int]:
        if (
            not columns
            or sorted(set(columns)) != sorted(columns)
            or not set(columns) <= set(range(self.n))
        ):
            raise ExfamError(
                f"`columns` must be different numbers from 0 to {self.n - 1}, got {list(columns)}."
            )
        return list(columns)


class MultivariateNormal(JointFamily):
    """Real numbers with means, standard deviations and correlations.

    The mean is eta[:n]. The covariance is L L' of a lower triangular L, whose diagonal is
    exp(eta[n:2n]), bounded by 20 on both sides, and whose entries below it, row by row, are those
    of eta[2n:] times the diagonal's of their row.

    >>> family = MultivariateNormal(2)
    >>> family.log_prob(torch.zeros(2), torch.zeros(5))
    tensor(-1.8379)
    """

    name = "multivariate-normal"

    @property
    def n_params(self) -> int:
        return 2 * self.n + self.n * (self.n - 1) // 2

    @property
    def support(self) -> str:
        return "finite numbers"

    def in_support(self, value: Values) -> Bool[Tensor, "..."]:
        return value.isfinite().all(-1)

    def factor(self, eta: Eta) -> Float[Tensor, "*shape values values"]:
        """L, the lower triangular factor of the covariance."""
        n = self.n
        log_sd = bounded(eta[..., n : 2 * n], -MAX_LOG_DISPERSION, MAX_LOG_DISPERSION)
        row, column = torch.tril_indices(n, n, -1)
        unit = torch.diag_embed(torch.ones_like(log_sd))
        unit[..., row, column] = eta[..., 2 * n :]
        return log_sd.exp()[..., None] * unit

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        rest = (value - eta[..., : self.n])[..., None]
        factor = self.factor(eta)
        shape = torch.broadcast_shapes(rest.shape[:-2], factor.shape[:-2])
        rest, factor = rest.expand(*shape, -1, -1), factor.expand(*shape, -1, -1)
        z = torch.linalg.solve_triangular(factor, rest, upper=False)[..., 0]
        log_sd = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        nats = -0.5 * z.square().sum(-1) - log_sd - 0.5 * self.n * math.log(2 * math.pi)
        # So far out that differences overflow.
        beyond = nats.isnan() & ~eta.isnan().any(-1)
        return torch.where(beyond, -torch.inf, nats)

    def mean(self, eta: Eta) -> Numbers:
        """Expected values."""
        return eta[..., : self.n]

    def covariance(self, eta: Eta) -> Float[Tensor, "*shape values values"]:
        """Of all pairs of values."""
        factor = self.factor(eta)
        return factor @ factor.mT

    def sample(self, eta: Eta, *, generator: torch.Generator) -> Numbers:
        """One draw of all values for each `eta`."""
        mean = self.mean(eta)
        z = torch.randn(mean.shape, generator=generator, dtype=eta.dtype, device=eta.device)
        return mean + (self.factor(eta) @ z[..., None])[..., 0]

    def marginal(self, eta: Eta, columns: Sequence[int]) -> Float[Tensor, "*shape more"]:
        """Parameters of some values, in this order: of a Gaussian where it is one alone."""
        indices = self._indices(columns)
        covariance = self.covariance(eta)[..., indices, :][..., indices]
        return self._eta_of(self.mean(eta)[..., indices], covariance)

    def _eta_of(self, mean: Tensor, covariance: Tensor) -> Tensor:
        factor = torch.linalg.cholesky(covariance)
        sd = factor.diagonal(dim1=-2, dim2=-1)
        row, column = torch.tril_indices(mean.shape[-1], mean.shape[-1], -1)
        below = (factor / sd[..., None])[..., row, column]
        return torch.cat([mean, sd.log(), below], -1)

    def initial_eta(self, value: Real[Tensor, "rows values"]) -> Float[Tensor, " params"]:
        """The sample's means and covariances; those of columns that are multiples stay finite."""
        sample = self._sample_inside(value)
        rest = sample - sample.mean(0)
        covariance = rest.T @ rest / len(sample)
        spread = covariance.diagonal()
        least = 1e-12 * torch.where(spread > 0, spread, 1.0)
        return self._eta_of(sample.mean(0), covariance + torch.diag(least))


class DirichletMultinomial(JointFamily):
    """Counts that share a total: shares drawn from a Dirichlet, then counts from a multinomial.

    The concentrations are exp(eta), with eta bounded by 30 on both sides: large ones are a
    multinomial. The total of a row is given, and has no probability of its own.

    >>> family = DirichletMultinomial(2)
    >>> family.log_prob(torch.tensor([1, 1]), torch.zeros(2)).exp()  # of a total of 2
    tensor(0.3333)
    """

    name = "dirichlet-multinomial"

    @property
    def n_params(self) -> int:
        return self.n

    @property
    def support(self) -> str:
        return "integers >= 0"

    def in_support(self, value: Values) -> Bool[Tensor, "..."]:
        return ((value >= 0) & value.isfinite() & (value == value.floor())).all(-1)

    def _concentrations(self, eta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """They, their sum, and the logarithms of their shares."""
        log = bounded(eta, -MAX_LOG_MEAN, MAX_LOG_MEAN)
        return log.exp(), log.exp().sum(-1), log - log.logsumexp(-1, keepdim=True)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        own, whole, log_share = self._concentrations(eta.double())
        y, total = value.double(), value.double().sum(-1)
        ways = torch.lgamma(total + 1) - torch.lgamma(y + 1).sum(-1)
        drawn = log_rising_factorial(own, y).sum(-1) - log_rising_factorial(whole, total)
        return (ways + drawn + (y * log_share).sum(-1)).to(eta.dtype)

    def mean(self, eta: Eta, total: Total) -> Numbers:
        """Expected counts of this total."""
        return self._concentrations(eta)[2].exp() * total[..., None]

    def covariance(self, eta: Eta, total: Total) -> Float[Tensor, "*shape values values"]:
        """Of all pairs of counts of this total."""
        _, whole, log_share = self._concentrations(eta)
        share = log_share.exp()
        between = torch.diag_embed(share) - share[..., :, None] * share[..., None, :]
        times = total * (total + whole) / (1 + whole)
        return times[..., None, None] * between

    def sample(self, eta: Eta, total: Total, *, generator: torch.Generator) -> Numbers:
        """One draw of all counts for each `eta`, of this total."""
        own = self._concentrations(eta.double())[0]
        # A gamma of a small shape may be 0 in every column: its logarithm is that of one more.
        drawn = torch._standard_gamma(own + 1, generator=generator).log()
        uniform = torch.rand(own.shape, generator=generator, dtype=own.dtype, device=own.device)
        share = (drawn + uniform.log() / own).softmax(-1)
        left, counts = total.double().expand(share.shape[:-1]), []
        for k in range(self.n):
            rest = share[..., k:].sum(-1)
            chance = torch.where(rest > 0, share[..., k] / rest, 1.0).clamp(0.0, 1.0)
            last = torch.binomial(left, chance, generator=generator) if k < self.n - 1 else left
            counts.append(last)
            left = left - last
        return torch.stack(counts, -1).to(eta.dtype)

    def marginal(self, eta: Eta, columns: Sequence[int]) -> Float[Tensor, "*shape more"]:
        """Parameters of some counts, in this order, and of all others as one more after them."""
        indices = self._indices(columns)
        others = [k for k in range(self.n) if k not in indices]
        kept = eta[..., indices]
        return (
            torch.cat([kept, eta[..., others].logsumexp(-1, keepdim=True)], -1) if others else kept
        )

    def initial_eta(self, value: Real[Tensor, "rows values"]) -> Float[Tensor, " params"]:
        sample = self._sample_inside(value)
        share = (sample.sum(0) + 0.5) / (sample.sum() + 0.5 * self.n)
        start = (share * self.n).log().tolist()
        bounds: Any = [
            (max(-MAX_LOG_MEAN, x - _REACH), min(MAX_LOG_MEAN, x + _REACH)) for x in start
        ]

        def nats(eta: Tensor) -> Tensor:
            return self._log_prob(sample, eta).mean()

        return maximize_nats(nats, start, bounds=bounds, device=value.device)


JOINT_FAMILIES: dict[str, type[JointFamily]] = {
    family.name: family for family in (DirichletMultinomial, MultivariateNormal)
}
