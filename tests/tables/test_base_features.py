"""Features of the default model beside numbers and labels."""

import numpy as np
import pytest

from exfam import MaskedTableRegressor, load
from exfam.tables.base.contributions import _by_column
from exfam.tables.base.encode import TableCode, circle_of, learn_column, sines_and_cosines
from exfam.tables.base.heads import StudentHead
from exfam.tables.base.linear_heads import HeadRows, fit_head, fit_products
from exfam.tables.base.products import Candidates
from exfam.tables.base.target_statistics import cross_fitted, learn_statistics, outcomes
from exfam.tables.base.views import view_of

RANDOM = np.random.default_rng

CIRCLES = {
    "hour": (np.arange(24.0), 24.0),
    "PickupHour": (np.arange(24.0), 24.0),
    "mnth": (np.arange(1.0, 13.0), 12.0),
    "day_of_week": (np.arange(1.0, 8.0), 7.0),
    "wind direction": (RANDOM(0).uniform(0, 360, 200), 360.0),
    "lon": (RANDOM(0).uniform(-180, 180, 200), 360.0),
}
NO_CIRCLES = {
    "hours_per_week": np.arange(60.0),
    "month": np.arange(1.0, 4.0),
    "hour": np.arange(0.0, 23.0, 0.5),
    "angle_of_attack": np.arange(0.0, 23.0),
    "age": np.arange(24.0),
    "weekday": np.full(3, np.nan),
}


@pytest.mark.parametrize("name", CIRCLES)
def test_circles_are_found_by_name_and_range(name):
    value, period = CIRCLES[name]
    assert circle_of(name, np.append(value, np.nan)) == period
    assert circle_of("other", value) is None


@pytest.mark.parametrize("name", NO_CIRCLES)
def test_other_columns_are_no_circles(name):
    assert circle_of(name, NO_CIRCLES[name]) is None


def test_harmonics_repeat_after_one_turn():
    value = RANDOM(0).uniform(0, 24, 50)
    np.testing.assert_allclose(
        sines_and_cosines(value, 24.0), sines_and_cosines(value + 24, 24.0), atol=1e-9
    )
    assert not np.allclose(
        sines_and_cosines(value, 24.0), sines_and_cosines(value + 12, 24.0), atol=0.1
    )
    ends = sines_and_cosines(np.array([0.0, 23.0, 12.0]), 24.0)
    assert np.linalg.norm(ends[0] - ends[1]) < 0.3 * np.linalg.norm(ends[0] - ends[2])


def test_codes_of_circles_are_stored_and_keep_missing_cells_missing():
    value = np.append(np.arange(24.0), np.nan)
    code = learn_column(value, is_label=False, name="hour")
    numbers = code.numbers(value)
    assert numbers.shape[1] == code.n_numbers == 5
    assert np.isnan(numbers[-1]).all() and np.isfinite(numbers[:-1]).all()
    table = TableCode((2,), (code,))
    again = TableCode.from_state(*table.to_state())
    np.testing.assert_array_equal(again.codes[0].numbers(value), numbers)
    filled = numbers[:-1]
    features = table.features(filled, np.zeros((24, 1), dtype=bool))
    assert features.shape[1] == code.n_features == len(table.column_of_feature)


def multiplied(n=400, seed=0):
    """Rows of three columns, and a response that the product of the first two says most about."""
    random = RANDOM(seed)
    x = random.normal(size=(n, 3))
    return x, x[:, 0] * x[:, 1] + 0.3 * x[:, 2] + 0.3 * random.normal(size=n)


def test_a_product_that_helps_is_found_and_others_are_not():
    x, y = multiplied()
    parts = [HeadRows(x[k::2], y[k::2], np.ones(200)) for k in (0, 1)]
    candidates = Candidates(np.arange(3), np.arange(3))
    alone = fit_head(StudentHead(), *parts)
    both = fit_products(StudentHead(), alone, *parts, candidates=candidates)
    assert both.validation < alone.validation - 0.5 and not len(alone.products)
    assert sorted(both.products[0]) == [0, 1]
    same_column = Candidates(np.arange(3), np.zeros(3, dtype=np.int64))
    assert fit_products(StudentHead(), alone, *parts, candidates=same_column) is alone
    noise = [HeadRows(x[k::2], RANDOM(k).normal(size=200), np.ones(200)) for k in (0, 1)]
    alone = fit_head(StudentHead(), *noise)
    assert fit_products(StudentHead(), alone, *noise, candidates=candidates) is alone


def test_inputs_of_a_predictor_with_products():
    x, y = multiplied()
    rows = HeadRows(x, y, np.ones(400))
    alone, columns = fit_head(StudentHead(), rows, rows), Candidates(np.arange(3), np.arange(3))
    head = fit_products(StudentHead(), alone, rows, rows, candidates=columns)
    inputs = head.standardized(x)
    np.testing.assert_allclose(inputs.mean(0), 0.0, atol=1e-9)
    np.testing.assert_allclose(inputs.std(0), 1.0, atol=1e-9)
    a, b = head.products[0]
    assert np.corrcoef(inputs[:, 3], (x - x.mean(0))[:, a] * (x - x.mean(0))[:, b])[0, 1] > 0.999


def test_contributions_of_products_add_up():
    x, y = multiplied(n=120)
    table = {name: x[:, k] for k, name in enumerate("abc")}
    model = MaskedTableRegressor(progress=False, fast=True).fit(table, y - y.min() + 1)
    column = model.model_.columns[model.schema_.index("y")]
    view = view_of(column.code, column.fill, model._cells(table))
    assert sum(len(fold.products.products) for fold in column.folds)
    for fold in column.folds:
        linear = fold.products
        terms = _by_column(column, fold, linear, view)
        assert terms.any(axis=(0, 2)).all()
        np.testing.assert_allclose(
            terms.sum(1) + linear.bias, linear.outputs(view.features), atol=1e-9
        )


def labelled(n=600, n_labels=60, seed=0):
    """Codes of many labels, each with a level of its own, and a number that follows it."""
    random = RANDOM(seed)
    code = random.integers(0, n_labels, n).astype(float)
    level = random.normal(size=n_labels)
    return code, level[code.astype(int)] + 0.3 * random.normal(size=n)


@pytest.mark.parametrize("n_labels", [None, 2, 7])
def test_a_row_does_not_enter_its_own_statistic(n_labels):
    code, y = labelled(n=200, n_labels=20)
    if n_labels is not None:
        y = RANDOM(1).integers(0, n_labels, 200).astype(float)
    part, weight, row = np.arange(200) % 5, np.ones(200), 17

    def statistics(response):
        outcome = outcomes(response, n_labels)
        return cross_fitted(code, outcome, weight, is_share=n_labels is not None, part=part)

    before, changed = statistics(y), y.copy()
    changed[row] = y[row] + 9 if n_labels is None else (y[row] + 1) % n_labels
    after = statistics(changed)
    np.testing.assert_array_equal(after[row], before[row])
    others = (code == code[row]) & (part != part[row])
    assert others.any() and not np.allclose(after[others], before[others])


def test_statistics_are_shrunk_means_and_0_for_others():
    code = np.array([0.0] * 90 + [1.0] * 10 + [np.nan] * 5)
    y = np.array([0.0] * 90 + [1.0] * 10 + [0.0] * 5)
    learned = learn_statistics(code, y[:, None], np.ones(105), is_share=False)
    value = learned(np.array([0.0, 1.0, 2.0, np.nan]))[:, 0]
    mean = 10 / 105
    np.testing.assert_allclose(value[:2], [-mean * 90 / 100, (1 - mean) * 10 / 20])
    assert not value[2:].any()
    odds = learn_statistics(code, y[:, None], np.ones(105), is_share=True)
    assert odds(np.ones(1))[0, 0] > 1 and np.isfinite(odds.value).all()
    nothing = learn_statistics(np.full(3, np.nan), y[:3, None], np.ones(3), is_share=True)
    assert not nothing(code).any()


def test_labels_of_many_values_are_worth_their_statistics(tmp_path):
    code, y = labelled()
    names = np.array([f"zip{k:.0f}" for k in code], dtype=object)
    table = {"zip": names, "noise": RANDOM(2).normal(size=600)}
    model = MaskedTableRegressor(progress=False, fast=True).fit(
        {name: cells[:400] for name, cells in table.items()}, y[:400] + 10
    )
    later = {name: cells[400:] for name, cells in table.items()}
    assert np.corrcoef(model.predict(later), y[400:])[0, 1] > 0.9
    column = model.model_.columns[model.schema_.index("y")]
    assert all(list(fold.statistics.columns) == [0] for fold in column.folds)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(later), model.predict(later))
    part = model.experts(later)
    view = view_of(column.code, column.fill, model._cells(later))
    fold = column.folds[0]
    terms = _by_column(column, fold, fold.linear, view).sum(1) + fold.linear.bias
    np.testing.assert_allclose(terms, fold.linear.outputs(fold.seen(view).features), atol=1e-9)
    assert np.abs(part.parts[:, 0, 0]).mean() > 3 * np.abs(part.parts[:, 0, 1]).mean()
