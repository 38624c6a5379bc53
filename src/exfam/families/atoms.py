"""Values that occur more often than a family says: zeros of counts and amounts, ends of shares."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from exfam.families import base
from exfam.families.beta import Beta
from exfam.families.likelihood import likeliest
from exfam.families.numeric import finite_in
from exfam.families.wrapped import Wrapped, check_wrapped

_FARTHEST = 1e150  # of means, whose squares are finite
_LEAST_LOG_WEIGHT = -9.0
_REACH = 20.0  # of a fit's parameters from their start


class WithAtoms(Wrapped):
    """A family and values with probabilities of their own.

    The last columns are the log weights of the atoms beside the family's 0: with p = softmax(0,
    those), p(y) = p_0 family(y) + sum_k p_k [y = atom_k]. Where the family has a density, an atom
    has its own probability alone.
    """

    atoms: ClassVar[tuple[float, ...]] = (0.0,)

    @property
    def smooth(self) -> base.Family:
        """What values have that are no atoms."""
        return self.family

    @property
    def n_dispersion(self) -> int:
        return self.smooth.n_dispersion + len(self.atoms)

    @property
    def n_params(self) -> int:
        return self.smooth.n_params + len(self.atoms)

    @property
    def equivariance(self) -> str:  # type: ignore[override]
        return super().equivariance if self.atoms == (0.0,) else "none"

    @property
    def masses(self) -> tuple[float, ...]:
        return tuple(sorted({*self.atoms, *super().masses}))

    @property
    def hint(self) -> str:
        return self.smooth.hint

    @property
    def _inside(self) -> float:
        return self.atoms[0]

    @cached_property
    def _shared(self) -> tuple[bool, ...]:
        """Which atoms the family has a probability of as well."""
        at = torch.tensor(self.atoms, dtype=torch.float64)
        masses = self.smooth.in_support(at) & (self.smooth.has_mass(at) | self.jumps)
        return tuple(masses.tolist())

    def has_mass(self, value: base.Values, item: base.Items = None) -> Tensor:
        if self.jumps:
            return torch.zeros_like(value, dtype=torch.bool)
        return self._is_atom(value) | self.smooth.has_mass(value)

    def _is_atom(self, value: Tensor) -> Tensor:
        return torch.stack([value == atom for atom in self.atoms]).any(0)

    def _in_support(self, value: Tensor) -> Tensor:
        return self._is_atom(value) | self.smooth.in_support(value)

    def _split(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """The family's parameters, and log-probabilities of it and of the atoms."""
        inner, weight = eta[..., : self.smooth.n_params], eta[..., self.smooth.n_params :]
        return inner, torch.cat([torch.zeros_like(weight[..., :1]), weight], -1).log_softmax(-1)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        inner, log_weight = self._split(eta)
        nats = self.smooth.log_prob(value, inner) + log_weight[..., 0]
        for k, (atom, shared) in enumerate(zip(self.atoms, self._shared, strict=True), start=1):
            own = log_weight[..., k].expand_as(nats)
            both = torch.logaddexp(nats.masked_fill(value != atom, 0.0), own) if shared else own
            nats = torch.where(value == atom, both, nats)
        return nats

    def _mean(self, eta: Tensor) -> Tensor:
        inner, log_weight = self._split(eta)
        return self._average(self.smooth.mean(inner), self.atoms, log_weight)

    def _variance(self, eta: Tensor) -> Tensor:
        inner, log_weight = self._split(eta)
        mean = self._mean(eta)
        if not self.has_mean:
            return mean
        exact = mean.double().clamp(max=_FARTHEST)
        gap = self.smooth.mean(inner).double().clamp(max=_FARTHEST) - exact
        squares = [(atom - exact).square() for atom in self.atoms]
        own = self.smooth.variance(inner).double().clamp(max=_FARTHEST**2) + gap.square()
        variance = self._average(own, squares, log_weight.double())
        return finite_in(variance, eta).masked_fill(eta.isnan().any(-1), torch.nan)

    @staticmethod
    def _average(of_family: Tensor, of_atoms: tuple | list, log_weight: Tensor) -> Tensor:
        weight = log_weight.exp()
        total = torch.where(weight[..., 0] > 0, weight[..., 0] * of_family, 0.0)
        for k, number in enumerate(of_atoms, start=1):
            total = total + weight[..., k] * number
        return total

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        inner, log_weight = self._split(eta.double())
        below = log_weight[..., 0].exp() * self.smooth.cdf(value.double(), inner)
        for k, atom in enumerate(self.atoms, start=1):
            below = below + log_weight[..., k].exp() * (value >= atom)
        return below.clamp(0, 1)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        """From the last atom to the first: the family's quantile, unless an atom is before it."""
        exact = eta.double()
        inner, log_weight = self._split(exact)
        weight = log_weight.exp()
        own = weight[..., 0].clamp(min=torch.finfo(torch.float64).tiny)
        before = weight.cumsum(-1) - weight[..., :1]
        levels = [
            torch.where(p < 1, (p - before[..., k]) / own, 1.0).nan_to_num().clamp(0, 1)
            for k in range(len(self.atoms) + 1)
        ]
        result = self.smooth.quantile(levels[-1], inner)
        for atom, level in reversed(list(zip(self.atoms, levels, strict=False))):
            at = torch.full_like(result, atom)
            first = self.smooth.quantile(level, inner)
            upto = torch.where(p <= self._cdf(at, exact), at, result)
            result = torch.where(first < at, first, upto)
        return self._of_steps(result, p, exact)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        inner, log_weight = self._split(eta)
        drawn = self.smooth.sample(inner, generator=generator)
        uniform = torch.empty_like(drawn).uniform_(generator=generator)
        edges = log_weight.exp().cumsum(-1)
        for k, atom in enumerate(self.atoms):
            drawn = torch.where(uniform >= edges[..., k], torch.full_like(drawn, atom), drawn)
        return drawn

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        n = self.smooth.n_dispersion
        inner, weight = dispersion[..., :n], dispersion[..., n:]
        if self.has_mean:
            share = torch.cat([torch.zeros_like(weight[..., :1]), weight], -1).softmax(-1)
            of_atoms = sum(share[..., k] * atom for k, atom in enumerate(self.atoms, start=1))
            mean = (mean - of_atoms) / share[..., 0]
        eta = self.smooth.from_mean(mean, dispersion=inner)
        return eta[..., : self.smooth.n_params - n]

    def _initial_eta(self, value: Tensor) -> Tensor:
        atom = self._is_atom(value)
        others = value if bool(atom.all()) else value[~atom]
        possible = bool(self.smooth.in_support(others).any())
        # Values that are atoms alone say nothing of the family.
        inner = self.smooth.initial_eta(others) if possible else value.new_zeros(self.n_params)
        inner = inner[: self.smooth.n_params]
        most = math.log(2 * len(value))
        counts = [max(float((value == at).sum()), 0.5) for at in self.atoms]
        rest = max(float((~atom).sum()), 0.5)
        weight = value.new_tensor([math.log(count / rest) for count in counts])
        start = torch.cat([inner, weight.clamp(-most, most)])
        if not any(self._shared):
            return start
        bounds = [(float(at) - _REACH, float(at) + _REACH) for at in inner]
        bounds += [(_LEAST_LOG_WEIGHT, most)] * len(self.atoms)
        return likeliest(self._log_prob, value, start, bounds=bounds)


@dataclass(frozen=True)
class ZeroInflated(WithAtoms):
    """A family and more zeros than it has: 0 with probability sigmoid(last eta), else the family.

    `family`: of counts, such as Poisson(), or of amounts, such as Gamma()

    The columns before are the family's. Raises ExfamError for a family that differs by item.

    >>> from exfam.families import Poisson
    >>> ZeroInflated(Poisson()).log_prob(torch.tensor([0.0, 1.0]), torch.zeros(2, 2))
    tensor([-0.3799, -1.6931])
    """

    family: base.Family
    name: ClassVar[str] = "zero-inflated"

    def __post_init__(self) -> None:
        check_wrapped(self.family, "ZeroInflated")

    @property
    def support(self) -> str:
        inside = bool(self.family.in_support(torch.zeros(1)).all())
        return self.family.support if inside else f"0 or {self.family.support}"


@dataclass(frozen=True)
class ZeroOneInflatedBeta(WithAtoms):
    """Shares from 0 to 1 of which some are 0 and some 1: Beta() between, with two more columns.

    The last two are log weights of 0 and of 1 beside 0 for the numbers between.

    >>> ZeroOneInflatedBeta().log_prob(torch.tensor([0.0, 1.0]), torch.zeros(2, 4))
    tensor([-1.0986, -1.0986])
    """

    name: ClassVar[str] = "zero-one-inflated-beta"
    atoms: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    support: ClassVar[str] = "a number >= 0 and <= 1"
    hint: ClassVar[str] = "Use Gaussian() for other numbers."

    @cached_property
    def family(self) -> Beta:  # type: ignore[override]
        """Of the numbers between."""
        return Beta()

    def rescaled(self, scale: float) -> "ZeroOneInflatedBeta":
        return self
