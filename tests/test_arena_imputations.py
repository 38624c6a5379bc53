"""The arena's imputations: hidden values stay hidden, patterns are as named, scores add up."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.arena.contenders.imputations import matrices
from benchmarks.arena.contenders.imputations.matrices import soft_impute
from benchmarks.arena.fields.calibration import calibrated
from benchmarks.arena.imputations.judge import sums
from benchmarks.arena.imputations.panels import (
    PATTERNS,
    RUN,
    impute,
    in_outages,
    in_runs,
    panel_with,
)
from benchmarks.arena.kind import Fitted
from benchmarks.arena.kinds.fields import simulated
from benchmarks.arena.kinds.imputations import KIND
from benchmarks.arena.results import fit_and_judge, read_rows
from benchmarks.arena.tables import describe, headers, table
from benchmarks.arena.values.distributions import StudentT

FIELD = simulated()


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(matrices, "N_TREES", 4)
    monkeypatch.setattr(matrices, "TREE_ROUNDS", 1)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_nothing_that_is_learned_from_is_hidden(pattern):
    data, there = panel_with(FIELD, pattern), ~np.isnan(FIELD.value)
    test, validation = data.test, data.validation
    assert test.target.any() and validation.target.any()
    assert not (test.target & test.shown).any() and not (validation.target & validation.shown).any()
    np.testing.assert_array_equal(test.target | test.shown, there)
    np.testing.assert_array_equal(validation.target | validation.shown, test.shown)
    np.testing.assert_array_equal(data.both.shown, test.shown)
    np.testing.assert_array_equal(data.train.shown, validation.shown)
    moved = replace(FIELD, value=FIELD.value + 3.0 * test.target)
    other = panel_with(moved, pattern)
    for name in ("train", "validation", "both"):
        for numbers in ("value", "before"):
            ours, theirs = (getattr(getattr(d, name), numbers) for d in (data, other))
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(test.before, other.test.before)
    np.testing.assert_array_equal(test.before[1:], test.visible[:-1])


def test_patterns_hide_shares_runs_and_outages():
    shape = (400, 30)
    for name, (hide, share) in PATTERNS.items():
        hidden = hide(shape, share, np.random.default_rng(1))
        assert hidden.mean() == pytest.approx(share, abs=0.05), name
    runs = in_runs(shape, 0.4, np.random.default_rng(1))
    changes = np.flatnonzero(np.diff(runs[:, 3].astype(int)))
    assert len(changes) > 3 and not (np.diff(changes) % RUN).any()
    outages = in_outages(shape, 0.25, np.random.default_rng(1))
    assert (outages.sum(0) == 100).all()
    assert (np.abs(np.diff(outages.astype(int), axis=0)).sum(0) <= 2).all()


@pytest.mark.parametrize("name", ["soft-impute", "iterative-trees", "field-kriging"])
def test_imputations_see_what_is_shown(name):
    data = panel_with(FIELD, "40 %")
    fitted = calibrated(KIND.contenders[name].fit(data, 0), data)
    before = fitted.predict(data.test).center()
    hidden = replace(data.test, value=data.test.value + 3.0 * data.test.target)
    np.testing.assert_array_equal(before, fitted.predict(hidden).center())
    shown = replace(data.test, value=data.test.value + 3.0 * data.test.shown)
    assert np.abs(fitted.predict(shown).center() - before).max() > 0.1


def test_a_panel_without_lags_is_fitted_without():
    data = panel_with(FIELD, "10 %")
    fitted = KIND.contenders["field-gaussian-0"].fit(data, 0)
    assert fitted.refit is None and fitted.settings["parameters"]["lags"] == 0


def test_singular_values_fill_a_matrix_of_low_rank():
    random = np.random.default_rng(0)
    whole = random.normal(size=(60, 2)) @ random.normal(size=(2, 25))
    hidden = random.random(whole.shape) < 0.3
    gaps = np.where(hidden, np.nan, whole)
    filled = soft_impute(gaps, penalty=0.0125, rank=5)
    np.testing.assert_array_equal(filled[~hidden], whole[~hidden])
    assert np.std((filled - whole)[hidden]) < 0.2 * np.std(whole)
    assert not soft_impute(gaps, penalty=1.01, rank=5)[hidden].any()


def test_sums_of_patterns_are_those_of_all():
    folds = impute(FIELD, n_times=60)
    assert folds.same_groups and [data.pattern for data in folds.splits] == list(PATTERNS)
    data = folds.splits[3]
    assert len(data.test.time) == 60 and data.test.time[-1] == FIELD.time[-1]
    fitted = Fitted(lambda maps: StudentT(np.zeros(maps.target.sum()), 5.0, np.inf))
    of_blocks = sums(fitted, data)
    for name in ("crps", "nats", "elements"):
        assert of_blocks[name] == of_blocks[f"{name}_runs"]
        assert not any(of_blocks[f"{name}_outages"])
    assert sum(of_blocks["elements"]) == data.test.target.sum()


def test_tables_have_a_column_for_each_pattern(tmp_path):
    name = "simulated_fields_impute"
    for contender in ("field-kriging", "field-climatology", "soft-impute"):
        fit_and_judge(KIND, name, contender, 0, folder=tmp_path)
    rows = read_rows(tmp_path)
    assert set(PATTERNS) <= set(headers(KIND))
    assert all(len(row) == len(headers(KIND)) for row in table(rows, KIND, name))
    assert "hidden values they fill in" in describe(rows, KIND, name)
