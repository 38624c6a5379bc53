"""Exposures: a column of logarithms that moves the values of families with a log link."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

import exfam
from estimator_cases import same_bits
from exfam import EFA, Gamma, Groups, Hurdle, LatentFactor, Marginal, NegativeBinomial, Poisson
from exfam.checks import DataError, ExfamError
from exfam.families import FAMILIES

COLUMNS = {"group": "site", "item": "kind", "value": "count", "parts": "values", "seed": 0}
SHORT = {"max_epochs": 2, "embed_dim": 8, "progress": False, "family": "poisson"}
efa = functools.partial(EFA, **COLUMNS, **SHORT, offset="log_days")


@functools.cache
def drawn(n_sites=80, seed=0):
    """Counts of kinds at sites, each over its own number of days."""
    random = np.random.default_rng(seed)
    level, of_kind = random.normal(0, 0.5, n_sites), random.normal(0, 0.7, 6)
    kind = np.concatenate([random.permutation(6)[:4] for _ in range(n_sites)])
    site = np.repeat(np.arange(n_sites), 4)
    log_days = random.normal(1, 1, len(site))
    rate = np.exp(log_days + level[site] + of_kind[kind])
    frame = {"site": site, "kind": np.array(list("abcdef"))[kind], "log_days": log_days}
    return pd.DataFrame(frame | {"count": random.poisson(rate).astype(float), "rate": rate})


FRAME, NEW = drawn(), drawn().query("site >= 60")
OLD = FRAME.query("site < 60")


@functools.cache
def fitted(base="auto"):
    return efa(base=base).fit(OLD)


@pytest.mark.parametrize("base", ["auto", "none"])
def test_twice_the_exposure_has_twice_the_mean(base):
    model, row = fitted(base), int(NEW["count"].to_numpy().argmax())
    before = model.predict(NEW)
    longer = NEW.copy()
    longer.iloc[row, longer.columns.get_loc("log_days")] += np.log(2)
    after = model.predict(longer)
    assert after[row] == pytest.approx(2 * before[row], rel=1e-5)
    # The others of its site see a lower rate there, other sites see nothing.
    same_site = (NEW["site"] == NEW["site"].iloc[row]).to_numpy()
    assert (after[same_site] != before[same_site]).all()
    np.testing.assert_allclose(after[~same_site], before[~same_site], rtol=1e-6)
    # No prediction sees its own value.
    other = NEW.copy()
    other.iloc[row, other.columns.get_loc("count")] += 7
    assert model.predict(other)[row] == pytest.approx(before[row], rel=1e-6)
    nats = stats.poisson.logpmf(NEW["count"], before)
    np.testing.assert_allclose(model.log_prob(NEW), nats, rtol=1e-4)


@pytest.mark.parametrize("base", ["auto", "none"])
def test_it_explains_what_days_do_and_its_unit_changes_nothing(base):
    without = EFA(**COLUMNS, **SHORT, base=base).fit(OLD)
    assert fitted(base).score(NEW) > without.score(NEW) + 0.5
    hours = OLD.assign(log_days=OLD["log_days"] + np.log(24))
    by_hours = efa(base=base).fit(hours)
    moved = NEW.assign(log_days=NEW["log_days"] + np.log(24))
    assert by_hours.score(moved) == pytest.approx(fitted(base).score(NEW), abs=2e-3)


@pytest.mark.parametrize(
    "family", [NegativeBinomial(), Gamma(), "zero-inflated(poisson)", Hurdle(Poisson())], ids=str
)
def test_families_with_a_log_link_take_it_and_are_saved_with_it(family, tmp_path):
    frame = OLD.assign(count=OLD["count"] + 0.5) if family == Gamma() else OLD
    model = efa(family=family, max_epochs=1).fit(frame)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert same_bits(loaded, model) and loaded.schema_ == model.schema_
    np.testing.assert_array_equal(loaded.log_prob(frame), model.log_prob(frame))
    assert np.isfinite(model.score(frame))


@pytest.mark.parametrize(
    "model",
    [
        LatentFactor(dim=1, progress=False),
        LatentFactor(base="none", dim=2, max_epochs=3, progress=False),
        Marginal(),
        Marginal(by_item=True),
    ],
    ids=str,
)
def test_simpler_models_take_it_too(model, tmp_path):
    model.set_params(**COLUMNS, family="poisson", offset="log_days")
    before = model.fit(OLD).predict(NEW)
    longer = NEW.assign(log_days=NEW["log_days"] + np.log(2), count=2 * NEW["count"])
    np.testing.assert_allclose(model.predict(longer), 2 * before, rtol=1e-4)
    nats = model.log_prob(NEW)
    np.testing.assert_allclose(nats, stats.poisson.logpmf(NEW["count"], before), rtol=1e-4)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(exfam.load(tmp_path / "model").log_prob(NEW), nats)
    assert nats.mean() > clone(model).set_params(offset=None).fit(OLD).score(NEW) + 0.4


def test_one_rate_is_all_counts_by_all_days():
    rate = Marginal(**COLUMNS, family="poisson", offset="log_days").fit(OLD)
    expected = OLD["count"].sum() / np.exp(OLD["log_days"]).sum() * np.exp(NEW["log_days"])
    np.testing.assert_allclose(rate.predict(NEW), expected, rtol=1e-5)


def test_it_is_read_from_files_and_groups(tmp_path):
    OLD.to_csv(tmp_path / "old.csv", index=False)
    groups = Groups.from_frame(
        OLD, group="site", item="kind", value="count", attributes=["log_days"]
    )
    expected = fitted().predict(OLD)
    np.testing.assert_allclose(fitted().predict(tmp_path / "old.csv"), expected, rtol=1e-5)
    np.testing.assert_allclose(fitted().predict(groups), expected, rtol=1e-6)
    text = fitted().schema_
    assert type(text).from_config(text.to_config()) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda frame: frame.drop(columns="log_days"),
            "`offset` must name a column of the frame, got 'log_days'",
        ),
        (
            lambda frame: frame.assign(log_days=frame["log_days"].where(frame.index != 7)),
            "`offset` must not be missing, got nothing at row 7 of column 'log_days'",
        ),
        (
            lambda frame: frame.assign(site=frame["site"].where(frame.index != 7)),
            "`group` must not be missing",
        ),
        (
            lambda frame: frame.assign(log_days=frame["log_days"].where(frame.index != 7, 365.0)),
            "`offset` must be the logarithm of an exposure, .* got 365 at row 7 of column 'log_da",
        ),
        (
            lambda frame: Groups.from_frame(frame, group="site", item="kind", value="count"),
            "`offset` must name numbers of elements, column 'log_days', got none. Of Groups",
        ),
    ],
)
def test_data_without_it_are_refused(change, message):
    with pytest.raises((ExfamError, DataError), match=message):
        fitted().predict(change(OLD))


def test_other_families_and_attributes_that_are_it_are_refused():
    for family in ("gaussian", Poisson(shift=1), "ordinal(n=90)"):
        with pytest.raises(ExfamError, match="`offset` must be left out with the family"):
            efa(family=family).fit(OLD.assign(count=OLD["count"].clip(1, 80)))
    with pytest.raises(ExfamError, match="`offset` must not be among `attributes`, got 'log_days'"):
        efa(attributes=["log_days"]).fit(OLD)


def test_adding_to_the_first_parameter_makes_values_larger_wherever_a_family_says_so():
    import torch

    from family_cases import CASES

    linked = [case for case in CASES.values() if case.family.has_log_link]
    assert {type(case.inner) for case in linked} >= {FAMILIES["gamma"], FAMILIES["tweedie"]}
    for case in linked:
        if case.inner.name in ("truncated", "censored", "discretized", "hurdle"):
            continue  # what is seen of larger values is another share
        larger = case.eta.clone()
        larger[:, 0] += np.log(2)
        assert torch.allclose(case.middle(larger), 2 * case.middle(case.eta), rtol=1e-6)
