"""The same distributions by scipy or by numeric integration: outside witnesses of every family."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import special, stats

from exfam.families import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Censored,
    CensoredStudentT,
    Discretized,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    Histogram,
    IntervalCensored,
    LogNormal,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RoundedRootStudentT,
    RoundedStudentT,
    SinhStudentT,
    StudentT,
    Tweedie,
    VonMises,
    Weibull,
)
from exfam.families.atoms import WithAtoms
from exfam.families.wrapped import Wrapped

legendre = cache(np.polynomial.legendre.leggauss)


def integral(density: Callable, low: np.ndarray, width: np.ndarray) -> np.ndarray:
    """From `low` on, in 20 pieces of 40 nodes."""
    x, weight = legendre(40)
    at = np.add.outer(np.arange(20), (x + 1) / 2).reshape(-1, *np.ones(width.ndim, int)) / 20
    share = np.tile(weight, 20).reshape(at.shape) / 40
    return (share * width * density(low + width * at)).sum(0)


class Mixed:
    """A mixture of distributions of scipy, weighted by row."""

    def __init__(self, weights: np.ndarray, parts: list[Any]):
        self.weights, self.parts = weights, parts

    def _sum(self, parts: list[Any]) -> np.ndarray:
        return sum(weight * part for weight, part in zip(self.weights.T, parts, strict=True))

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):  # nothing is possible outside all parts
            return np.log(self._sum([np.exp(log_prob(part, value)) for part in self.parts]))

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return self._sum([part.cdf(value) for part in self.parts])

    def mean(self) -> np.ndarray:
        return self._sum([part.mean() for part in self.parts])

    def var(self) -> np.ndarray:
        squares = [part.var() + part.mean() ** 2 for part in self.parts]
        square = self.mean() ** 2
        inside = np.where(np.isinf(square), 0.0, square)
        return np.where(np.isinf(square), np.inf, self._sum(squares) - inside)


class OfLogarithms:
    """Positive numbers whose logarithms have a distribution of scipy."""

    def __init__(self, of_logs: Any):
        self.of_logs = of_logs

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        return self.of_logs.logpdf(np.log(value)) - np.log(value)

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return self.of_logs.cdf(np.log(value))

    def mean(self) -> float:
        return np.inf

    def var(self) -> float:
        return np.inf


class Sinh:
    """`bend` times the hyperbolic sine of a number that has a distribution of scipy."""

    def __init__(self, latent: Any, bend: float):
        self.latent, self.bend = latent, bend

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        unit = value / self.bend
        return self.latent.logpdf(np.arcsinh(unit)) - np.log(self.bend * np.sqrt(1 + unit**2))

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return self.latent.cdf(np.arcsinh(value / self.bend))

    def mean(self) -> float:
        return np.inf

    def var(self) -> float:
        return np.inf


class CutOff:
    """Powers of the part above 0 of Student's t, one for each row."""

    def __init__(self, latent: Any, root: int):
        self.latent, self.root = latent, root

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        above = np.where(value > 0, value, 1.0)
        power = 1 / self.root
        slope = (power - 1) * np.log(above) + np.log(power)
        density = self.latent.logpdf(above**power) + slope
        return np.where(value > 0, density, self.latent.logcdf(0.0))

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return np.where(value < 0, 0.0, self.latent.cdf(np.maximum(value, 0) ** (1 / self.root)))

    def _moment(self, power: int) -> np.ndarray:
        """By Gauss-Legendre over the logarithm of the latent number."""
        x, weight = legendre(60)
        at = np.exp(np.add.outer(-30 + 1.5 * np.arange(60), 0.75 * (x + 1)))[..., None]
        parts = 0.75 * weight[:, None] * at ** (power + 1) * self.latent.pdf(at)
        return parts.sum((0, 1))

    def mean(self) -> np.ndarray:
        return self._moment(self.root)

    def var(self) -> np.ndarray:
        return self._moment(2 * self.root) - self.mean() ** 2


class RoundedRoot:
    """Mass and cdf of a power of Student's t, rounded to counts, one for each row."""

    def __init__(self, latent: Any, root: int):
        self.latent, self.root = latent, root

    def cdf(self, value: np.ndarray) -> np.ndarray:
        edge = (np.floor(np.maximum(value, 0)) + 0.5) ** (1 / self.root)
        return np.where(value < 0, 0.0, self.latent.cdf(edge))

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        low = np.maximum(value - 0.5, 0.5) ** (1 / self.root)
        width = (value + 0.5) ** (1 / self.root) - low
        mass = integral(self.latent.pdf, low, width)
        with np.errstate(divide="ignore"):
            return np.log(np.where(value <= 0, self.cdf(value), mass))

    def _moment(self, weigh: Any) -> np.ndarray:
        total = 0.0
        for count in np.arange(200_000).reshape(-1, 1000):
            edge = (count[:, None] + 0.5) ** (1 / self.root)
            total = total + (weigh(count)[:, None] * self.latent.sf(edge)).sum(0)
        return total

    def mean(self) -> np.ndarray:
        return self._moment(np.ones_like)

    def var(self) -> np.ndarray:
        return self._moment(lambda count: 2 * count + 1) - self.mean() ** 2


class RoundedLogs:
    """Mass and cdf of Student's t of the logarithm, rounded to counts, one for each row."""

    def __init__(self, of_logs: Any, start: int):
        self.of_logs, self.start, self.shift = of_logs, start, 0.5 if start == 0 else 0.0

    def cdf(self, value: np.ndarray) -> np.ndarray:
        upper = np.log(np.floor(np.maximum(value, self.start)) + 0.5 + self.shift)
        return np.where(value < self.start, 0.0, self.of_logs.cdf(upper))

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        inner = np.maximum(value, self.start + 1) - 0.5 + self.shift
        low, width = np.log(inner), np.log1p(1 / inner)
        mass = integral(self.of_logs.pdf, low, width)
        with np.errstate(divide="ignore"):
            return np.log(np.where(value <= self.start, self.cdf(value), mass))

    def mean(self) -> float:
        return np.inf

    def var(self) -> float:
        return np.inf


class Directed:
    """Angles from -pi to pi around a direction, one for each row."""

    def __init__(self, direction: np.ndarray, size: np.ndarray):
        self.direction, self.size = direction, size
        self.around = stats.vonmises(size, direction)

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        return self.around.logpdf(value)

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return self.around.cdf(value) - self.around.cdf(-np.pi)

    def mean(self) -> np.ndarray:
        return self.direction

    def var(self) -> np.ndarray:
        k = np.arange(1, 200)[:, None]
        terms = (-1.0) ** k * special.ive(k, self.size) / (k**2 * special.ive(0, self.size))
        return np.pi**2 / 3 + 4 * terms.sum(0)


class Compound:
    """Sums of a Poisson number of gamma amounts, by adding up over that number, row by row."""

    def __init__(self, mean: np.ndarray, phi: np.ndarray, power: float):
        self.rate = mean ** (2 - power) / (phi * (2 - power))
        self.shape, self.unit = (2 - power) / (power - 1), phi * (power - 1) * mean ** (power - 1)

    def _over_numbers(self, of_amounts: Any) -> np.ndarray:
        numbers = np.arange(1, 600)[:, None, None]
        amounts = stats.gamma(numbers * self.shape, scale=self.unit)
        return (stats.poisson(self.rate).pmf(numbers) * of_amounts(amounts)).sum(0)

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        above = self._over_numbers(lambda amounts: amounts.pdf(np.where(value > 0, value, 1.0)))
        with np.errstate(divide="ignore"):
            return np.where(value > 0, np.log(above), -self.rate)

    def cdf(self, value: np.ndarray) -> np.ndarray:
        below = np.exp(-self.rate) + self._over_numbers(lambda amounts: amounts.cdf(value))
        return np.where(value < 0, 0.0, below)

    def mean(self) -> np.ndarray:
        return self.rate * self.shape * self.unit

    def var(self) -> np.ndarray:
        return self.mean() * (self.shape + 1) * self.unit


def log_prob(distribution: Any, value: np.ndarray) -> np.ndarray:
    """By whatever name scipy has for it."""
    names = ("log_prob", "logpmf", "logpdf")
    return next(getattr(distribution, n) for n in names if hasattr(distribution, n))(value)


class Beside:
    """A density beside values with probabilities of their own, where it has none."""

    def __init__(self, density: Any, atoms: tuple[float, ...]):
        self.density, self.atoms = density, atoms
        self.cdf, self.mean, self.var = density.cdf, density.mean, density.var

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.where(np.isin(value, self.atoms), -np.inf, log_prob(self.density, value))


def with_atoms(family: WithAtoms, eta: np.ndarray) -> Mixed:
    n = family.smooth.n_params
    weights = special.softmax(np.column_stack([0 * eta[:, 0], eta[:, n:]]), axis=1)
    inner = by_scipy(family.smooth, eta[:, :n])
    inner = inner if family.jumps else Beside(inner, family.atoms)
    return Mixed(weights, [inner, *(stats.rv_discrete(values=([k], [1.0])) for k in family.atoms)])


class Within:
    """What a distribution has between two limits, moments by sums or Gauss-Legendre integrals."""

    def __init__(self, inner: Any, limits: tuple[float, float], *, jumps: bool, keeps: bool):
        self.inner, self.jumps, self.keeps = inner, jumps, keeps
        self.low, self.high = limits
        step = 0.5 * jumps
        self.below = inner.cdf(self.low - step) if np.isfinite(self.low) else 0.0
        self.upto = inner.cdf(self.high) if np.isfinite(self.high) else 1.0
        self.least = inner.cdf(self.low) if np.isfinite(self.low) else 0.0
        self.most = inner.cdf(self.high - step) if np.isfinite(self.high) else 1.0

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        nats = log_prob(self.inner, value)
        if not self.keeps:
            within = (value >= self.low) & (value <= self.high)
            return np.where(within, nats - np.log(self.upto - self.below), -np.inf)
        nats = np.where(value == self.low, np.log(np.maximum(self.least, 1e-300)), nats)
        return np.where(value == self.high, np.log(np.maximum(1 - self.most, 1e-300)), nats)

    def cdf(self, value: np.ndarray) -> np.ndarray:
        inside = self.inner.cdf(value)
        if not self.keeps:
            inside = (inside - self.below) / (self.upto - self.below)
        return np.where(value < self.low, 0.0, np.where(value >= self.high, 1.0, inside))

    def _grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and their weights in an integral, or a sum."""
        x, weight = legendre(900)
        if self.jumps:
            value = np.arange(max(self.low, 0), min(self.high, 3000) + 1)
            return value, np.ones_like(value)
        if np.isfinite(self.high):
            low = max(self.low, 0.0) if self.low == -np.inf else self.low
            angle, width = (x + 1) * np.pi / 4, self.high - low
            return low + width * np.sin(angle) ** 2, weight * np.pi / 4 * width * np.sin(2 * angle)
        beyond = np.exp(22 * x - 12)
        return self.low + beyond, weight * 22 * beyond

    def _moment(self, power: int) -> np.ndarray:
        value, share = self._grid()
        total = (share * np.exp(self.log_prob(value[:, None]).T) * value**power).sum(1)
        if self.keeps and not self.jumps:
            for end in filter(np.isfinite, (self.low, self.high)):
                total = total + end**power * np.exp(self.log_prob(np.full((1, 7), end)))[0]
        return total

    def mean(self) -> np.ndarray:
        return self._moment(1)

    def var(self) -> np.ndarray:
        return self._moment(2) - self.mean() ** 2


class InSteps:
    """A continuous distribution rounded to whole numbers."""

    def __init__(self, inner: Any, start: float):
        self.inner, self.start = inner, start

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return np.where(value < self.start, 0.0, self.inner.cdf(np.floor(value) + 0.5))

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        below = np.where(value <= self.start, 0.0, self.inner.cdf(value - 0.5))
        above = np.where(value <= self.start, 1.0, self.inner.sf(value - 0.5))
        mass = np.where(
            below < 0.5, self.inner.cdf(value + 0.5) - below, above - self.inner.sf(value + 0.5)
        )
        # Of far counts a difference has few digits left.
        x, weight = legendre(12)
        nodes = zip(x, weight, strict=True)
        narrow = sum(w / 2 * self.inner.pdf(value + at / 2) for at, w in nodes)
        return np.log(np.where(value > 50, narrow, mass))

    def _moment(self, weigh: Any) -> np.ndarray:
        count = np.arange(0, 400_000.0)[:, None]
        total = (weigh(count) * self.inner.sf(count + 0.5)).sum(0)
        if np.isfinite(self.start):
            return total
        return total + (weigh(-1 - count) * -self.inner.cdf(-count - 0.5)).sum(0)

    def mean(self) -> np.ndarray:
        return self._moment(np.ones_like)

    def var(self) -> np.ndarray:
        return self._moment(lambda count: 2 * count + 1) - self.mean() ** 2


def of_wrapped(family: Wrapped, eta: np.ndarray) -> Any:
    if isinstance(family, WithAtoms):
        return with_atoms(family, eta)
    inner = by_scipy(family.family, eta)
    if isinstance(family, Discretized):
        return InSteps(inner, -np.inf if family.start is None else family.start)
    keeps = isinstance(family, Censored)
    return Within(inner, family.ends, jumps=family.jumps, keeps=keeps)


def by_scipy(family: Family, eta: np.ndarray) -> Any:
    """The same distribution by scipy, one for each row of eta."""
    first, shift = eta[:, 0], getattr(family, "shift", 0)
    if isinstance(family, Histogram):
        edges = family.edges
        low, high = family.tails or (edges[1] - edges[0], edges[-1] - edges[-2])
        inner = [stats.uniform(left, right - left) for left, right in itertools.pairwise(edges)]
        below, above = stats.weibull_max(1, edges[0], low), stats.expon(edges[-1], high)
        return Mixed(special.softmax(eta, axis=1), [below, *inner, above])
    if isinstance(family, IntervalCensored):
        edges = np.array(family.edges)[:, None]
        below = by_scipy(family.family, eta).cdf(edges)
        probs = np.diff(below, axis=0, prepend=0, append=1).T
        return Mixed(probs, [stats.rv_discrete(values=([k], [1.0])) for k in family.categories])
    if isinstance(family, Categorical | Ordinal):
        probs = special.softmax(eta, axis=1)
        if isinstance(family, Ordinal):
            steps = np.concatenate([eta[:, 1:2], np.log1p(np.exp(eta[:, 2:]))], axis=1)
            below = special.expit(steps.cumsum(1) - eta[:, :1])
            probs = np.diff(below, axis=1, prepend=0, append=1)
        return Mixed(probs, [stats.rv_discrete(values=([k], [1.0])) for k in family.categories])
    if isinstance(family, Bernoulli | Binomial):
        return stats.binom(getattr(family, "n", 1), special.expit(first))
    if isinstance(family, Beta):
        mean, precision = special.expit(first), np.exp(eta[:, 1])
        return stats.beta(mean * precision, special.expit(-first) * precision)
    if isinstance(family, LogNormal):
        return stats.lognorm(np.exp(eta[:, 1]), scale=np.exp(first))
    if isinstance(family, LogStudentT):
        return OfLogarithms(by_scipy(StudentT(family.df), eta))
    if isinstance(family, SinhStudentT):
        return Sinh(by_scipy(StudentT(), eta), family.bend)
    if isinstance(family, Exponential):
        return stats.expon(scale=np.exp(first))
    if isinstance(family, Gamma):
        shape = np.exp(eta[:, 1])
        return stats.gamma(shape, scale=np.exp(first) / shape)
    if isinstance(family, Gaussian):
        return stats.norm(first, family.scale or np.exp(eta[:, -1]))
    if isinstance(family, NegativeBinomial):
        size = np.exp(eta[:, 1])
        return stats.nbinom(size, size / (size + np.exp(first)), loc=shift)
    if isinstance(family, Poisson):
        return stats.poisson(np.exp(first) + (family.link != "log"), loc=shift)
    if isinstance(family, CensoredStudentT):
        df = np.maximum(2 + np.exp(eta[:, 2]), 2 * family.root + np.exp(-3.0))
        return CutOff(stats.t(df, first, np.exp(eta[:, 1])), family.root)
    if isinstance(family, RoundedRootStudentT):
        df = np.maximum(2 + np.exp(eta[:, 2]), 2 * family.root + np.exp(-3.0))
        return RoundedRoot(stats.t(df, first, np.exp(eta[:, 1])), family.root)
    if isinstance(family, RoundedStudentT):
        smooth = stats.t(1 + np.exp(eta[:, 2]), first, np.exp(eta[:, 1]))
        atoms = [stats.rv_discrete(values=([k], [1.0])) for k in family.atoms]
        weights = special.softmax(np.column_stack([0 * first, eta[:, 3:]]), axis=1)
        return Mixed(weights, [RoundedLogs(smooth, family.start), *atoms])
    if isinstance(family, Weibull):
        return stats.weibull_min(np.exp(eta[:, 1]), scale=np.exp(first))
    if isinstance(family, VonMises):
        return Directed(np.arctan2(eta[:, 1], first), np.hypot(first, eta[:, 1]))
    if isinstance(family, Tweedie):
        return Compound(np.exp(first), np.exp(eta[:, 1]), family.power)
    if isinstance(family, Wrapped):
        return of_wrapped(family, eta)
    assert isinstance(family, StudentT)
    df = 2 + np.exp(eta[:, -1]) if family.df is None else family.df
    return stats.t(df, first, np.exp(eta[:, 1]))
