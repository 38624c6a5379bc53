"""The unit of a column changes nothing: y -> a y + b takes log|a| off the log-density."""

import functools
import math

import numpy as np
import pytest

from exfam import EFA, ExfamError, LatentFactor, Marginal, ShrunkOffset
from exfam.families import (
    Bernoulli,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    PerItem,
    Poisson,
    Scaled,
    StudentT,
)

N_GROUPS, SIZE, N_ITEMS = 30, 6, 8
COLUMNS = {"group": "user", "item": "item", "value": "y", "parts": "values", "seed": 0}
SHORT = {"max_epochs": 2, "batch_size": 8, "progress": False, "validation_fraction": 0.2}
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


def test_a_fit_whose_last_step_breaks_it_is_refused():
    model = ESTIMATORS["latent factor"]().set_params(
        learning_rate=1e18, max_epochs=1, batch_size=N_GROUPS, validation_fraction=0.0, warmup=0.0
    )
    with pytest.raises(ExfamError, match="Training nats must be finite, got .* `learning_rate`"):
        model.fit(frame("gaussian"))


every = pytest.mark.parametrize("name", ESTIMATORS)


@every
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("a", [1e-8, 1e10])
def test_another_unit_takes_its_logarithm_off_the_density(name, family, a):
    check_unit(name, family, a, 0.0)


@every
@pytest.mark.parametrize("a", [1e-4, 1e-3, 7.3, 1e4])
def test_so_do_units_in_between(name, a):
    check_unit(name, "gaussian", a, 0.0)


@every
@pytest.mark.parametrize(("a", "b"), [(1.0, 50.0), (1e-3, -4.0), (1e4, 1e7), (7.3, 1e4)])
def test_another_origin_changes_nothing(name, a, b):
    check_unit(name, "gaussian", a, b)


def mixed_frame(a):
    """Two items of numbers of either sign, of which `a` is the unit, two that are yes or no."""
    data = frame("gaussian")
    of_numbers = data["item"] < 4
    data["y"] = np.where(of_numbers, a * data["y"], data["y"] > 4.5)
    return data, of_numbers


@pytest.mark.parametrize("name", ["efa", "latent factor", "marginal"])
def test_each_family_of_items_has_a_unit_of_its_own(name):
    family = PerItem(dict.fromkeys(range(4), Gaussian()), default=Bernoulli())
    told = []
    for a in (1.0, 1e-8, 1e10):
        data, of_numbers = mixed_frame(a)
        nats = ESTIMATORS[name](family=family).fit(data).log_prob(data)
        told.append(nats + np.where(of_numbers, math.log(a), 0.0))
    np.testing.assert_allclose(told[1:], [told[0]] * 2, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [EFA, LatentFactor])
def test_each_column_has_a_unit_of_its_own(kind):
    family = {"y": "gaussian", "z": "gamma"}
    sizes = SMALL | {"group_offset": True} if kind is EFA else {"dim": 4}
    told = []
    for a, b in ((1.0, 1.0), (1e-8, 1e10)):
        data = {**frame("gaussian", a), "z": frame("gamma", b)["y"]}
        model = kind(**{**COLUMNS, "value": ["y", "z"]}, family=family, **SHORT, **sizes)
        parts = model.fit(data).log_prob_parts(data)
        told.append([parts["y"] + math.log(a), parts["z"] + math.log(b)])
    np.testing.assert_allclose(told[1], told[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["efa", "shrunk offset"])
def test_draws_have_the_unit_of_the_column(name):
    plain, moved = fitted(name, "gaussian"), fitted(name, "gaussian", 1e4, 1e7)
    drawn = []
    for model, a, b in ((plain, 1.0, 0.0), (moved, 1e4, 1e7)):
        data = frame("gaussian", a, b)
        data["y"] = np.where(np.arange(len(data["y"])) % 6 == 5, np.nan, data["y"])
        values = model.sample(data, sweeps=1)
        drawn.append((values.values["y"] - b) / a)
    assert drawn[0].std() > 0.5 and np.isfinite(drawn[0]).all()
    np.testing.assert_allclose(drawn[1], drawn[0], rtol=1e-4, atol=1e-4)


def test_a_saved_model_keeps_the_unit(tmp_path):
    model, data = fitted("efa", "gaussian", 1e-8), frame("gaussian", 1e-8)
    (family,) = model.schema_.families.values()
    assert isinstance(family, Scaled) and family.name == "gaussian" and 0 < family.scale < 1e-7
    model.save(tmp_path / "model")
    loaded = EFA.load(tmp_path / "model")
    assert loaded.schema_ == model.schema_
    np.testing.assert_array_equal(loaded.log_prob(data), model.log_prob(data))


COUNTED = {
    "efa network": lambda: EFA(**COLUMNS, **SHORT, **SMALL, family="poisson"),
    "efa raw": lambda: EFA(
        **COLUMNS, **SHORT, **SMALL, family="poisson", value_embedding="raw", join="concatenate"
    ),
    "efa offset": lambda: EFA(**COLUMNS, **SHORT, **SMALL, family="poisson", group_offset=True),
    "latent factor": lambda: LatentFactor(**COLUMNS, **SHORT, dim=4, family="poisson"),
    "latent factor sum": lambda: LatentFactor(
        **COLUMNS, **SHORT, dim=4, family="negative-binomial", pooling="sum"
    ),
    "shrunk offset": lambda: ShrunkOffset(group="user", item="item", value="y", family="poisson"),
    "real": lambda: EFA(**COLUMNS, **SHORT, **SMALL, group_offset=True),
    "real raw": lambda: EFA(**COLUMNS, **SHORT, **SMALL, value_embedding="raw", join="concatenate"),
    "real latent factor": lambda: LatentFactor(**COLUMNS, **SHORT, dim=4),
    "real shrunk offset": lambda: ShrunkOffset(group="user", item="item", value="y"),
    "real sees": lambda: EFA(
        **COLUMNS | {"parts": "both"}, **SHORT, **SMALL, support="none", item_sees_values=True
    ),
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("huge", [1e9, 1e30])
def test_a_huge_value_makes_no_other_impossible(name, huge):
    data = frame("gaussian")
    data["y"] = np.abs(data["y"]).round()
    model = COUNTED[name]().fit(data)
    data["y"][7] = huge
    nats = model.log_prob(data)
    assert np.isfinite(np.delete(nats, 7)).all() and not np.isnan(nats).any()
    assert np.isfinite(model.predict(data)).all()
    assert np.isfinite(model.predict_variance(data)).all()


@pytest.mark.parametrize("where", ["attributes", "group_attributes"])
@pytest.mark.parametrize("huge", [1e20, 1e300])
def test_a_huge_attribute_makes_nothing_impossible(where, huge):
    data = frame("gaussian")
    data["note"] = np.repeat(np.linspace(0, 1, N_GROUPS), SIZE)
    model = EFA(**COLUMNS, **SHORT, **SMALL, **{where: ["note"]}).fit(data)
    data["note"][: 2 * SIZE] = huge
    assert np.isfinite(model.log_prob(data)).all()
    assert np.isfinite(model.fit(data).log_prob(data)).all()


@every
@pytest.mark.parametrize("value", [0.0, -1e-100])
def test_values_that_are_all_alike_have_a_finite_law(name, value):
    data = frame("gaussian") | {"y": np.full(N_GROUPS * SIZE, value)}
    model = ESTIMATORS[name](family="gaussian").fit(data)
    assert np.isfinite(model.log_prob(data)).all()
    apart = np.abs(model.predict(data) - value)
    assert apart.max() < 3 * (abs(value) or 1.0)
    assert (model.predict(data, interval=0.9)[:, 1] >= model.predict(data)).all()


@every
def test_a_handful_of_values_has_a_finite_law(name):
    data = {"user": [1, 1, 2], "item": [0, 1, 0], "place": [0, 1, 0], "y": [1e-100, 3e-100, 2e-100]}
    model = ESTIMATORS[name]().fit(data)
    assert np.isfinite(model.log_prob(data)).all()
    told = model.predict(data) * 1e100
    assert (np.abs(told) < 20).all()


@pytest.mark.parametrize("family", [Categorical(8), Poisson()])
def test_families_of_counts_keep_their_values(family):
    data = frame("gaussian")
    data["y"] = np.abs(data["y"]).round().clip(0, 7)
    model = ESTIMATORS["efa"](family=family).fit(data)
    assert model.schema_.families == {"y": family}
