"""Predictions as arrays in the rows of the data."""

import numpy as np
import pytest
import torch
from scipy import stats

from exfam.checks import ExfamError
from exfam.families import Gaussian, PerItem, Poisson, StudentT
from exfam.families.mixtures import Mixture
from exfam.scores import prediction as module
from exfam.scores.calibration import probability_integral
from exfam.scores.crps import crps
from exfam.scores.prediction import Prediction

N_ROWS = 7
ROWS = np.array([5, 0, 3, 2])
EMPTY = [1, 4, 6]


def made(family=None, *, members=3, rows=ROWS, dtype=torch.float32, item=None):
    family = family or Gaussian()
    generator = torch.Generator().manual_seed(0)
    eta = torch.randn(members, len(rows), family.n_params, generator=generator).to(dtype)
    return Prediction(Mixture(family, eta, item), rows=rows, n_rows=N_ROWS)


def value_of(told, seed=1):
    return told.sample(1, seed=seed)[0]


METHODS = {
    "cdf": lambda told, value: told.cdf(value),
    "log_prob": lambda told, value: told.log_prob(value),
    "crps": lambda told, value: told.crps(value),
    "pit": lambda told, value: told.pit(value),
}
each_method = pytest.mark.parametrize("name", METHODS)


def test_moments_and_quantiles_are_those_of_the_laws_in_their_places():
    told = made()
    law = Mixture(told.mixture.family, told.mixture.eta.double())
    low, high = told.interval(0.8)
    for array, expected in (
        (told.mean, law.mean()),
        (told.variance, law.variance()),
        (told.sd, law.variance().sqrt()),
        (told.quantile(0.3), law.quantile(0.3)),
        (low, law.quantile(0.1)),
        (high, law.quantile(0.9)),
    ):
        assert array.dtype == np.float64 and array.shape == (N_ROWS,)
        np.testing.assert_allclose(array[ROWS], expected)
        assert np.isnan(array[EMPTY]).all()
    assert len(np.unique(told.mean[ROWS])) == len(ROWS)
    assert len(told) == N_ROWS


def test_one_gaussian_is_that_of_scipy():
    told = made(members=1)
    value = np.linspace(-1, 1, N_ROWS)
    mean, log_scale = told.mixture.eta[0].double().numpy().T
    law = stats.norm(mean, np.exp(log_scale))
    np.testing.assert_allclose(told.cdf(value)[ROWS], law.cdf(value[ROWS]))
    np.testing.assert_allclose(told.log_prob(value)[ROWS], law.logpdf(value[ROWS]))
    np.testing.assert_allclose(np.stack(told.interval())[:, ROWS], law.interval(0.9))


@each_method
def test_values_are_judged_by_their_own_laws(name):
    told = made(StudentT())
    law = Mixture(told.mixture.family, told.mixture.eta.double())
    value = value_of(told)
    own = torch.from_numpy(value[ROWS])
    expected = {
        "cdf": law.cdf(own),
        "log_prob": law.log_prob(own),
        "crps": crps(law, own),
        "pit": probability_integral(law, own, seed=0),
    }[name]
    array = METHODS[name](told, value)
    assert array.dtype == np.float64 and np.isnan(array[EMPTY]).all()
    np.testing.assert_allclose(array[ROWS], expected)
    assert len(np.unique(array[ROWS])) == len(ROWS)


@each_method
@pytest.mark.parametrize("family", [Gaussian(), Poisson()], ids=str)
def test_unknown_values_have_no_judgement(name, family):
    told = made(family)
    value = value_of(told)
    known = METHODS[name](told, value)
    value[3] = np.nan
    array = METHODS[name](told, value)
    assert np.isnan(array[[3, *EMPTY]]).all()
    np.testing.assert_array_equal(array[[5, 0, 2]], known[[5, 0, 2]])
    assert not np.isnan(known[ROWS]).any()


@each_method
def test_one_number_stands_for_all_rows(name):
    told = made()
    everywhere = METHODS[name](told, np.full(N_ROWS, 0.5))
    np.testing.assert_array_equal(METHODS[name](told, 0.5), everywhere)
    np.testing.assert_array_equal(METHODS[name](told, [0.5] * N_ROWS), everywhere)


@each_method
@pytest.mark.parametrize(
    ("value", "got"),
    [
        (np.zeros(N_ROWS + 1), r"got shape \(8,\)"),
        (np.zeros(1), r"got shape \(1,\)"),
        (np.zeros((N_ROWS, 1)), r"got shape \(7, 1\)"),
        (["a"] * N_ROWS, "got list of other things"),
        ({"a": 1}, "got dict of other things"),
    ],
)
def test_values_of_another_shape_are_refused(name, value, got):
    rule = "`value` must be a number for each of 7 rows, or one number, "
    with pytest.raises(ExfamError, match=rule + got):
        METHODS[name](made(), value)


def test_draws_follow_the_laws_and_are_seeded():
    told = made(members=2)
    draws = told.sample(4000, seed=3)
    assert draws.shape == (4000, N_ROWS) and np.isnan(draws[:, EMPTY]).all()
    error = told.sd[ROWS] / np.sqrt(4000)
    assert (np.abs(draws.mean(0) - told.mean)[ROWS] < 5 * error).all()
    np.testing.assert_allclose(draws.std(0)[ROWS], told.sd[ROWS], rtol=0.1)
    below = (draws <= told.quantile(0.25)).mean(0)[ROWS]
    np.testing.assert_allclose(below, 0.25, atol=5 * 0.5 / np.sqrt(4000))
    np.testing.assert_array_equal(told.sample(3, seed=1), told.sample(3, seed=1))
    assert not np.array_equal(told.sample(3, seed=1)[:, ROWS], told.sample(3, seed=2)[:, ROWS])
    np.testing.assert_array_equal(told.sample(np.int64(2))[:, ROWS], told.sample(2)[:, ROWS])


@pytest.mark.parametrize("entries", [1, 40])
def test_draws_in_several_runs_are_draws(entries, monkeypatch):
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", entries)
    told = made(PerItem({0: Poisson(), 1: Gaussian()}), item=torch.tensor([0, 1, 0, 1]))
    draws = told.sample(5)[:, ROWS]
    assert (draws[:, [0, 2]] % 1 == 0).all() and (draws[:, [1, 3]] % 1 != 0).all()
    assert len(np.unique(draws[:, 1])) == 5


def test_integrals_of_counts_are_drawn_by_seed():
    told = made(Poisson())
    value = value_of(told)
    first, other = told.pit(value, seed=1), told.pit(value, seed=2)
    np.testing.assert_array_equal(first, told.pit(value, seed=1))
    assert (first[ROWS] != other[ROWS]).all()


def test_precision_is_double_whatever_the_model_has():
    single = made()
    double = Prediction(Mixture(Gaussian(), single.mixture.eta.double()), rows=ROWS, n_rows=N_ROWS)
    value = np.linspace(-30, 30, N_ROWS)
    for name in METHODS:
        np.testing.assert_array_equal(METHODS[name](single, value), METHODS[name](double, value))
    np.testing.assert_array_equal(single.quantile(1e-9), double.quantile(1e-9))


def test_items_choose_their_family():
    told = made(PerItem({0: Poisson(), 1: Gaussian()}), item=torch.tensor([0, 1, 0, 1]))
    median = told.quantile(0.5)
    assert (median[[5, 3]] % 1 == 0).all() and (median[[0, 2]] % 1 != 0).all()
    assert np.isfinite(told.crps(value_of(told))[ROWS]).all()


def test_parameters_with_gradients_are_welcome():
    told = made()
    told.mixture.eta.requires_grad_()
    assert np.isfinite(told.mean[ROWS]).all() and np.isfinite(told.crps(0.0)[ROWS]).all()


def test_no_rows_at_all():
    told = made(rows=np.zeros(0, dtype=int))
    assert np.isnan(told.mean).all() and np.isnan(told.crps(0.0)).all()
    assert np.isnan(np.stack(told.interval())).all() and np.isnan(told.sample(2)).all()


def test_what_it_shows():
    assert repr(made()) == "Prediction(Gaussian(scale=None), 4 of 7 rows, 3 members)"
    assert repr(made(rows=np.arange(7))) == "Prediction(Gaussian(scale=None), 7 rows, 3 members)"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 1], "`rows` must hold one row for each of 4 distributions, got 2"),
        ([0, 1, 2, 7], "`rows` must be in 0 to 6, got 7"),
        ([0, -1, 2, 3], "`rows` must be in 0 to 6, got -1"),
        ([0, 3, 2, 3], "`rows` must hold each row once, got 3 again"),
    ],
)
def test_impossible_rows_are_refused(rows, message):
    with pytest.raises(ExfamError, match=message):
        Prediction(made().mixture, rows=np.array(rows), n_rows=N_ROWS)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, float("nan"), np.float32(-1)])
def test_levels_lie_inside(level):
    with pytest.raises(ExfamError, match="`p` must be a number strictly between 0 and 1, got"):
        made().quantile(level)
    with pytest.raises(ExfamError, match="`level` must be a number strictly between 0 and 1, got"):
        made().interval(level)


@pytest.mark.parametrize("n", [0, -1])
def test_at_least_one_draw(n):
    with pytest.raises(ExfamError, match="`n` must be an integer >= 1, got"):
        made().sample(n)
