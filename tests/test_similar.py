"""Similar items and groups: by the weights and vectors of models, labels as they were given."""

import numpy as np
import pandas as pd
import pytest

from estimator_cases import COLUMNS, fitted_on, make, ratings
from exfam import EFA, ExfamError, Groups, UnknownItemError
from exfam.efa import similar

FRAME = ratings(n_users=30, n_movies=8, least=2)
KINDS = ("efa", "latent-factor", "item-knn", "ease")


def clusters(n_groups=120, *, size=5, seed=0):
    """Groups of three items, all but one in five of them from one half of ten items."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(n_groups):
        half = number % 2
        for item in random.choice(size, 3, replace=False) + half * size:
            rows.append(int(item if random.random() < 0.8 else random.integers(2 * size)))
    start = np.arange(n_groups) * 3
    return Groups(
        start=start,
        stop=start + 3,
        item=np.array(rows),
        group_names=np.array([f"g{n}" for n in range(n_groups)]),
        vocabulary={"item": np.array([f"i{n}" for n in range(2 * size)])},
    )


CLUSTERS = clusters(400)


def models():
    fast = {"max_epochs": 20, "learning_rate": 0.03}
    quiet = {"progress": False, "support": "none"}
    yield "ridge weights", EFA(attention="none", **quiet)
    yield "center vectors", EFA(base="none", embed_dim=8, n_layers=1, **fast, **quiet)
    yield "lifts", EFA(attention="none", direction="causal", order="rows", **quiet)
    for kind in ("latent-factor", "item-knn", "ease"):
        changes = {"group": None, "item": None, "support": "none"}
        changes |= (
            {"value": None, "dim": 4, "batch_size": 16, **fast} if kind == "latent-factor" else {}
        )
        by = "center vectors" if kind == "latent-factor" else "weights"
        yield by, make(kind, **changes)


@pytest.mark.parametrize(("by", "model"), list(models()))
def test_what_is_similar_is_of_the_same_cluster(by, model):
    model.fit(CLUSTERS)
    result = model.similar_items([f"i{n}" for n in range(10)], k=4)
    assert result.by == by and result.labels.shape == (10, 4)
    same = [
        [(int(label[1:]) < 5) == (n < 5) for label in row] for n, row in enumerate(result.labels)
    ]
    assert np.mean(same) > 0.75
    assert (np.diff(result.similarity, axis=1) <= 1e-6).all()
    new = clusters(40, seed=1)
    result = model.similar_groups(new, CLUSTERS, k=5)
    same = [[int(label[1:]) % 2 == n % 2 for label in row] for n, row in enumerate(result.labels)]
    assert np.mean(same) > 0.75


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_similar_to_itself_and_labels_are_as_given(kind):
    numbers = FRAME.assign(movie=FRAME["movie"].map(ord))
    estimator = fitted_on(numbers, kind)
    result = estimator.similar_items(ord("a"), k=20)
    assert result.of.tolist() == [ord("a")] and result.labels.shape == (1, 7)
    assert sorted(result.labels[0].tolist()) == [ord(letter) for letter in "bcdefgh"]
    groups = estimator.similar_groups(numbers, k=3)
    assert set(groups.of) == set(FRAME["user"])
    for label, others in zip(groups.of, groups.labels, strict=True):
        assert label not in others and len(set(others)) == 3
    twins = estimator.similar_groups(numbers, numbers, k=1)
    np.testing.assert_allclose(twins.similarity[:, 0], 1, atol=1e-5)


def test_vectors_of_values_are_loadings():
    random = np.random.default_rng(0)
    person, movie = np.divmod(np.arange(200 * 8), 8)
    taste = random.normal(size=200)[person] * np.where(movie < 4, 1, -1)
    values = {"person": person, "movie": movie, "stars": taste + 0.3 * random.normal(size=1600)}
    columns = {"group": "person", "item": "movie", "value": "stars", "parts": "values"}
    model = EFA(**columns, family="gaussian", attention="none", progress=False).fit(values)
    result = model.similar_items([0, 6], k=3)
    assert result.by == "loadings"
    assert set(result.labels[0]) == {1, 2, 3} and set(result.labels[1]) == {4, 5, 7}


def test_results_are_frames_and_lines():
    estimator = fitted_on(FRAME, "ease")
    result = estimator.similar_items(["b", "a"], k=2)
    frame = result.to_frame("pandas")
    assert list(frame.columns) == ["item", "rank", "similar", "similarity"] and len(frame) == 4
    assert frame["item"].tolist() == ["b", "b", "a", "a"] and frame["rank"].tolist() == [1, 2, 1, 2]
    assert result.to_frame("pyarrow").num_rows == 4
    assert repr(result).startswith("Similar: items like each of 2, by cosines of weights\n")
    every = estimator.similar_groups(FRAME, k=1)
    assert isinstance(every.to_frame(), pd.DataFrame) and "groups like each of 30" in repr(every)


def test_an_item_without_a_vector_is_similar_to_nothing():
    groups = Groups(
        start=[0, 2, 4], stop=[2, 4, 5], item=[0, 1, 0, 1, 2], vocabulary={"item": np.arange(3)}
    )
    model = make("item-knn", group=None, item=None).fit(groups)
    result = model.similar_items([2, 0], k=2)
    assert result.labels.tolist() == [[None, None], [1, None]]
    assert result.to_dict()["similar"].tolist() == [1]


def test_models_and_items_that_have_no_similar_ones_say_so(monkeypatch):
    with pytest.raises(ExfamError, match="`similar_items` needs a model that knows items apart"):
        fitted_on(FRAME, "popularity").similar_items("a")
    estimator = fitted_on(FRAME, "ease")
    for items in ("z", ["a", "z"], [["a"]]):
        with pytest.raises(UnknownItemError, match="`item` must be one seen in training"):
            estimator.similar_items(items)
    with pytest.raises(ExfamError, match="`k` must be"):
        estimator.similar_items("a", k=0)
    causal = make("efa", direction="causal", value=None, attention="none").fit(FRAME)
    monkeypatch.setattr(similar, "MANY_ITEMS", 5)
    with pytest.raises(
        ExfamError, match="`similar_items` compares lifts of at most 5 items, got 8"
    ):
        causal.similar_items("a")
    values = make("latent-factor", parts="values").fit(FRAME)
    blank = Groups.from_frame(FRAME, group="user", value="stars")
    with pytest.raises(ExfamError, match="`X` must have items for similar groups, got none"):
        similar.similar_groups(values, blank, None, k=1)


def test_only_the_groups_that_are_named_get_recommendations():
    estimator = fitted_on(FRAME, "ease")
    every = estimator.recommend(FRAME, k=3)
    some = estimator.recommend(FRAME, k=3, groups=["u7", "u2"])
    assert some.groups.tolist() == ["u7", "u2"]
    for number, label in enumerate(some.groups):
        own = every.groups.tolist().index(label)
        assert some.items[number].tolist() == every.items[own].tolist()
    for wrong in (["u7", "nobody"], [["u7"]]):
        with pytest.raises(ExfamError, match="`groups` must name groups of `X`, got "):
            estimator.recommend(FRAME, groups=wrong)
    for alone in ("u7", "nobody"):
        with pytest.raises(ExfamError, match="`groups` must be a list of groups of `X`, got "):
            estimator.recommend(FRAME, groups=alone)
    unnamed = Groups.from_frame(FRAME, **COLUMNS).with_(group_names=None)
    third = estimator.recommend(unnamed, groups=[3], k=3)
    np.testing.assert_array_equal(third.items[0], estimator.recommend(unnamed, k=3).items[3])


@pytest.mark.parametrize("covered", [[1, 2, 5, 7, 8], [3], []], ids=str)
def test_rows_of_some_items_say_what_rows_of_all_with_zeros_do(covered, monkeypatch):
    model = EFA(attention="none", support="none", progress=False).fit(CLUSTERS)
    rows = np.random.default_rng(0).normal(size=(len(covered), 6)).astype(np.float32)
    every = np.zeros((10, 6), dtype=np.float32)
    every[covered] = rows
    answers = []
    for own in (
        similar.Directions.of(every, "rows"),
        similar.Directions.of(rows, "rows", item=np.array(covered, dtype=np.int64)),
    ):
        monkeypatch.setattr(similar, "item_directions", lambda model, own=own: own)
        items = model.similar_items([f"i{n}" for n in range(10)], k=12)
        groups = model.similar_groups(CLUSTERS[:40], k=3)
        answers.append((items, groups))
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_allclose(one.similarity, other.similarity, atol=1e-6)
