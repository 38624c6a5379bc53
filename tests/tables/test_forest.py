"""Forests as plain arrays: scikit-learn's numbers, and attributions that sum to them."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from exfam.checks import DataError, ExfamError, ModelFileError
from exfam.tables.base import fit_forest as forests
from exfam.tables.base.fit_forest import (
    ForestRows,
    ForestSettings,
    choose_forest,
    fit_forest,
    forest_settings,
)
from exfam.tables.base.forest import Forest, forest_of

SMALL = ForestSettings(0.2, 6, 5, 1.0, 1.0)
BY_LABEL = np.array([False, True, False, True])


def rows_of(kind, *, n=1000, seed=0):
    """Numbers, labels with gaps between their codes, a constant and many labels; some missing."""
    random = np.random.default_rng(seed)
    number, label = random.normal(size=n), random.choice([2.0, 3.0, 7.0, 40.0, 500.0], size=n)
    many = random.integers(0, 60, size=n).astype(float)
    score = number + 2.0 * np.isin(label, [3.0, 40.0]) + 1.5 * (many % 3 == 0)
    x = np.column_stack([number, label, np.ones(n), many])
    x[(random.random(x.shape) < 0.15) & (x != 1.0)] = np.nan
    noisy = score + random.normal(size=n)
    y = {"numbers": noisy, "two": noisy > 1.0, "several": np.digitize(noisy, [0.0, 1.5]) * 2}
    return x, np.asarray(y[kind], float if kind == "numbers" else np.int64)


def new_rows(*, n=200):
    """Other rows, with labels that training does not have, and all of a row missing."""
    x, _ = rows_of("numbers", n=n, seed=5)
    x[::7, 1], x[::11, 3], x[3] = 5.0, -1.0, np.nan
    x[::13, 1], x[::17, 0] = 1e6, np.inf
    return x


def boosted(kind, *, by_label=BY_LABEL):
    x, y = rows_of(kind)
    of_numbers = kind == "numbers"
    build = HistGradientBoostingRegressor if of_numbers else HistGradientBoostingClassifier
    model = build(max_iter=15, min_samples_leaf=5, categorical_features=by_label, random_state=0)
    return model.fit(x, y)


@pytest.mark.parametrize("by_label", [BY_LABEL, None], ids=["labels", "numbers-only"])
@pytest.mark.parametrize("kind", ["numbers", "two", "several"])
def test_a_forest_answers_exactly_as_the_model_that_it_is_read_from(kind, by_label):
    model, x = boosted(kind, by_label=by_label), new_rows()
    forest = forest_of(model)
    expected = model._raw_predict(x)
    assert len(np.unique(expected[:, 0])) > 20
    np.testing.assert_array_equal(forest.raw(x), expected)
    if kind != "numbers":
        np.testing.assert_array_equal(forest.classes, model.classes_)
        np.testing.assert_allclose(np.exp(forest.log_probs(x)), model.predict_proba(x), atol=1e-12)
    staged = list(model._staged_raw_predict(x))[3]
    np.testing.assert_array_equal(forest_of(model, n_rounds=4).raw(x), staged)


@pytest.mark.parametrize("kind", ["numbers", "two", "several"])
def test_attributions_sum_to_the_raw_sums(kind):
    forest, x = forest_of(boosted(kind)), new_rows()
    steps = forest.attributions(x)
    assert steps.shape == (len(x), 4, len(forest.baseline))
    np.testing.assert_allclose(forest.expected + steps.sum(1), forest.raw(x), atol=1e-12)
    assert (steps[:, 2] == 0).all(), "a constant is never split"
    assert all(steps[:, column].any() for column in (0, 1, 3))
    train, _ = rows_of(kind)
    np.testing.assert_allclose(forest.raw(train).mean(0), forest.expected, atol=1e-12)
    np.testing.assert_allclose(forest.attributions(train).mean(0).sum(0), 0.0, atol=1e-12)


def test_a_column_that_alone_decides_is_given_everything():
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    rows = ForestRows(x, np.sign(x[:, 1]))
    forest = fit_forest(
        rows, rows, kind="numbers", by_label=np.zeros(3, bool), seed=0, settings=SMALL
    )
    share = np.abs(forest.attributions(x)).sum((0, 2))
    assert share[1] > 0.99 * share.sum()


@pytest.mark.parametrize("kind", ["numbers", "several"])
def test_a_forest_is_stored_as_plain_arrays(kind):
    forest, x = forest_of(boosted(kind)), new_rows()
    arrays = forest.arrays()
    assert all(type(array) is np.ndarray and array.dtype != object for array in arrays.values())
    stored = {
        name: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) for name, a in arrays.items()
    }
    np.testing.assert_array_equal(Forest.from_arrays(stored).raw(x), forest.raw(x))
    del arrays["left"]
    with pytest.raises(ModelFileError, match="all arrays of a forest, got none named left"):
        Forest.from_arrays(arrays)


def fitted(kind, *, n=1000, seed=0, weight=None, settings=SMALL):
    x, y = rows_of(kind, n=n)
    x_val, y_val = rows_of(kind, seed=1)
    return fit_forest(
        ForestRows(x, y, weight),
        ForestRows(x_val, y_val),
        kind="numbers" if kind == "numbers" else "labels",
        by_label=BY_LABEL,
        seed=seed,
        settings=settings,
    )


@pytest.mark.parametrize("kind", ["numbers", "several"])
def test_weights_of_one_change_nothing(kind, monkeypatch):
    weight = np.ones(1000)
    forest = fitted(kind, weight=weight)
    monkeypatch.setattr(forests, "_alike", lambda rows: False)
    weighted = fitted(kind, weight=weight)
    for own, expected in zip(*(part.arrays().values() for part in (forest, weighted)), strict=True):
        np.testing.assert_array_equal(own, expected)
    monkeypatch.undo()
    other = fitted(kind, weight=np.linspace(0.5, 1.5, 1000))
    assert not np.array_equal(other.raw(new_rows()), forest.raw(new_rows()))


@pytest.mark.parametrize("kind", ["numbers", "several"])
def test_validation_chooses_the_rounds_and_a_fit_is_reproducible(kind):
    forest, again = fitted(kind), fitted(kind)
    np.testing.assert_array_equal(forest.value, again.value)
    x, y = rows_of(kind, seed=1)

    def loss(model):
        if kind == "numbers":
            return ((model.raw(x)[:, 0] - y) ** 2).mean()
        return -model.log_probs(x)[np.arange(len(y)), np.searchsorted(model.classes, y)].mean()

    outputs = len(forest.baseline)
    rounds = len(forest.starts) // outputs
    assert 1 < rounds < 500
    shorter = Forest.from_arrays(
        forest.arrays() | {"starts": forest.starts[:-outputs], "output": forest.output[:-outputs]}
    )
    empty = {"starts": forest.starts[:0], "output": forest.output[:0]}
    assert loss(forest) < loss(shorter) < loss(Forest.from_arrays(forest.arrays() | empty))


def test_rows_of_weight_zero_do_not_count():
    x, _ = rows_of("numbers")
    weight = np.ones(1000)
    weight[500:] = 0.0
    np.testing.assert_allclose(
        fitted("numbers", weight=weight).baseline, rows_of("numbers")[1][:500].mean()
    )
    assert (fitted("numbers").baseline != fitted("numbers", weight=weight).baseline).all()


def test_labels_and_columns_that_cannot_be_learned_change_nothing():
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 3))
    # Without a single number; more labels than sets are made of.
    x[:, 1], x[:, 2] = np.nan, np.arange(120)
    y = (x[:, 0] > 0).astype(np.int64)
    x_val = np.where(np.isnan(x), 3.0, x)
    validation = ForestRows(x_val, np.where(np.arange(120) < 5, 9, y))
    by_label = np.array([False, True, False])
    forest = fit_forest(
        ForestRows(x, y), validation, kind="labels", by_label=by_label, seed=0, settings=SMALL
    )
    assert forest.classes.tolist() == [0, 1]
    np.testing.assert_array_equal(forest.raw(x), forest.raw(x_val))


@pytest.mark.parametrize(("kind", "outputs"), [("numbers", 1), ("two", 1), ("several", 3)])
def test_without_validation_a_forest_is_its_baseline(kind, outputs):
    x, y = rows_of(kind)
    name = "numbers" if kind == "numbers" else "labels"
    none = ForestRows(x[:0], y[:0])
    forest = fit_forest(ForestRows(x, y), none, kind=name, by_label=BY_LABEL, seed=0)
    assert forest.raw(x).shape == (1000, outputs)
    np.testing.assert_array_equal(forest.raw(x), np.tile(forest.expected, (1000, 1)))
    assert not forest.attributions(x).any()
    if kind == "numbers":
        np.testing.assert_allclose(forest.baseline, y.mean())
    else:
        shares = np.unique(y, return_counts=True)[1] / 1000
        np.testing.assert_allclose(np.exp(forest.log_probs(x[:1]))[0], shares)


def test_one_label_alone_is_certain():
    x, _ = rows_of("two")
    rows = ForestRows(x, np.full(1000, 4))
    forest = fit_forest(rows, rows, kind="labels", by_label=BY_LABEL, seed=0)
    assert forest.classes.tolist() == [4] and (forest.log_probs(x) == 0).all()


def test_more_labels_than_sets_hold_are_split_as_numbers():
    random = np.random.default_rng(0)
    x = random.permutation(600)[:, None].astype(float)
    rows = ForestRows(x, (x[:, 0] > 300).astype(float))
    forest = fit_forest(
        rows, rows, kind="numbers", by_label=np.array([True]), seed=0, settings=SMALL
    )
    assert not forest.by_label.any()
    # Training numbers lie in 255 bins, so that a threshold may be off by two of 600.
    assert ((forest.raw(x)[:, 0] > 0.5) == (x[:, 0] > 300)).sum() >= 598


def test_settings_depend_on_the_number_of_rows():
    small, middle, large = (forest_settings("labels", n) for n in (500, 5_000, 50_000))
    assert small.max_leaf_nodes < middle.max_leaf_nodes < large.max_leaf_nodes
    assert small.learning_rate == middle.learning_rate < large.learning_rate
    assert forest_settings("numbers", 5_000).l2_regularization < middle.l2_regularization


@pytest.mark.parametrize("jagged", [True, False])
def test_trees_are_as_large_as_held_out_rows_prefer(jagged):
    random = np.random.default_rng(0)
    x = random.uniform(size=(1000, 2))
    y = np.sin(40 * x[:, 0] * x[:, 1]) if jagged else x.sum(1) + random.normal(size=len(x))
    rows = ForestRows(x[:600], y[:600]), ForestRows(x[600:], y[600:])
    given = {"kind": "numbers", "by_label": np.zeros(2, bool), "seed": 0}
    usual, own = forest_settings("numbers", 600), choose_forest(*rows, **given)
    assert (own.max_leaf_nodes > usual.max_leaf_nodes) == jagged
    forests = [fit_forest(*rows, **given, settings=settings) for settings in (usual, own)]
    errors = [np.mean((forest.raw(rows[1].x)[:, 0] - rows[1].y) ** 2) for forest in forests]
    assert errors[1] < (0.8 if jagged else 1.01) * errors[0]
    few = rows[1].where(np.arange(400) < 40)
    assert choose_forest(rows[0], few, **given) == usual


def test_steps_are_larger_where_the_most_rounds_would_end_too_early():
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 6))
    codes = (x > 0) @ 2.0 ** np.arange(6)
    rows = ForestRows(x[:400], codes[:400]), ForestRows(x[400:], codes[400:])
    given = {"by_label": np.zeros(6, bool), "seed": 0}
    usual = forest_settings("labels", 400)
    assert choose_forest(*rows, kind="labels", **given).learning_rate > usual.learning_rate


def test_what_a_forest_cannot_use_is_refused():
    forest, (x, y) = forest_of(boosted("numbers")), rows_of("numbers")
    with pytest.raises(DataError, match="`log_probs` must be of a forest of labels"):
        forest.log_probs(x)
    with pytest.raises(DataError, match="`x` must have the 4 columns of training, got 3"):
        forest.raw(x[:, :3])
    rows, none = ForestRows(x, y), ForestRows(x[:0], y[:0])
    with pytest.raises(DataError, match="`train` must have at least one row, got none"):
        fit_forest(none, rows, kind="numbers", by_label=BY_LABEL, seed=0)
    with pytest.raises(ExfamError, match="`kind` must be one of 'labels', 'numbers'"):
        fit_forest(rows, rows, kind="label", by_label=BY_LABEL, seed=0)
