"""Laws of every estimator: scikit-learn's conventions, scores, predictions, no leak, same bits."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score

import exfam
from estimator_cases import (
    CASES,
    COLUMNS,
    DIRECTIONS,
    KINDS,
    TRAINED,
    WITH_ITEMS,
    class_of,
    make,
    ratings,
)
from exfam import ExfamError, Groups
from exfam.families import Categorical, Ordinal

FRAME = ratings()


@pytest.fixture(scope="module")
def fitted():
    """Fitted estimators by kind and direction, made once."""
    return {(kind, way): make(kind, direction=way).fit(FRAME) for kind, way in CASES}


def test_all_estimators_are_public():
    assert {class_of(kind).__name__ for kind in KINDS} <= set(exfam.__all__)
    assert all(class_of(kind).kind == kind for kind in KINDS)


BEFORE_FIT = [
    lambda e: e.score(FRAME),
    lambda e: e.score_parts(FRAME),
    lambda e: e.log_prob(FRAME),
    lambda e: e.predict(FRAME),
    lambda e: e.predict_variance(FRAME),
    lambda e: e.predict_proba(FRAME),
    lambda e: e.recommend(FRAME),
    lambda e: e.complements("a"),
    lambda e: e.sample(FRAME),
    lambda e: e.save("nowhere"),
]
OF_TRAINED = [lambda e: e.history_, lambda e: e.item_vectors_]
OF_EFA = [lambda e: e.explain(FRAME), lambda e: e.transform(FRAME)]


@pytest.mark.parametrize("kind", KINDS)
class TestConventions:
    def test_nothing_works_before_fit_or_of_a_clone(self, kind, fitted):
        calls = BEFORE_FIT + OF_TRAINED * (kind in TRAINED) + OF_EFA * (kind == "efa")
        for call in calls:
            for estimator in (make(kind), clone(fitted[kind, "causal"])):
                with pytest.raises(NotFittedError, match="not fitted yet"):
                    call(estimator)

    def test_pickle(self, kind, fitted):
        for direction in DIRECTIONS:
            estimator = fitted[kind, direction]
            copied = pickle.loads(pickle.dumps(estimator))
            np.testing.assert_array_equal(copied.log_prob(FRAME), estimator.log_prob(FRAME))

    def test_a_failed_fit_leaves_no_old_members(self, kind):
        estimator = make(kind)
        assert estimator.fit(FRAME) is estimator
        estimator.set_params(family="bernoulli")
        with pytest.raises(exfam.SupportError, match="`stars` must be"):
            estimator.fit(FRAME)
        estimator.set_params(family="gaussian")
        np.testing.assert_array_equal(
            estimator.log_prob(FRAME), make(kind).fit(FRAME).log_prob(FRAME)
        )


def test_a_fit_that_fails_late_leaves_nothing():
    estimator = make("efa").fit(FRAME)
    with pytest.raises(ExfamError, match="`conditional` must be one that serves this network"):
        estimator.set_params(conditional="two_stream").fit(FRAME)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        estimator.score(FRAME)


class TestModelSelection:
    def test_grid_search_by_group_in_two_processes(self):
        search = GridSearchCV(
            make("latent-factor", order="rows", ensemble=2, max_epochs=1),
            {"dim": np.array([2, 3]), "direction": list(DIRECTIONS)},
            cv=GroupKFold(2),
            n_jobs=2,
            error_score="raise",
        )
        search.fit(FRAME, groups=FRAME["user"])
        assert len(search.cv_results_["mean_test_score"]) == 4
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_estimator_.score(FRAME) == search.score(FRAME)

    def test_cross_validation_of_groups(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        scores = cross_val_score(make("marginal"), groups, cv=KFold(3), error_score="raise")
        by_hand = [
            make("marginal").fit(groups[train]).score(groups[test])
            for train, test in KFold(3).split(groups)
        ]
        np.testing.assert_array_equal(scores, by_hand)
        assert len(set(scores)) == 3


@pytest.mark.parametrize(("kind", "direction"), CASES)
class TestScores:
    def test_score_is_mean_log_prob_and_parts_add_up(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        nats = estimator.log_prob(FRAME)
        assert nats.shape == (len(FRAME),) and np.isfinite(nats).all()
        assert estimator.score(FRAME) == pytest.approx(nats.mean(), rel=1e-12)
        result, parts = estimator.score_parts(FRAME), estimator.log_prob_parts(FRAME)
        assert sum(result.values()) == pytest.approx(estimator.score(FRAME), rel=1e-12)
        assert list(result) == (["items", "stars"] if kind in WITH_ITEMS else ["stars"])
        np.testing.assert_allclose(sum(parts.values()), nats)
        assert result["stars"] == pytest.approx(parts["stars"].mean())

    def test_rows_keep_their_order(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        # A stable order within each group, other groups and rows between.
        other = FRAME.sort_values("user", kind="stable")
        moved = pd.Series(estimator.log_prob(other), index=other.index)
        np.testing.assert_allclose(
            moved.loc[FRAME.index], estimator.log_prob(FRAME), rtol=1e-5, atol=1e-5
        )

    def test_weights_are_repetitions(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        user = FRAME["user"].to_numpy()
        twice = np.where(user == "u3", 2, 1)
        copy = FRAME[user == "u3"].assign(user="again")
        assert estimator.score(FRAME, sample_weight=twice) == pytest.approx(
            estimator.score(pd.concat([FRAME, copy])), rel=1e-6
        )
        weight = (np.arange(len(FRAME)) % 3 > 0).astype(float)
        some = estimator.log_prob(FRAME)[weight > 0].mean()
        assert estimator.score(FRAME, sample_weight=weight) == pytest.approx(some, rel=1e-12)
        with pytest.raises(ExfamError, match="at least one target of positive weight"):
            estimator.score(FRAME, sample_weight=0 * weight)

    def test_groups_score_as_the_frame(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        groups = Groups.from_frame(FRAME, **COLUMNS)
        assert estimator.score(groups) == pytest.approx(estimator.score(FRAME), rel=1e-12)
        rows = groups.source_row[groups.elements()]
        np.testing.assert_array_equal(estimator.log_prob(groups), estimator.log_prob(FRAME)[rows])

    def test_other_groups_change_nothing(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        whole = estimator.log_prob(FRAME)
        for user in ("u0", "u5"):
            own = (FRAME["user"] == user).to_numpy()
            alone = estimator.log_prob(FRAME[own])
            np.testing.assert_allclose(alone, whole[own], rtol=1e-5, atol=1e-5)

    def test_chunks_change_nothing(self, kind, direction, fitted, monkeypatch):
        estimator = fitted[kind, direction]
        given = [
            estimator.log_prob,
            estimator.predict,
            lambda frame: estimator.predict(frame, interval=0.5),
            estimator.predict_variance,
        ]
        if kind in WITH_ITEMS:
            given += [estimator.predict_proba, lambda f: estimator.recommend(f).probabilities]
        if kind == "efa":
            given.append(estimator.transform)
        whole = [call(FRAME) for call in given]
        cuts = []
        small_chunks(monkeypatch, cuts)
        for call, before in zip(given, whole, strict=True):
            np.testing.assert_allclose(call(FRAME), before, rtol=1e-5, atol=1e-5)
        assert max(cuts) == 1

    def test_missing_values_and_context_only_rows(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        gaps = FRAME.copy()
        gaps.iloc[::4, gaps.columns.get_loc("stars")] = np.nan
        parts = estimator.log_prob_parts(gaps)
        missing = gaps["stars"].isna().to_numpy()
        assert missing.any()
        np.testing.assert_array_equal(np.isnan(parts["stars"]), missing)
        nats = estimator.log_prob(gaps)
        assert np.isnan(nats[missing]).all() == (kind not in WITH_ITEMS)
        assert np.isfinite(estimator.score(gaps))
        assert np.isfinite(estimator.predict(gaps)).all()
        groups = Groups.from_frame(FRAME, **COLUMNS)
        role = (np.arange(groups.n_rows) % 2).astype(np.int8)
        nats = estimator.log_prob(groups.with_(role=role))
        np.testing.assert_array_equal(np.isnan(nats), role[groups.elements()] == 1)


def small_chunks(monkeypatch, cuts):
    """Make every evaluation take one group at a time, and note how many it took."""
    from exfam.efa import explain
    from exfam.estimator import evaluate

    cut = evaluate.evaluation_batches

    def one_by_one(groups, members):
        for batch in cut(groups, members, max_numbers=1):
            cuts.append(len(batch.present))
            yield batch

    monkeypatch.setattr(evaluate, "evaluation_batches", one_by_one)
    monkeypatch.setattr(explain, "evaluation_batches", one_by_one)


@pytest.mark.parametrize(("kind", "direction"), CASES)
class TestPredictions:
    def test_quantiles_and_intervals(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        levels = (0.1, 0.5, 0.9)
        predicted = estimator.predict(FRAME, quantiles=levels)
        assert predicted.shape == (len(FRAME), 3)
        assert (np.diff(predicted, axis=1) > 0).all()
        interval = estimator.predict(FRAME, interval=0.8)
        np.testing.assert_allclose(interval, predicted[:, [0, 2]], rtol=1e-5)

    def test_gaussian_figures_agree(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        mean, variance = estimator.predict(FRAME), estimator.predict_variance(FRAME)
        scale = np.sqrt(variance)
        nats = -0.5 * ((FRAME["stars"] - mean) / scale) ** 2 - np.log(scale)
        nats -= 0.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(
            estimator.log_prob_parts(FRAME)["stars"], nats, rtol=1e-4, atol=1e-4
        )
        median = estimator.predict(FRAME, quantiles=[0.5])[:, 0]
        np.testing.assert_allclose(median, mean, rtol=1e-4)
        upper = estimator.predict(FRAME, quantiles=[0.841344746])[:, 0]
        np.testing.assert_allclose(upper, mean + scale, rtol=1e-3)

    def test_several_columns_with_families_of_their_own(self, kind, direction):
        frame = FRAME.assign(count=np.arange(len(FRAME)) % 4)
        families = {"stars": "gaussian", "count": "poisson"}
        estimator = make(kind, direction=direction, value=["stars", "count"], family=families)
        predicted = estimator.fit(frame).predict(frame)
        assert list(predicted) == ["stars", "count"]
        assert all(len(mean) == len(frame) and (mean > 0).all() for mean in predicted.values())
        quantile = estimator.predict(frame, quantiles=[0.3])["count"]
        np.testing.assert_array_equal(quantile, quantile.round())
        assert set(estimator.score_parts(frame)) >= set(families)
        assert set(estimator.predict_variance(frame)) == set(families)


@pytest.mark.parametrize(("kind", "direction"), [case for case in CASES if case[0] in WITH_ITEMS])
class TestProbabilities:
    def test_sum_to_one_and_agree_with_log_prob(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        probability = estimator.predict_proba(FRAME)
        assert probability.shape == (len(FRAME), 6)
        np.testing.assert_allclose(probability.sum(1), 1, atol=1e-6)
        code = np.searchsorted(estimator.vocabulary_["item"].tolist(), FRAME["movie"])
        own = probability[np.arange(len(FRAME)), code]
        np.testing.assert_allclose(
            np.log(own), estimator.log_prob_parts(FRAME)["item"], rtol=1e-5, atol=1e-5
        )

    def test_hard_support_gives_items_of_the_context_nothing(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        assert estimator.support_ == "hard"
        probability = pd.DataFrame(
            estimator.predict_proba(FRAME), columns=estimator.vocabulary_["item"]
        )
        for _, rows in FRAME.reset_index().groupby("user"):
            for n, (row, movie) in enumerate(rows["movie"].items()):
                context = set(rows["movie"][:n] if direction == "causal" else rows["movie"])
                for other in context - {movie}:
                    assert probability.loc[row, other] == 0
                assert probability.loc[row, movie] > 0

    def test_soft_support_leaves_something(self, kind, direction):
        # A marginal learns no penalty.
        for support in ("none", "penalty")[: 1 if kind == "marginal" else 2]:
            estimator = make(kind, direction=direction, support=support).fit(FRAME)
            assert (estimator.predict_proba(FRAME) > 0).all()

    @pytest.mark.parametrize("family", [Categorical(5, start=1), Ordinal(5, start=1)])
    def test_finite_families(self, kind, direction, family):
        estimator = make(kind, direction=direction, family=family, parts="values").fit(FRAME)
        probability = estimator.predict_proba(FRAME)
        assert probability.shape == (len(FRAME), 5)
        np.testing.assert_allclose(probability.sum(1), 1, atol=1e-6)
        own = probability[np.arange(len(FRAME)), FRAME["stars"].astype(int) - 1]
        np.testing.assert_allclose(np.log(own), estimator.log_prob(FRAME), rtol=1e-4, atol=1e-5)
        mean = probability @ np.array(family.categories)
        np.testing.assert_allclose(estimator.predict(FRAME), mean, rtol=1e-4)

    def test_items_only_predicts_the_likeliest_labels(self, kind, direction):
        estimator = make(kind, direction=direction, value=None).fit(FRAME)
        predicted = estimator.predict(FRAME)
        likeliest = estimator.predict_proba(FRAME).argmax(1)
        assert predicted.tolist() == [estimator.vocabulary_["item"][code] for code in likeliest]
        groups = Groups.from_frame(FRAME, group="user", item="movie")
        role = np.zeros(groups.n_rows, dtype=np.int8)
        role[0] = 1
        assert estimator.predict(groups.with_(role=role))[0] is None
        with pytest.raises(ExfamError, match="must have a value part to predict values"):
            estimator.predict_variance(FRAME)
        with pytest.raises(ExfamError, match="`quantiles` must be"):
            estimator.predict(FRAME, quantiles=[2.0])


def test_of_chooses_whose_probabilities(fitted):
    estimator = fitted["efa", "causal"]
    with pytest.raises(ExfamError, match="`of` must be one of 'item', 'stars', got 'genre'"):
        estimator.predict_proba(FRAME, of="genre")
    with pytest.raises(ExfamError, match="must have finitely many values"):
        estimator.predict_proba(FRAME, of="stars")
    coin = FRAME.assign(coin=(np.arange(len(FRAME)) % 2).astype(float))
    families = {"stars": Categorical(5, start=1), "coin": "bernoulli"}
    two = make("efa", value=["stars", "coin"], family=families).fit(coin)
    for of, n in (({"of": "coin"}, 2), ({"of": "stars"}, 5), ({}, 6)):
        assert two.predict_proba(coin, **of).shape == (len(FRAME), n)
