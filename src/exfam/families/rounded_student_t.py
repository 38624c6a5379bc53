"""Counts with heavy tails: Student's t of the logarithm, rounded, with atoms of its own."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families.base import MAX_LOG_DISPERSION, PlainFamily, bounded
from exfam.families.likelihood import likeliest
from exfam.families.numeric import (
    check_integer,
    finite_quantile,
    integers_from,
    pick,
    search_integer,
    through_scipy,
)
from exfam.families.real import location_and_scale

_LOG_EXCESS = (-2.0, 5.0)  # log(df - 1): df from 1.14 to 149
_MOST = 2.0**512  # far beyond any count; an interval there is still a number above 0
_EXACT = 2.0**52  # from here on a count is a number without a fraction, and the next is far off
_LARGEST_DRAW = 2.0**100  # in single precision too
_START_LOG_ATOM = math.log(1e-3)
_START_LOG_SCALE = math.log(1e3)  # around the sample's own spread, on both sides
_START_MARGIN = 5.0  # of the location, from the logarithms of the sample


@dataclass(frozen=True)
class RoundedStudentT(PlainFamily):
    """Counts from `start`, 0 or more, with heavy tails, some of them more frequent than others.

    `start`: the least count, an integer >= 0
    `atoms`: counts that occur more often than a smooth curve allows, increasing integers >= `start`

    The smooth part gives a count y the mass of location + scale T between log(y - 1/2 + c) and
    log(y + 1/2 + c), the least count all mass below its upper end, where T is Student's t and
    c = 1/2 if `start` is 0, else 0. location = eta0, scale = exp(eta1) and df = 1 + exp(eta2), with
    eta1 bounded by 20 on both sides and eta2 by -2 and 5. The columns after these are the log
    weights of the atoms beside the smooth part's 0: p(y) = p_0 mass(y) + sum_k p_k [y = atom_k],
    with p = softmax(0, eta3, eta4, ...).

    The mean and the variance are infinite; `from_mean` takes a mean as the median of the smooth
    part. Raises ExfamError for another `start` or `atoms`.

    >>> family = RoundedStudentT(atoms=(0, 12))
    >>> family.n_params, family.n_dispersion
    (5, 4)
    >>> family.log_prob(torch.tensor([0.0, 1e12]), torch.zeros(2, 5))
    tensor([ -0.6931, -38.6904])
    """

    start: int = 0
    atoms: tuple[int, ...] = ()
    name: ClassVar[str] = "rounded-student-t"
    has_mean: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_integer("start", self.start, at_least=0)
        for atom in self.atoms:
            check_integer("atoms", atom, at_least=self.start)
        # A family can be a key only if it holds tuples, and not lists.
        object.__setattr__(self, "atoms", tuple(self.atoms))
        if list(self.atoms) != sorted(set(self.atoms)):
            raise ExfamError(
                f"`atoms` must be integers that increase, got {self.atoms}. "
                "Name each count once, the least first."
            )

    @property
    def n_dispersion(self) -> int:
        return 2 + len(self.atoms)

    @property
    def support(self) -> str:
        return f"an integer >= {self.start}"

    @property
    def hint(self) -> str:
        if self.start > 0:
            return "Use RoundedStudentT(start=0) for counts from 0."
        return "Use StudentT() for real numbers."

    @property
    def _inside(self) -> float:
        return float(self.start)

    @property
    def _shift(self) -> float:
        return 0.5 if self.start == 0 else 0.0

    def _in_support(self, value: Tensor) -> Tensor:
        return integers_from(value, self.start)

    def _parameters(self, eta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Location, log scale and degrees of freedom, in double precision."""
        exact = eta[..., :3].double()
        log_scale = bounded(exact[..., 1], -MAX_LOG_DISPERSION, MAX_LOG_DISPERSION)
        return exact[..., 0], log_scale, 1 + bounded(exact[..., 2], *_LOG_EXCESS).exp()

    def _upper(self, count: Tensor) -> Tensor:
        """Where the interval of a count ends, in logarithms."""
        return (count + 0.5 + self._shift).log()

    def _log_mass(self, value: Tensor, eta: Tensor) -> Tensor:
        """Log mass of the smooth part, in double precision."""
        from exfam.families.bin_mass import log_bin_mass

        count = value.double().clamp(max=_MOST)
        least = count <= self.start
        inner = torch.where(least, self.start + 1.0, count) - 0.5 + self._shift
        low = torch.where(least, -torch.inf, inner.log())
        width = torch.where(least, self._upper(count), torch.log1p(1 / inner))
        cells = torch.broadcast_tensors(low, width, *self._parameters(eta))
        return log_bin_mass(*(cell.reshape(-1) for cell in cells)).reshape(cells[0].shape)

    def _atom_tensor(self, eta: Tensor) -> Tensor:
        return torch.tensor(self.atoms, dtype=torch.float64, device=eta.device)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        nats = self._log_mass(value, eta)
        if not self.atoms:
            return nats.to(eta.dtype)
        atoms, log_weight = self._atom_tensor(eta), eta[..., 3:].double()
        count = value.double().contiguous()
        index = torch.searchsorted(atoms, count).clamp(max=len(self.atoms) - 1)
        both = torch.logaddexp(nats, pick(log_weight, index))
        log_total = torch.logaddexp(log_weight.new_zeros(()), log_weight.logsumexp(-1))
        return (torch.where(atoms[index] == count, both, nats) - log_total).to(eta.dtype)

    def _probabilities(self, eta: Tensor) -> Tensor:
        """Of the smooth part and the atoms, in double precision."""
        weights = eta[..., 2:].double()
        return torch.cat([torch.zeros_like(weights[..., :1]), weights[..., 1:]], -1).softmax(-1)

    def _mean(self, eta: Tensor) -> Tensor:
        return torch.where(eta.isnan().any(-1), torch.nan, torch.inf).to(eta.dtype)

    def _variance(self, eta: Tensor) -> Tensor:
        return self._mean(eta)

    def _cdf_of(self, eta: Tensor) -> Callable[[Tensor], Tensor]:
        """The cdf of whole numbers, in double precision."""
        from scipy.special import stdtr

        location, log_scale, df = self._parameters(eta)
        probs = self._probabilities(eta)
        below = probs.cumsum(-1) - probs[..., :1]  # of no atom, one, two
        atoms = self._atom_tensor(eta)

        def cdf(count: Tensor) -> Tensor:
            upper = self._upper(count.clamp(min=self.start))
            smooth = through_scipy(stdtr, df, (upper - location) / log_scale.exp())
            index = torch.searchsorted(atoms, count.contiguous(), right=True)
            inside = (probs[..., 0] * smooth + pick(below, index)).clamp(0, 1)
            return torch.where(count < self.start, 0.0, inside)

        return cdf

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        return self._cdf_of(eta)(value.double().floor())

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import stdtrit

        cdf = self._cdf_of(eta)
        count = search_integer(lambda k: cdf(k + self.start), p, eta.shape[:-1]) + self.start
        beyond = (count > _EXACT) & (p < 1)
        if not beyond.any():
            return count
        # There the search is not at its end, and whole numbers are as dense as any others.
        probs, (location, log_scale, df) = self._probabilities(eta), self._parameters(eta)
        level = 1 - (1 - p) / probs[..., 0].clamp(min=torch.finfo(torch.float64).tiny)
        smooth = location + log_scale.exp() * through_scipy(stdtrit, df, level.clamp(0, 1))
        return torch.where(beyond, smooth.exp().clamp(min=_EXACT).round(), count)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        location, log_scale, df = self._parameters(eta)
        half = df / 2
        tiny = torch.finfo(torch.float64).tiny
        precision = torch._standard_gamma(half, generator=generator).clamp(min=tiny) / half
        noise = torch.empty_like(location).normal_(generator=generator)
        smooth = (location + log_scale.exp() * noise * precision.rsqrt()).exp()
        count = (smooth - 0.5 - self._shift).ceil().clamp(self.start, _LARGEST_DRAW)
        if not self.atoms:
            return count.to(eta.dtype)
        level = torch.empty_like(location).uniform_(generator=generator)
        index = finite_quantile(self._probabilities(eta).cumsum(-1), level)
        drawn = self._atom_tensor(eta)[(index - 1).clamp(min=0)]
        return torch.where(index > 0, drawn, count).to(eta.dtype)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        least = mean.clamp(min=float(self.start))
        return (least + self._shift).log().unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood, no atom rarer than where a network still learns from its counts."""
        logs = (value + self._shift).log()
        center, spread = location_and_scale(logs.cpu().numpy())

        def eta_of(unit: Tensor) -> Tensor:
            smooth = [center + spread * unit[0], math.log(spread) + unit[1], unit[2]]
            return torch.cat([torch.stack(smooth), unit[3:]])

        ends = (float(logs.min()) - _START_MARGIN, float(logs.max()) + _START_MARGIN)
        bounds = [
            ((ends[0] - center) / spread, (ends[1] - center) / spread),
            (-_START_LOG_SCALE, _START_LOG_SCALE),
            _LOG_EXCESS,
            *([(_START_LOG_ATOM, math.log(2 * len(value)))] * len(self.atoms)),
        ]
        start = [0.0, 0.0, math.log(4), *([_START_LOG_ATOM] * len(self.atoms))]
        return eta_of(
            likeliest(lambda y, at: self._log_prob(y, eta_of(at)), value, start, bounds=bounds)
        )
