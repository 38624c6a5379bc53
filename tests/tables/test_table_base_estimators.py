"""Estimators of tables with their default model: any cell given any others."""

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from scipy.stats import norm

from exfam import MaskedTable, MaskedTableClassifier, MaskedTableRegressor, load
from exfam.checks import CheckpointError, DataError, ExfamError, ExfamWarning
from exfam.estimator.registry import class_of
from exfam.families import StudentT
from exfam.tables.estimator import fit_base
from table_laws import check_that_knowing_more_helps
from tables.table_estimator_cases import (
    CLASSIFIER,
    COLUMN_KINDS,
    EVERY,
    FRAME,
    JOINT,
    REGRESSOR,
    RESPONSES,
    WITH_RESPONSE,
    table_frame,
    whole,
)

pytestmark = pytest.mark.usefixtures("few_trees")
_FITTED = {}
NEW, HIDDEN_NEW = table_frame(n=120, missing=0.2, seed=9)


def fitted(kind):
    """A model of the frame with its default model, fitted once for all tests."""
    if kind not in _FITTED:
        model = class_of(kind)(kinds=COLUMN_KINDS, progress=False)
        _FITTED[kind] = model.fit(FRAME, RESPONSES[kind])
    return _FITTED[kind]


def etas(model, cells, name):
    k = model.schema_.index(name)
    return model.model_.eta(cells, [k])[0][0]


@EVERY
def test_a_cell_does_not_see_itself_and_sees_others(kind):
    model = fitted(kind)
    cells = model._cells(whole(kind))
    for name in model.schema_.targets:
        k = model.schema_.index(name)
        hidden = etas(model, cells.hide([k]), name)
        np.testing.assert_allclose(etas(model, cells, name), hidden, atol=1e-12)
        others = [j for j in range(len(model.schema_)) if j != k]
        assert not np.allclose(etas(model, cells.hide(others), name), hidden, atol=1e-3)


@EVERY
def test_rows_do_not_depend_on_other_rows(kind):
    model = fitted(kind)
    cells = model._cells(NEW)
    name = model.response_ or "city"
    one_by_one = torch.cat([etas(model, cells[k : k + 1], name) for k in range(5)])
    np.testing.assert_allclose(etas(model, cells, name)[:5], one_by_one, atol=1e-9)


@EVERY
def test_a_saved_model_is_the_same(kind, tmp_path):
    model = fitted(kind)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == model.get_params() and again.families_ == model.families_
    cells = model._cells(NEW)
    for name in model.schema_.targets:
        assert torch.equal(etas(model, cells, name), etas(again, cells, name))


@EVERY
def test_contributions_add_up(kind):
    model = fitted(kind)
    names = model.schema_.targets
    explained = model.experts(NEW, names)
    cells = model._cells(NEW)
    for t, name in enumerate(names):
        column, eta = model.schema_.column(name), etas(model, cells, name).numpy()
        outputs = explained.outputs[:, t]
        if column.labels is not None:
            centered = eta - eta.mean(1, keepdims=True)
            np.testing.assert_allclose(outputs[:, : eta.shape[1]], centered, atol=1e-8)
        elif column.kind == "count":
            np.testing.assert_allclose(outputs[:, 0], eta[:, 0], atol=1e-8)
    own = [explained.parts[:, t, model.schema_.index(name)] for t, name in enumerate(names)]
    assert not np.any(own[0])
    summary = model.explain(NEW).to_dict()
    assert len(summary["size"]) == len(summary["column"]) and (summary["size"] >= 0).all()


@WITH_RESPONSE
def test_a_fit_says_what_it_added_to_linear_predictors(kind, tmp_path):
    model = fitted(kind)
    assert str(model.gain_).startswith("Network and trees added ") and str(model.gain_) in repr(
        model
    )
    assert 0 < model.gain_.gate < 2 and model.gain_.n_groups == len(FRAME)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").gain_ == model.gain_
    assert fitted(JOINT).gain_ is None


@pytest.mark.parametrize("response", ["labels", "numbers"])
def test_trees_add_corners_and_nothing_to_a_line(response):
    random = np.random.default_rng(5)
    x = random.normal(size=(500, 2))
    noise = random.normal(size=500)
    for signal, least, most in (
        (3 * np.sign(x[:, 0] * x[:, 1]), 0.1, 2.0),
        (3 * x[:, 0], -0.02, 0.02),
    ):
        y = signal + noise
        y = np.where(y > 0, "yes", "no") if response == "labels" else 100 * y
        estimator = MaskedTableClassifier if response == "labels" else MaskedTableRegressor
        model = estimator(fast=True, progress=False).fit(x, y)
        gain = model.gain_
        assert gain.part == "Trees" and least < gain.nats < most
        assert gain.low < gain.nats < gain.high
        # What the base has and what was added are in nats of the response as it was given.
        own = -float(np.mean(model.log_scores(x, y)))
        assert abs(gain.base_nats - gain.nats - own) < 0.35


@WITH_RESPONSE
def test_more_cells_are_better_than_none(kind):
    model = fitted(kind)
    new = HIDDEN_NEW
    y = 10 + 2 * new
    if kind != REGRESSOR:
        y = np.where(new > 0.5, "high", np.where(new > -0.5, "mid", "low"))
    known = model.log_scores(NEW, y)
    nothing = model.log_scores(NEW.mask(np.ones(NEW.shape, dtype=bool)), y)
    gain = known - nothing
    assert gain.mean() > 3 * gain.std() / len(gain) ** 0.5


def test_a_row_of_which_nothing_is_known_is_scored_as_by_the_column_alone():
    random = np.random.default_rng(3)
    x = random.normal(size=500)
    y = 3 * x + random.normal(size=500)
    model = MaskedTableRegressor(fast=True, progress=False).fit({"x": x[:300]}, y[:300])
    nats = model.log_score({"x": np.full(200, np.nan)}, y[300:])
    assert nats > norm(y[:300].mean(), y[:300].std()).logpdf(y[300:]).mean() - 0.1


@EVERY
def test_answers_of_all_sorts(kind):
    model = fitted(kind)
    filled = model.impute(NEW).frame
    assert not filled.isna().to_numpy().any()
    assert np.isfinite(model.log_prob(NEW.iloc[:10])).all()
    draws = model.sample(3, given={"city": "Oslo"}, seed=1)
    assert set(draws["city"]) == {"Oslo"} and len(draws["height"]) == 3
    assert len(model.shift_report(FRAME, NEW).as_dict())


@EVERY
def test_knowing_more_helps(kind):
    check_that_knowing_more_helps(fitted(kind).model_, fitted(kind)._cells(NEW))


@EVERY
def test_what_training_did_not_have_is_missing(kind):
    model, names = fitted(kind), ["height", "member"]
    with pytest.warns(ExfamWarning, match="`X` lacks 3 of the 5 columns of training: 'city', "):
        lacking = model.log_prob(NEW[names])
    gone = NEW.assign(city=None, grade=None, visits=None)
    np.testing.assert_allclose(lacking, model.log_prob(gone))
    with pytest.warns(ExfamWarning, match="labels that training did not have"):
        assert np.isfinite(model.log_prob(NEW.assign(city="Lima")[:3])).all()
    strict = copy.copy(model).set_params(missing_columns="error")
    with pytest.raises(DataError, match="The feature names should match"):
        strict.log_prob(NEW[names])


@WITH_RESPONSE
def test_rows_without_a_response_and_several_tables(kind):
    """Rows without a response say what columns are like, and columns are matched by name."""
    y = RESPONSES[kind].astype(object)
    some = y.where(np.arange(len(y)) < 50, None)
    model = class_of(kind)(kinds=COLUMN_KINDS, progress=False, fast=True)
    parts = [FRAME[["height", "city", "grade"]], FRAME[["grade", "member", "visits"]]]
    model.fit(parts, [some, None])
    assert len(model.tables_) == 2 and model.features_ == tuple(FRAME)
    assert np.isfinite(model.log_score(NEW[["height", "city", "grade"]][:20], y[:20]))
    assert not model.impute(NEW).frame.isna().to_numpy().any()


def test_a_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    """Columns that were finished are not fitted again, and the result is the same."""
    from exfam.tables.estimator import fit_base

    columns = FRAME[["height", "city", "grade"]]
    settings = {"progress": False, "fast": True}
    whole_fit = MaskedTable(**settings).fit(columns)
    fit_one, done = fit_base.fit_response, []

    def interrupted(*given, **options):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(fit_one(*given, **options))
        return done[-1]

    monkeypatch.setattr(fit_base, "fit_response", interrupted)
    with pytest.raises(KeyboardInterrupt):
        MaskedTable(**settings).fit(columns, checkpoint=tmp_path / "c")
    done.pop()  # room for one more fit, and no more
    again = MaskedTable(**settings).fit(columns, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(
        again.log_prob(NEW[columns.columns]), whole_fit.log_prob(NEW[columns.columns])
    )
    with pytest.raises(CheckpointError, match="must belong to this fit"):
        MaskedTable(**settings, seed=1).fit(columns, checkpoint=tmp_path / "c")


def test_few_columns_of_a_joint_model_choose_the_size_of_their_trees(monkeypatch):
    from exfam.tables.base import fit_response
    from exfam.tables.estimator import fit_base

    choose, chosen = fit_response.choose_forest, []

    def counted(*given, **options):
        chosen.append(choose(*given, **options))
        return chosen[-1]

    monkeypatch.setattr(fit_response, "choose_forest", counted)
    monkeypatch.setattr(fit_base, "_SIZED_OF_JOINT", 1)
    model = MaskedTable(progress=False, fast=True).fit(FRAME[["height", "city", "grade"]])
    assert len(chosen) == 1
    assert all(column.folds[0].trees is not None for column in model.base_.columns.values())


def test_fits_leave_the_global_generators_alone(kind=CLASSIFIER):
    torch.manual_seed(3)
    before, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()
    few = FRAME[:52], RESPONSES[kind][:52]
    model = class_of(kind)(kinds=COLUMN_KINDS, progress=False, seed=5).fit(*few)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], legacy)
    other = class_of(kind)(kinds=COLUMN_KINDS, progress=False, seed=5).fit(*few)
    np.testing.assert_array_equal(model.log_prob(few[0]), other.log_prob(few[0]))


def test_numbers_have_the_unit_of_their_response():
    y = RESPONSES[REGRESSOR] - 50.0  # below 0, so that no logarithm is better
    models = [
        MaskedTableRegressor(progress=False, fast=True).fit(FRAME, scale * y + shift)
        for scale, shift in ((1.0, 0.0), (1e-6, -3.0))
    ]
    one, other = (model.predict(NEW) for model in models)
    # Splits that are nearly as good as another may differ, by the last digits of a response.
    near = 0.03 * np.std(y)
    np.testing.assert_allclose(one, (other + 3.0) / 1e-6, rtol=0, atol=near)
    first, second = (
        model.log_scores(FRAME, s * y + t)
        for model, (s, t) in zip(models, ((1.0, 0.0), (1e-6, -3.0)), strict=True)
    )
    np.testing.assert_allclose(first - np.log(1e-6), second, atol=0.1)


def test_a_model_without_epochs_has_no_history():
    model = fitted(CLASSIFIER)
    attention = MaskedTableClassifier(base="none", max_epochs=1, progress=False)
    assert not hasattr(model, "history_")
    assert hasattr(attention.fit(FRAME, RESPONSES[CLASSIFIER]), "history_")
    with pytest.raises(AttributeError, match="was fitted without epochs, so no history_"):
        _ = model.history_


def test_settings_of_the_attention_network_are_refused():
    with pytest.raises(ExfamError, match="`max_epochs` must be left as it is with base='auto'"):
        MaskedTableClassifier(max_epochs=3).fit(FRAME, RESPONSES[CLASSIFIER])


@pytest.mark.parametrize("family", ["gaussian", StudentT(df=7.0), "gamma", "binned"])
def test_a_family_that_was_chosen_is_that_of_the_attention_network(family):
    y = RESPONSES[REGRESSOR] ** 2
    model = MaskedTableRegressor(family=family, max_epochs=1, extra_masking=0.0, progress=False)
    assert model.fit(FRAME[["height"]], y).base_ is None and len(model.members_) == 1


@pytest.mark.parametrize("method", ["column_similarities", "position_attention"])
def test_what_needs_attention_says_so(method):
    model = fitted(JOINT)
    with pytest.raises(ExfamError, match="`base` must be 'none' for"):
        getattr(model, method)(*([] if method == "column_similarities" else [NEW]))


def test_numbers_far_outside_of_training_are_less_certain():
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, size=(300, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * random.normal(size=300)
    model = MaskedTableRegressor(progress=False, fast=True).fit(x, y)
    low, high = model.predict_dist(np.array([[0.9, 0.0], [4.0, 0.0]])).interval(0.9)
    assert (high - low)[1] > 1.3 * (high - low)[0]


def test_sums_of_columns_with_heavy_tails_are_learned():
    random = np.random.default_rng(2)
    x = random.standard_t(2.5, size=(160, 3))
    y = x @ [1.0, 1.0, -2.0] + 0.01 * random.normal(size=160)
    model = MaskedTableRegressor(progress=False, fast=True).fit(x[:120], y[:120])
    assert model.log_score(x[120:], y[120:]) > 2.0
    predicted = model.predict(x[120:])
    np.testing.assert_allclose(predicted, y[120:], atol=0.3)
    explained = model.experts(x[120:], [model.response_])
    np.testing.assert_allclose(explained.outputs[:, 0, 0], predicted)
    assert np.abs(explained.linear).sum() > 20 * np.abs(explained.rest).sum()


def test_classes_by_sums_of_columns_with_heavy_tails_are_learned():
    random = np.random.default_rng(2)
    x = random.standard_t(2.5, size=(1160, 3))
    y = x @ [1.0, 1.0, -2.0] + 0.3 * random.normal(size=1160) > 0
    model = MaskedTableClassifier(progress=False, fast=True).fit(x[:160], y[:160])
    assert model.log_score(x[160:], y[160:]) > -0.12


def test_of_very_many_columns_the_response_alone_has_a_model(monkeypatch):
    monkeypatch.setattr(fit_base, "_MOST_WITH_OTHERS", 2)
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = MaskedTableRegressor(progress=False, fast=True).fit(x, x.sum(1))
    assert np.isfinite(model.log_score(x, x.sum(1)))
    assert model.experts(x, [model.response_]).linear.any()
    with pytest.raises(ExfamError, match="must have a model, got 'x0', which has none"):
        model.conditional(["x0"])


def test_rows_in_order_are_held_out_in_stretches():
    """With a drift that no column shows, a model that expects one is less sure, and better."""
    random = np.random.default_rng(0)
    level = np.cumsum(random.normal(size=400)) * 0.5
    x = random.normal(size=400)
    y = x + level + 0.1 * random.normal(size=400)
    table = {"x": x}
    early, late = (
        {name: v[rows] for name, v in table.items()} for rows in (slice(0, 300), slice(300, 400))
    )
    scores = [
        MaskedTableRegressor(progress=False, fast=True, in_order=in_order)
        .fit(early, y[:300])
        .log_score(late, y[300:])
        for in_order in (False, True)
    ]
    assert scores[1] > scores[0] + 0.5


def test_a_response_that_is_declared_a_count_has_probabilities_of_whole_numbers():
    random = np.random.default_rng(0)
    x = random.normal(size=60)
    y = pd.Series(random.poisson(np.exp(x)), name="visits")
    model = MaskedTableRegressor(kinds={"visits": "count"}, fast=True, progress=False)
    model.fit({"x": x}, y)
    values = np.arange(400)
    nats = model.log_scores({"x": np.zeros(400)}, pd.Series(values, name="visits"))
    assert np.exp(nats).sum() == pytest.approx(1.0, abs=0.01)
    with pytest.raises(DataError, match="whole numbers from 0"):
        model.log_scores({"x": [0.0]}, pd.Series([0.5], name="visits"))


def test_whole_numbers_are_found_to_be_counts_unless_declared_otherwise():
    """With four zeros in five, the best of both is what a regression of counts says."""
    random = np.random.default_rng(0)
    x, grid = random.normal(size=400), np.arange(2000.0)
    mean = np.exp(x - 2)
    y = random.negative_binomial(0.5, 0.5 / (0.5 + mean))
    table, other = {"x": x[:300]}, {"x": x[300:]}
    model = MaskedTableRegressor(fast=True, progress=False).fit(table, y[:300])
    nats = model.log_scores({"x": np.zeros(2000)}, grid)
    assert np.exp(nats).sum() == pytest.approx(1.0, abs=0.01)
    truth = scipy.stats.nbinom(0.5, 0.5 / (0.5 + mean[300:])).logpmf(y[300:])
    assert model.log_score(other, y[300:]) > truth.mean() - 0.06
    assert (model.predict_dist(other).sample(4) % 1 == 0).all()
    for wrong in (2.5, -1.0):
        with pytest.raises(DataError, match="whole numbers from 0.*'numeric'"):
            model.log_scores({"x": [0.0, 1.0]}, [np.nan, wrong])
    model = MaskedTableRegressor(fast=True, progress=False, kinds={"y": "numeric"})
    model.fit(table, y[:300])
    assert np.isfinite(model.log_scores({"x": [0.0]}, [2.5])).all()
