"""Families whose values have limits: truncated, censored, and hurdles of zeros."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families import base
from exfam.families.atoms import WithAtoms
from exfam.families.between import (
    LOST,
    combined,
    just_below,
    log_between,
    moments_between,
)
from exfam.families.likelihood import likeliest
from exfam.families.numeric import finite_in
from exfam.families.wrapped import OfMoments, check_wrapped

_NEAR = 1e-6  # of a limit
_ROUNDS = 12  # of draws that are rejected
_MOST_COUNTS = 100_000  # between the limits of counts, whose moments are sums


class Limited(OfMoments):
    """A family with a lower limit, an upper one, or both."""

    lower: float | None
    upper: float | None
    in_unit: ClassVar[tuple[str, ...]] = ("lower", "upper")

    def check_limits(self) -> None:
        """Raise ExfamError unless there is a limit and the lower one is below the upper."""
        check_wrapped(self.family, type(self).__name__)
        given = [limit for limit in (self.lower, self.upper) if limit is not None]
        if not given or not all(math.isfinite(limit) for limit in given):
            raise ExfamError(
                f"`lower` or `upper` must be a finite number, got {self.lower} and {self.upper}."
            )
        if given != sorted(set(given)):
            raise ExfamError(
                f"`lower` must be below `upper`, got {self.lower:g} and {self.upper:g}."
            )
        at = torch.tensor(given, dtype=torch.float64)
        if self.jumps and not bool(self.family.in_support(at).all()):
            raise ExfamError(
                f"`lower` and `upper` must be values of {self.family} ({self.family.support}), got "
                f"{self.lower} and {self.upper}."
            )
        if self.jumps and given[-1] - given[0] > _MOST_COUNTS * self.spacing:
            raise ExfamError(
                f"`upper` must be at most {_MOST_COUNTS} steps above `lower`, got {self.lower} and "
                f"{self.upper}. Use a continuous family for numbers so far apart."
            )

    def described(self, *words: str) -> str:
        """The support in words, each limit after its own."""
        given = zip(words, (self.lower, self.upper), strict=True)
        limits = [f"{word} {limit:g}" for word, limit in given if limit is not None]
        return f"{self.family.support}, {' and '.join(limits)}"

    @property
    def hint(self) -> str:
        return f"Use other limits, or {self.family} alone."

    @property
    def categories(self) -> tuple[int | float, ...]:
        return tuple(value for value in self.family.categories if self._within(value))

    def _within(self, value: float) -> bool:
        low, high = self.ends
        return low <= value <= high

    @property
    def ends(self) -> tuple[float, float]:
        """The limits, infinite where there are none."""
        low = -math.inf if self.lower is None else self.lower
        return low, math.inf if self.upper is None else self.upper

    @property
    def _inside(self) -> float:
        low, high = self.ends
        for value in (low, high, (low + high) / 2, low + 1, high - 1):
            if math.isfinite(value) and bool(self._in_support(torch.tensor([value]))):
                return value
        return 0.0

    def where(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is at the lower limit, what at the upper one, and what within them or there.

        Limits are met to single precision, in which standardized values are rounded.
        """
        exact = value.double()
        low, high = self.ends
        at_low, at_high = (
            (exact - end).abs() <= (_NEAR * abs(end) if math.isfinite(end) else -1.0)
            for end in (low, high)
        )
        return at_low, at_high, at_low | at_high | ((exact >= low) & (exact <= high))

    def before(self, value: float) -> float:
        """What lies just before a value that may have a probability."""
        at = torch.tensor([value], dtype=torch.float64)
        if self.jumps:
            return value - self.spacing / 2
        return just_below(value) if bool(self.family.has_mass(at)) else value

    def _initial_eta(self, value: Tensor) -> Tensor:
        return likeliest(self._log_prob, value, self.family.initial_eta(value))


@dataclass(frozen=True)
class Truncated(Limited):
    """A family of which only values from `lower` to `upper` are seen: log p(y) - log P(seen).

    `family`: any family of numbers that is the same for all items
    `lower`: the least value that is seen; None for no limit
    `upper`: the largest value that is seen; None for no limit

    The parameters are the family's own, before truncation. Raises ExfamError without a limit, and
    for limits that are no values of a family of counts.

    >>> from exfam.families import Poisson
    >>> Truncated(Poisson(), lower=1.0).log_prob(torch.tensor([1.0]), torch.zeros(1, 1))
    tensor([-0.5413])
    """

    family: base.Family
    lower: float | None = None
    upper: float | None = None
    name: ClassVar[str] = "truncated"

    def __post_init__(self) -> None:
        self.check_limits()

    @property
    def support(self) -> str:
        return self.described(">=", "<=")

    def has_mass(self, value: base.Values, item: base.Items = None) -> Tensor:
        return self.family.has_mass(value)

    def _in_support(self, value: Tensor) -> Tensor:
        return self.family.in_support(value) & self.where(value)[2]

    def _interval(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        low, high = self.ends
        low = low if math.isinf(low) else self.before(low)
        exact = eta.double()
        return exact.new_tensor(low), exact.new_tensor(high)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        nats = self.family.log_prob(value.double(), exact)
        return (nats - log_between(self.family, *self._interval(eta), exact)).to(eta.dtype)

    def moments(self, eta: Float[Tensor, "*shape params"]) -> tuple[Tensor, Tensor]:
        return moments_between(self.family, *self._interval(eta), eta)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        exact = eta.detach().double()
        low, high = self._interval(eta)
        whole = log_between(self.family, low, high, exact)
        below = log_between(self.family, low, value.double().clamp(low, high), exact)
        inside = (below - whole).clamp(max=0).exp()
        _, at_high, within = self.where(value)
        inside = torch.where(at_high | (value > self.ends[1]), 1.0, inside)
        return torch.where(within | (value > self.ends[1]), inside, 0.0)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double().nan_to_num()
        low, high = self._interval(eta)
        below, upto = self.family.cdf(low, exact), self.family.cdf(high, exact)
        beyond, after = self.family.above(high, exact), self.family.above(low, exact)
        level = (below + p * (upto - below)).clamp(0, 1)
        rest = (beyond + (1 - p) * (after - beyond)).clamp(0, 1)
        exact = exact.expand(*level.shape, -1)
        value, upper = torch.empty_like(level), level > 0.5
        value[~upper] = self.family.quantile(level[~upper], exact[~upper])
        value[upper] = self.family.quantile_above(rest[upper], exact[upper])
        lost = torch.where(upper, after - beyond, upto - below) < LOST
        value = torch.where(lost | value.isnan(), torch.where(below >= 0.5, low, high), value)
        value = self._of_steps(value.clamp(*self.ends), p, exact).clamp(*self.ends)
        # The ends themselves, whatever rounding made of their levels.
        first, last = (self.family.quantile(end, exact).clamp(*self.ends) for end in (0.0, 1.0))
        return torch.where(p <= 0, first, torch.where(p >= 1, last, value))

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """By rejection, as long as that is fast, then by quantiles."""
        drawn = self.family.sample(eta, generator=generator)
        for _ in range(_ROUNDS):
            outside = ~self._in_support(drawn)
            if not bool(outside.any()):
                return drawn
            drawn[outside] = self.family.sample(eta[outside], generator=generator)
        outside = ~self._in_support(drawn)
        left = eta[outside]
        level = torch.empty_like(left[..., 0], dtype=torch.float64).uniform_(generator=generator)
        drawn[outside] = finite_in(self._quantile(level.clamp(min=2.0**-54), left), left)
        drawn = drawn.clamp(*self.ends)
        # What single precision made of the least numbers.
        return torch.where(self._in_support(drawn), drawn, torch.finfo(eta.dtype).tiny)


@dataclass(frozen=True)
class Censored(Limited):
    """A family whose values beyond a limit are recorded as that limit: of waits cut off, of stocks.

    `family`: any family of numbers that is the same for all items
    `lower`: what smaller values are recorded as; None for no limit
    `upper`: what larger values are recorded as, as in right censoring; None for no limit

    A value at a limit has the probability of all beyond it and it; one between has the family's
    own density. The parameters are those of the family of what was not cut off; the mean is that
    of what is recorded. Raises ExfamError without a limit.

    >>> from exfam.families import Exponential
    >>> Censored(Exponential(), upper=2.0).log_prob(torch.tensor([2.0]), torch.zeros(1, 1))
    tensor([-2.])
    """

    family: base.Family
    lower: float | None = None
    upper: float | None = None
    name: ClassVar[str] = "censored"

    def __post_init__(self) -> None:
        self.check_limits()

    @property
    def masses(self) -> tuple[float, ...]:
        limits = {limit for limit in (self.lower, self.upper) if limit is not None}
        inner = {mass for mass in super().masses if self._within(mass)}
        return tuple(sorted(limits | inner))

    @property
    def support(self) -> str:
        return self.described("at least", "at most")

    def has_mass(self, value: base.Values, item: base.Items = None) -> Tensor:
        at_low, at_high, _ = self.where(value)
        own = at_low | at_high | self.family.has_mass(value)
        return own & (not self.jumps)

    def _in_support(self, value: Tensor) -> Tensor:
        at_low, at_high, within = self.where(value)
        return (within & self.family.in_support(value)) | at_low | at_high

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        exact = eta.double()
        at_low, at_high, _ = self.where(value)
        nats = self.family.log_prob(
            torch.where(at_low | at_high, self._between, value.double()), exact
        )
        infinite = exact.new_tensor(math.inf)
        if self.lower is not None and bool(at_low.any()):
            tail = log_between(self.family, -infinite, exact.new_tensor(self.lower), exact)
            nats = torch.where(at_low, tail, nats)
        if self.upper is not None and bool(at_high.any()):
            first = exact.new_tensor(self.before(self.upper))
            nats = torch.where(at_high, log_between(self.family, first, infinite, exact), nats)
        return nats.to(eta.dtype)

    @cached_property
    def _between(self) -> float:
        """A value of the family, put where its density is not needed."""
        return float(getattr(self.family, "_inside", 0.0))

    def moments(self, eta: Float[Tensor, "*shape params"]) -> tuple[Tensor, Tensor]:
        """Of three parts: at the lower limit, between, at the upper limit."""
        exact = eta.double()
        ends = [exact.new_tensor(end) for end in self.ends]
        high = exact.new_tensor(self.before(self.upper)) if self.upper is not None else ends[1]
        mean, variance = moments_between(self.family, ends[0], high, exact)
        below = self.family.cdf(ends[0], exact) if self.lower is not None else 0 * mean
        above = self.family.above(high, exact) if self.upper is not None else 0 * mean
        parts = [(1 - below - above).clamp(min=0), below, above]
        centers = [mean, 0 * mean + (self.lower or 0.0), 0 * mean + (self.upper or 0.0)]
        return combined(parts, centers, [variance, 0 * mean, 0 * mean])

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        inside = self.family.cdf(value.double(), eta.double())
        at_low, at_high, within = self.where(value)
        if self.lower is not None:
            inside = torch.where(
                at_low, self.family.cdf(0 * inside + self.lower, eta.double()), inside
            )
        inside = torch.where(at_high | (value > self.ends[1]), 1.0, inside)
        return torch.where(within | (value > self.ends[1]), inside, 0.0)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return self.family.quantile(p, eta.double()).clamp(*self.ends)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        return self.family.sample(eta, generator=generator).clamp(*self.ends)


@dataclass(frozen=True)
class Hurdle(WithAtoms):
    """Zeros apart from all others: 0 with probability sigmoid(last eta), else the family above 0.

    `family`: of counts, truncated to those above 0, or of amounts

    The columns before are the family's. Raises ExfamError for a family that differs by item.

    >>> from exfam.families import Poisson
    >>> Hurdle(Poisson()).log_prob(torch.tensor([0.0, 1.0]), torch.zeros(2, 2))
    tensor([-0.6931, -1.2345])
    """

    family: base.Family
    name: ClassVar[str] = "hurdle"

    def __post_init__(self) -> None:
        check_wrapped(self.family, "Hurdle")

    @property
    def support(self) -> str:
        return f"0 or {self.family.support}, > 0"

    @cached_property
    def smooth(self) -> base.Family:
        """The family above 0."""
        zero = torch.zeros(1, dtype=torch.float64)
        if not bool(self.family.in_support(torch.cat([zero, zero - 1])).any()):
            return self.family
        if self.jumps:
            return Truncated(self.family, lower=self.spacing)
        # A family with zeros of its own is cut just above them.
        return Truncated(self.family, lower=math.ulp(0.0) * bool(self.family.has_mass(zero)))
