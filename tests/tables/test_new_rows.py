"""What new rows are like: with labels never seen, cells that rows usually lack, and later dates."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from exfam import MaskedTableClassifier, MaskedTableRegressor, load
from exfam.tables.base.encode import TableCode, learn_column
from exfam.tables.base.views import without_new_labels
from exfam.tables.data import Cells

pytestmark = pytest.mark.usefixtures("few_trees")
RANDOM = np.random.default_rng
N, N_NEW = 240, 60


def by_day(*, n=N + N_NEW, seed=0):
    """A response that follows x around a level that wanders from day to day."""
    random = RANDOM(seed)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), "D")
    x = random.normal(size=n)
    level = np.cumsum(random.normal(size=n))
    return pd.DataFrame({"day": day, "x": x}), x + level + 0.1 * random.normal(size=n)


def regressor(**parameters):
    return MaskedTableRegressor(progress=False, fast=True, **parameters)


def spread(model, table):
    low, high = np.asarray(model.predict_dist(table).interval(0.9))
    return np.mean(high - low)


def test_rows_within_the_time_of_training_are_surer_than_later_ones(tmp_path):
    table, y = by_day()
    between = np.zeros(len(table), dtype=bool)
    between[RANDOM(1).permutation(N)[:N_NEW]] = True
    later = np.arange(len(table)) >= N
    model = regressor().fit(table[~between & ~later], y[~between & ~later])
    assert spread(model, table[later]) > 1.5 * spread(model, table[between])
    as_if_later = regressor(in_order=True).fit(
        table.drop(columns="day")[~between & ~later], y[~between & ~later]
    )
    of_between = [
        own.log_score(table[list(own.features_)][between], y[between])
        for own in (model, as_if_later)
    ]
    assert of_between[0] > of_between[1] + 0.3
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    for rows in (between, later):
        np.testing.assert_array_equal(
            loaded.log_scores(table[rows], y[rows]), model.log_scores(table[rows], y[rows])
        )
        parts = model.experts(table[rows][:5], [model.response_])
        location = model.predict(table[rows][:5])
        np.testing.assert_allclose(parts.outputs[:, 0, 0], location, rtol=1e-6)


def test_labels_by_date_are_those_of_their_time():
    table, y = by_day()
    labels = np.where(y > np.median(y), "high", "low")
    later = np.arange(len(table)) >= N
    model = MaskedTableClassifier(progress=False, fast=True).fit(table[~later], labels[~later])
    probs = model.predict_proba(table)
    assert np.abs(probs[later, 0] - 0.5).mean() < np.abs(probs[~later, 0] - 0.5).mean()


def test_held_rows_lack_labels_that_no_other_row_has():
    value = np.array([[0.0, 5.0], [1.0, 6.0], [1.0, 7.0], [2.0, np.nan], [0.0, 8.0]])
    cells = Cells(np.zeros((5, 2), np.int32), np.zeros((5, 2), np.float32), value)
    codes = (learn_column(value[:, 0], is_label=True), learn_column(value[:, 1], is_label=False))
    held = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=bool)
    shown = without_new_labels(TableCode((0, 1), codes), cells, list(held))
    np.testing.assert_array_equal(shown.value[:, 0], [0.0, 1.0, 1.0, np.nan, 0.0])
    np.testing.assert_array_equal(shown.value[:, 1], value[:, 1])


def test_labels_that_rows_have_for_themselves_do_not_make_a_fit_sure():
    """Each row of training has a name of its own, and new rows have names never seen."""
    random = RANDOM(0)
    kind, x = random.integers(0, 30, N + N_NEW), random.normal(size=N + N_NEW)
    y = x + 0.3 * random.normal(size=len(x))
    names = np.array([f"n{k:03d}" for k in np.argsort(np.argsort(y))])
    table = pd.DataFrame({"name": names, "kind": kind.astype(str), "x": x})
    model = regressor().fit(table[:N], y[:N])
    with pytest.warns(UserWarning, match="unknown"):
        named = model.log_score(table[N:], y[N:])
    plain = regressor().fit(table[["x"]][:N], y[:N]).log_score(table[["x"]][N:], y[N:])
    assert named > plain - 0.25


def test_skewed_numbers_of_which_some_are_zero_are_known_by_their_logarithms():
    """As rain is: a density in straight lines would have its spread from the largest."""
    random = RANDOM(0)
    x = random.normal(size=N + N_NEW)
    y = np.where(
        random.random(len(x)) < 0.05, 0.0, np.exp(2 * x + 0.3 * random.normal(size=len(x)))
    )
    model = regressor().fit({"x": x[:N]}, y[:N])
    unit = model.model_.columns[model.schema_.index(model.response_)].unit
    assert unit.scale == "asinh"
    shown = {"x": x[N:]}
    outputs = model.experts(shown, [model.response_]).outputs[:, 0, 0]
    np.testing.assert_allclose(outputs, np.arcsinh(model.predict(shown) / unit.bend), rtol=1e-6)
    inside = np.abs(model.predict(shown) - y[N:]) < 0.5 * (1 + y[N:])
    assert inside.mean() > 0.7
    straight = scipy.stats.norm(y[:N].mean(), y[:N].std()).logpdf(y[N:]).mean()
    assert model.log_score(shown, y[N:]) > straight + 1.0
    assert np.isfinite(model.log_score(shown, -y[N:]))


def test_cells_that_hardly_any_row_has_are_not_missed():
    random = RANDOM(0)
    value = random.normal(size=(200, 3))
    value[10:, 2] = np.nan
    codes = tuple(learn_column(own, is_label=False) for own in value.T)
    code, missing = TableCode((0, 1, 2), codes), np.isnan(value)
    share = code.share_missing(missing)
    assert (share[:10] == 0).all() and share[10:].max() < 0.01
    all_but_one = np.array([[True, True, True], [True, False, True]])
    np.testing.assert_allclose(code.share_missing(all_but_one), [1.0, 0.5], atol=0.02)
    empty = TableCode((0,), (learn_column(np.full(5, np.nan), is_label=False),))
    assert (empty.share_missing(np.ones((2, 1), dtype=bool)) == 0).all()
