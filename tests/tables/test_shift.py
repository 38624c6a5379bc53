"""The shift report finds what moved, and says how far."""

import json
import math

import numpy as np
import pytest
import scipy.stats
import torch

from exfam.checks import DataError, ExfamError
from exfam.families import Categorical, Gaussian, LogStudentT
from exfam.families.mixtures import Mixture
from exfam.tables.answers.distributions import chain_log_prob, pseudo_terms
from exfam.tables.data import TableSchema
from exfam.tables.shift.moves import Moved, marginal_shift, moved
from exfam.tables.shift.report import shift_report
from table_model_cases import (
    DiscreteJoint,
    GaussianJoint,
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
    labels,
    number,
)

GAUSSIAN = gaussian_joint()
TRAIN, NEW = gaussian_rows(GAUSSIAN, 2000, seed=1), gaussian_rows(GAUSSIAN, 1500, seed=2)


def report_of(model, train, new, *, target=None, weights=None, level=0.01):
    return shift_report(
        model, train, new, target=target, weights=weights, marginals=model, level=level
    )


def changed(column, change):
    value = NEW.value.copy()
    value[:, column] = change(value[:, column])
    return cells_of(GAUSSIAN.schema, value)


def own_share(cells):
    """Weights that follow the first cell: its logistic, and the rest on the last column."""
    first = 1 / (1 + np.exp(-np.nan_to_num(cells.value[:, 0])))
    result = np.zeros(cells.code.shape)
    result[:, 0], result[:, -1] = first, 1 - first
    return result


def test_nothing_is_flagged_where_nothing_moved():
    report = report_of(GAUSSIAN, TRAIN, NEW, target="x", weights=own_share)
    assert report.shifted == report.surprising == report.drifted == ()
    assert abs(report.rows.z) < 3
    shifted = changed(0, lambda value: value + 0.5)
    report = report_of(GAUSSIAN, TRAIN, shifted, target="x", weights=own_share)
    assert report.drifted == ("u", "x")
    assert report.weights["u"].train == pytest.approx(own_share(TRAIN)[:, 0].mean())
    assert report.weights["v"] == Moved(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("column", range(4))
def test_the_column_that_moved_is_found_and_no_other(column):
    sd = np.sqrt(GAUSSIAN.cov[column, column])
    report = report_of(GAUSSIAN, TRAIN, changed(column, lambda value: value + sd / 2))
    name = GAUSSIAN.schema.names[column]
    assert report.shifted == (name,) and name in report.surprising
    before, after = report.columns[column].marginal.mean_shift
    assert before == pytest.approx(0, abs=0.1) and after == pytest.approx(0.5, abs=0.1)
    assert report.columns[column].marginal.sd_ratio[1] == pytest.approx(1, abs=0.1)
    # The log-density of a Gaussian falls by half the squared step times the precision.
    expected = -(sd**2) / 8 * np.linalg.inv(GAUSSIAN.cov)[column, column]
    for move in (report.rows, report.columns[column].conditional):
        assert abs(move.difference - expected) < 3 * move.error


def test_a_spread_that_changed_is_found_and_ties_that_broke():
    mean = GAUSSIAN.mean[2]
    report = report_of(GAUSSIAN, TRAIN, changed(2, lambda value: mean + 1.4 * (value - mean)))
    assert report.shifted == ("w",)
    assert report.columns[2].marginal.sd_ratio[1] == pytest.approx(1.4, abs=0.1)
    report = report_of(GAUSSIAN, TRAIN, changed(1, np.random.default_rng(0).permutation))
    assert report.shifted == () and "v" in report.surprising


def test_labels_that_moved_are_found_with_their_divergence():
    pb, pc = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])
    schema = TableSchema((labels("b", 3), labels("c", 4, "ordinal")))
    model = DiscreteJoint(schema, np.outer(pb, pc))
    moved_to = np.array([0.35, 0.3, 0.35])
    train = discrete_rows(model, 3000, seed=1)
    new = discrete_rows(DiscreteJoint(schema, np.outer(moved_to, pc)), 3000, seed=2)
    report = report_of(model, train, new, target="c")
    assert report.shifted == report.surprising == ("b",)
    before, after = report.columns[0].marginal.kl
    assert after == pytest.approx(scipy.stats.entropy(moved_to, pb), abs=0.02)
    assert 0 < before < 0.003 and report.columns[0].marginal.mean_shift is None


def test_numbers_are_those_of_their_definitions():
    train, new = drop_cells(TRAIN[:50]), drop_cells(NEW[:40], share=0.2)
    report = report_of(GAUSSIAN, train, new, target="x")
    before, after = (chain_log_prob(GAUSSIAN, cells) for cells in (train, new))
    z = scipy.stats.ttest_ind(after, before, equal_var=False).statistic
    assert report.rows.z == pytest.approx(z)
    before, after = (pseudo_terms(GAUSSIAN, cells)[:, 1] for cells in (train, new))
    own = report.columns[1]
    assert own.conditional.new == pytest.approx(np.nanmean(after))
    assert own.conditional.train_error == pytest.approx(scipy.stats.sem(before, nan_policy="omit"))
    assert own.absent.train == pytest.approx(1 - train.present[:, 1].mean())


def test_the_target_is_predicted_and_observed():
    model = discrete_joint()
    train, new = discrete_rows(model, 400, seed=1), discrete_rows(model, 30, seed=2)
    target = report_of(model, train, new.hide([1]), target="b").target
    distribution = model.probs / model.probs.sum(1, keepdims=True)
    mean = np.mean([distribution[a, :, c] for a, _, c in train.code], axis=0)
    np.testing.assert_allclose([move.train for move in target.predicted], mean)
    share = np.bincount(train.code[:, 1]) / 400
    np.testing.assert_allclose([move.train for move in target.observed], share)
    assert all(math.isnan(move.new) for move in target.observed)


def test_text_and_json_hold_all_of_it():
    model = discrete_joint()
    train = discrete_rows(model, 60, seed=1)
    report = report_of(model, train, train[:1].hide([0]), target="b", weights=own_share)
    result = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert result["columns"][0]["marginal"]["new_kl"] is None
    text = str(report)
    for name in ("a", "b", "c", "predicted 0", "observed 2", "Mean expert weights", "KL", "nats"):
        assert name in text
    assert "\x1b" not in text and "nan" not in text and max(map(len, text.splitlines())) < 200
    alone = GaussianJoint(TableSchema((number("size [mm]"),)), np.zeros(1), np.eye(1))
    rows = gaussian_rows(alone, 20)
    text = str(report_of(alone, rows, rows, target="size [mm]"))
    assert "size [mm]" in text and "predicted mean" in text and "observed sd" in text


def test_rows_and_levels_are_checked():
    with pytest.raises(DataError, match="`new` must hold at least one row"):
        report_of(GAUSSIAN, TRAIN[:5], NEW[:0])
    with pytest.raises(ExfamError, match="`level` must be a number strictly between 0 and 1"):
        report_of(GAUSSIAN, TRAIN[:5], NEW[:5], level=0.0)


def test_means_without_rows_are_no_numbers_and_equal_ones_have_not_moved():
    move = moved(np.full(3, np.nan), np.array([1.0, 2.0]))
    assert math.isnan(move.train) and math.isnan(move.z) and math.isnan(move.p)
    assert moved(np.ones(3), np.ones(4)).p == 1
    assert moved(np.ones(3), np.zeros(4)).z == -math.inf
    distribution = Mixture(Categorical(2), torch.zeros(1, 1, 2))
    assert marginal_shift(distribution, np.zeros(4), np.zeros(5)).p == 1
    assert math.isnan(marginal_shift(distribution, np.zeros(4), np.zeros(0)).p)


def test_numbers_without_a_mean_are_compared_by_medians_and_widths():
    """Of logarithms of a Gaussian the shift is that of a Gaussian, where the spread is small."""
    z = np.random.default_rng(0).normal(size=(2, 4000))
    eta = torch.tensor([[[0.0, math.log(0.01), 5.0]]], dtype=torch.float64)
    distribution = Mixture(LogStudentT(), eta)
    shift = marginal_shift(distribution, np.exp(0.01 * z[0]), np.exp(0.01 * (2 * z[1] + 1)))
    assert shift.mean_shift is None and shift.p < 1e-6
    np.testing.assert_allclose(shift.median_shift, (0, 1), atol=0.1)
    np.testing.assert_allclose(shift.width_ratio, (1, 2), atol=0.1)
    assert all(map(math.isnan, marginal_shift(distribution, z[0][:0], z[1][:0]).width_ratio))


def test_p_values_are_uniform_where_nothing_moved():
    rng = np.random.default_rng(0)
    p = [moved(rng.normal(size=80), rng.normal(size=120)).p for _ in range(400)]
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3
    numbers = Mixture(Gaussian(scale=1.0), torch.zeros(1, 1, 1))
    draws = ((rng.normal(size=300), rng.normal(size=200)) for _ in range(200))
    p = np.array([marginal_shift(numbers, *pair).p for pair in draws])
    assert (p < 0.05).mean() < 0.1 and (p < 0.5).mean() > 0.35
