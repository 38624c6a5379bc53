"""The arena's forecasts: starts without leaks, fair scores of draws, exact autoregressions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.arena.contenders.forecasts import ours
from benchmarks.arena.contenders.forecasts.autoregressions import autocovariance, given_known
from benchmarks.arena.forecasts.data import Starts, ahead
from benchmarks.arena.forecasts.draws import OfDraws
from benchmarks.arena.forecasts.judge import sums
from benchmarks.arena.kind import Fitted
from benchmarks.arena.kinds.fields import simulated
from benchmarks.arena.kinds.forecasts import KIND
from benchmarks.arena.results import fit_and_judge, read_rows
from benchmarks.arena.tables import describe, headers, standings, table
from benchmarks.arena.values.distributions import OfMixture, StudentT

from exfam.families import StudentT as StudentTFamily
from exfam.families.mixtures import Mixture

FIELD = simulated()
DATA = ahead(FIELD, n_steps=3, spacing=5)
# One of exfam's by draws; the others differ in what is fitted alone.
NAMES = ("field-gaussian-process-1", *(n for n, c in KIND.contenders.items() if not c.ours))


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(ours, "N_DRAWS", 4)


def test_starts_are_followed_by_test_maps_alone():
    late = replace(FIELD, time=FIELD.time + (np.arange(len(FIELD.time)) >= 80))
    starts = ahead(late, n_steps=3, spacing=1).starts
    # From the last map of validation on; no forecast goes over the missing day.
    assert starts.row.tolist() == [*range(69, 77), *range(80, 87)]
    np.testing.assert_array_equal(starts.future[0], [70, 71, 72])
    there = ~np.isnan(FIELD.value[starts.future])
    np.testing.assert_array_equal(starts.target, there)
    np.testing.assert_array_equal(starts.truth, FIELD.value[starts.future][there])
    time, value = starts.known(11, back=4)
    np.testing.assert_array_equal(time, late.time[80:84])
    np.testing.assert_array_equal(value, FIELD.value[80:84])


def outputs(fitted, starts):
    predicted = fitted.predict(starts)
    cells = np.full(starts.target.shape, np.nan)
    cells[starts.target] = predicted.center()
    return cells


@pytest.mark.parametrize("name", NAMES)
def test_forecasts_see_nothing_after_their_start(name):
    rival = KIND.contenders[name]
    if rival.needs is not None:
        pytest.importorskip(rival.needs)
    fitted = rival.fit(DATA, 0)
    starts = DATA.starts
    before = outputs(fitted, starts)
    later = starts.value.copy()
    later[starts.row[0] + 1 :] += 3.0
    after = outputs(fitted, replace(starts, value=later))
    np.testing.assert_array_equal(before[0], after[0])
    at_start = starts.value.copy()
    at_start[starts.row[0]] += 3.0
    change = np.abs(outputs(fitted, replace(starts, value=at_start)) - before)
    assert (np.nanmax(change[0]) > 1e-3) == (name != "climatology")


def test_scores_of_draws_do_not_depend_on_their_number():
    random = np.random.default_rng(0)
    value = np.full(40_000, 0.7)
    truth = StudentT(0.0, 1.0, np.inf)
    for n in (3, 30):
        draws = OfDraws(random.normal(size=(n, len(value))))
        exact = float(truth.crps(np.array([0.7]))[0])
        assert draws.crps(value).mean() == pytest.approx(exact, abs=0.01)
        assert draws.error(value).mean() == pytest.approx(0.7**2, abs=0.02)
    own = OfDraws(np.array([[1.0], [4.0], [2.0]]))
    # |1 - 3| + |4 - 3| + |2 - 3| by three, less half of the mean of 3, 1 and 2.
    assert own.crps(np.array([3.0])) == pytest.approx([4 / 3 - 1])


def test_ranks_among_draws_are_uniform_for_one_more_draw():
    random = np.random.default_rng(0)
    draws, value = OfDraws(random.normal(size=(9, 20_000))), random.normal(size=20_000)
    below, at_most = draws.below(value), draws.at_most(value)
    np.testing.assert_allclose(at_most - below, 0.1)
    assert np.bincount(np.round(10 * below).astype(int)) / 20_000 == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("df", [2.5, 7.0])
def test_crps_of_a_student_t_is_that_of_the_library(df):
    value, loc = np.linspace(-5, 5, 7), np.linspace(-1, 1, 7)
    eta = np.stack([loc, np.full(7, np.log(1.5)), np.full(7, np.log(df - 2))], axis=1)
    mixture = Mixture(StudentTFamily(), torch.from_numpy(eta)[None])
    own = StudentT(loc, 1.5, df).crps(value)
    np.testing.assert_allclose(own, OfMixture(mixture, "real").crps(value), rtol=1e-6)
    draws = StudentT(loc, 1.5, 1e8).crps(value)
    np.testing.assert_allclose(StudentT(loc, 1.5, np.inf).crps(value), draws, rtol=1e-5)
    with pytest.raises(ValueError, match="`df` must be above 1 for a CRPS, got 1.0"):
        StudentT(loc, 1.5, 1.0).crps(value)


def test_an_autoregression_is_found_and_conditioned_on():
    random = np.random.default_rng(0)
    series = np.zeros(4_000)
    for t in range(2, len(series)):
        series[t] = 0.5 * series[t - 1] + 0.3 * series[t - 2] + random.normal()
    series[random.random(len(series)) < 0.1] = np.nan
    moments, order = autocovariance(series, n=30)
    assert 2 <= order <= 4
    # Yule and Walker: correlations 0.5 / 0.7, then 0.5 r1 + 0.3.
    assert moments[:3] / moments[0] == pytest.approx([1, 0.714, 0.657], abs=0.05)
    time, value = np.array([-5.0, -1.0, 0.0]).astype(int), np.array([1.0, -0.5, 2.0])
    mean, variance = given_known(moments, time, value, n_steps=4)
    one = 0.5 * 2.0 + 0.3 * -0.5
    assert mean[:2] == pytest.approx([one, 0.5 * one + 0.3 * 2.0], abs=0.1)
    assert variance[0] == pytest.approx(1, abs=0.1)
    assert (np.diff(variance) > 0).all() and variance[-1] < moments[0]
    mean, variance = given_known(moments, time[:0], value[:0], n_steps=2)
    assert not mean.any() and variance.tolist() == [moments[0]] * 2


def test_a_series_of_gaps_keeps_a_finite_variance():
    series = np.full(200, np.nan)
    series[::2] = np.sin(np.arange(100.0))
    moments, order = autocovariance(series, n=30)
    assert order == 0 and moments[0] > 0 and not moments[1:].any()


def test_sums_of_steps_are_those_of_all():
    starts = DATA.starts
    fitted = Fitted(lambda starts: StudentT(np.zeros(starts.target.sum()), 5.0, np.inf))
    of_blocks = sums(fitted, DATA)
    for name in ("crps", "error", "in_90", "elements"):
        steps = [of_blocks[f"{name}_{step}"] for step in (1, 2, 3)]
        np.testing.assert_allclose(np.sum(steps, axis=0), of_blocks[name], atol=1e-4)
    assert of_blocks["crps_last"] == of_blocks["crps_3"]
    assert sum(of_blocks["elements"]) == starts.target.sum()
    np.testing.assert_allclose(sum(of_blocks["error"]), (starts.truth**2).sum(), rtol=1e-6)


def test_tables_are_in_the_order_of_crps(tmp_path):
    name = "simulated_fields_ahead"
    for contender in ("field-gaussian-process-1", "climatology", "vector-autoregression"):
        fit_and_judge(KIND, name, contender, 0, folder=tmp_path)
    rows = read_rows(tmp_path)
    ranked = [standing.mean("crps", "elements") for standing in standings(rows, KIND, name)]
    assert ranked == sorted(ranked)
    assert all(len(row) == len(headers(KIND)) for row in table(rows, KIND, name))
    assert "forecasts of 1 to 3 steps start from" in describe(rows, KIND, name)


def test_no_start_without_maps_to_come():
    assert isinstance(ahead(FIELD, n_steps=3, spacing=50).starts, Starts)
    assert len(ahead(FIELD, n_steps=20, spacing=1).starts.row) == 1
