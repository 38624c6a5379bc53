"""One or more instances of every family in the registry, for tests that run over all of them."""

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributions

from exfam.families import (
    Bernoulli,
    Binomial,
    Categorical,
    Exponential,
    Family,
    Gamma,
    Gaussian,
    Histogram,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    Scaled,
    StudentT,
)

MIXED = PerItem({0: Poisson(shift=1), 1: Gaussian(), 3: Poisson(shift=1)}, default=Gamma())


@dataclass(frozen=True)
class Case:
    """A family, seen at one item where it has several."""

    family: Family
    law: Family  # in force at that item, on standardized values
    item: int | None = None
    center: float = 0.0
    scale: float = 1.0

    @property
    def at(self) -> dict[str, torch.Tensor]:
        """The keyword argument that every method of the family takes."""
        return {} if self.item is None else {"item": torch.tensor(self.item)}

    def __getattr__(self, name: str) -> Any:
        """A method of the family, seen at that item."""
        return functools.partial(getattr(self.family, name), **self.at)

    @property
    def discrete(self) -> bool:
        return not isinstance(self.law, Gaussian | Gamma | Exponential | Histogram | StudentT)

    @property
    def low(self) -> float:
        """The lower end of the support."""
        if isinstance(self.law, Gaussian | Histogram | StudentT):
            return -torch.inf
        return float(getattr(self.law, "shift", getattr(self.law, "start", 0)))

    @property
    def eta(self) -> torch.Tensor:
        """Seven ordinary parameter vectors."""
        generator = torch.Generator().manual_seed(4)
        return torch.randn(7, self.family.n_params, generator=generator, dtype=torch.float64)

    @property
    def values(self) -> torch.Tensor:
        """Seven values of the support, one for each eta."""
        p = torch.linspace(0.05, 0.95, 7, dtype=torch.float64)
        return self.quantile(p, self.eta)


def plain(family: Family) -> Case:
    return Case(family, family)


def scaled(law: Family, center: float, scale: float) -> Case:
    return Case(Scaled(law, center, scale), law.rescaled(scale), center=center, scale=scale)


CASES = {
    "bernoulli": plain(Bernoulli()),
    "binomial": plain(Binomial(7)),
    "binomial of one": plain(Binomial(1)),
    "categorical": plain(Categorical(5)),
    "categorical from one": plain(Categorical(3, start=1)),
    "categorical of two": plain(Categorical(2, start=1)),
    "exponential": plain(Exponential()),
    "gamma": plain(Gamma()),
    "gaussian": plain(Gaussian()),
    "gaussian of known scale": plain(Gaussian(scale=2.5)),
    "histogram": plain(Histogram((-1.0, 0.5, 0.75, 3.0))),
    "histogram of one edge": plain(Histogram((0.5,), tails=(0.7, 2.0))),
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
    "scaled exponential": scaled(Exponential(), 0.0, 1e-6),
    "scaled gamma": scaled(Gamma(), 0.0, 300.0),
    "scaled gaussian": scaled(Gaussian(), -3.0, 7.0),
    "scaled gaussian of known scale": scaled(Gaussian(scale=2.5), 40.0, 5.0),
    "scaled student-t": scaled(StudentT(), 1e3, 0.5),
    "student-t": plain(StudentT()),
    "student-t of known df": plain(StudentT(df=5.0)),
}


def extreme_eta(n_params: int, dtype: torch.dtype) -> torch.Tensor:
    """Every combination of far-away outputs in the first three columns, repeated after them."""
    far = (-1e4, -50.0, 0.0, 50.0, 1e4)
    rows = list(itertools.product(far, repeat=min(n_params, 3)))
    return torch.tensor([(row * n_params)[:n_params] for row in rows], dtype=dtype)


class Pieces:
    """A choice among bins by torch.distributions: uniform between edges, exponential outside."""

    def __init__(self, law: Histogram, logits: torch.Tensor):
        edges = torch.tensor(law.edges, dtype=logits.dtype)
        low, high = law.tails or (law.edges[1] - law.edges[0], law.edges[-1] - law.edges[-2])
        self.weights = distributions.Categorical(logits=logits)
        self.rates, self.ends = 1 / edges.new_tensor([low, high]), edges[[0, -1]]
        self.inner = distributions.Uniform(edges[:-1], edges[1:], validate_args=False)
        means = self.ends + torch.tensor([-1.0, 1.0]) / self.rates
        self.means = torch.cat([means[:1], self.inner.mean, means[1:]])
        spread = self.rates**-2
        self.spread = torch.cat([spread[:1], self.inner.variance, spread[1:]])

    @property
    def mean(self) -> torch.Tensor:
        return self.weights.probs @ self.means

    @property
    def variance(self) -> torch.Tensor:
        distance = self.means - self.mean.unsqueeze(-1)
        return (self.weights.probs * (self.spread + distance**2)).sum(-1)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        beyond = torch.stack([self.ends[0] - value, value - self.ends[1]], -1)
        tails = torch.where(beyond > 0, self.rates.log() - self.rates * beyond, -torch.inf)
        inner = self.inner.log_prob(value.unsqueeze(-1))
        nats = torch.cat([tails[..., :1], inner, tails[..., 1:]], -1)
        return (self.weights.logits + nats).logsumexp(-1)


def witness(law: Family, eta: torch.Tensor) -> tuple[distributions.Distribution | Pieces, int]:
    """The same law by torch.distributions, for the value minus an offset."""
    if isinstance(law, Histogram):
        return Pieces(law, eta), 0
    first, shift = eta[..., 0], getattr(law, "shift", 0)
    if isinstance(law, Bernoulli | Binomial):
        return distributions.Binomial(getattr(law, "n", 1), logits=first), 0
    if isinstance(law, Categorical):
        return distributions.Categorical(logits=eta), law.start
    if isinstance(law, Exponential):
        return distributions.Exponential((-first).exp()), 0
    if isinstance(law, Gamma):
        shape = eta[..., 1].exp()
        return distributions.Gamma(shape, shape / first.exp()), 0
    if isinstance(law, Gaussian):
        return distributions.Normal(first, law.scale or eta[..., -1].exp()), 0
    if isinstance(law, NegativeBinomial):
        size = eta[..., 1].exp()
        return distributions.NegativeBinomial(size, logits=first - eta[..., 1]), shift
    if isinstance(law, Poisson):
        return distributions.Poisson(first.exp() + (law.link != "log")), shift
    if isinstance(law, StudentT):
        df = 2 + eta[..., -1].exp() if law.df is None else law.df
        return distributions.StudentT(df, first, eta[..., 1].exp()), 0
    assert isinstance(law, Ordinal)
    steps = torch.nn.functional.softplus(eta[..., 2:])
    below = (torch.cat([eta[..., 1:2], steps], -1).cumsum(-1) - eta[..., :1]).sigmoid()
    ends = torch.nn.functional.pad(torch.nn.functional.pad(below, (0, 1), value=1.0), (1, 0))
    return distributions.Categorical(probs=ends.diff(dim=-1)), law.start


def law_columns(case: Case) -> list[int]:
    """The columns of eta that the law in force reads."""
    if isinstance(case.family, PerItem):
        return list(case.family.columns[case.family.distinct.index(case.law)])
    return list(range(case.family.n_params))
