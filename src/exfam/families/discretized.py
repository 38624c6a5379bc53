"""Families recorded in steps or in intervals: rounded numbers, counts, brackets."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError, check_positive
from exfam.families import base
from exfam.families.between import (
    by_rows,
    combined,
    has_jumps,
    log_between,
    mass_of,
    moments_between,
    sides,
)
from exfam.families.categories import Finite
from exfam.families.likelihood import likeliest
from exfam.families.numeric import finite_in
from exfam.families.wrapped import OfMoments, check_wrapped

_NEAR = 1e-3  # of a step: values that are as near are it, also in single precision
_FARTHEST = 1e150  # of numbers whose squares are finite
_MOST = 1e300  # of quantiles of levels below 1
_CORE = 512  # steps on both sides of the median that are summed one by one


def _check_continuous(family: base.Family, name: str) -> None:
    check_wrapped(family, name)
    if has_jumps(family):
        raise ExfamError(
            f"`family` of {name} must be a continuous family, got {family}, whose values have "
            "steps already."
        )


@dataclass(frozen=True)
class Discretized(OfMoments):
    """A continuous family whose values are rounded to multiples of a step, such as to counts.

    `family`: any continuous family that is the same for all items, such as LogNormal()
    `step`: how far apart values are, > 0
    `start`: the least value, which smaller numbers are recorded as; None for no limit

    P(y) = P(y - step / 2 < L <= y + step / 2), where L has the family's distribution. The mean and
    the variance are exact to 1e-7. Raises ExfamError for a family of counts, for a step that is not
    > 0 and a start that is no multiple of it.

    >>> from exfam.families import LogNormal
    >>> Discretized(LogNormal(), start=0.0).log_prob(torch.tensor([0.0, 1.0]), torch.zeros(2, 2))
    tensor([-1.4101, -0.8835])
    """

    family: base.Family
    step: float = 1.0
    start: float | None = None
    name: ClassVar[str] = "discretized"
    equivariance: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        _check_continuous(self.family, "Discretized")
        check_positive("step", self.step)
        if self.start is not None and not bool(self._is_multiple(torch.tensor([self.start]))):
            raise ExfamError(
                f"`start` must be a multiple of `step`, got {self.start!r} and {self.step!r}."
            )

    @property
    def support(self) -> str:
        what = "an integer" if self.step == 1 else f"a multiple of {self.step:g}"
        least = "" if self.start is None else f" >= {self.start:g}"
        return f"{what}{least} near {self.family.support}"

    @property
    def hint(self) -> str:
        return f"Use Discretized of another step or start, or {self.family} alone."

    @property
    def spacing(self) -> float:
        return float(self.step)

    @property
    def jumps(self) -> bool:
        return True

    @property
    def _inside(self) -> float:
        if self.start is not None:
            return float(self.start)
        return 0.0 if bool(self._in_support(torch.zeros(1))) else float(self.step)

    def rescaled(self, scale: float) -> "Discretized":
        return self

    def _steps(self, value: Tensor) -> Tensor:
        return (value.double() / self.step).round()

    def _is_multiple(self, value: Tensor) -> Tensor:
        gap = (value.double() / self.step - self._steps(value)).abs()
        return gap <= (0.0 if self.step == 1 else _NEAR)

    def _in_support(self, value: Tensor) -> Tensor:
        near = [value.double() + self.step * part for part in (-0.499, 0.0, 0.499)]
        inside = torch.stack([self.family.in_support(at) for at in near]).any(0)
        if self.start is not None:
            # All that is below the start is recorded as it.
            inside = (inside | (self._is_start(value))) & (value >= self.start - _NEAR * self.step)
        return inside & value.isfinite() & self._is_multiple(value)

    def _is_start(self, value: Tensor) -> Tensor:
        return self._steps(value) <= round((self.start or 0.0) / self.step)

    def _cut(self, steps: Tensor, *, below: bool) -> Tensor:
        """Where the interval of so many steps begins, or ends."""
        edge = (steps + (-0.5 if below else 0.5)) * self.step
        if below and self.start is not None:
            return torch.where(self._is_start(steps * self.step), -torch.inf, edge)
        return edge

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        steps = self._steps(value)
        ends = self._cut(steps, below=True), self._cut(steps, below=False)
        return log_between(self.family, *ends, eta.double()).to(eta.dtype)

    def _floor(self, value: Tensor) -> Tensor:
        return (value.double() / self.step + _NEAR * (self.step != 1)).floor()

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        inside = self.family.cdf(self._cut(self._floor(value), below=False), eta.double())
        least = -math.inf if self.start is None else self.start - _NEAR * self.step
        return torch.where(value < least, 0.0, inside)

    def above(self, value: base.Values, eta: base.Eta) -> base.Numbers:
        beyond = self.family.above(self._cut(self._floor(value), below=False), eta.double())
        least = -math.inf if self.start is None else self.start - _NEAR * self.step
        return torch.where(value < least, 1.0, beyond)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        latent = self.family.quantile(p, exact)
        latent = torch.where(p < 1, latent.clamp(max=_MOST), latent)
        value = (latent / self.step - 0.5).ceil() * self.step
        value = self._least(value)
        return torch.where(value.isfinite(), self._least(self._of_steps(value, p, exact)), value)

    def _least(self, value: Tensor) -> Tensor:
        return value if self.start is None else value.clamp(min=self.start)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        drawn = self.family.sample(eta.double(), generator=generator)
        return finite_in(self._least(self._steps(drawn) * self.step), eta)

    def moments(self, eta: Float[Tensor, "*shape params"]) -> tuple[Tensor, Tensor]:
        """Mean and variance, in double precision and without gradient."""
        mean, variance = by_rows(self._moments_of, eta.detach().double().nan_to_num())
        unknown = eta.isnan().any(-1)
        return mean.masked_fill(unknown, torch.nan), variance.masked_fill(unknown, torch.nan)

    def _moments_of(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """One by one around the median; far from it, of the family's own numbers."""
        median = self._quantile(eta.new_tensor(0.5), eta)
        middle = self._steps(median.clamp(-_FARTHEST, _FARTHEST)).unsqueeze(-1)
        steps = middle + torch.arange(-_CORE, _CORE + 1).to(middle)
        least = -math.inf if self.start is None else round(self.start / self.step)
        ends = self._cut(steps, below=True), self._cut(steps, below=False)
        mass = mass_of(*sides(self.family, *ends, eta.unsqueeze(-2)))
        mass = torch.where(steps >= least, mass, 0.0)
        whole = mass.sum(-1)
        value, share = steps * self.step, mass / whole.clamp(min=1e-300).unsqueeze(-1)
        center = (share * value).sum(-1)
        parts = [(whole, center, (share * (value - center.unsqueeze(-1)).square()).sum(-1))]
        parts += self._tails((steps[..., 0] - 0.5) * self.step, ends[1][..., -1], eta)
        return combined(*zip(*parts, strict=True))

    def _tails(self, low: Tensor, high: Tensor, eta: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Mass, mean and variance of what is below, and above, of what is summed one by one."""
        endless = torch.full_like(low, torch.inf)
        first = -endless if self.start is None else low.clamp(max=self.start + self.step / 2)
        parts = []
        for span in ((first, low), (high, endless)):
            mean, variance = moments_between(self.family, *span, eta)
            parts.append((mass_of(*sides(self.family, *span, eta)), mean, variance + self._jitter))
        if self.start is not None and bool((low > first).any()):
            at_start = torch.where(low > first, self.family.cdf(first, eta), 0.0)
            parts.append((at_start, torch.full_like(low, self.start), 0 * low))
        return parts

    @property
    def _jitter(self) -> float:
        """The variance of rounding where the density is even."""
        return self.step**2 / 12

    def _initial_eta(self, value: Tensor) -> Tensor:
        # A number of the family's support within each step.
        near = [value.double() + self.step * part for part in (0.0, 0.25, -0.25)]
        inside = near[0]
        for other in near[1:]:
            inside = torch.where(self.family.in_support(inside), inside, other)
        return likeliest(self._log_prob, value, self.family.initial_eta(inside))


@dataclass(frozen=True, repr=False)
class IntervalCensored(Finite):
    """The interval that a number lies in, by its index from 0: brackets of income, classes of age.

    `family`: any continuous family that is the same for all items
    `edges`: where intervals end, increasing; the first has no lower and the last no upper end

    P(k) = P(edges[k - 1] < L <= edges[k]), where L has the family's distribution and its parameters
    are in the unit of the edges. The mean is that of the indices; the family itself has that of the
    numbers. Raises ExfamError for a family of counts and for edges that do not increase.

    >>> from exfam.families import Gaussian
    >>> IntervalCensored(Gaussian(scale=1.0), edges=(-1.0, 1.0)).probs(torch.zeros(1))
    tensor([0.1587, 0.6827, 0.1587])
    """

    family: base.Family
    edges: tuple[float, ...]
    name: ClassVar[str] = "interval-censored"
    start: ClassVar[int] = 0  # type: ignore[misc]
    step: ClassVar[int] = 1  # type: ignore[misc]

    def __post_init__(self) -> None:
        _check_continuous(self.family, "IntervalCensored")
        object.__setattr__(self, "edges", tuple(map(float, self.edges)))
        rises = all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False))
        if not self.edges or not rises or not all(map(math.isfinite, self.edges)):
            raise ExfamError(
                f"`edges` must be finite numbers that increase, at least one, got {self.edges}."
            )

    def __repr__(self) -> str:
        return f"IntervalCensored(family={self.family!r}, edges={self.edges!r})"

    @property
    def n(self) -> int:  # type: ignore[override]
        """The number of intervals."""
        return len(self.edges) + 1

    @property
    def hint(self) -> str:
        return f"Count the intervals from 0: there are {self.n}."

    @property
    def n_params(self) -> int:
        return self.family.n_params

    @property
    def n_dispersion(self) -> int:
        return self.family.n_dispersion

    def _log_probs(self, eta: Tensor) -> Tensor:
        edges = torch.tensor((-math.inf, *self.edges, math.inf), dtype=torch.float64).to(eta.device)
        nats = log_between(self.family, edges[:-1], edges[1:], eta.double().unsqueeze(-2))
        return nats.log_softmax(-1).to(eta.dtype)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        raise ExfamError(
            f"`family` must be determined by its mean to be built from one, got {self}, whose "
            "mean is of indices. Use initial_eta, or from_mean of the family within."
        )

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood, from the middles of the intervals."""
        widths = [b - a for a, b in zip(self.edges, self.edges[1:], strict=False)]
        outer = max(widths, default=max(1.0, abs(self.edges[0]))) / 2
        ends = (self.edges[0] - 2 * outer, *self.edges, self.edges[-1] + 2 * outer)
        middles = [(a + b) / 2 for a, b in zip(ends, ends[1:], strict=False)]
        numbers = value.new_tensor(middles)[value.long()]
        start = self.family.initial_eta(numbers)
        return likeliest(self._log_prob, value, start)
