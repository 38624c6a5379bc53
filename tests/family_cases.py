"""One or more instances of every family in the registry, for tests that run over all of them."""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special, stats

from exfam.families import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    CensoredStudentT,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    Histogram,
    LogNormal,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    RoundedRootStudentT,
    RoundedStudentT,
    Scaled,
    StudentT,
)

CONTINUOUS = (
    Beta, CensoredStudentT, Exponential, Gamma, Gaussian, Histogram, LogNormal, LogStudentT,
    StudentT,
)  # fmt: skip
MIXED = PerItem({0: Poisson(shift=1), 1: Gaussian(), 3: Poisson(shift=1)}, default=Gamma())


@dataclass(frozen=True)
class Case:
    """A family, seen at one item where it has several."""

    family: Family
    inner: Family  # in force at that item, on standardized values
    item: int | None = None
    center: float = 0.0
    scale: float = 1.0
    offset: tuple[float, ...] = ()  # of the first columns of `eta`

    @property
    def at(self) -> dict[str, torch.Tensor]:
        """The keyword argument that every method of the family takes."""
        return {} if self.item is None else {"item": torch.tensor(self.item)}

    def __getattr__(self, name: str) -> Any:
        """A method of the family, seen at that item."""
        return functools.partial(getattr(self.family, name), **self.at)

    @property
    def columns(self) -> list[int]:
        """The columns of eta that the family in force reads."""
        if isinstance(self.family, PerItem):
            return list(self.family.columns[self.family.distinct.index(self.inner)])
        return list(range(self.family.n_params))

    @property
    def discrete(self) -> bool:
        return not isinstance(self.inner, CONTINUOUS)

    @property
    def has_atoms(self) -> bool:
        """Whether some counts have weights of their own, which move the median."""
        return bool(getattr(self.inner, "atoms", ()))

    def log_scale(self, value: torch.Tensor) -> torch.Tensor:
        """Of densities of standardized values: probabilities have no unit."""
        return math.log(self.scale) * (~self.has_mass(value)).double()

    @property
    def low(self) -> float:
        """The lower end of the support."""
        if isinstance(self.inner, Gaussian | Histogram | StudentT):
            return -torch.inf
        return float(getattr(self.inner, "shift", getattr(self.inner, "start", 0)))

    @property
    def high(self) -> float:
        """The upper end of the support."""
        if isinstance(self.inner, Beta):
            return 1.0
        return float((self.family.categories or (torch.inf,))[-1])

    @property
    def near_and_far(self) -> tuple[float, float, float]:
        """Three values, of the support where it holds as many."""
        if isinstance(self.inner, Beta):
            return 1e-6, 0.5, 1 - 1e-6
        start = 0.0 if self.low < 0 else self.low + (not self.discrete)
        return start, start + 1, self.low + 1 if self.discrete else start + 1e3

    @property
    def eta(self) -> torch.Tensor:
        """Seven ordinary parameter vectors."""
        generator = torch.Generator().manual_seed(4)
        drawn = torch.randn(7, self.family.n_params, generator=generator, dtype=torch.float64)
        drawn[:, : len(self.offset)] += torch.tensor(self.offset, dtype=torch.float64)
        return drawn

    def middle(self, eta: torch.Tensor) -> torch.Tensor:
        """The mean, or the median of a family without one."""
        return self.mean(eta) if self.family.has_mean else self.quantile(0.5, eta)

    @property
    def values(self) -> torch.Tensor:
        """Seven values of the support, one for each eta."""
        p = torch.linspace(0.05, 0.95, 7, dtype=torch.float64)
        return self.quantile(p, self.eta)


def plain(family: Family) -> Case:
    return Case(family, family)


def scaled(family: Family, center: float, scale: float) -> Case:
    return Case(Scaled(family, center, scale), family.rescaled(scale), center=center, scale=scale)


def censored(root: int, scale: float = 1.0) -> Case:
    """Of tails in which all moments are ordinary numbers."""
    inner = CensoredStudentT(root)
    family = inner if scale == 1 else Scaled(inner, 0.0, scale)
    return Case(family, inner, scale=scale, offset=(0.5, 0.0, 4.0))


def rounded_root(root: int) -> Case:
    """Of tails in which all moments are ordinary numbers."""
    family = RoundedRootStudentT(root)
    return Case(family, family, offset=(1.5, 0.0, 4.0))


def rounded(start: int = 0, atoms: tuple[int, ...] = ()) -> Case:
    """Of tails in which double precision still knows one count from the next."""
    family = RoundedStudentT(start, atoms)
    return Case(family, family, offset=(1.0, -1.0, 2.0))


CASES = {
    "bernoulli": plain(Bernoulli()),
    "beta": Case(Beta(), Beta(), offset=(0.0, 1.5)),
    "binomial": plain(Binomial(7)),
    "binomial of one": plain(Binomial(1)),
    "categorical": plain(Categorical(5)),
    "categorical from one": plain(Categorical(3, start=1)),
    "categorical of two": plain(Categorical(2, start=1)),
    "censored-student-t": censored(2),
    "censored-student-t of amounts": censored(1),
    "exponential": plain(Exponential()),
    "gamma": plain(Gamma()),
    "gaussian": plain(Gaussian()),
    "gaussian of known scale": plain(Gaussian(scale=2.5)),
    "histogram": plain(Histogram((-1.0, 0.5, 0.75, 3.0))),
    "histogram of one edge": plain(Histogram((0.5,), tails=(0.7, 2.0))),
    "log-normal": plain(LogNormal()),
    "log-student-t": plain(LogStudentT()),
    "log-student-t of known df": plain(LogStudentT(df=3.0)),
    "negative-binomial": plain(NegativeBinomial()),
    "negative-binomial from two": plain(NegativeBinomial(shift=2)),
    "ordinal": plain(Ordinal(5, start=1)),
    "ordinal of two": plain(Ordinal(2)),
    "per-item counts": Case(MIXED, Poisson(shift=1), 3),
    "per-item reals": Case(MIXED, Gaussian(), 1),
    "per-item default": Case(MIXED, Gamma(), 8),
    "poisson": plain(Poisson()),
    "poisson v1": plain(Poisson(shift=1)),
    "poisson v2": plain(Poisson(link="one-plus-exp")),
    "rounded-root-student-t": rounded_root(2),
    "rounded-root-student-t of counts": rounded_root(1),
    "rounded-student-t": rounded(),
    "rounded-student-t from one": rounded(start=1),
    "rounded-student-t with atoms": rounded(atoms=(0, 2, 40)),
    "rounded-student-t with atoms from three": rounded(start=3, atoms=(4, 5)),
    "scaled censored-student-t": censored(3, scale=0.01),
    "scaled exponential": scaled(Exponential(), 0.0, 1e-6),
    "scaled gamma": scaled(Gamma(), 0.0, 300.0),
    "scaled gaussian": scaled(Gaussian(), -3.0, 7.0),
    "scaled gaussian of known scale": scaled(Gaussian(scale=2.5), 40.0, 5.0),
    "scaled log-normal": scaled(LogNormal(), 0.0, 1e5),
    "scaled log-student-t": scaled(LogStudentT(), 0.0, 0.01),
    "scaled student-t": scaled(StudentT(), 1e3, 0.5),
    "student-t": plain(StudentT()),
    "student-t of known df": plain(StudentT(df=5.0)),
}


def extreme_eta(n_params: int, dtype: torch.dtype) -> torch.Tensor:
    """Every combination of far-away outputs in the first three columns, repeated after them."""
    far = (-1e4, -50.0, 0.0, 50.0, 1e4)
    rows = list(itertools.product(far, repeat=min(n_params, 3)))
    return torch.tensor([(row * n_params)[:n_params] for row in rows], dtype=dtype)


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


class Censored:
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
        x, weight = np.polynomial.legendre.leggauss(60)
        total = 0.0
        for piece, k in itertools.product(range(60), range(60)):
            log_at = -30 + piece * 1.5 + 0.75 * (x[k] + 1)
            at = np.exp(log_at)
            total = total + 0.75 * weight[k] * at ** (power + 1) * self.latent.pdf(at)
        return total

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
        x, weight = np.polynomial.legendre.leggauss(40)
        low = np.maximum(value - 0.5, 0.5) ** (1 / self.root)
        width = (value + 0.5) ** (1 / self.root) - low
        mass = np.zeros(value.shape)
        for piece, k in itertools.product(range(20), range(40)):
            at = (piece + (x[k] + 1) / 2) / 20
            mass = mass + weight[k] * width / 40 * self.latent.pdf(low + width * at)
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


class Rounded:
    """Mass and cdf of Student's t of the logarithm, rounded to counts, one for each row."""

    def __init__(self, of_logs: Any, start: int):
        self.of_logs, self.start, self.shift = of_logs, start, 0.5 if start == 0 else 0.0

    def cdf(self, value: np.ndarray) -> np.ndarray:
        upper = np.log(np.floor(np.maximum(value, self.start)) + 0.5 + self.shift)
        return np.where(value < self.start, 0.0, self.of_logs.cdf(upper))

    def log_prob(self, value: np.ndarray) -> np.ndarray:
        x, weight = np.polynomial.legendre.leggauss(40)
        inner = np.maximum(value, self.start + 1) - 0.5 + self.shift
        low, width = np.log(inner), np.log1p(1 / inner)
        mass = np.zeros(value.shape)
        for piece, k in itertools.product(range(20), range(40)):
            at = (piece + (x[k] + 1) / 2) / 20
            mass = mass + weight[k] * width / 40 * self.of_logs.pdf(low + width * at)
        with np.errstate(divide="ignore"):
            return np.log(np.where(value <= self.start, self.cdf(value), mass))

    def mean(self) -> float:
        return np.inf

    def var(self) -> float:
        return np.inf


def log_prob(distribution: Any, value: np.ndarray) -> np.ndarray:
    """By whatever name scipy has for it."""
    names = ("log_prob", "logpmf", "logpdf")
    return next(getattr(distribution, n) for n in names if hasattr(distribution, n))(value)


def by_scipy(family: Family, eta: np.ndarray) -> Any:
    """The same distribution by scipy, one for each row of eta."""
    first, shift = eta[:, 0], getattr(family, "shift", 0)
    if isinstance(family, Histogram):
        edges = family.edges
        low, high = family.tails or (edges[1] - edges[0], edges[-1] - edges[-2])
        inner = [stats.uniform(left, right - left) for left, right in itertools.pairwise(edges)]
        below, above = stats.weibull_max(1, edges[0], low), stats.expon(edges[-1], high)
        return Mixed(special.softmax(eta, axis=1), [below, *inner, above])
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
        return Censored(stats.t(df, first, np.exp(eta[:, 1])), family.root)
    if isinstance(family, RoundedRootStudentT):
        df = np.maximum(2 + np.exp(eta[:, 2]), 2 * family.root + np.exp(-3.0))
        return RoundedRoot(stats.t(df, first, np.exp(eta[:, 1])), family.root)
    if isinstance(family, RoundedStudentT):
        smooth = stats.t(1 + np.exp(eta[:, 2]), first, np.exp(eta[:, 1]))
        atoms = [stats.rv_discrete(values=([k], [1.0])) for k in family.atoms]
        weights = special.softmax(np.column_stack([0 * first, eta[:, 3:]]), axis=1)
        return Mixed(weights, [Rounded(smooth, family.start), *atoms])
    assert isinstance(family, StudentT)
    df = 2 + np.exp(eta[:, -1]) if family.df is None else family.df
    return stats.t(df, first, np.exp(eta[:, 1]))
