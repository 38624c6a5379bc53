"""Samples of every family and scores of models fitted to them, for the tests of baselines."""

import numpy as np

from exfam.families import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    LogNormal,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RoundedStudentT,
    StudentT,
)
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from model_cases import make_groups, whole

N_ITEMS = 9
RATINGS = {"value": Poisson(shift=1)}


def rounded_draws(random, n):
    """Counts around 20, of which some are a few times as large or as small."""
    return np.exp(3 + 0.3 * random.standard_t(2, n).clip(-6, 6)).round()


# A family and a sampler of values for it.
DRAWS = {
    "bernoulli": (Bernoulli(), lambda random, n: random.binomial(1, 0.3, n)),
    "binomial": (Binomial(4), lambda random, n: random.binomial(4, 0.3, n)),
    "categorical": (Categorical(3, start=1), lambda random, n: random.integers(1, 4, n)),
    "ordinal": (Ordinal(4, start=1), lambda random, n: random.integers(1, 5, n)),
    "gaussian": (Gaussian(), lambda random, n: random.normal(3, 2, n)),
    "gaussian-known": (Gaussian(scale=2.0), lambda random, n: random.normal(3, 2, n)),
    "student-t": (StudentT(df=5.0), lambda random, n: 3 + 2 * random.standard_t(5, n)),
    "poisson": (Poisson(shift=1), lambda random, n: 1 + random.poisson(1.3, n)),
    "poisson-v2": (Poisson(link="one-plus-exp"), lambda random, n: random.poisson(2.3, n)),
    "negative-binomial": (NegativeBinomial(), lambda rng, n: rng.negative_binomial(2, 0.4, n)),
    "gamma": (Gamma(), lambda random, n: random.gamma(2.0, 1.5, n)),
    "exponential": (Exponential(), lambda random, n: random.exponential(2.0, n)),
    "beta": (Beta(), lambda random, n: random.beta(2.0, 5.0, n)),
    "log-normal": (LogNormal(), lambda random, n: random.lognormal(1.0, 0.7, n)),
    "log-student-t": (LogStudentT(df=5.0), lambda rng, n: np.exp(rng.standard_t(5, n))),
    "rounded-student-t": (RoundedStudentT(), rounded_draws),
    "rounded with atoms": (
        RoundedStudentT(atoms=(0, 20)),
        lambda rng, n: rounded_draws(rng, n) * (rng.random(n) < 0.9),
    ),
}
BY_MEAN = [name for name in DRAWS if name not in ("categorical", "ordinal")]


def drawn(name, *, n=200, seed=0):
    family, draw = DRAWS[name]
    return family, draw(np.random.default_rng(seed), n).astype(np.float64)


def groups_of(values, *, length=4, n_items=N_ITEMS, **kwargs):
    lengths = [length] * (len(values) // length)
    return make_groups(lengths=lengths, n_items=n_items, values={"value": values}, **kwargs)


def score(part, groups, *, direction, families=None, support=None):
    """Mean nats of all groups."""
    kwargs = {"item_part": part} if families is None else {"value_part": part}
    model = TwoPartModel(direction=direction, families=families, support=support, **kwargs)
    nats, weight = Likelihood(direction).sums(model.log_prob(whole(groups)), whole(groups))
    return float(nats / weight)
