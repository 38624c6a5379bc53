"""Smoke runs of the temperatures: their figures mean nothing, the laws among them hold."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from exfam_studies.common import fits
from exfam_studies.common.fits import Fit
from exfam_studies.common.harness import Options
from exfam_studies.common.printed import best_rows
from exfam_studies.efa import temperature as efa_temperature
from exfam_studies.efa.temperature import PAPER_FM, TASKS
from row_cases import find, value

SAME_DAY, ONE_LAG, TWO_LAGS, NEW_SITES, SIMULATED = TASKS
METRICS = {"mse", "nats", "crps", "coverage-90"}


def run(tasks, **options):
    """A smoke run on fewer maps still, of one fit of the default, the slowest by far."""
    attention = efa_temperature.attention

    def once(name, *settings, **more):
        return replace(attention(name, *settings, **more), chance=name != "efa-defaults")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "FAST_GROUPS", 16)
        patch.setattr(efa_temperature, "attention", once)
        return efa_temperature.run(Options(fast=True, only=tasks, **options))


@pytest.fixture(scope="module")
def same_day(data_folder):
    return run([SAME_DAY], seeds=2)


@pytest.fixture(scope="module")
def others(data_folder):
    """One fit each, where several make no difference."""
    return run([ONE_LAG, NEW_SITES, SIMULATED])


@pytest.fixture(scope="module")
def rows(same_day, others):
    return same_day + others


def test_a_day_is_reported_by_attention_the_papers_forms_factors_and_cheap_baselines(same_day):
    assert {row.task for row in same_day} == {SAME_DAY}
    assert {row.model for row in same_day} == {
        "efa-coordinates", "efa-site", "efa-defaults", "efa-ensemble", "efa-l1", "efa-l2", "efa-l4",
        "latent-factor-k1", "latent-factor-k5", "ridge", "ridge-covariance", "gaussian-process",
        "field-gaussian",
        "kriging", "climatology",
    }  # fmt: skip
    for model in {row.model for row in same_day}:
        assert {row.metric for row in find(same_day, model=model)} == METRICS
    kinds = {row.settings["standardize"] for row in find(same_day, model="climatology")}
    assert kinds == {"site", "seasonal"}


def test_with_lags_and_at_new_sites_the_models_are_those_that_can_be_there(others):
    models = {row.model for row in find(others, task=ONE_LAG)}
    assert models == {"efa-coordinates", "efa-site", "efa-defaults", "ridge", "ridge-covariance",
                      "field-gaussian", "gaussian-process"}  # fmt: skip
    new = find(others, task=NEW_SITES)
    assert {row.metric for row in new} == {"rmse", "nats", "coverage-90"}
    assert {row.model for row in new} == set(efa_temperature.NEW_SITES_MODELS)
    # Neighbors say something of a site that was never seen.
    climatology = min(row.value for row in find(new, model="climatology", metric="rmse"))
    assert value(new, model="kriging", metric="rmse") < climatology


def test_every_row_has_its_cost_and_validation_beside_test(rows):
    for row in rows:
        assert row.validation is not None
        assert row.value != row.validation or row.metric == "coverage-90"  # shares may agree
        # Attention on a base is not trained in steps that a history counts.
        alone = row.model.startswith(("efa", "latent")) and row.model != "efa-defaults"
        assert (row.steps is not None) == alone
        assert (row.cpu_seconds is None) == (row.model == "truth")


def test_only_what_the_paper_ran_has_the_papers_figures(rows):
    printed = {(row.task, row.model): row.paper for row in rows if row.paper}
    assert printed == {
        (SAME_DAY, "efa-l1"): 17.135,
        (SAME_DAY, "efa-l2"): 11.522,
        (SAME_DAY, "efa-l4"): 11.224,
        (SAME_DAY, "latent-factor-k1"): PAPER_FM[1],
        (SAME_DAY, "latent-factor-k5"): 22.68,
        (ONE_LAG, "efa-coordinates"): 9.248,
    }
    assert {row.metric for row in rows if row.paper} == {"mse"}


def test_nobody_is_ahead_of_the_truth(others):
    for lags in (0, 1):
        reported = find(others, task=SIMULATED, draw="fresh-1", lags=lags)
        assert len({row.model for row in reported}) > 5
        for metric in ("mse", "nats", "crps"):
            figures = {row.model: row.value for row in find(reported, metric=metric)}
            truth = figures.pop("truth")
            assert truth < min(figures.values())
        assert value(reported, model="truth", metric="coverage-90") == pytest.approx(0.9, abs=0.03)
    less, more = (value(others, model="truth", metric="nats", lags=lags) for lags in (1, 0))
    assert less < more
    reported = find(others, task=SIMULATED)
    assert "truth" not in {reported[index].model for index in best_rows(reported)}


def test_an_ensemble_is_of_the_mode_with_the_smaller_error_on_validation(same_day):
    ours = [row for row in find(same_day, metric="mse") if "days" not in row.settings]
    error = {
        model: next(row.validation for row in ours if row.model == model)
        for model in ("efa-coordinates", "efa-site")
    }
    (row,) = find(ours, model="efa-ensemble")
    assert row.settings == {"of": min(error, key=error.get), "members": 2}
    assert row.n_seeds == 1


@pytest.mark.parametrize(
    ("n_fits", "expected"),
    [(1, []), (2, ["01"]), (3, ["012"]), (5, ["012", "123", "234", "340", "401"])],
)
def test_ensembles_are_of_three_fits_each_set_once(n_fits, expected):
    fits = [Fit(SimpleNamespace(members_=[str(n)]), 2.0, 3) for n in range(n_fits)]
    reported = efa_temperature._ensembles(fits)
    assert ["".join(fit.estimator.members_) for fit in reported] == expected
    for fit in reported:
        size = len(fit.estimator.members_)
        assert (fit.cpu_seconds, fit.steps) == (2.0 * size, 3 * size)
