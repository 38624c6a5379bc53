"""The temperatures' data, figures and verdicts."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from exfam.families import Gaussian
from exfam.families.mixtures import Mixture
from exfam.fields import FieldKriging
from exfam.scores.prediction import Prediction
from exfam_studies.efa.temperature import new_site_figures, prediction_figures
from exfam_studies.efa.temperature_data import (
    draw_sites,
    field_splits,
    new_sites,
    read_temperatures,
    simulated_temperatures,
    true_conditional,
)

SITES = ("Akron Canton, Ohio", "Seattle, Washington")


@pytest.fixture(scope="module")
def groups(data_folder):
    return read_temperatures()


def years(groups):
    return {int(str(day)[:4]) for day in groups.group_names}


def test_parts_are_the_papers_years_and_targets(groups):
    splits = field_splits(groups)
    parts = (splits.train, splits.validation, splits.test)
    assert [part.n_elements for part in parts] == [8184, 5456, 4092]
    assert [(min(years(part)), max(years(part))) for part in parts] == [
        (2007, 2012), (2013, 2016), (2017, 2019)
    ]  # fmt: skip


@pytest.mark.parametrize(("lags", "targets"), [(1, 3960), (2, 3828)])
def test_lags_see_the_days_before_and_lose_the_first_of_october(groups, lags, targets):
    test = field_splits(groups, lags=lags, history=lags).test
    assert test.n_elements == targets
    day = np.array([int(str(name)[-2:]) for name in test.group_names])
    assert day.min() == lags + 1
    plain = field_splits(groups).test
    of_day = {str(name): plain.start[g] for g, name in enumerate(plain.group_names)}
    for g, name in enumerate(test.group_names):
        before = [of_day[str(name - k)] for k in range(lags, 0, -1)]
        assert test.context_start[g].tolist() == before
    same_days = field_splits(groups, history=lags).test
    assert same_days.context_start is None
    assert same_days.group_names.tolist() == test.group_names.tolist()


def test_simulated_fields_have_the_layout_of_the_real_one(groups):
    field, truth = simulated_temperatures(1)
    other, _ = simulated_temperatures(2)
    assert (len(field), field.n_elements) == (len(groups), groups.n_elements)
    assert [str(name)[5:] for name in field.group_names] == [
        str(name)[5:] for name in groups.group_names
    ]
    sizes = [len(part) for part in vars(field_splits(field)).values()]
    assert sizes == [len(part) for part in vars(field_splits(groups)).values()]
    assert not np.allclose(field.values["value"], other.values["value"])
    exact = true_conditional(truth, field)
    error = (field.values["value"] - exact.mean) / np.sqrt(exact.variance)
    assert np.std(error) == pytest.approx(1.0, abs=0.03)


def test_no_fit_sees_a_new_site_and_all_are_drawn_before_any_is_drawn_again(groups):
    labels = [f"site {n}" for n in range(44)]
    draws = draw_sites(labels, draws=12, size=4, seed=3)
    assert [len(set(draw)) for draw in draws] == [4] * 12
    assert len({site for draw in draws[:11] for site in draw}) == 44
    known, scored = new_sites(SITES)
    for part in (known.train, known.validation):
        assert len(part.vocabulary["item"]) == 42
        assert not set(SITES) & set(part.vocabulary["item"])
    for part in (scored.test, scored.validation):
        hidden = np.flatnonzero(~part.observed)
        assert set(part.vocabulary["item"][part.item[hidden]]) == set(SITES)
        own = np.intersect1d(hidden, part.elements())
        assert len(own) == 2 * len(part)


def test_new_sites_are_scored_by_values_that_no_prediction_saw(groups):
    known, scored = new_sites(SITES)
    model = FieldKriging().fit(known.train)
    test = scored.test[:10]
    hidden = ~test.observed
    warmer = test.with_(values={"temperature_f": test.values["temperature_f"] + 50.0 * hidden})
    np.testing.assert_array_equal(model.predict(test), model.predict(warmer))
    plain, moved = (new_site_figures(model, part) for part in (test, warmer))
    assert 0 < plain["rmse"] < 20 and moved["rmse"] > 30
    own = test.elements()
    error = (model.predict(test) - test.values["temperature_f"][own])[hidden[own]]
    assert plain["rmse"] == pytest.approx(np.sqrt((error**2).mean()))


def test_figures_are_means_of_what_scipy_has():
    random = np.random.default_rng(0)
    value = random.standard_normal(400) * 3
    exact = Prediction(Mixture(Gaussian(2.0), torch.zeros(1, 400, 1)), np.arange(400), 400)
    reported = prediction_figures(exact, value)
    assert reported["mse"] == pytest.approx((value**2).mean())
    assert reported["nats"] == pytest.approx(-norm(0, 2).logpdf(value).mean())
    low, high = norm(0, 2).interval(0.9)
    share = ((value >= low) & (value <= high)).mean()
    assert reported["coverage-90"] == share and 0.6 < share < 0.85
    z = value / 2
    crps = 2 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert reported["crps"] == pytest.approx(crps.mean())
