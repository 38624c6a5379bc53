"""The unit of a column changes nothing: y -> a y + b takes log|a| off the log-density."""

import functools
import math

import numpy as np
import pytest

from exfam import EFA, LatentFactor, Marginal, ShrunkOffset
from exfam.families import Exponential, Gamma, Gaussian, StudentT

SCALES = (1e-8, 1e-4, 1e-3, 7.3, 1e4, 1e10)
N_GROUPS, SIZE, N_ITEMS = 30, 6, 8
COLUMNS = {"group": "user", "item": "item", "value": "y", "parts": "values", "seed": 0}
SHORT = {"max_epochs": 4, "batch_size": 8, "progress": False, "validation_fraction": 0.2}
SMALL = {"embed_dim": 8, "head_dim": 4, "head_hidden_dim": 8, "n_layers": 1}

ESTIMATORS = {
    "efa": lambda **more: EFA(**COLUMNS, **SHORT, **SMALL, **more),
    "efa causal": lambda **more: EFA(
        **COLUMNS, **SHORT, **SMALL, direction="causal", order="place", group_offset=True, **more
    ),
    "efa raw": lambda **more: EFA(
        **COLUMNS, **SHORT, **SMALL, value_embedding="raw", join="concatenate", **more
    ),
    "latent factor": lambda **more: LatentFactor(**COLUMNS, **SHORT, dim=4, **more),
    "shrunk offset": lambda **more: ShrunkOffset(
        group="user", item="item", value="y", k=3.0, **more
    ),
    "marginal": lambda **more: Marginal(**COLUMNS, by_item=True, **more),
}
LOCATED = {"gaussian": Gaussian(), "student-t": StudentT(), "fixed": Gaussian(scale=1.5)}
POSITIVE = {"gamma": Gamma(), "exponential": Exponential()}
FAMILIES = LOCATED | POSITIVE


def frame(family, a=1.0, b=0.0):
    rng = np.random.default_rng(5)
    level = np.repeat(rng.normal(size=N_GROUPS), SIZE)
    item = np.concatenate([rng.permutation(N_ITEMS)[:SIZE] for _ in range(N_GROUPS)])
    value = 3 + level + 0.3 * item + rng.normal(size=len(level))
    value = value if family in LOCATED else np.exp(value / 3)
    return {
        "user": np.repeat(np.arange(N_GROUPS), SIZE),
        "item": item,
        "place": np.tile(np.arange(SIZE), N_GROUPS),
        "y": a * value + b,
    }


def in_unit(family, a):
    """The family for values times `a`: a known scale is in their unit."""
    return FAMILIES[family].rescaled(1 / a)


@functools.cache
def fitted(name, family, a=1.0, b=0.0):
    return ESTIMATORS[name](family=in_unit(family, a)).fit(frame(family, a, b))


def check_unit(name, family, a, b):
    plain, moved = fitted(name, family), fitted(name, family, a, b)
    one, other = frame(family), frame(family, a, b)
    expected = plain.log_prob(one) - math.log(a)
    np.testing.assert_allclose(moved.log_prob(other), expected, rtol=0, atol=1e-5)
    # A number near b has as many digits less as b is larger than the spread.
    close = {"rtol": 1e-4, "atol": 1e-5}
    for what in ({}, {"interval": 0.8}, {"quantiles": [0.1, 0.5]}):
        told = (moved.predict(other, **what) - b) / a
        np.testing.assert_allclose(told, plain.predict(one, **what), **close)
    variance = moved.predict_variance(other) / a**2
    np.testing.assert_allclose(variance, plain.predict_variance(one), **close)


every = pytest.mark.parametrize("name", ESTIMATORS)


@every
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("a", [1e-8, 7.3, 1e10])
def test_another_unit_takes_its_logarithm_off_the_density(name, family, a):
    check_unit(name, family, a, 0.0)


@every
@pytest.mark.parametrize("a", [1e-4, 1e-3, 1e4])
def test_so_do_units_in_between(name, a):
    check_unit(name, "gaussian", a, 0.0)


@every
@pytest.mark.parametrize(("a", "b"), [(1.0, 50.0), (1e-3, -4.0), (1e4, 1e7), (7.3, 1e4)])
def test_another_origin_changes_nothing(name, a, b):
    check_unit(name, "gaussian", a, b)
