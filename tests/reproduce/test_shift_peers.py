from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.stats import norm

from exfam_studies.experts.public_tables import TableShift
from exfam_studies.experts.shift_features import learn_features, missing_cells, with_missing
from exfam_studies.experts.shift_peers import (
    CATBOOST,
    LIGHTGBM,
    Predicted,
    fit_shift_boosting,
    fit_shift_ridge,
    shift_figures,
    shift_peers,
    y_levels,
)

KINDS = {"color": "categorical", "size": "ordinal", "big": "boolean", "weight": "numeric"}
TASKS = ("regression", "ordinal", "classification")
SMALL = {
    "lightgbm": replace(LIGHTGBM, grid={"num_leaves": (4, 8)}),
    "catboost": replace(CATBOOST, grid={"depth": (2,), "learning_rate": (0.3,)}),
}


def part(seed, n):
    random = np.random.default_rng(seed)
    columns = {
        "color": random.choice(np.array(["red", "blue", None], dtype=object), n),
        "size": random.integers(1, 5, n),
        "big": random.random(n) < 0.5,
        "weight": random.normal(size=n),
    }
    columns["weight"][::7] = np.nan
    y = columns["size"] + 2.0 * (columns["color"] == "red") + 0.3 * random.normal(size=n)
    return columns, y


def toy(task):
    (train, y), (test, test_y) = part(0, 300), part(1, 200)
    levels = {}
    if task == "ordinal":
        y, test_y = (np.clip(np.rint(each), 1, 6).astype(int) for each in (y, test_y))
        levels = {"y": tuple(range(1, 8))}  # 7 is in no row
    if task == "classification":
        y, test_y = (np.where(each > 3, "many", "few").astype(object) for each in (y, test_y))
    return TableShift("toy", train, y, test, test_y, KINDS, task, "none", levels)


def checked(fitted, shift):
    """The figures of a fit that must be far better than knowing nothing of the columns."""
    predicted = fitted.predict(shift.test)
    figures = shift_figures(predicted, shift.test_y, shift=shift)
    if shift.task == "regression":
        assert figures["r2"] > 0.7
        density = norm.logpdf(shift.test_y, predicted.mean, predicted.sd)
        assert figures["nats"] == pytest.approx(-density.mean())
        assert figures["nats"] < 0.8 * np.log(np.std(shift.test_y) * 4.13)
    else:
        assert predicted.chances.shape == (200, len(y_levels(shift)))
        np.testing.assert_allclose(predicted.chances.sum(axis=1), 1)
        assert figures["accuracy-argmax"] > 0.55
    # What is missing is no error, and does not help.
    hidden = with_missing(shift.test, share=0.5, by="cell", seed=0)
    worse = shift_figures(fitted.predict(hidden), shift.test_y, shift=shift)
    error = "mse" if shift.task == "regression" else "mse-argmax"
    assert worse[error] > figures[error]


@pytest.mark.parametrize("task", TASKS)
def test_ridge(task):
    shift = toy(task)
    checked(fit_shift_ridge(shift, seed=0), shift)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    ("task", "classes"),
    [("regression", False), ("ordinal", True), ("ordinal", False), ("classification", True)],
)
def test_boosted_trees(name, task, classes):
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    shift = toy(task)
    fitted = fit_shift_boosting(shift, seed=0, library=SMALL[name], classes=classes)
    assert 1 <= fitted.chosen["trees"] <= 600
    checked(fitted, shift)


@pytest.mark.parametrize("name", SMALL)
def test_trees_are_the_same_whatever_the_levels_are_called(name):
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    shift = toy("ordinal")
    lower = replace(shift, levels={"y": tuple(range(-3, 8))})
    fits = [
        fit_shift_boosting(each, seed=0, library=SMALL[name], classes=True)
        for each in (shift, lower)
    ]
    assert fits[0].chosen == fits[1].chosen and fits[0].chosen["trees"] > 5
    chances, more = (fitted.predict(shift.test).chances for fitted in fits)
    np.testing.assert_allclose(more[:, 4:], chances)


@pytest.mark.parametrize("task", TASKS)
def test_peers_are_listed_with_what_they_tried(task):
    peers = shift_peers(task)
    assert ("lightgbm-regression" in peers) == (task == "ordinal")
    assert peers["ridge"].package is None
    assert peers["lightgbm"].n_configurations == 8 and peers["catboost"].n_configurations == 4


def test_features_know_the_rows_to_fit_on_alone():
    shift = toy("regression")
    features = learn_features(shift.train, KINDS)
    other = {**shift.test, "color": np.array(["green"] * 200, dtype=object)}
    codes = features.codes(other)
    assert np.isnan(codes[:, 0]).all() and features.unordered == [0]
    assert (features.design(other)[:, :2] == 0).all()
    whole = features.design(shift.train)
    assert np.nanmean(whole[:, -1]) == pytest.approx(0, abs=1e-9)
    there = whole[~missing_cells(shift.train["weight"]), -1]
    assert there.std() == pytest.approx(1)


def test_a_column_that_never_varies_stays_finite():
    columns = {"weight": np.ones(5)}
    design = learn_features(columns, {"weight": "numeric"}).design(columns)
    assert (design == 0).all()


@pytest.mark.parametrize("by", ["cell", "column"])
def test_cells_go_missing_at_random(by):
    columns = toy("regression").test
    before = np.mean([missing_cells(each).mean() for each in columns.values()])
    hidden = with_missing(columns, share=0.5, by=by, seed=0)
    gone = [missing_cells(each).mean() for each in hidden.values()]
    assert np.mean(gone) == pytest.approx(0.5 + before / 2, abs=0.1)
    assert ((np.array(gone) == 1).sum() == 2) == (by == "column")
    for name, column in hidden.items():
        there = ~missing_cells(column)
        assert (column[there] == columns[name][there]).all()
    again = with_missing(columns, share=0.5, by=by, seed=1)
    assert any((missing_cells(again[name]) != missing_cells(hidden[name])).any() for name in hidden)


def test_a_probability_is_of_its_own_level():
    shift = toy("ordinal")
    sure = np.eye(7)[shift.test_y - 1]
    assert shift_figures(Predicted(chances=sure), shift.test_y, shift=shift)["nats"] == 0
