"""Laws of every estimator: scikit-learn's conventions, scores, predictions, no leak, same bits."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score

import exfam
from estimator_cases import (
    CASES,
    COLUMNS,
    DIRECTIONS,
    TRAINED,
    WITH_ITEMS,
    class_of,
    fitted_on,
    make,
    random_weights,
    ratings,
    same_bits,
)
from exfam import ExfamError, Groups
from exfam.estimators.plan import hold_out
from exfam.estimators.saving import KINDS
from exfam.families import Categorical, Gaussian, Ordinal, PerItem, Poisson
from exfam.models.baselines import ShrunkOffsetValues
from exfam.models.schema import Schema

FRAME = ratings()


@pytest.fixture(scope="module")
def fitted():
    """Fitted estimators by kind and direction, made once."""
    return {(kind, way): make(kind, direction=way).fit(FRAME) for kind, way in CASES}


def test_all_estimators_are_public():
    assert {class_of(kind).__name__ for kind in KINDS} <= set(exfam.__all__)
    assert all(class_of(kind).kind == kind for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
class TestConventions:
    def test_parameters_are_kept_as_they_are(self, kind):
        odd = {str: "odd", int: 10**9, float: 1e9, bool: 3 > 2, tuple: [1], type(None): "none"}
        estimator = class_of(kind)()
        for name, value in estimator.get_params().items():
            assert getattr(estimator, name) is value
            if name != "score_scale":
                marker = odd[type(value)]
                assert getattr(class_of(kind)(**{name: marker}), name) is marker

    def test_set_params_and_clone(self, kind):
        estimator = make(kind).set_params(direction="causal")
        other = clone(estimator)
        assert other.get_params() == estimator.get_params()
        assert other is not estimator
        with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
            estimator.set_params(depth=3)

    def test_clone_forgets_the_fit(self, kind, fitted):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            clone(fitted[kind, "causal"]).score(FRAME)

    def test_repr_names_changed_parameters(self, kind):
        assert repr(make(kind, direction="causal")).startswith(class_of(kind).__name__ + "(")
        assert "causal" in repr(make(kind, direction="causal"))

    @pytest.mark.parametrize(
        "call",
        [
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
        ],
    )
    def test_nothing_works_before_fit(self, kind, call):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call(make(kind))

    def test_fit_returns_itself(self, kind):
        estimator = make(kind)
        assert estimator.fit(FRAME) is estimator

    @pytest.mark.parametrize("direction", DIRECTIONS)
    def test_pickle(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        copied = pickle.loads(pickle.dumps(estimator))
        np.testing.assert_array_equal(copied.log_prob(FRAME), estimator.log_prob(FRAME))

    def test_failed_fit_leaves_no_old_members(self, kind):
        estimator = make(kind).fit(FRAME)
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


@pytest.mark.parametrize("kind", TRAINED)
def test_attributes_of_training_before_fit(kind):
    for name in ("history_", "item_vectors_"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(make(kind), name)


@pytest.mark.parametrize("name", ["explain", "transform"])
def test_more_of_efa_before_fit(name):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(make("efa"), name)(FRAME)


class TestModelSelection:
    def test_grid_search_by_group_in_two_processes(self):
        search = GridSearchCV(
            make("latent-factor", ensemble=2, max_epochs=1),
            {"dim": np.array([2, 3]), "direction": list(DIRECTIONS)},
            cv=GroupKFold(2),
            n_jobs=2,
            error_score="raise",
        )
        search.fit(FRAME, groups=FRAME["user"])
        assert len(search.cv_results_["mean_test_score"]) == 4
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_estimator_.score(FRAME) == search.score(FRAME)

    @pytest.mark.parametrize("kind", KINDS)
    def test_cross_validation_by_group(self, kind):
        scores = cross_val_score(
            make(kind), FRAME, groups=FRAME["user"], cv=GroupKFold(2), error_score="raise"
        )
        assert np.isfinite(scores).all() and len(scores) == 2

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
    def test_score_is_mean_log_prob(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        each = estimator.log_prob(FRAME)
        assert each.shape == (len(FRAME),) and np.isfinite(each).all()
        assert estimator.score(FRAME) == pytest.approx(each.mean(), rel=1e-12)

    def test_parts_add_up(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        told, parts = estimator.score_parts(FRAME), estimator.log_prob_parts(FRAME)
        assert sum(told.values()) == pytest.approx(estimator.score(FRAME), rel=1e-12)
        assert list(told) == (["items", "stars"] if kind in WITH_ITEMS else ["stars"])
        np.testing.assert_allclose(sum(parts.values()), estimator.log_prob(FRAME))
        assert told["stars"] == pytest.approx(parts["stars"].mean())

    def test_rows_keep_their_order(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        # A stable order within each group, other groups and rows between.
        other = FRAME.sort_values("user", kind="stable")
        moved = pd.Series(estimator.log_prob(other), index=other.index)
        np.testing.assert_allclose(
            moved.loc[FRAME.index], estimator.log_prob(FRAME), rtol=1e-5, atol=1e-5
        )

    def test_whole_weights_are_repetitions(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        user = FRAME["user"].to_numpy()
        twice = np.where(user == "u3", 2, 1)
        copy = FRAME[user == "u3"].assign(user="again")
        assert estimator.score(FRAME, sample_weight=twice) == pytest.approx(
            estimator.score(pd.concat([FRAME, copy])), rel=1e-6
        )

    def test_zero_weights_leave_elements_out_of_the_score(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        weight = (np.arange(len(FRAME)) % 3 > 0).astype(float)
        each = estimator.log_prob(FRAME)
        assert estimator.score(FRAME, sample_weight=weight) == pytest.approx(
            each[weight > 0].mean(), rel=1e-12
        )

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
        asked = [
            estimator.log_prob,
            estimator.predict,
            lambda frame: estimator.predict(frame, interval=0.5),
            estimator.predict_variance,
        ]
        if kind in WITH_ITEMS:
            asked += [estimator.predict_proba, lambda f: estimator.recommend(f).probabilities]
        if kind == "efa":
            asked.append(estimator.transform)
        whole = [call(FRAME) for call in asked]
        cuts = []
        small_chunks(monkeypatch, cuts)
        for call, before in zip(asked, whole, strict=True):
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
        told = estimator.log_prob(gaps)
        assert np.isnan(told[missing]).all() == (kind not in WITH_ITEMS)
        assert np.isfinite(estimator.score(gaps))
        assert np.isfinite(estimator.predict(gaps)).all()
        groups = Groups.from_frame(FRAME, **COLUMNS)
        role = (np.arange(groups.n_rows) % 2).astype(np.int8)
        told = estimator.log_prob(groups.with_(role=role))
        np.testing.assert_array_equal(np.isnan(told), role[groups.elements()] == 1)

    def test_weight_that_leaves_nothing(self, kind, direction, fitted):
        with pytest.raises(ExfamError, match="at least one target of positive weight"):
            fitted[kind, direction].score(FRAME, sample_weight=np.zeros(len(FRAME)))


def small_chunks(monkeypatch, cuts):
    """Make every evaluation take one group at a time, and note how many it took."""
    from exfam.analysis import evaluate
    from exfam.estimators import explain

    cut = evaluate.evaluation_batches

    def one_by_one(groups, members, *, max_numbers=1):
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
        told = estimator.predict(FRAME, quantiles=levels)
        assert told.shape == (len(FRAME), 3)
        assert (np.diff(told, axis=1) > 0).all()
        interval = estimator.predict(FRAME, interval=0.8)
        np.testing.assert_allclose(interval, told[:, [0, 2]], rtol=1e-5)

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
        told = estimator.fit(frame).predict(frame)
        assert list(told) == ["stars", "count"]
        assert all(len(each) == len(frame) and (each > 0).all() for each in told.values())
        quantile = estimator.predict(frame, quantiles=[0.3])["count"]
        np.testing.assert_array_equal(quantile, quantile.round())
        assert set(estimator.score_parts(frame)) >= set(families)
        assert set(estimator.predict_variance(frame)) == set(families)

    def test_counts_of_a_single_column(self, kind, direction):
        estimator = make(kind, direction=direction, family=Poisson(shift=1)).fit(FRAME)
        told = estimator.predict(FRAME, quantiles=[0.2, 0.7])
        np.testing.assert_array_equal(told, told.round())
        assert (estimator.predict(FRAME) > 1).all()


@pytest.mark.parametrize(("kind", "direction"), [case for case in CASES if case[0] in WITH_ITEMS])
class TestProbabilities:
    def test_sum_to_one_and_agree_with_log_prob(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        told = estimator.predict_proba(FRAME)
        assert told.shape == (len(FRAME), 6)
        np.testing.assert_allclose(told.sum(1), 1, atol=1e-6)
        code = np.searchsorted(estimator.vocabulary_["item"].tolist(), FRAME["movie"])
        own = told[np.arange(len(FRAME)), code]
        np.testing.assert_allclose(
            np.log(own), estimator.log_prob_parts(FRAME)["item"], rtol=1e-5, atol=1e-5
        )

    def test_hard_support_gives_items_of_the_context_nothing(self, kind, direction, fitted):
        estimator = fitted[kind, direction]
        assert estimator.support_ == "hard"
        told = pd.DataFrame(estimator.predict_proba(FRAME), columns=estimator.vocabulary_["item"])
        for _, rows in FRAME.reset_index().groupby("user"):
            for place, (row, movie) in enumerate(rows["movie"].items()):
                context = set(rows["movie"][:place] if direction == "causal" else rows["movie"])
                for other in context - {movie}:
                    assert told.loc[row, other] == 0
                assert told.loc[row, movie] > 0

    def test_soft_support_leaves_something(self, kind, direction):
        # A marginal learns no penalty.
        for support in ("none", "penalty")[: 1 if kind == "marginal" else 2]:
            estimator = make(kind, direction=direction, support=support).fit(FRAME)
            assert (estimator.predict_proba(FRAME) > 0).all()

    @pytest.mark.parametrize("family", [Categorical(5, start=1), Ordinal(5, start=1)])
    def test_finite_families(self, kind, direction, family):
        estimator = make(kind, direction=direction, family=family, parts="values").fit(FRAME)
        told = estimator.predict_proba(FRAME)
        assert told.shape == (len(FRAME), 5)
        np.testing.assert_allclose(told.sum(1), 1, atol=1e-6)
        own = told[np.arange(len(FRAME)), FRAME["stars"].astype(int) - 1]
        np.testing.assert_allclose(np.log(own), estimator.log_prob(FRAME), rtol=1e-4, atol=1e-5)
        mean = told @ np.array(family.categories)
        np.testing.assert_allclose(estimator.predict(FRAME), mean, rtol=1e-4)

    def test_items_only_predicts_the_likeliest_labels(self, kind, direction):
        estimator = make(kind, direction=direction, value=None).fit(FRAME)
        told = estimator.predict(FRAME)
        likeliest = estimator.predict_proba(FRAME).argmax(1)
        assert told.tolist() == [estimator.vocabulary_["item"][code] for code in likeliest]
        groups = Groups.from_frame(FRAME, group="user", item="movie")
        role = np.zeros(groups.n_rows, dtype=np.int8)
        role[0] = 1
        assert estimator.predict(groups.with_(role=role))[0] is None
        with pytest.raises(ExfamError, match="must have a value part to predict values"):
            estimator.predict_variance(FRAME)
        with pytest.raises(ExfamError, match="`quantiles` must be"):
            estimator.predict(FRAME, quantiles=[2.0])


class TestProbabilitiesOf:
    def test_of_chooses(self, fitted):
        estimator = fitted["efa", "causal"]
        with pytest.raises(ExfamError, match="`of` must be one of 'item', 'stars', got 'genre'"):
            estimator.predict_proba(FRAME, of="genre")
        with pytest.raises(ExfamError, match="must have finitely many values"):
            estimator.predict_proba(FRAME, of="stars")
        both = make("efa", family=Categorical(5, start=1)).fit(FRAME)
        assert both.predict_proba(FRAME, of="stars").shape == (len(FRAME), 5)
        assert both.predict_proba(FRAME).shape == (len(FRAME), 6)
        coin = FRAME.assign(coin=(np.arange(len(FRAME)) % 2).astype(float))
        families = {"stars": Categorical(5, start=1), "coin": "bernoulli"}
        two = make("efa", value=["stars", "coin"], family=families).fit(coin)
        assert two.predict_proba(coin, of="coin").shape == (len(FRAME), 2)


@pytest.fixture(scope="module")
def ensemble():
    return make("efa", ensemble=3, seed=4, direction="causal").fit(FRAME)


class TestEnsembles:
    def test_members_differ(self, ensemble):
        assert len(ensemble.members_) == len(ensemble.histories_) == 3
        first, second = (dict(m.named_parameters()) for m in ensemble.members_[:2])
        assert any(not torch.equal(first[name], second[name]) for name in first)

    def test_log_prob_is_the_log_of_the_mean_probability(self, ensemble):
        parts = []
        for member in ensemble.members_:
            alone = make("efa", direction="causal").fit(FRAME)
            alone.members_ = [member]
            parts.append(alone.log_prob_parts(FRAME))
        told = ensemble.log_prob_parts(FRAME)
        for name in ("item", "stars"):
            each = np.stack([part[name] for part in parts])
            assert each.std(0).max() > 0
            np.testing.assert_allclose(told[name], np.log(np.exp(each).mean(0)), rtol=1e-5)
        by_hand = sum(
            np.log(np.exp([part[name] for part in parts]).mean(0)) for name in ("item", "stars")
        )
        assert ensemble.score(FRAME) == pytest.approx(by_hand.mean(), rel=1e-5)

    def test_first_member_is_the_single_model(self, ensemble):
        single = make("efa", seed=4, direction="causal").fit(FRAME)
        state = ensemble.members_[0].state_dict()
        assert all(torch.equal(state[n], t) for n, t in single.members_[0].state_dict().items())

    def test_probabilities_and_moments_are_means(self, ensemble):
        np.testing.assert_allclose(ensemble.predict_proba(FRAME).sum(1), 1, atol=1e-6)
        median = ensemble.predict(FRAME, quantiles=[0.5])
        assert np.isfinite(median).all() and (ensemble.predict_variance(FRAME) > 0).all()


class TestSameBits:
    @pytest.mark.parametrize("kind", TRAINED)
    @pytest.mark.parametrize("direction", DIRECTIONS)
    def test_same_seed_same_bits_other_seed_other(self, kind, direction):
        fits = [make(kind, direction=direction, seed=seed).fit(FRAME) for seed in (7, 7, 8)]
        assert same_bits(fits[0], fits[1])
        assert not same_bits(fits[0], fits[2])
        np.testing.assert_array_equal(fits[0].log_prob(FRAME), fits[1].log_prob(FRAME))

    @pytest.mark.parametrize("kind", KINDS)
    def test_fit_leaves_global_state_alone(self, kind):
        extra = {"dropout": 0.3} if kind == "efa" else {}
        # Python's own generator is drawn from by the checks of types that run in tests.
        states = [torch.get_rng_state(), np.random.get_state()[1].copy()]
        threads = torch.get_num_threads()
        make(kind, **extra).fit(FRAME).predict(FRAME)
        assert torch.equal(states[0], torch.get_rng_state())
        np.testing.assert_array_equal(states[1], np.random.get_state()[1])
        assert threads == torch.get_num_threads()

    def test_global_state_has_no_say(self):
        torch.manual_seed(1)
        first = make("efa", dropout=0.3).fit(FRAME)
        torch.manual_seed(2)
        assert same_bits(first, make("efa", dropout=0.3).fit(FRAME))

    @pytest.mark.parametrize("kind", KINDS)
    def test_row_order_has_no_say_beside_an_order_column(self, kind):
        ordered = FRAME.sort_values(["user", "day"], kind="stable")
        # Groups come in the order of their first rows: keep those in place, shuffle the rest.
        first = ~ordered.duplicated("user")
        rest = ordered[~first].sample(frac=1, random_state=3)
        other = pd.concat([ordered[first], rest])
        assert (other["day"].to_numpy() != ordered["day"].to_numpy()).any()
        fits = [make(kind, order="day", direction="causal").fit(f) for f in (ordered, other)]
        assert same_bits(*fits)

    @pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas, dict])
    def test_kind_of_frame_has_no_say(self, convert):
        other = make("efa").fit(convert(FRAME))
        assert same_bits(other, make("efa").fit(FRAME))
        np.testing.assert_array_equal(other.log_prob(convert(FRAME)), other.log_prob(FRAME))


class TestWeights:
    @pytest.mark.parametrize("kind", KINDS)
    def test_elements_of_weight_zero_teach_nothing(self, kind):
        weight = np.where(FRAME["user"].isin(["u2", "u7"]), 0.0, 1.0)
        other = FRAME.copy()
        other.loc[weight == 0, "stars"] = 5.0
        fits = [
            make(kind, validation_fraction=0.0).fit(frame, sample_weight=weight)
            for frame in (FRAME, other)
        ]
        assert same_bits(*fits)
        assert not same_bits(fits[0], make(kind, validation_fraction=0.0).fit(other))

    @pytest.mark.parametrize("kind", ["marginal", "shrunk-offset"])
    def test_whole_weights_are_repetitions_in_a_fit(self, kind):
        twice = np.where(FRAME["user"] == "u3", 2, 1)
        copy = FRAME[FRAME["user"] == "u3"].assign(user="again")
        one = make(kind).fit(FRAME, sample_weight=twice)
        other = make(kind).fit(pd.concat([FRAME, copy]))
        np.testing.assert_allclose(one.log_prob(FRAME), other.log_prob(FRAME), rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("kind", TRAINED)
    def test_held_out_elements_have_their_weights(self, kind):
        """A group that weighs nothing is never chosen to choose the epoch by."""
        weight = np.where(FRAME["user"].isin(["u0", "u1"]), 1.0, 0.0)
        estimator = make(kind, validation_fraction=0.5).fit(FRAME, sample_weight=weight)
        assert all(row.validation_nats is not None for row in estimator.history_.rows)

    @pytest.mark.parametrize("kind", TRAINED)
    def test_validation_is_weighted_too(self, kind):
        weight = np.random.default_rng(0).random(len(FRAME))
        estimator = make(kind, validation_fraction=0.4, seed=2).fit(FRAME, sample_weight=weight)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        _, held_out = hold_out(groups, np.ones(len(groups), dtype=bool), fraction=0.4, seed=2)
        score = estimator.score(
            held_out, sample_weight=weight[held_out.source_row[held_out.elements()]]
        )
        assert estimator.history_.best.validation_nats == pytest.approx(-score, rel=1e-5)

    @pytest.mark.parametrize("kind", KINDS)
    def test_weights_without_any(self, kind):
        with pytest.raises(ExfamError, match="target element of positive weight to fit, got none"):
            make(kind).fit(FRAME, sample_weight=np.zeros(len(FRAME)))


class TestValidation:
    def test_groups_are_split_and_disjoint(self, monkeypatch):
        seen = {}

        def note(estimator, build, plan):
            seen["train"], seen["validation"] = plan.train, plan.validation
            return [build(torch.Generator().manual_seed(0))], []

        monkeypatch.setattr("exfam.estimators.efa.train_members", note)
        make("efa", validation_fraction=0.25).fit(FRAME)
        train, held_out = set(seen["train"].group_names), set(seen["validation"].group_names)
        assert not train & held_out and train | held_out == set(FRAME["user"])
        assert len(held_out) == 3

    @pytest.mark.parametrize("kind", TRAINED)
    @pytest.mark.parametrize("as_groups", [False, True])
    def test_given_validation_is_used(self, kind, as_groups):
        held_out = ratings(seed=5, n_users=4)
        given = Groups.from_frame(held_out, **COLUMNS) if as_groups else held_out
        estimator = make(kind).fit(FRAME, validation=given)
        best = estimator.history_.best
        assert best.validation_nats == pytest.approx(-estimator.score(held_out), rel=1e-5)
        whole = make(kind, validation_fraction=0.0).fit(FRAME)
        assert whole.history_.best is None

    def test_few_groups_have_none(self):
        assert make("efa", validation_fraction=0.9).fit(FRAME[:1]).history_.best is None

    def test_validation_without_targets(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        with pytest.raises(ExfamError, match="`validation` must hold at least one element"):
            make("efa").fit(groups, validation=groups.with_(role=np.ones(groups.n_rows, np.int8)))

    def test_validation_outside_the_support(self):
        wrong = FRAME.assign(stars=-1.0)
        with pytest.raises(exfam.SupportError, match="`stars` must be .* got -1 at row 0"):
            make("efa", family=Poisson(shift=1)).fit(FRAME, validation=wrong)

    def test_shrunk_offset_chooses_k_by_validation(self):
        with pytest.raises(ExfamError, match="`validation_fraction` must be above 0 to choose `k`"):
            make("shrunk-offset", k=None).fit(FRAME)
        estimator = make("shrunk-offset", k=None, validation_fraction=0.3).fit(FRAME)
        part = estimator.members_[0].value_part
        assert isinstance(part, ShrunkOffsetValues) and part.k == estimator.k_ > 0


ENCODINGS = ("relative", "none", "distance")
WIRINGS = [
    ("bidirectional", "copies"),
    ("bidirectional", "exact"),
    ("bidirectional", "static"),
    ("causal", "copies"),
    ("causal", "two_stream"),
    ("causal", "static"),
]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("direction", "conditional"), WIRINGS)
class TestNoLeak:
    """The leak law, asked of the estimator: what it predicts at i never knows i."""

    frame = ratings(n_users=4, shuffle=False, seed=2, least=3)

    def model(self, direction, conditional, encoding, **more):
        return fitted_on(
            self.frame,
            "efa",
            noise=0.5,
            direction=direction,
            conditional=conditional,
            encoding=encoding,
            support="none",
            attributes=["genre", "gap"],
            known=["gap"],
            max_epochs=1,
            **more,
        )

    def moved(self, ask, column, row, value):
        """Which rows of the answer move when one cell does."""
        other = self.frame.copy()
        assert other.loc[row, column] != value
        other.loc[row, column] = value
        return np.abs(ask(other) - ask(self.frame)).reshape(len(other), -1).max(1) > 1e-5

    def test_item_and_value_parts(self, direction, conditional, encoding):
        estimator = self.model(direction, conditional, encoding, item_sees_values=True)
        movie = next(m for m in "abcdef" if m != self.frame.loc[1, "movie"])
        items = lambda column, value: self.moved(estimator.predict_proba, column, 1, value)  # noqa: E731
        values = lambda column, value: self.moved(estimator.predict, column, 1, value)  # noqa: E731
        seen = [False, False, True] if direction == "causal" else [True, False, True]
        # Items: blind for their own row, in all but `known` attributes.
        assert items("movie", movie)[:3].tolist() == seen
        assert items("stars", 7.5)[:3].tolist() == seen
        assert (
            items("genre", "y" if self.frame.loc[1, "genre"] == "x" else "x")[:3].tolist() == seen
        )
        assert items("gap", 3.0)[:3].tolist() == [seen[0], True, True]
        # Values: blind for their own alone.
        assert values("stars", 7.5)[:3].tolist() == seen
        assert values("movie", movie)[:3].tolist() == [seen[0], True, True]
        # Nobody sees another group.
        elsewhere = (self.frame["user"] != "u0").to_numpy()
        assert not items("movie", movie)[elsewhere].any()
        assert not values("stars", 7.5)[elsewhere].any()

    def test_items_see_values_only_if_asked(self, direction, conditional, encoding):
        estimator = self.model(direction, conditional, encoding)
        assert not self.moved(estimator.predict_proba, "stars", 1, 7.5).any()

    def test_appended_elements_change_nothing_earlier(self, direction, conditional, encoding):
        estimator = self.model(direction, conditional, encoding)
        more = pd.concat([self.frame, self.frame[:1].assign(movie="f", stars=9.0)])
        for ask in (estimator.predict_proba, estimator.predict):
            before, after = ask(self.frame), ask(more)[:-1]
            own = (self.frame["user"] == "u0").to_numpy()
            np.testing.assert_allclose(after[~own], before[~own], rtol=1e-5, atol=1e-5)
            same = np.allclose(after[own], before[own], rtol=1e-5, atol=1e-5)
            assert same == (direction == "causal")


class TestData:
    """Groups and frames with fewer or stranger columns."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_groups_of_one_element(self, kind):
        single = FRAME.drop_duplicates("user")
        estimator = make(kind).fit(single)
        assert np.isfinite(estimator.log_prob(single)).all()
        assert np.isfinite(estimator.log_prob(FRAME)).all()

    @pytest.mark.parametrize("kind", ["efa", "marginal", "shrunk-offset"])
    @pytest.mark.parametrize("direction", DIRECTIONS)
    def test_values_without_items(self, kind, direction):
        estimator = make(kind, item=None, direction=direction).fit(FRAME)
        assert np.isfinite(estimator.log_prob(FRAME)).all()
        assert estimator.score_parts(FRAME).keys() == {"stars"}
        with pytest.raises(ExfamError, match="must have an item part"):
            estimator.recommend(FRAME)
        with pytest.raises(ExfamError, match="must come from a model with an item part"):
            estimator.complements("a")

    def test_latent_factors_need_items(self):
        with pytest.raises(ExfamError, match="`item` must be given, since items have the factors"):
            make("latent-factor", item=None).fit(FRAME)

    @pytest.mark.parametrize("kind", KINDS)
    def test_whole_groups_without_observed_values(self, kind):
        gaps = FRAME.copy()
        gaps.loc[gaps["user"].isin(["u1", "u4", "u5", "u6"]), "stars"] = np.nan
        estimator = make(kind, parts="values") if kind in WITH_ITEMS else make(kind)
        estimator.fit(gaps)
        assert np.isfinite(estimator.predict(gaps)).all()
        assert np.isfinite(estimator.score(gaps))

    @pytest.mark.parametrize("kind", KINDS)
    def test_values_in_double_precision(self, kind):
        frame = FRAME.assign(stars=FRAME["stars"].astype(np.float64) + 1e-9)
        groups = Groups.from_frame(frame, **COLUMNS)
        assert groups.values["stars"].dtype == np.float64
        assert np.isfinite(make(kind).fit(groups).score(groups))

    def test_groups_with_context_ranges(self):
        item = np.array([0, 1, 2, 3, 4, 5], dtype=np.int32)
        groups = Groups(
            start=[0, 2, 4],
            stop=[2, 4, 6],
            context_start=[[0], [0], [2]],
            context_stop=[[0], [2], [4]],
            item=item,
            values={"stars": np.arange(6.0)},
        )
        for direction in DIRECTIONS:
            estimator = random_weights(make("efa", direction=direction).fit(groups))
            told = estimator.log_prob(groups)
            assert np.isfinite(told).all()
            changed = groups.with_(values={"stars": np.array([9.0, 1, 2, 3, 4, 5])})
            moved = estimator.predict(changed) != estimator.predict(groups)
            assert moved[2:4].all() and not moved[4:].any()

    def test_groups_drawn_with_replacement(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        estimator = make("efa").fit(groups)
        drawn = groups[[0, 0, 3]]
        each = estimator.log_prob(groups)
        n0, n3 = (groups[g].n_elements for g in (0, 3))
        start = groups.stop[2]
        by_hand = np.concatenate([each[:n0], each[:n0], each[start : start + n3]])
        np.testing.assert_allclose(estimator.log_prob(drawn), by_hand, rtol=1e-5)
        assert estimator.score(drawn) == pytest.approx(by_hand.mean(), rel=1e-5)
        assert np.isfinite(make("efa").fit(drawn).score(groups))

    def test_positions(self):
        frame = FRAME.assign(x=FRAME["gap"], y=FRAME["age"])
        for columns in ("gap", ["x", "y"]):
            for encoding in ("relative", "distance") if columns == "gap" else ("distance",):
                estimator = make("efa", position=columns, encoding=encoding).fit(frame)
                assert np.isfinite(estimator.log_prob(frame)).all()
                assert len(estimator.recommend(frame).groups) == 12

    def test_longer_groups_than_in_training(self):
        short = FRAME.groupby("user").head(2)
        for encoding in ("relative", "rotary", "attenuated", "none", "distance"):
            estimator = make("efa", encoding=encoding).fit(short)
            assert np.isfinite(estimator.log_prob(FRAME)).all()
        with pytest.raises(ExfamError, match="`position` must be in 0 .. 1, the range seen in"):
            make("efa", encoding="learned").fit(short).log_prob(FRAME)

    def test_a_family_for_every_item(self):
        family = PerItem({0: Poisson(shift=1)}, default=Gaussian())
        for kind in ("efa", "latent-factor", "marginal"):
            estimator = make(kind, family=family, parts="values").fit(FRAME)
            assert np.isfinite(estimator.log_prob(FRAME)).all()
            upper = estimator.predict(FRAME, quantiles=[0.8])[:, 0]
            whole = (FRAME["movie"] == "a").to_numpy()
            np.testing.assert_array_equal(upper[whole], upper[whole].round())
            assert (upper[~whole] != upper[~whole].round()).all()

    def test_items_that_repeat_are_allowed_by_default(self):
        frame = ratings(repeats=True, seed=3)
        estimator = make("efa").fit(frame)
        assert estimator.support_ == "none" and np.isfinite(estimator.score(frame))

    def test_schema_holds_what_was_fitted(self):
        estimator = make("efa", attributes="genre", group_attributes="age").fit(FRAME)
        assert isinstance(estimator.schema_, Schema)
        assert [spec.name for spec in estimator.schema_.attributes] == ["genre", "age"]

    def test_group_attributes_enter(self):
        estimator = random_weights(
            make("efa", group_attributes="age", head_hidden_dim=0).fit(FRAME)
        )
        older = FRAME.assign(age=FRAME["age"] + 5)
        for ask in (estimator.predict, estimator.predict_proba):
            assert (np.abs(ask(older) - ask(FRAME)).reshape(len(FRAME), -1).max(1) > 1e-4).all()

    def test_vectors_of_items(self):
        for kind in TRAINED:
            vectors = make(kind).fit(FRAME).item_vectors_
            assert vectors.shape[0] == 6 and np.isfinite(vectors).all()
        tied = make("efa", tie="reflection").fit(FRAME)
        signs = tied.item_vectors_ / tied.item_context_vectors_
        np.testing.assert_allclose(signs, np.tile([1, 1, 1, 1, -1, -1, -1, -1], (6, 1)))
        values = make("efa", parts="values").fit(FRAME)
        with pytest.raises(ExfamError, match="`item` part must be fitted"):
            _ = values.item_vectors_
        assert make("latent-factor", parts="values").fit(FRAME).item_vectors_.shape == (6, 4)
