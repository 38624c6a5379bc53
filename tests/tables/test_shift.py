"""The shift report finds what moved, and says how far."""

import json
import math

import numpy as np
import pytest
import scipy.stats
import torch

from exfam.checks import DataError, ExfamError
from exfam.families import Categorical, Gaussian
from exfam.families.mixtures import Mixture
from exfam.tables.answers.distributions import chain_log_prob, pseudo_terms
from exfam.tables.data.schema import TableSchema
from exfam.tables.shift.moves import marginal_shift, moved
from exfam.tables.shift.report import shift_report
from table_model_cases import (
    DiscreteJoint,
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
    labels,
)


def shifted(cells, model, *, column, by):
    value = cells.value.copy()
    value[:, column] += by
    return cells_of(model.schema, value)


def own_share(cells):
    """Weights that follow the first cell: its logistic, and the rest on the last column."""
    first = 1 / (1 + np.exp(-np.nan_to_num(cells.value[:, 0])))
    result = np.zeros(cells.code.shape)
    result[:, 0], result[:, -1] = first, 1 - first
    return result


@pytest.fixture(scope="module")
def gaussian():
    model = gaussian_joint()
    return model, gaussian_rows(model, 2000, seed=1), gaussian_rows(model, 1500, seed=2)


def test_nothing_is_flagged_where_nothing_moved(gaussian):
    model, train, new = gaussian
    report = shift_report(model, train, new, target="x", weights=own_share)
    assert report.shifted == report.surprising == report.drifted == ()
    assert abs(report.rows.z) < 3


@pytest.mark.parametrize("column", range(4))
def test_the_column_that_moved_is_found_and_no_other(gaussian, column):
    model, train, new = gaussian
    sd = np.sqrt(model.cov[column, column])
    report = shift_report(model, train, shifted(new, model, column=column, by=sd / 2), target=None)
    name = model.schema.names[column]
    assert report.shifted == (name,) and name in report.surprising
    before, after = report.columns[column].marginal.mean_shift
    assert before == pytest.approx(0, abs=0.1) and after == pytest.approx(0.5, abs=0.1)
    assert report.columns[column].marginal.sd_ratio[1] == pytest.approx(1, abs=0.1)
    # The log-density of a Gaussian falls by half the squared step times the precision.
    expected = -(sd**2) / 8 * np.linalg.inv(model.cov)[column, column]
    for move in (report.rows, report.columns[column].conditional):
        assert abs(move.difference - expected) < 3 * move.error


def test_a_spread_that_changed_is_found(gaussian):
    model, train, new = gaussian
    value = new.value.copy()
    value[:, 2] = model.mean[2] + 1.4 * (value[:, 2] - model.mean[2])
    report = shift_report(model, train, cells_of(model.schema, value), target=None)
    assert report.shifted == ("w",)
    assert report.columns[2].marginal.sd_ratio[1] == pytest.approx(1.4, abs=0.1)


def test_ties_that_broke_surprise_though_no_column_moved(gaussian):
    model, train, new = gaussian
    value = new.value.copy()
    value[:, 1] = np.random.default_rng(0).permutation(value[:, 1])
    report = shift_report(model, train, cells_of(model.schema, value), target=None)
    assert report.shifted == () and "v" in report.surprising


def test_labels_that_moved_are_found_with_their_divergence():
    pb, pc = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])
    schema = TableSchema((labels("b", 3), labels("c", 4, "ordinal")))
    model = DiscreteJoint(schema, np.outer(pb, pc))
    moved_to = np.array([0.35, 0.3, 0.35])
    train = discrete_rows(model, 3000, seed=1)
    new = discrete_rows(DiscreteJoint(schema, np.outer(moved_to, pc)), 3000, seed=2)
    report = shift_report(model, train, new, target="c")
    assert report.shifted == report.surprising == ("b",)
    before, after = report.columns[0].marginal.kl
    assert after == pytest.approx(scipy.stats.entropy(moved_to, pb), abs=0.02)
    assert 0 < before < 0.003 and report.columns[0].marginal.mean_shift is None


def test_numbers_are_those_of_their_definitions(gaussian):
    model, train, new = gaussian
    train, new = drop_cells(train[:50]), drop_cells(new[:40], share=0.2)
    report = shift_report(model, train, new, target="x")
    rows = [chain_log_prob(model, cells) for cells in (train, new)]
    assert report.rows.z == pytest.approx(
        scipy.stats.ttest_ind(rows[1], rows[0], equal_var=False).statistic
    )
    parts = [pseudo_terms(model, cells)[:, 1] for cells in (train, new)]
    assert report.columns[1].conditional.new == pytest.approx(np.nanmean(parts[1]))
    assert report.columns[1].conditional.train_error == pytest.approx(
        scipy.stats.sem(parts[0], nan_policy="omit")
    )
    assert report.columns[1].absent.train == pytest.approx(1 - train.present[:, 1].mean())


def test_the_target_is_predicted_and_observed():
    model = discrete_joint()
    train, new = discrete_rows(model, 400, seed=1), discrete_rows(model, 30, seed=2)
    new = new.hide([1])
    target = shift_report(model, train, new, target="b").target
    assert target.labels == (0, 1, 2)
    distribution = model.probs / model.probs.sum(1, keepdims=True)
    mean = np.mean([distribution[a, :, c] for a, _, c in train.code], axis=0)
    np.testing.assert_allclose([move.train for move in target.predicted], mean)
    share = np.bincount(train.code[:, 1]) / 400
    np.testing.assert_allclose([move.train for move in target.observed], share)
    assert all(math.isnan(move.new) for move in target.observed)
    assert sum(move.new for move in target.predicted) == pytest.approx(1)


def test_neither_blocks_nor_the_order_of_rows_matter(gaussian, monkeypatch):
    model, train, new = gaussian
    whole = shift_report(model, train[:50], new[:50], target="u").as_dict()
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 7)
    again = shift_report(model, train[:50][::-1], new[:50][::-1], target="u").as_dict()
    for first, second in zip(leaves(whole), leaves(again), strict=True):
        assert first == (pytest.approx(second) if isinstance(second, float) else second)


def leaves(result):
    if isinstance(result, dict | list):
        for part in result.values() if isinstance(result, dict) else result:
            yield from leaves(part)
    else:
        yield result


def test_text_and_json_hold_all_of_it():
    model = discrete_joint()
    train = discrete_rows(model, 60, seed=1)
    report = shift_report(model, train, train[:1].hide([0]), target="b", weights=own_share)
    result = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert result["columns"][0]["marginal"]["new_kl"] is None
    text = str(report)
    for name in ("a", "b", "c", "predicted 0", "observed 2", "Mean expert weights", "KL", "nats"):
        assert name in text
    assert "\x1b" not in text and "nan" not in text and max(map(len, text.splitlines())) < 200


def test_impossible_cells_are_a_shift():
    model = discrete_joint()
    never = model.probs.copy()
    never[1] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        model = DiscreteJoint(TableSchema(model.schema.columns), never / never.sum())
        train = discrete_rows(model, 50)
        report = shift_report(
            model, train, cells_of(model.schema, [[1, 0, 0]] * 9).hide([1, 2]), target=None
        )
    assert "a" in report.surprising and "a" in report.shifted
    assert report.columns[0].conditional.z == -math.inf
    assert report.columns[0].as_dict()["conditional"]["z"] is None
    assert report.columns[0].marginal.kl[1] == math.inf


def test_errors_say_what_is_wrong(gaussian):
    model, train, new = gaussian
    train, new = train[:5], new[:5]
    with pytest.raises(DataError, match="`new` must hold at least one row"):
        shift_report(model, train, new[:0], target=None)
    with pytest.raises(DataError, match="one of 'u', 'v', 'w', 'x', got 'y'"):
        shift_report(model, train, new, target="y")
    with pytest.raises(ExfamError, match="`target` must name the column that `weights` predict"):
        shift_report(model, train, new, target=None, weights=own_share)
    with pytest.raises(ExfamError, match=r"`weights` must give rows x columns = \(5, 4\) numbers"):
        shift_report(model, train, new, target="x", weights=lambda cells: own_share(cells)[:, :2])
    with pytest.raises(ExfamError, match="`level` must be a number strictly between 0 and 1"):
        shift_report(model, train, new, target="x", level=0.0)


class TestMoves:
    def test_a_mean_without_rows_is_no_number(self):
        move = moved(np.full(3, np.nan), np.array([1.0, 2.0]))
        assert math.isnan(move.train) and math.isnan(move.z) and math.isnan(move.p)

    def test_p_values_are_uniform_where_nothing_moved(self):
        rng = np.random.default_rng(0)
        p = [moved(rng.normal(size=80), rng.normal(size=120)).p for _ in range(400)]
        assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3

    def test_marginal_p_values_keep_their_level(self):
        rng = np.random.default_rng(1)
        numbers = Mixture(Gaussian(scale=1.0), torch.zeros(1, 1, 1))
        finite = Mixture(Categorical(3), torch.zeros(1, 1, 3))
        for distribution, draw in (
            (numbers, lambda n: rng.normal(size=n)),
            (finite, lambda n: rng.integers(3, size=n).astype(float)),
        ):
            p = np.array([marginal_shift(distribution, draw(300), draw(200)).p for _ in range(200)])
            assert (p < 0.05).mean() < 0.1 and (p < 0.5).mean() > 0.35
