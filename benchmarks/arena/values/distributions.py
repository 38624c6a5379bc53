"""Predictive distributions of the elements of groups: what contenders of values leave."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.special
import scipy.stats
import torch
from jaxtyping import Float

from exfam.scores.crps import crps

Values = Float[np.ndarray, "elements"]
_TINY = 1e-300


class Distribution(Protocol):
    """One distribution for every element.

    `log_prob`: nats of a density or a mass; `at_most`, `below`: P(Y <= y) and P(Y < y);
    `center`: the mean of the value, of counts that of log(1 + y)
    """

    def log_prob(self, value: Values) -> Values: ...

    def at_most(self, value: Values) -> Values: ...

    def below(self, value: Values) -> Values: ...

    def center(self) -> Values: ...


@dataclass(frozen=True, eq=False)
class StudentT:
    """Real values about `loc`, a normal distribution where `df` is infinite."""

    loc: Any
    scale: Any
    df: float

    def log_prob(self, value: Values) -> Values:
        return scipy.stats.t.logpdf((value - self.loc) / self.scale, self.df) - np.log(self.scale)

    def at_most(self, value: Values) -> Values:
        return scipy.special.stdtr(self.df, (value - self.loc) / self.scale)

    def below(self, value: Values) -> Values:
        return self.at_most(value)

    def center(self) -> Values:
        return self.loc

    def crps(self, value: Values) -> Values:
        """Source: Jordan, Krueger & Lerch (2019), appendix A. Raises ValueError if df <= 1."""
        unit, df = (value - self.loc) / self.scale, self.df
        outward = unit * (2 * self.at_most(value) - 1)
        if df == np.inf:
            density = scipy.stats.norm.pdf(unit)
            return self.scale * (outward + 2 * density - 1 / np.sqrt(np.pi))
        if df <= 1:
            raise ValueError(f"`df` must be above 1 for a CRPS, got {df}.")
        spread = 2 * scipy.stats.t.pdf(unit, df) * (df + unit**2) / (df - 1)
        beta = scipy.special.beta
        ratio = beta(0.5, df - 0.5) / beta(0.5, df / 2) ** 2
        return self.scale * (outward + spread - 2 * np.sqrt(df) / (df - 1) * ratio)


@dataclass(frozen=True, eq=False)
class RoundedT:
    """Counts: a Student t of log(y + offset), rounded, whose lowest bin is open."""

    loc: Any
    scale: Any
    df: float
    offset: float

    @property
    def least(self) -> int:
        return 0 if self.offset else 1

    def _units(self, edge: Values) -> Values:
        # Below the open bin: minus infinity.
        inside = np.maximum(edge + self.offset, 0.25)
        units = (np.log(inside) - self.loc) / self.scale
        return np.where(edge < self.least, -np.inf, units)

    def log_prob(self, value: Values) -> Values:
        low, high = self._units(value - 0.5), self._units(value + 0.5)
        # By symmetry, so that the upper tail loses no digits.
        flip = low > 0
        low, high = np.where(flip, -high, low), np.where(flip, -low, high)
        mass = scipy.special.stdtr(self.df, high) - scipy.special.stdtr(self.df, low)
        return np.log(np.maximum(mass, _TINY))

    def at_most(self, value: Values) -> Values:
        return scipy.special.stdtr(self.df, self._units(value + 0.5))

    def below(self, value: Values) -> Values:
        return self.at_most(value - 1)

    def center(self) -> Values:
        return mean_log1p(self.at_most, np.size(self.loc))


@dataclass(frozen=True, eq=False)
class NegativeBinomial:
    """Counts from `least` of that mean above it, and variance mean + mean^2 / size."""

    mean: Values
    size: float
    least: int

    def log_prob(self, value: Values) -> Values:
        return scipy.stats.nbinom.logpmf(value - self.least, self.size, self._share)

    def at_most(self, value: Values) -> Values:
        return scipy.stats.nbinom.cdf(value - self.least, self.size, self._share)

    def below(self, value: Values) -> Values:
        return self.at_most(value - 1)

    def center(self) -> Values:
        return mean_log1p(self.at_most, len(self.mean))

    @property
    def _share(self) -> Values:
        return self.size / (self.size + self.mean)


@dataclass(frozen=True, eq=False)
class Cells:
    """Probabilities of intervals (cuts[k - 1], cuts[k]], within which one distribution is shared.

    `means`: of each cell's values, on the scale of `center`
    """

    probs: Float[np.ndarray, "elements cells"]
    cuts: Float[np.ndarray, "inner"]
    within: Any
    means: Float[np.ndarray, "cells"]

    def _shares(self) -> tuple[Float[np.ndarray, "cells"], Float[np.ndarray, "cells"]]:
        """Of each cell in the shared distribution: what is below, and the mass."""
        ends = np.concatenate([[0.0], self.within.at_most(self.cuts), [1.0]])
        return ends[:-1], np.diff(ends)

    def log_prob(self, value: Values) -> Values:
        cell = np.searchsorted(self.cuts, value, side="left")
        own = np.log(np.maximum(self.probs[np.arange(len(cell)), cell], _TINY))
        return own + self.within.log_prob(value) - np.log(self._shares()[1][cell])

    def at_most(self, value: Values) -> Values:
        return self._up_to(value, self.within.at_most(value))

    def below(self, value: Values) -> Values:
        return self._up_to(value, self.within.below(value))

    def _up_to(self, value: Values, shared: Values) -> Values:
        cell, row = np.searchsorted(self.cuts, value, side="left"), np.arange(len(value))
        before, mass = self._shares()
        total = np.cumsum(self.probs, axis=1)[row, cell]
        own = self.probs[row, cell]
        part = np.clip((shared - before[cell]) / mass[cell], 0, 1)
        return total - own + own * part

    def center(self) -> Values:
        return self.probs @ self.means


@dataclass(frozen=True, eq=False)
class Atoms:
    """The same masses at some values, for all elements."""

    values: Float[np.ndarray, "atoms"]
    mass: Float[np.ndarray, "atoms"]

    def log_prob(self, value: Values) -> Values:
        index = np.minimum(np.searchsorted(self.values, value), len(self.values) - 1)
        is_atom = self.values[index] == value
        return np.log(np.where(is_atom, np.maximum(self.mass[index], _TINY), _TINY))

    def at_most(self, value: Values) -> Values:
        return self._total(np.searchsorted(self.values, value, side="right"))

    def below(self, value: Values) -> Values:
        return self._total(np.searchsorted(self.values, value, side="left"))

    def _total(self, n: np.ndarray) -> Values:
        return np.concatenate([[0.0], np.cumsum(self.mass)])[n]


@dataclass(frozen=True, eq=False)
class Steps:
    """The same density of equal steps between edges, for all elements."""

    edges: Float[np.ndarray, "edges"]
    mass: Float[np.ndarray, "steps"]

    def log_prob(self, value: Values) -> Values:
        step = np.clip(np.searchsorted(self.edges, value) - 1, 0, len(self.mass) - 1)
        inside = (value >= self.edges[0]) & (value <= self.edges[-1])
        density = self.mass[step] / np.diff(self.edges)[step]
        return np.log(np.where(inside, np.maximum(density, _TINY), _TINY))

    def at_most(self, value: Values) -> Values:
        return np.interp(value, self.edges, np.concatenate([[0.0], np.cumsum(self.mass)]))

    def below(self, value: Values) -> Values:
        return self.at_most(value)


@dataclass(frozen=True, eq=False)
class Mixed:
    """A share of the first, and the rest of the second."""

    share: float
    first: Any
    second: Any

    def log_prob(self, value: Values) -> Values:
        first, second = self.first.log_prob(value), self.second.log_prob(value)
        return np.logaddexp(np.log(self.share) + first, np.log1p(-self.share) + second)

    def at_most(self, value: Values) -> Values:
        return self.share * self.first.at_most(value) + (1 - self.share) * self.second.at_most(
            value
        )

    def below(self, value: Values) -> Values:
        return self.share * self.first.below(value) + (1 - self.share) * self.second.below(value)


@dataclass(frozen=True, eq=False)
class OfMixture:
    """The predictive distributions of an exfam estimator."""

    mixture: Any
    form: str

    def log_prob(self, value: Values) -> Values:
        return self.mixture.log_prob(torch.as_tensor(value)).numpy()

    def at_most(self, value: Values) -> Values:
        return self.mixture.cdf(torch.as_tensor(value)).numpy()

    def below(self, value: Values) -> Values:
        return self.at_most(value) if self.form == "real" else self.at_most(value - 1)

    def center(self) -> Values:
        if self.form == "count":
            return mean_log1p(self.at_most, self.mixture.eta.shape[1])
        return self.mixture.center().numpy()

    def crps(self, value: Values) -> Values:
        return crps(self.mixture, torch.as_tensor(value)).numpy()


# Exactly summed up to the first, then by stretches of a quarter.
_EXACT, _MOST = 16, 1e7


def mean_log1p(at_most: Callable[[Values], Values], n_elements: int) -> Values:
    """The mean of log(1 + Y) from P(Y <= y), to about three digits.

    It is the sum over k of (log(k + 2) - log(k + 1)) P(Y > k); beyond 16, the mean of P(Y > k) at
    both ends of a stretch of k stands for those between.
    """
    wide = np.floor(_EXACT * 1.25 ** np.arange(80))
    node = np.concatenate([np.arange(_EXACT), np.unique(wide[wide < _MOST])])
    total = np.zeros(n_elements)
    for first, stop in zip(node[:-1], node[1:], strict=True):
        above = 1 - at_most(np.full(n_elements, first))
        if stop - first > 1:
            above = (above + 1 - at_most(np.full(n_elements, stop - 1))) / 2
        total = total + (np.log1p(stop) - np.log1p(first)) * above
    return total
