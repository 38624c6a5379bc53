"""Popularity, item-kNN and EASE as estimators: their scores, their probabilities, their choices."""

from pathlib import Path

import numpy as np
import pytest
import torch

import exfam
from estimator_cases import ITEMS_ONLY, fitted_on, make, ratings
from exfam import EASE, ExfamError, Groups, ItemKNN, Popularity, UnknownItemError
from exfam.efa import rankers
from exfam.efa.base.linear import LinearItems
from exfam.efa.networks.based import present_elements
from exfam.efa.recommenders import ease, item_knn
from exfam.simulators import BasketSettings, simulate_baskets
from model_cases import whole

STORED = Path(__file__).parent / "stored" / "v2"
FRAME = ratings(n_users=30, n_movies=9, least=2)
COLUMNS = {"group": "user", "item": "movie"}
GROUPS = Groups.from_frame(FRAME, **COLUMNS)
SHOP = BasketSettings(theme_size=6, staple_items=0.1, follow=0.5, median_length=4.0, max_length=8)
BASKETS = simulate_baskets(200, 30, settings=SHOP, seed=0).groups.with_(ordered=False, tied=None)
LINEAR = ("item-knn", "ease")
DIRECTIONS = ("bidirectional", "causal")


def held(groups):
    matrix = np.zeros((len(groups), groups.n_items))
    for row, (start, stop) in enumerate(zip(groups.start, groups.stop, strict=True)):
        matrix[row, groups.item[start:stop]] = 1
    return matrix


def base_of(estimator):
    return estimator.members_[0].item_part.base


def test_weights_of_ease_are_those_of_its_closed_form():
    estimator = EASE(ridge=5.0, validation_fraction=0.0).fit(GROUPS)
    matrix = held(GROUPS)
    inverse = np.linalg.inv(matrix.T @ matrix + 5.0 * np.eye(GROUPS.n_items))
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(base_of(estimator).weights, expected, rtol=1e-5, atol=1e-6)
    assert estimator.settings_ == {"ridge": 5.0}


def test_weights_of_neighbors_are_their_cosines():
    estimator = ItemKNN(n_neighbors=3, shrinkage=2.0, validation_fraction=0.0).fit(GROUPS)
    matrix = held(GROUPS)
    norm = np.sqrt(matrix.sum(0))
    cosine = matrix.T @ matrix / (np.outer(norm, norm) + 2.0)
    np.fill_diagonal(cosine, 0)
    weights = base_of(estimator).weights.toarray()
    for item, column in enumerate(cosine.T):
        nearest = np.sort(column)[::-1][:3]
        np.testing.assert_allclose(np.sort(weights[:, item])[::-1][:3], nearest, rtol=1e-5)
        assert (weights[:, item] > 0).sum() == 3


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", LINEAR)
def test_scores_are_those_of_the_recommender_and_the_link_keeps_their_order(kind, direction):
    groups = BASKETS.with_(ordered=True)
    estimator = make(kind, direction=direction, group=None, item=None).fit(groups)
    base, batch = base_of(estimator), whole(groups[:20])
    where = present_elements(batch)
    every = torch.arange(base.n_items)
    made = {"item-knn": item_knn, "ease": ease}[kind](groups, **estimator.settings_)
    expected = made.scores(groups[:20], direction=direction) - made.bias
    inputs = base.link_inputs(batch, where, every)
    np.testing.assert_allclose(inputs.score, expected, rtol=1e-4, atol=1e-5)
    some = base.outputs(batch, where, every[3:7])
    torch.testing.assert_close(some, base.outputs(batch, where, every)[:, 3:7])
    # Of equally popular items the one of the higher score is the more likely.
    alike = inputs._replace(log_popularity=torch.full_like(inputs.log_popularity, -3.0))
    eta = base.linked(alike).double() + 1e-9 * inputs.score
    by_score = inputs.score.argsort(1)
    assert (eta.gather(1, by_score).diff(dim=1) >= -1e-5).all() and eta.std() > 0.1


@pytest.mark.parametrize("kind", LINEAR)
def test_held_out_groups_make_scores_likelier_than_popularity(kind):
    train, test = BASKETS.split([0.8, 0.2], seed=0)
    columns = {"group": None, "item": None}
    popular = make("popularity", **columns).fit(train)
    estimator = make(kind, **columns).fit(train)
    usual = make(kind, **columns, validation_fraction=0.0).fit(train)
    nats = [model.score(test) for model in (estimator, usual, popular)]
    assert nats[0] > nats[2] + 0.05 and nats[0] > nats[1] - 0.01
    assert not torch.equal(base_of(estimator).numbers, base_of(usual).numbers)


def test_all_groups_are_fitted_once_the_settings_are_chosen():
    estimator = EASE(validation_fraction=0.3).fit(GROUPS)
    again = ease(GROUPS, **estimator.settings_).weights
    np.testing.assert_allclose(base_of(estimator).weights, again, rtol=1e-5, atol=1e-6)
    train, held_out = GROUPS.split([0.5, 0.5], seed=0)
    given = EASE(ridge=3.0).fit(train, validation=held_out)
    np.testing.assert_allclose(base_of(given).weights, ease(train, ridge=3.0).weights, rtol=1e-5)


def test_neighbors_are_chosen_by_the_nats_of_held_out_groups(monkeypatch):
    tried = {}
    judged = rankers.LinearRanker._judged

    def spied(self, plan, fits, settings, **quick):
        tried[repr(settings)] = judged(self, plan, fits, settings, **quick)
        return tried[repr(settings)]

    monkeypatch.setattr(rankers.LinearRanker, "_judged", spied)
    estimator = ItemKNN(validation_fraction=0.3).fit(BASKETS)
    assert len(tried) == 7 and repr(estimator.settings_) == min(tried, key=tried.get)


def test_a_search_among_many_items_looks_at_the_frequent_ones(monkeypatch):
    monkeypatch.setattr(rankers, "SEARCH_ITEMS", 10)
    estimator = EASE(validation_fraction=0.3).fit(BASKETS)
    again = ease(BASKETS, **estimator.settings_).weights
    np.testing.assert_allclose(base_of(estimator).weights, again, rtol=1e-4, atol=1e-6)
    some = rankers._of_frequent(BASKETS)
    count = np.bincount(BASKETS.item)
    kept = np.unique(some.item[some.item >= 0])
    assert len(kept) == 10 and count[kept].min() >= np.delete(count, kept).max()
    assert (ease(some).weights[np.setdiff1d(np.arange(30), kept)] == 0).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", ITEMS_ONLY)
class TestContract:
    def test_probabilities_add_up_and_are_those_of_the_score(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction)
        assert estimator.support_ == "hard"
        probability = estimator.predict_proba(FRAME)
        np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
        code = np.searchsorted(estimator.vocabulary_["item"].tolist(), FRAME["movie"])
        nats = np.log(probability[np.arange(len(FRAME)), code])
        np.testing.assert_allclose(estimator.log_prob(FRAME), nats, rtol=1e-4, atol=1e-5)
        assert estimator.score(FRAME) == pytest.approx(nats.mean(), rel=1e-4)
        assert list(estimator.score_parts(FRAME)) == ["items"]

    def test_an_element_is_not_seen_and_earlier_ones_are(self, kind, direction):
        estimator = fitted_on(FRAME, kind, direction=direction, support="none")
        groups = Groups(start=[0], stop=[4], item=[0, 1, 2, 3], ordered=True)
        other = groups.with_(item=np.array([0, 1, 2, 5], dtype=np.int32))
        first, second = (estimator.predict_proba(some) for some in (groups, other))
        np.testing.assert_allclose(first[3], second[3], rtol=1e-5)
        sees = kind != "popularity" and direction == "bidirectional"
        assert np.allclose(first[0], second[0], rtol=1e-4) != sees

    def test_is_loaded_as_it_was_saved(self, kind, direction, tmp_path):
        estimator = fitted_on(FRAME, kind, direction=direction)
        estimator.save(tmp_path / "model")
        loaded = exfam.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.log_prob(FRAME), estimator.log_prob(FRAME))
        assert getattr(loaded, "settings_", None) == getattr(estimator, "settings_", None)
        assert loaded.recommend([["a", "b"]]).items.tolist() == (
            estimator.recommend([["a", "b"]]).items.tolist()
        )

    def test_has_no_parameters_of_values(self, kind, direction):
        names = make(kind, direction=direction).get_params()
        assert not {"value", "family", "parts", "attributes"} & names.keys()
        with pytest.raises(TypeError, match="has no parameter 'value'"):
            make(kind)._check_fitted  # noqa: B018
            type(make(kind))(value="stars")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", LINEAR)
def test_contributions_add_up_to_the_score(kind, direction):
    estimator = fitted_on(FRAME, kind, direction=direction)
    groups = estimator._inputs(FRAME).groups[:5]
    why = estimator.explain_item(groups)
    weights = base_of(estimator).weights
    weights = weights if isinstance(weights, np.ndarray) else weights.toarray()
    labels = estimator.vocabulary_["item"].tolist()
    for number in range(5):
        own = labels.index(why.items[number])
        expected = weights[groups[number].compact().item, own].sum()
        mine = why.contribution[why.candidate == number].sum()
        assert why.score[number] == pytest.approx(expected, abs=1e-5)
        assert mine == pytest.approx(expected, abs=1e-5)
    best = estimator.recommend(groups, k=1)
    np.testing.assert_allclose(why.probability, best.probabilities[:, 0], rtol=1e-4)


def test_items_that_a_context_has_twice_count_once():
    weights = np.array([[0.0, 0.5, 0.1], [0.5, 0.0, 0.2], [0.1, 0.2, 0.0]])
    base = LinearItems(weights, count=np.ones(3), direction="bidirectional", smooth=True)
    groups = Groups(start=[0], stop=[3], item=[0, 0, 1])
    batch = whole(groups)
    where = present_elements(batch)
    score = base.link_inputs(batch, where, torch.arange(3)).score
    np.testing.assert_allclose(score[0], weights[0] + weights[1], rtol=1e-6)
    np.testing.assert_allclose(score[2], weights[0], rtol=1e-6)
    _, added = base.contributions(batch, where, torch.tensor([1, 1, 1]))
    np.testing.assert_allclose(added[2, :2], [0.25, 0.25])


def test_popularity_is_the_share_of_elements():
    estimator = Popularity(support="none").fit(GROUPS)
    count = np.bincount(GROUPS.item, minlength=GROUPS.n_items) + 1.0
    expected = np.sort(count / count.sum())[::-1]
    np.testing.assert_allclose(
        estimator.recommend(GROUPS[:1], k=9).probabilities[0], expected, rtol=1e-5
    )


def test_weights_of_elements_are_refused_where_groups_are_counted():
    weight = np.ones(len(FRAME))
    with pytest.raises(ExfamError, match="`sample_weight` must be None for EASE, which counts"):
        make("ease").fit(FRAME, sample_weight=weight)
    make("popularity").fit(FRAME, sample_weight=weight)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_popularity_counts_further_groups_as_if_the_fit_had_had_them(tmp_path, is_loaded):
    first, more = GROUPS.split([0.6, 0.4], seed=0)
    model = Popularity(smoothing=2.0).partial_fit(first)
    before = model.predict_proba(GROUPS)
    if is_loaded:
        model.save(tmp_path / "model")
        model = exfam.load(tmp_path / "model")
    both = Popularity(smoothing=2.0).fit(GROUPS)
    assert model.partial_fit(more[:4]).partial_fit(more[4:]) is model
    np.testing.assert_allclose(model.predict_proba(GROUPS), both.predict_proba(GROUPS), atol=1e-6)
    assert np.abs(model.predict_proba(GROUPS) - before).max() > 1e-3
    assert model.data_counts_ == both.data_counts_ and model.seen_in_fit(GROUPS).seen.all()


def test_what_popularity_cannot_count_is_refused():
    model = Popularity(group="user", item="movie").fit(FRAME)
    with pytest.raises(UnknownItemError, match="Fit anew, to all groups, for new items.$"):
        model.partial_fit({"user": [1], "movie": ["never seen"]})
    old = exfam.load(STORED / "popularity")
    with pytest.raises(ExfamError, match="`partial_fit` needs how many elements were counted, wh"):
        old.partial_fit(FRAME)
