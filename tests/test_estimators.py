"""Laws of every estimator of groups: scores, predictions, scikit-learn's conventions."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score

import exfam
from estimator_cases import CASES, COLUMNS, DIRECTIONS, KINDS, TRAINED, WITH_ITEMS, make, ratings
from exfam import ExfamError, Groups
from exfam.families import Categorical, Ordinal

FRAME = ratings()
every_case = pytest.mark.parametrize(("kind", "direction"), CASES)


@pytest.fixture(scope="module")
def fits():
    """Fitted estimators by kind and direction, made once."""
    return {(kind, way): make(kind, direction=way).fit(FRAME) for kind, way in CASES}


@pytest.fixture
def estimator(fits, kind, direction):
    return fits[kind, direction]


BEFORE_FIT = [
    lambda e: e.score(FRAME),
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
def test_nothing_works_before_fit_or_of_a_clone(kind, fits):
    calls = BEFORE_FIT + OF_TRAINED * (kind in TRAINED) + OF_EFA * (kind == "efa")
    for call in calls:
        for unfitted in (make(kind), clone(fits[kind, "causal"])):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                call(unfitted)


def test_a_failed_fit_leaves_no_old_members():
    model = make("efa").fit(FRAME)
    with pytest.raises(exfam.SupportError, match="`stars` must be"):
        model.set_params(family="bernoulli").fit(FRAME)
    model.set_params(family="gaussian").score(FRAME)  # no work had been done
    with pytest.raises(ExfamError, match="`conditional` must be one that serves this network"):
        model.set_params(conditional="two_stream").fit(FRAME)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.score(FRAME)


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
        assert np.isfinite(search.cv_results_["mean_test_score"]).sum() == 4
        assert search.best_estimator_.score(FRAME) == search.score(FRAME)

    def test_cross_validation_of_groups(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        scores = cross_val_score(make("marginal"), groups, cv=KFold(3), error_score="raise")
        by_hand = [
            make("marginal").fit(groups[train]).score(groups[test])
            for train, test in KFold(3).split(groups)
        ]
        np.testing.assert_array_equal(scores, by_hand)


@every_case
class TestScores:
    def test_score_is_mean_log_prob_and_parts_add_up(self, estimator, kind):
        nats = estimator.log_prob(FRAME)
        assert nats.shape == (len(FRAME),) and np.isfinite(nats).all()
        assert estimator.score(FRAME) == pytest.approx(nats.mean(), rel=1e-12)
        scores, parts = estimator.score_parts(FRAME), estimator.log_prob_parts(FRAME)
        assert sum(scores.values()) == pytest.approx(estimator.score(FRAME), rel=1e-12)
        assert list(scores) == (["items", "stars"] if kind in WITH_ITEMS else ["stars"])
        np.testing.assert_allclose(sum(parts.values()), nats)
        assert scores["stars"] == pytest.approx(parts["stars"].mean())

    def test_weights_are_repetitions(self, estimator):
        user = FRAME["user"].to_numpy()
        twice = np.where(user == "u3", 2, 1)
        both = pd.concat([FRAME, FRAME[user == "u3"].assign(user="again")])
        weighted = estimator.score(FRAME, sample_weight=twice)
        assert weighted == pytest.approx(estimator.score(both), rel=1e-6)
        weight = (np.arange(len(FRAME)) % 3 > 0).astype(float)
        some = estimator.log_prob(FRAME)[weight > 0].mean()
        assert estimator.score(FRAME, sample_weight=weight) == pytest.approx(some, rel=1e-12)
        with pytest.raises(ExfamError, match="at least one target of positive weight"):
            estimator.score(FRAME, sample_weight=0 * weight)

    def test_groups_score_as_the_frame_whatever_the_others(self, estimator):
        groups, whole = Groups.from_frame(FRAME, **COLUMNS), estimator.log_prob(FRAME)
        assert estimator.score(groups) == pytest.approx(estimator.score(FRAME), rel=1e-12)
        rows = groups.source_row[groups.elements()]
        np.testing.assert_array_equal(estimator.log_prob(groups), whole[rows])
        copied = pickle.loads(pickle.dumps(estimator))
        for user in ("u0", "u5"):
            own = (FRAME["user"] == user).to_numpy()
            alone = copied.log_prob(FRAME[own])
            np.testing.assert_allclose(alone, whole[own], rtol=1e-5, atol=1e-5)

    def test_missing_values_and_context_only_rows(self, estimator, kind):
        gaps = FRAME.copy()
        gaps.iloc[::4, gaps.columns.get_loc("stars")] = np.nan
        missing = gaps["stars"].isna().to_numpy()
        stars = estimator.log_prob_parts(gaps)["stars"]
        np.testing.assert_array_equal(np.isnan(stars), missing)
        nats = estimator.log_prob(gaps)
        assert np.isnan(nats[missing]).all() == (kind not in WITH_ITEMS)
        assert np.isfinite(estimator.score(gaps))
        assert np.isfinite(estimator.predict(gaps)).all()
        groups = Groups.from_frame(FRAME, **COLUMNS)
        role = (np.arange(groups.n_rows) % 2).astype(np.int8)
        nats = estimator.log_prob(groups.with_(role=role))
        np.testing.assert_array_equal(np.isnan(nats), role[groups.elements()] == 1)


@every_case
class TestPredictions:
    def test_figures_of_a_gaussian_agree(self, estimator):
        mean, scale = estimator.predict(FRAME), np.sqrt(estimator.predict_variance(FRAME))
        nats = -0.5 * ((FRAME["stars"] - mean) / scale) ** 2 - np.log(scale * np.sqrt(2 * np.pi))
        parts = estimator.log_prob_parts(FRAME)
        np.testing.assert_allclose(parts["stars"], nats, rtol=1e-4, atol=1e-4)
        # One standard deviation to each side.
        quantiles = estimator.predict(FRAME, quantiles=[0.158655254, 0.5, 0.841344746])
        expected = np.stack([mean - scale, mean, mean + scale], axis=1)
        np.testing.assert_allclose(quantiles, expected, rtol=1e-3, atol=1e-3)
        interval = estimator.predict(FRAME, interval=0.682689492)
        np.testing.assert_allclose(interval, quantiles[:, [0, 2]], rtol=1e-5, atol=1e-5)

    def test_several_columns_with_families_of_their_own(self, kind, direction):
        frame = FRAME.assign(count=np.arange(len(FRAME)) % 4)
        families = {"stars": "gaussian", "count": "poisson"}
        two = make(kind, direction=direction, value=["stars", "count"], family=families).fit(frame)
        predicted = two.predict(frame)
        assert list(predicted) == list(two.predict_variance(frame)) == ["stars", "count"]
        assert all(len(mean) == len(frame) and (mean > 0).all() for mean in predicted.values())
        quantile = two.predict(frame, quantiles=[0.3])["count"]
        np.testing.assert_array_equal(quantile, quantile.round())
        assert set(two.score_parts(frame)) >= set(families)


@pytest.mark.parametrize(("kind", "direction"), [case for case in CASES if case[0] in WITH_ITEMS])
class TestProbabilities:
    def test_sum_to_one_and_agree_with_log_prob(self, estimator):
        assert estimator.support_ == "hard"
        probability = estimator.predict_proba(FRAME)
        assert probability.shape == (len(FRAME), 6)
        np.testing.assert_allclose(probability.sum(1), 1, atol=1e-6)
        code = np.searchsorted(estimator.vocabulary_["item"].tolist(), FRAME["movie"])
        own = np.log(probability[np.arange(len(FRAME)), code])
        nats = estimator.log_prob_parts(FRAME)["item"]
        np.testing.assert_allclose(own, nats, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("family", [Categorical(5, start=1), Ordinal(5, start=1)])
    def test_finite_families(self, kind, direction, family):
        finite = make(kind, direction=direction, family=family, parts="values").fit(FRAME)
        probability = finite.predict_proba(FRAME)
        assert probability.shape == (len(FRAME), 5)
        np.testing.assert_allclose(probability.sum(1), 1, atol=1e-6)
        own = probability[np.arange(len(FRAME)), FRAME["stars"].astype(int) - 1]
        np.testing.assert_allclose(np.log(own), finite.log_prob(FRAME), rtol=1e-4, atol=1e-5)
        mean = probability @ np.array(family.categories)
        np.testing.assert_allclose(finite.predict(FRAME), mean, rtol=1e-4)

    def test_items_only_predicts_the_likeliest_labels(self, kind, direction):
        items = make(kind, direction=direction, value=None).fit(FRAME)
        likeliest = items.vocabulary_["item"][items.predict_proba(FRAME).argmax(1)]
        assert items.predict(FRAME).tolist() == likeliest.tolist()
        groups = Groups.from_frame(FRAME, group="user", item="movie")
        role = (np.arange(groups.n_rows) == 0).astype(np.int8)
        assert items.predict(groups.with_(role=role))[0] is None
        with pytest.raises(ExfamError, match="must have a value part to predict values"):
            items.predict_variance(FRAME)
        with pytest.raises(ExfamError, match="`quantiles` must be"):
            items.predict(FRAME, quantiles=[2.0])


def test_of_chooses_whose_probabilities(fits):
    with pytest.raises(ExfamError, match="`of` must be one of 'item', 'stars', got 'genre'"):
        fits["efa", "causal"].predict_proba(FRAME, of="genre")
    with pytest.raises(ExfamError, match="must have finitely many values"):
        fits["efa", "causal"].predict_proba(FRAME, of="stars")
    coin = FRAME.assign(coin=(np.arange(len(FRAME)) % 2).astype(float))
    families = {"stars": Categorical(5, start=1), "coin": "bernoulli"}
    two = make("efa", value=["stars", "coin"], family=families).fit(coin)
    for of, n in (({"of": "coin"}, 2), ({"of": "stars"}, 5), ({}, 6)):
        assert two.predict_proba(coin, **of).shape == (len(FRAME), n)
