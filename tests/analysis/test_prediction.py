"""Predictions as arrays in the rows of the data."""

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import Gaussian, PerItem, Poisson, StudentT
from exfam.families.mixtures import Mixture
from exfam.scores import prediction as module
from exfam.scores.calibration import central_share, integral_ends, probability_integral
from exfam.scores.crps import crps
from exfam.scores.prediction import Prediction

N_ROWS = 7
ROWS = np.array([5, 0, 3, 2])
EMPTY = [1, 4, 6]
BY_ITEM = {"family": PerItem({0: Poisson(), 1: Gaussian()}), "item": torch.tensor([0, 1, 0, 1])}
every_method = pytest.mark.parametrize("name", ["cdf", "log_prob", "crps", "pit"])


def predicted(family=None, *, members=3, rows=ROWS, item=None):
    family = family or Gaussian()
    generator = torch.Generator().manual_seed(0)
    eta = torch.randn(members, len(rows), family.n_params, generator=generator)
    return Prediction(Mixture(family, eta, item), rows=rows, n_rows=N_ROWS)


def draw_of(prediction):
    return prediction.sample(1, seed=1)[0]


def test_moments_and_quantiles_are_those_of_the_distributions_in_their_rows():
    prediction = predicted()
    exact = Mixture(prediction.mixture.family, prediction.mixture.eta.double())
    low, high = prediction.interval(0.8)
    for array, expected in (
        (prediction.mean, exact.mean()),
        (prediction.variance, exact.variance()),
        (prediction.sd, exact.variance().sqrt()),
        (prediction.quantile(0.3), exact.quantile(0.3)),
        (low, exact.quantile(0.1)),
        (high, exact.quantile(0.9)),
    ):
        assert array.dtype == np.float64 and array.shape == (N_ROWS,)
        np.testing.assert_allclose(array[ROWS], expected)
        assert np.isnan(array[EMPTY]).all()
    assert len(np.unique(prediction.mean[ROWS])) == len(ROWS) and len(prediction) == N_ROWS


@every_method
@pytest.mark.parametrize("family", [StudentT(), Poisson()], ids=str)
def test_values_are_judged_by_their_own_distributions(name, family):
    prediction = predicted(family)
    # Precision is double whatever the model has, and gradients are no hindrance.
    exact = Mixture(family, prediction.mixture.eta.double())
    prediction.mixture.eta.requires_grad_()
    judge, value = getattr(prediction, name), draw_of(prediction)
    own = torch.from_numpy(value[ROWS])
    expected = {
        "cdf": lambda: exact.cdf(own),
        "log_prob": lambda: exact.log_prob(own),
        "crps": lambda: crps(exact, own),
        "pit": lambda: probability_integral(exact, own, seed=0),
        "inside": lambda: central_share(*integral_ends(exact, own), level=0.9),
    }[name]()
    array = judge(value)
    assert array.dtype == np.float64 and np.isnan(array[EMPTY]).all()
    np.testing.assert_allclose(array[ROWS], expected)
    # Values that are unknown have no judgement; one number stands for all rows.
    value[3] = np.nan
    unknown = judge(value)
    assert np.isnan(unknown[[3, *EMPTY]]).all()
    np.testing.assert_array_equal(unknown[[5, 0, 2]], array[[5, 0, 2]])
    np.testing.assert_array_equal(judge(2.0), judge([2.0] * N_ROWS))


@every_method
@pytest.mark.parametrize(
    ("value", "got"),
    [
        (np.zeros(N_ROWS + 1), r"got shape \(8,\)"),
        (np.zeros((N_ROWS, 1)), r"got shape \(7, 1\)"),
        (["a"] * N_ROWS, "got list of other things"),
    ],
)
def test_values_of_another_shape_are_refused(name, value, got):
    rule = "`value` must be a number for each of 7 rows, or one number, "
    with pytest.raises(ExfamError, match=rule + got):
        getattr(predicted(), name)(value)


def test_draws_follow_the_distributions_and_are_seeded():
    prediction = predicted(members=2)
    draws = prediction.sample(4000, seed=3)
    assert draws.shape == (4000, N_ROWS) and np.isnan(draws[:, EMPTY]).all()
    error = prediction.sd[ROWS] / np.sqrt(4000)
    assert (np.abs(draws.mean(0) - prediction.mean)[ROWS] < 5 * error).all()
    np.testing.assert_allclose(draws.std(0)[ROWS], prediction.sd[ROWS], rtol=0.1)
    below = (draws <= prediction.quantile(0.25)).mean(0)[ROWS]
    np.testing.assert_allclose(below, 0.25, atol=5 * 0.5 / np.sqrt(4000))
    first, same, other = (prediction.sample(np.int64(3), seed=s)[:, ROWS] for s in (1, 1, 2))
    assert np.array_equal(first, same) and not np.array_equal(first, other)
    counts = predicted(Poisson())
    first, same, other = (counts.pit(draw_of(counts), seed=s)[ROWS] for s in (1, 1, 2))
    assert np.array_equal(first, same) and (first != other).all()


@pytest.mark.parametrize("entries", [1, 40, 10**6])
def test_items_choose_their_family_in_one_run_or_several(entries, monkeypatch):
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", entries)
    prediction = predicted(**BY_ITEM)
    draws = np.vstack([prediction.sample(5), prediction.quantile(0.5)])[:, ROWS]
    assert (draws[:, [0, 2]] % 1 == 0).all() and (draws[:, [1, 3]] % 1 != 0).all()
    assert len(np.unique(draws[:5, 1])) == 5
    assert np.isfinite(prediction.crps(draw_of(prediction))[ROWS]).all()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 1], "`rows` must hold one row for each of 4 distributions, got 2"),
        ([0, 1, 2, 7], "`rows` must be in 0 to 6, got 7"),
        ([0, 3, 2, 3], "`rows` must hold each row once, got 3 again"),
    ],
)
def test_impossible_rows_are_refused(rows, message):
    with pytest.raises(ExfamError, match=message):
        Prediction(predicted().mixture, rows=np.array(rows), n_rows=N_ROWS)


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_impossible_levels_and_numbers_of_draws_are_refused(level):
    for name, call in (("p", predicted().quantile), ("level", predicted().interval)):
        with pytest.raises(ExfamError, match=f"`{name}` must be a number strictly between 0 and 1"):
            call(level)
