"""The unit of a column changes nothing: y -> a y + b takes log|a| off the log-density."""

import functools
import math

import numpy as np
import pytest

from exfam import EFA, LatentFactor, Marginal
from exfam.families import Exponential, Gamma, Gaussian, StudentT

N_GROUPS, SIZE, N_ITEMS = 30, 6, 8
COLUMNS = {"group": "user", "item": "item", "value": "y", "parts": "values", "seed": 0}
SHORT = {"max_epochs": 2, "batch_size": 8, "progress": False, "validation_fraction": 0.2}
SMALL = {"embed_dim": 8, "head_dim": 4, "head_hidden_dim": 8, "n_layers": 1}
RAW = {"value_embedding": "raw", "join": "concatenate"}

efa = functools.partial(EFA, **COLUMNS, **SHORT, **SMALL)
latent_factor = functools.partial(LatentFactor, **COLUMNS, **SHORT, dim=4)
raw_factor = functools.partial(latent_factor, base="none")
levels = functools.partial(LatentFactor, **COLUMNS, dim=0, progress=False)
ESTIMATORS = {
    "efa": efa,
    "efa causal": functools.partial(efa, direction="causal", order="day", group_offset=True),
    "efa raw": functools.partial(efa, **RAW),
    "latent factor": latent_factor,
    "raw latent factor": raw_factor,
    "levels": levels,
    "marginal": functools.partial(Marginal, **COLUMNS, by_item=True),
}
LOCATED = {"gaussian": Gaussian(), "student-t": StudentT(), "fixed": Gaussian(scale=1.5)}
FAMILIES = LOCATED | {"gamma": Gamma(), "exponential": Exponential()}
every = pytest.mark.parametrize("name", ESTIMATORS)


def frame(family="gaussian", a=1.0, b=0.0):
    rng = np.random.default_rng(5)
    level = np.repeat(rng.normal(size=N_GROUPS), SIZE)
    item = np.concatenate([rng.permutation(N_ITEMS)[:SIZE] for _ in range(N_GROUPS)])
    value = 3 + level + 0.3 * item + rng.normal(size=len(level))
    value = value if family in LOCATED else np.exp(value / 3)
    user, day = np.repeat(np.arange(N_GROUPS), SIZE), np.tile(np.arange(SIZE), N_GROUPS)
    return {"user": user, "item": item, "day": day, "y": a * value + b}


@functools.cache
def fitted(name, family="gaussian", a=1.0, b=0.0):
    # A known scale is in the unit of the values.
    return ESTIMATORS[name](family=FAMILIES[family].rescaled(1 / a)).fit(frame(family, a, b))


# Every estimator and every family meets tiny units and huge ones.
UNITS = [
    (name, family, (1e-8, 1e10)[(i + j) % 2], 0.0)
    for i, name in enumerate(ESTIMATORS)
    for j, family in enumerate(FAMILIES)
]
UNITS += [
    (name, "gaussian", *pair)
    for name in ESTIMATORS
    for pair in ((1.0, 50.0), (1e4, 1e7), (7.3, 1e4))
]


@pytest.mark.parametrize(("name", "family", "a", "b"), UNITS)
def test_another_unit_takes_its_logarithm_off_the_density(name, family, a, b):
    plain, moved = fitted(name, family), fitted(name, family, a, b)
    data, other = frame(family), frame(family, a, b)
    expected = plain.log_prob(data) - math.log(a)
    np.testing.assert_allclose(moved.log_prob(other), expected, rtol=0, atol=1e-5)
    # A number near b has as many digits less as b is larger than the spread.
    close = {"rtol": 1e-4, "atol": 1e-5}
    for what in ({}, {"interval": 0.8}, {"quantiles": [0.1, 0.5]}):
        predicted = (moved.predict(other, **what) - b) / a
        np.testing.assert_allclose(predicted, plain.predict(data, **what), **close)
    variance = moved.predict_variance(other) / a**2
    np.testing.assert_allclose(variance, plain.predict_variance(data), **close)


def test_draws_have_the_unit_of_the_column():
    drawn = []
    for a, b in ((1.0, 0.0), (1e4, 1e7)):
        data = frame("gaussian", a, b)
        data["y"][5::6] = np.nan
        values = fitted("efa", "gaussian", a, b).sample(data, sweeps=1).values["y"]
        drawn.append((values - b) / a)
    assert drawn[0].std() > 0.5
    np.testing.assert_allclose(drawn[1], drawn[0], rtol=1e-4, atol=1e-4)


LENIENT = {
    "efa raw": efa(family="poisson", **RAW),
    "latent factor sum": raw_factor(family="negative-binomial", pooling="sum"),
    "levels": levels(family="poisson"),
    "real": efa(family="gaussian", group_offset=True),
    "real latent factor": latent_factor(),
    "real raw latent factor": raw_factor(),
    "real levels": levels(),
    "real sees": efa(family="gaussian", parts="both", support="none", item_sees_values=True),
}


@pytest.mark.parametrize("model", LENIENT.values(), ids=LENIENT)
@pytest.mark.parametrize("huge", [1e9, 1e30])
def test_a_huge_value_makes_no_other_impossible(model, huge):
    data = frame()
    data["y"] = np.abs(data["y"]).round()
    model.fit(data)
    data["y"][7] = huge
    nats = model.log_prob(data)
    assert np.isfinite(np.delete(nats, 7)).all() and not np.isnan(nats).any()
    assert np.isfinite(model.predict(data)).all()
    assert np.isfinite(model.predict_variance(data)).all()


@pytest.mark.parametrize("columns", ["attributes", "group_attributes"])
def test_a_huge_attribute_makes_nothing_impossible(columns):
    data = frame()
    data["note"] = np.repeat(np.linspace(0, 1, N_GROUPS), SIZE)
    model = efa(**{columns: ["note"]}).fit(data)
    data["note"][: 2 * SIZE] = 1e300
    assert np.isfinite(model.log_prob(data)).all()
    assert np.isfinite(model.fit(data).log_prob(data)).all()


@every
def test_values_that_are_all_alike_or_a_handful_have_finite_densities(name):
    for value in (0.0, -1e-100):
        data = frame() | {"y": np.full(N_GROUPS * SIZE, value)}
        model = ESTIMATORS[name](family="gaussian").fit(data)
        assert np.isfinite(model.log_prob(data)).all()
        assert np.abs(model.predict(data) - value).max() < 3 * (abs(value) or 1.0)
        assert (model.predict(data, interval=0.9)[:, 1] >= model.predict(data)).all()
    data = {"user": [1, 1, 2], "item": [0, 1, 0], "day": [0, 1, 0], "y": [1e-100, 3e-100, 2e-100]}
    model = ESTIMATORS[name]().fit(data)
    assert np.isfinite(model.log_prob(data)).all()
    assert (np.abs(model.predict(data) * 1e100) < 20).all()
