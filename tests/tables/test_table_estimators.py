"""The contract of all estimators of tables."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import exfam
from exfam import ExfamWarning, Gaussian, MaskedTable, MaskedTableClassifier, MaskedTableRegressor
from tables.table_estimator_cases import (
    CLASS,
    CLASSIFIER,
    FRAME,
    HIDDEN,
    JOINT,
    KINDS,
    NUMBER,
    REGRESSOR,
    RESPONSES,
    SMALL,
    SUPERVISED,
    fitted,
    make,
    table_frame,
    whole,
)

NEW, _ = table_frame(n=12, missing=0.2, seed=1)
FORMS = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_pandas(frame),
    "arrow": lambda frame: pa.table(frame),
    "mapping": lambda frame: {name: frame[name] for name in frame},
}


def predictions(model, X):
    """What a fitted model says of rows, as one array."""
    if model.kind == CLASSIFIER:
        return model.predict_proba(X)
    return model.predict(X) if model.kind == REGRESSOR else model.pseudo_log_likelihood(X)


@pytest.mark.parametrize("kind", KINDS)
class TestAll:
    @pytest.mark.parametrize("form", FORMS)
    def test_the_form_of_a_table_changes_nothing(self, kind, form):
        model = fitted(kind)
        given = FORMS[form](NEW)
        np.testing.assert_array_equal(predictions(model, given), predictions(model, NEW))

    def test_columns_are_a_joint_distribution_of_rows(self, kind):
        """Chain rule by hand: p(first) p(second | first) is the joint probability in that order."""
        model, rows = fitted(kind), whole(kind).dropna().head(6)
        names = ["grade", "city"]
        first = model.conditional(["grade"]).log_prob(rows[["grade"]])
        second = model.conditional(["city"], given=rows[["grade"]]).log_prob(rows[["city"]])
        np.testing.assert_allclose(model.log_prob(rows, order=names), first + second, rtol=1e-5)
        assert np.ptp(first + second) > 0.1
        sums = model.pseudo_log_likelihood(rows)
        assert sums.shape == (6,) and not np.allclose(sums, model.log_prob(rows))

    def test_a_conditional_is_a_distribution_of_labels_and_numbers(self, kind):
        model = fitted(kind)
        distribution = model.conditional(["city", "height"], given={"grade": 4, "member": True})
        assert len(distribution) == 1 and distribution.columns == ("city", "height")
        assert distribution.labels("city").tolist() == ["Bonn", "Oslo", "Rome"]
        np.testing.assert_allclose(distribution.probs("city").sum(1), 1.0)
        assert distribution.predict_dist("height").sd[0] > 0
        draws = distribution.sample(400, seed=0)
        assert set(draws) == {"city", "height"} and set(draws["city"]) <= set(
            ["Bonn", "Oslo", "Rome"]
        )
        shares = np.array([(draws["city"] == city).mean() for city in distribution.labels("city")])
        np.testing.assert_allclose(shares, distribution.probs("city")[0], atol=0.1)

    def test_missing_cells_are_filled_and_others_kept(self, kind):
        filled = fitted(kind).impute(NEW, level=0.8)
        assert type(filled.frame) is pd.DataFrame and not filled.frame.isna().any().any()
        there = ~NEW.isna()
        assert (filled.frame[there].isna() == NEW.isna()).all().all()
        for name in NEW:
            rows = there[name].to_numpy()
            assert (filled.frame[name][rows] == NEW[name][rows]).all()
            np.testing.assert_array_equal(filled.filled[name], ~rows)
        gaps = NEW["height"].isna().to_numpy()
        middle = filled.frame["height"].to_numpy()[gaps]
        assert gaps.any() and (filled.low["height"][gaps] < middle).all()
        assert (middle < filled.high["height"][gaps]).all()

    def test_the_expert_view_is_what_the_network_computes(self, kind):
        model = fitted(kind)
        rows = whole(kind).head(5)
        experts = model.experts(rows, ["city"])
        np.testing.assert_allclose(experts.weights.sum(-1), 1.0, rtol=1e-6)
        logits = experts.outputs[:, 0, :3]
        distribution = model.conditional(["city"], given=rows)
        softmax = torch.from_numpy(logits).softmax(-1).numpy()
        np.testing.assert_allclose(softmax, distribution.probs("city"), rtol=1e-4)
        summed = (experts.weights[..., None] * experts.contributions).sum(2)
        np.testing.assert_allclose(experts.parts, summed, rtol=1e-6, atol=1e-9)
        summary = model.explain(rows, ["city"])
        np.testing.assert_allclose(summary.weight[0], experts.weights[:, 0].mean(0), rtol=1e-6)

    def test_a_row_of_weight_zero_is_not_there(self, kind):
        heavy = np.r_[np.ones(60), np.zeros(20)]
        y = RESPONSES[kind]
        parts = {"X": FRAME, "y": y, "sample_weight": heavy}
        without = {"X": FRAME[:60], "y": None if y is None else y[:60]}
        first = make(kind, max_epochs=1).fit(**parts)
        second = make(kind, max_epochs=1).fit(**without, sample_weight=np.ones(60))
        unweighted = make(kind, max_epochs=1).fit(FRAME, y)
        np.testing.assert_array_equal(predictions(first, NEW), predictions(second, NEW))
        assert not np.allclose(predictions(first, NEW), predictions(unweighted, NEW))


@pytest.mark.parametrize("kind", SUPERVISED)
class TestResponses:
    def test_scores(self, kind):
        model, y = fitted(kind), RESPONSES[kind]
        nats = model.log_scores(FRAME, y)
        assert model.log_score(FRAME, y) == pytest.approx(nats.mean())
        distribution = model.predict_dist(FRAME)
        values = y if kind == REGRESSOR else np.searchsorted(model.classes_, y)
        np.testing.assert_allclose(
            distribution.log_prob(np.asarray(values, dtype=float)), nats, rtol=1e-9
        )
        weight = np.arange(len(y)) % 3
        assert model.log_score(FRAME, y, weight) == pytest.approx(np.average(nats, weights=weight))

    def test_some_rows_may_have_no_response(self, kind):
        y = RESPONSES[kind].astype(object).where(np.arange(len(FRAME)) % 2 == 0, None)
        y = y.astype(float) if kind == REGRESSOR else y
        for unlabeled in ("absent", "mask"):
            model = make(kind, unlabeled=unlabeled).fit(FRAME, y)
            assert predictions(model, NEW).shape[0] == len(NEW)
            assert model.log_score(FRAME, y) == pytest.approx(
                np.nanmean(model.log_scores(FRAME, y))
            )
            assert np.isnan(model.log_scores(FRAME, y)).sum() == len(FRAME) // 2

    def test_several_tables_with_some_columns_in_common(self, kind):
        y = RESPONSES[kind]
        tables = [FRAME[["height", "city"]], FRAME[["city", "grade"]], FRAME[["grade", "visits"]]]
        model = make(kind).fit(tables, [y, None, y])
        assert model.features_ == ("height", "city", "grade", "visits")
        assert model.tables_[1] == ("city", "grade")
        together = FRAME[["height", "visits"]]  # in no table together
        assert predictions(model, together).shape[0] == len(FRAME)
        near = model.column_similarities().nearest("height", k=2, among=model.tables_[2])
        assert {name for name, _ in near} == {"grade", "visits"}


def test_a_response_is_one_more_column():
    model = fitted(CLASSIFIER)
    assert model.response_ == "tier" and model.classes_.tolist() == ["high", "low", "mid"]
    distribution = model.conditional(["height"], given={"tier": ["low", "high"]})
    low, high = distribution.predict_dist("height").mean
    assert low != high
    assert make(REGRESSOR, max_epochs=1).fit(FRAME, NUMBER.to_numpy()).response_ == "y"
    named = FRAME.rename(columns={"height": "y"})
    assert make(REGRESSOR, max_epochs=1).fit(named, NUMBER.to_list()).response_ == "target"


@pytest.mark.parametrize(
    "labels",
    [["b", "a", "c"], [3, 1, 2], [2.0, 4.0, 7.0], [True, False, True]],
    ids=["texts", "integers", "floats", "booleans"],
)
def test_labels_of_any_type_come_back(labels, tmp_path):
    y = np.array(labels)[np.arange(len(FRAME)) % 3]
    model = make(CLASSIFIER, max_epochs=1).fit(FRAME, y)
    assert model.classes_.tolist() == sorted(set(labels))
    model.save(tmp_path / "model")
    predicted = exfam.load(tmp_path / "model").predict(FRAME)
    assert predicted.dtype.kind == ("O" if isinstance(labels[0], str) else y.dtype.kind)
    assert set(predicted.tolist()) <= set(labels)
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
    low, high = distribution.interval(0.9)
    assert (low < high).all() and np.isfinite(model.log_score(FRAME, y))
    np.testing.assert_allclose(model.predict(NEW), distribution.mean)
    np.testing.assert_allclose(
        model.set_params(decision="median").predict(NEW), distribution.quantile(0.5), rtol=1e-6
    )
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(exfam.load(tmp_path / "model").predict(NEW), model.predict(NEW))


def test_fits_find_what_is_there():
    """Seeded: better than the marginal distribution on rows that were not fitted."""
    frame, hidden = table_frame(n=300, seed=2)
    new, hidden_new = table_frame(n=200, seed=3)
    options = {"kinds": {"visits": "count"}, "ordinal": True, "extra_masking": 0.0}
    quick = {**options, "max_epochs": 15, "progress": False}
    classifier = MaskedTableClassifier(**quick).fit(frame, hidden > 0)
    assert classifier.score(new, hidden_new > 0) > 0.75
    assert classifier.log_score(new, hidden_new > 0) > -0.55
    regressor = MaskedTableRegressor(**quick).fit(frame, hidden)
    assert regressor.score(new, hidden_new) > 0.6
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
    from sklearn.linear_model import LinearRegression

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


def test_grid_search_by_log_loss_and_by_accuracy():
    model = make(CLASSIFIER, max_epochs=1, unknown="unk")
    for scoring in (None, "neg_log_loss"):
        search = GridSearchCV(model, {"embed_dim": [4, 8]}, cv=2, scoring=scoring)
        with pytest.warns(ExfamWarning, match="labels that training did not have"):
            search.fit(FRAME, CLASS)
        assert search.best_params_["embed_dim"] in (4, 8)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_several_tables_without_a_response():
    tables = [FRAME[["height", "city"]], FRAME[["city", "grade"]]]
    model = make(JOINT, kinds={"grade": "ordinal"}).fit(tables)
    distribution = model.conditional(["grade"], given={"height": 180.0})
    np.testing.assert_allclose(distribution.probs("grade").sum(), 1.0)
    assert np.isfinite(model.score(FRAME[["grade", "height"]]))
