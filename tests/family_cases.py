"""One or more instances of every family in the registry, for tests that run over all of them."""

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch

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
    Hurdle,
    IntervalCensored,
    LogNormal,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    RoundedRootStudentT,
    RoundedStudentT,
    Scaled,
    SinhStudentT,
    StudentT,
    Truncated,
    Tweedie,
    VonMises,
    Weibull,
    ZeroInflated,
    ZeroOneInflatedBeta,
)
from exfam.families.between import has_jumps

MIXED = PerItem({0: Poisson(shift=1), 1: Gaussian(), 3: Poisson(shift=1)}, default=Gamma())


def ends_of(family: Family) -> tuple[float, float]:
    """The ends of the support."""
    if isinstance(family, Truncated | Censored):
        (low, high), inner = family.ends, ends_of(family.family)
        return max(low, inner[0]), min(high, inner[1])
    if isinstance(family, ZeroInflated | Hurdle):
        return 0.0, ends_of(family.family)[1]
    if isinstance(family, Gaussian | Histogram | SinhStudentT | StudentT):
        return -torch.inf, torch.inf
    if isinstance(family, VonMises):
        return -math.pi, math.pi
    if isinstance(family, Beta | ZeroOneInflatedBeta):
        return 0.0, 1.0
    if isinstance(family, Discretized):
        return -torch.inf if family.start is None else family.start, torch.inf
    low = float(getattr(family, "shift", getattr(family, "start", 0)))
    return low, float((family.categories or (torch.inf,))[-1])


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
        return has_jumps(self.inner)

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
        return ends_of(self.inner)[0] * self.scale

    @property
    def high(self) -> float:
        """The upper end of the support."""
        return ends_of(self.inner)[1] * self.scale

    @property
    def near_and_far(self) -> tuple[float, float, float]:
        """Three values, of the support where it holds as many."""
        if isinstance(self.inner, VonMises):
            return -3.0, 0.5, 3.0
        if isinstance(self.inner, Truncated | Censored) and self.low > -torch.inf:
            last = min(self.high, self.low + 20 * self.scale)
            middle = (self.low + last) / 2
            return self.low, float(round(middle)) if self.discrete else middle, last
        if isinstance(self.inner, Beta | ZeroOneInflatedBeta):
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
    "censored": plain(Censored(Exponential(), upper=2.0)),
    "censored counts": plain(Censored(NegativeBinomial(), lower=1.0, upper=4.0)),
    "censored reals": plain(Censored(StudentT(df=5.0), lower=-1.0, upper=2.0)),
    "censored-student-t": censored(2),
    "censored-student-t of amounts": censored(1),
    "exponential": plain(Exponential()),
    "gamma": plain(Gamma()),
    "gaussian": plain(Gaussian()),
    "gaussian of known scale": plain(Gaussian(scale=2.5)),
    "histogram": plain(Histogram((-1.0, 0.5, 0.75, 3.0))),
    "histogram of one edge": plain(Histogram((0.5,), tails=(0.7, 2.0))),
    "hurdle": plain(Hurdle(Poisson())),
    "hurdle amounts": plain(Hurdle(Weibull())),
    "interval-censored": plain(IntervalCensored(Gaussian(), edges=(-1.0, 0.5, 2.0))),
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
    "discretized": plain(Discretized(Gamma(), start=0.0)),
    "discretized reals": plain(Discretized(Gaussian())),
    "rounded-root-student-t": rounded_root(2),
    "rounded-root-student-t of counts": rounded_root(1),
    "rounded-student-t": rounded(),
    "rounded-student-t from one": rounded(start=1),
    "rounded-student-t with atoms": rounded(atoms=(0, 2, 40)),
    "rounded-student-t with atoms from three": rounded(start=3, atoms=(4, 5)),
    "scaled censored-student-t": censored(3, scale=0.01),
    "scaled censored": scaled(Censored(Gaussian(), lower=-70.0, upper=200.0), 0.0, 100.0),
    "scaled gamma": scaled(Gamma(), 0.0, 300.0),
    "scaled gaussian": scaled(Gaussian(), -3.0, 7.0),
    "scaled gaussian of known scale": scaled(Gaussian(scale=2.5), 40.0, 5.0),
    "sinh-student-t": plain(SinhStudentT()),
    "sinh-student-t of bent hundreds": plain(SinhStudentT(bend=150.0)),
    "student-t": plain(StudentT()),
    "student-t of known df": plain(StudentT(df=5.0)),
    "scaled truncated": scaled(Truncated(Gamma(), lower=60.0), 0.0, 100.0),
    "scaled tweedie": scaled(Tweedie(1.2), 0.0, 1e-6),
    "truncated": plain(Truncated(Gaussian(), lower=-1.0, upper=2.0)),
    "truncated counts": plain(Truncated(NegativeBinomial(), lower=1.0, upper=30.0)),
    "tweedie": plain(Tweedie()),
    "tweedie near gamma": plain(Tweedie(1.9)),
    "von-mises": Case(VonMises(), VonMises(), offset=(4.0, 0.0)),
    "weibull": plain(Weibull()),
    "zero-inflated": plain(ZeroInflated(Poisson())),
    "zero-inflated amounts": plain(ZeroInflated(Gamma())),
    "zero-inflated counts": plain(ZeroInflated(NegativeBinomial())),
    "zero-one-inflated-beta": Case(ZeroOneInflatedBeta(), ZeroOneInflatedBeta(), offset=(0.0, 1.5)),
}


def extreme_eta(n_params: int, dtype: torch.dtype) -> torch.Tensor:
    """Every combination of far-away outputs in the first three columns, repeated after them."""
    far = (-1e4, -50.0, 0.0, 50.0, 1e4)
    rows = list(itertools.product(far, repeat=min(n_params, 3)))
    return torch.tensor([(row * n_params)[:n_params] for row in rows], dtype=dtype)
