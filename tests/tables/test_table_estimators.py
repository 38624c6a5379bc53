"""The contract of all estimators of tables."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import exfam
from exfam import Gaussian, MaskedTable, MaskedTableClassifier, MaskedTableRegressor
from tables.table_estimator_cases import (
    CLASSIFIER,
    EVERY,
    FRAME,
    HIDDEN,
    JOINT,
    NUMBER,
    REGRESSOR,
    RESPONSES,
    SMALL,
    WITH_RESPONSE,
    fit,
    fitted,
    make,
    table_frame,
    whole,
)

NEW, _ = table_frame(n=12, missing=0.2, seed=1)


def predictions(model, X):
    """What a fitted model says of rows, as one array."""
    if model.kind == CLASSIFIER:
        return model.predict_proba(X)
    return model.predict(X) if model.kind == REGRESSOR else model.pseudo_log_likelihood(X)


@EVERY
def test_neither_the_form_of_a_table_nor_other_rows_change_a_prediction(kind):
    model, order = fitted(kind), np.arange(len(NEW))[::-1]
    result = predictions(model, NEW)
    mapping = {name: NEW[name] for name in NEW}
    for given in (pl.from_pandas(NEW), pa.table(NEW), mapping):
        np.testing.assert_array_equal(predictions(model, given), result)
    np.testing.assert_allclose(result[order], predictions(model, NEW.iloc[order]), rtol=1e-5)
    assert len(np.unique(result.round(6))) > 2


@EVERY
def test_a_saved_model_predicts_the_same_bits(kind, tmp_path):
    model = fitted(kind, ensemble=2)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(predictions(loaded, NEW), predictions(model, NEW))
    for name in ("recipe_", "tables_", "history_", "features_", "response_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert loaded.get_params() == model.get_params() and loaded.n_features_in_ == 5
    assert loaded.feature_names_in_.tolist() == list(FRAME)


@EVERY
def test_columns_are_a_joint_distribution_of_rows(kind):
    """Chain rule by hand: p(first) p(second | first) is the joint probability in that order."""
    model, rows = fitted(kind), whole(kind).dropna().head(6)
    first = model.conditional(["grade"]).log_prob(rows[["grade"]])
    second = model.conditional(["city"], given=rows[["grade"]]).log_prob(rows[["city"]])
    result = model.log_prob(rows, order=["grade", "city"])
    np.testing.assert_allclose(result, first + second, rtol=1e-5)
    assert np.ptp(first + second) > 0.1
    sums = model.pseudo_log_likelihood(rows)
    assert sums.shape == (6,) and not np.allclose(sums, model.log_prob(rows))


@EVERY
def test_a_conditional_is_a_distribution_of_labels_and_numbers(kind):
    model = fitted(kind)
    distribution = model.conditional(["city", "height"], given={"grade": 4, "member": True})
    labels, probs = distribution.labels("city"), distribution.probs("city")
    assert labels.tolist() == ["Bonn", "Oslo", "Rome"]
    np.testing.assert_allclose(probs.sum(1), 1.0)
    assert distribution.predict_dist("height").sd[0] > 0
    draws = distribution.sample(400, seed=0)
    assert set(draws) == {"city", "height"} and set(draws["city"]) <= set(labels)
    np.testing.assert_allclose((draws["city"] == labels[:, None]).mean(1), probs[0], atol=0.1)
    drawn = model.sample(5, given={"city": "Oslo", "visits": 2}, seed=3)
    assert drawn["city"].tolist() == ["Oslo"] * 5 and drawn["visits"].tolist() == [2.0] * 5
    assert len(np.unique(drawn["height"])) == 5


@EVERY
def test_missing_cells_are_filled_and_others_kept(kind):
    filled = fitted(kind).impute(NEW, level=0.8)
    assert type(filled.frame) is pd.DataFrame and not filled.frame.isna().any().any()
    for name in NEW:
        there = NEW[name].notna().to_numpy()
        assert (filled.frame[name][there] == NEW[name][there]).all()
        np.testing.assert_array_equal(filled.filled[name], ~there)
    gaps = NEW["height"].isna().to_numpy()
    middle = filled.frame["height"].to_numpy()[gaps]
    assert gaps.any() and (filled.low["height"][gaps] < middle).all()
    assert (middle < filled.high["height"][gaps]).all()


@EVERY
def test_the_expert_view_is_what_the_network_computes(kind):
    model, rows = fitted(kind), whole(kind).head(5)
    experts = model.experts(rows, ["city"])
    np.testing.assert_allclose(experts.weights.sum(-1), 1.0, rtol=1e-6)
    softmax = torch.from_numpy(experts.outputs[:, 0, :3]).softmax(-1).numpy()
    distribution = model.conditional(["city"], given=rows)
    np.testing.assert_allclose(softmax, distribution.probs("city"), rtol=1e-4)
    summary = model.explain(rows, ["city"])
    np.testing.assert_allclose(summary.weight[0], experts.weights[:, 0].mean(0), rtol=1e-6)
    curves = model.faithfulness(whole(kind), target="grade" if kind == JOINT else None)
    assert set(curves) == {"experts", "permutation", "random"}


@EVERY
def test_a_shift_is_found_where_it_is(kind):
    model, rows = fitted(kind), whole(kind)
    report = model.shift_report(rows, rows.assign(height=rows["height"] + 40))
    assert "height" in report.shifted and "city" not in report.shifted
    assert not model.shift_report(rows, rows).shifted
    deep = fit(kind, network="deep", kinds={"visits": "count"})
    assert deep.shift_report(rows, rows).weights is None
    assert (report.target is None) == (report.weights is None) == (kind == JOINT)


@EVERY
def test_rows_of_weight_zero_and_those_held_out_are_not_learned_from(kind):
    y = RESPONSES[kind]
    first = make(kind, max_epochs=1).fit(FRAME, y, np.r_[np.ones(60), np.zeros(20)])
    second = make(kind, max_epochs=1).fit(FRAME[:60], None if y is None else y[:60], np.ones(60))
    unweighted = make(kind, max_epochs=1).fit(FRAME, y)
    np.testing.assert_array_equal(predictions(first, NEW), predictions(second, NEW))
    assert not np.allclose(predictions(first, NEW), predictions(unweighted, NEW))
    assert fitted(kind).history_.best is None
    model = make(kind, validation_fraction=0.25).fit(FRAME, y)
    assert model.history_.best.validation_nats is not None


@WITH_RESPONSE
def test_scores_are_those_of_the_distribution(kind):
    model, y = fitted(kind), RESPONSES[kind]
    nats, weight = model.log_scores(FRAME, y), np.arange(len(y)) % 3
    assert model.log_score(FRAME, y) == pytest.approx(nats.mean())
    assert model.log_score(FRAME, y, weight) == pytest.approx(np.average(nats, weights=weight))
    values = y if kind == REGRESSOR else np.searchsorted(model.classes_, y)
    result = model.predict_dist(FRAME).log_prob(np.asarray(values, dtype=float))
    np.testing.assert_allclose(result, nats, rtol=1e-9)
    # The response does not see itself.
    model = make(kind, missing_columns="absent", max_epochs=1).fit(FRAME, RESPONSES[kind])
    np.testing.assert_array_equal(predictions(model, whole(kind)), predictions(model, FRAME))


@WITH_RESPONSE
@pytest.mark.parametrize("unlabeled", ["absent", "mask"])
def test_some_rows_may_have_no_response(kind, unlabeled):
    y = RESPONSES[kind].astype(object).where(np.arange(len(FRAME)) % 2 == 0, None)
    y = y.astype(float) if kind == REGRESSOR else y
    model = make(kind, unlabeled=unlabeled).fit(FRAME, y)
    nats = model.log_scores(FRAME, y)
    assert model.log_score(FRAME, y) == pytest.approx(np.nanmean(nats))
    assert np.isnan(nats).sum() == len(FRAME) // 2


@EVERY
def test_several_tables_with_some_columns_in_common(kind):
    y = RESPONSES[kind]
    tables = [FRAME[["height", "city"]], FRAME[["city", "grade"]], FRAME[["grade", "visits"]]]
    kinds = {"grade": "ordinal", "visits": "count"}
    model = make(kind, kinds=kinds).fit(tables, None if kind == JOINT else [y, None, y])
    assert model.features_ == ("height", "city", "grade", "visits")
    together = FRAME[["height", "visits"]]  # in no table together
    assert predictions(model, together).shape[0] == len(FRAME)
    near = model.column_similarities().nearest("height", k=2, among=model.tables_[2])
    assert {name for name, _ in near} == {"grade", "visits"}
    distribution = model.conditional(["grade"], given={"height": 180.0})
    np.testing.assert_allclose(distribution.probs("grade").sum(), 1.0)


def test_a_response_is_one_more_column():
    model = fitted(CLASSIFIER)
    assert model.response_ == "tier" and model.classes_.tolist() == ["high", "low", "mid"]
    assert fit(REGRESSOR, y=NUMBER.to_numpy()).response_ == "y"
    named = FRAME.rename(columns={"height": "y"})
    assert fit(REGRESSOR, named, NUMBER.to_list()).response_ == "target"


@pytest.mark.parametrize(
    "labels", [["b", "a", "c"], [3, 1, 2], [2.0, 4.0, 7.0], [True, False, True]], ids=str
)
def test_labels_of_any_type_come_back(labels, tmp_path):
    y = np.array(labels)[np.arange(len(FRAME)) % 3]
    model = fit(CLASSIFIER, y=y)
    assert model.classes_.tolist() == sorted(set(labels))
    model.save(tmp_path / "model")
    predicted = exfam.load(tmp_path / "model").predict(FRAME)
    assert predicted.dtype.kind == ("O" if isinstance(labels[0], str) else y.dtype.kind)
    np.testing.assert_array_equal(predicted, model.predict(FRAME))


def test_decisions_are_those_of_the_distribution():
    y = np.searchsorted([-0.5, 0.5], HIDDEN) * 2 + 1  # 1, 3, 5
    model = make(CLASSIFIER, max_epochs=20).fit(FRAME, y)
    probs = model.predict_proba(FRAME)
    np.testing.assert_array_equal(model.predict(FRAME), model.classes_[probs.argmax(1)])
    mean, median = (model.set_params(decision=rule).predict(FRAME) for rule in ("mean", "median"))
    nearest = np.abs(probs @ model.classes_ - model.classes_[:, None]).argmin(0)
    np.testing.assert_array_equal(mean, model.classes_[nearest])
    np.testing.assert_array_equal(median, model.classes_[(probs.cumsum(1) >= 0.5).argmax(1)])
    assert len(np.unique(mean)) > 1
    np.testing.assert_allclose(model.predict_log_proba(FRAME), np.log(probs))


@pytest.mark.parametrize(
    "family", ["gaussian", "student-t", "negative-binomial", "binned", Gaussian(scale=2.0)], ids=str
)
def test_a_regressor_of_any_family(family, tmp_path):
    y = NUMBER.round().clip(0) if family == "negative-binomial" else NUMBER
    model = make(REGRESSOR, family=family, n_bins=5).fit(FRAME, y)
    distribution = model.predict_dist(NEW)
    np.testing.assert_allclose(model.predict(NEW), distribution.mean)
    median = model.set_params(decision="median").predict(NEW)
    np.testing.assert_allclose(median, distribution.quantile(0.5), rtol=1e-6)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(exfam.load(tmp_path / "model").predict(NEW), median)


def test_fits_find_what_is_there():
    """Seeded: better than the marginal distribution on rows that were not fitted."""
    frame, hidden = table_frame(n=300, seed=2)
    new, hidden_new = table_frame(n=200, seed=3)
    quick = {"base": "none", "kinds": {"visits": "count"}, "ordinal": True, "extra_masking": 0.0}
    quick |= {"max_epochs": 15, "progress": False}
    classifier = MaskedTableClassifier(**quick).fit(frame, hidden > 0)
    assert classifier.score(new, hidden_new > 0) > 0.75
    assert classifier.log_score(new, hidden_new > 0) > -0.55
    assert MaskedTableRegressor(**quick).fit(frame, hidden).score(new, hidden_new) > 0.6
    joint = MaskedTable(**quick).fit(frame)
    alone = MaskedTable(**{**quick, "max_epochs": 1, "learning_rate": 1e-9}).fit(frame)
    assert joint.score(new) > alone.score(new) + 0.1


def test_a_joint_model_scores_cells():
    model = fitted(JOINT)
    cells = NEW.notna().to_numpy().sum()
    assert model.score(NEW) == pytest.approx(model.pseudo_log_likelihood(NEW).sum() / cells)
    weight = np.r_[2.0, np.zeros(len(NEW) - 1)]
    assert model.score(NEW, sample_weight=weight) == pytest.approx(model.score(NEW[:1]))


def test_a_joint_model_fills_in_a_pipeline():
    numbers = FRAME[["height", "grade"]].astype(float)
    filler = MaskedTable(**{**SMALL, "max_epochs": 1})
    piped = make_pipeline(filler, LinearRegression()).fit(numbers, NUMBER)
    assert piped.predict(numbers).shape == (len(numbers),)
    assert piped[:-1].get_feature_names_out().tolist() == ["height", "grade"]
    polars = filler.set_output(transform="polars").fit_transform(numbers)
    assert isinstance(polars, pl.DataFrame) and polars.null_count().sum_horizontal().item() == 0
    array = MaskedTable(**{**SMALL, "max_epochs": 1}).fit(numbers.to_numpy())
    rows = array.transform([[170.0, np.nan]])
    assert rows.dtype == np.float64 and rows[0, 0] == 170.0 and np.isfinite(rows[0, 1])
