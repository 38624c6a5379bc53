import numpy as np
import pytest
import scipy.sparse

from exfam.checks import ExfamError
from exfam.efa import recommenders
from exfam.efa.recommenders import ease, item_knn, popularity
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.scores.metrics import ranks

N_ITEMS = 9
VOCABULARY = {"item": np.array([f"item {code}" for code in range(N_ITEMS)], dtype=object)}
FITS = {
    "popularity": popularity,
    "item-knn": lambda groups: item_knn(groups, n_neighbors=3),
    "ease": lambda groups: ease(groups, ridge=2.0),
}


def some_groups(seed, n=40, *, repeats=False):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 7, size=n)
    stop = np.cumsum(lengths)
    chances = np.arange(1, N_ITEMS + 1) / (N_ITEMS * (N_ITEMS + 1) / 2)
    drawn = [generator.choice(N_ITEMS, size=k, replace=repeats, p=chances) for k in lengths]
    item = np.concatenate(drawn).astype(np.int32)
    return Groups(start=stop - lengths, stop=stop, item=item, vocabulary=VOCABULARY)


def members(groups):
    return [
        groups.item[start:stop].tolist()
        for start, stop in zip(groups.start, groups.stop, strict=True)
    ]


def slow_matrix(groups):
    matrix = np.zeros((len(groups), N_ITEMS))
    for row, items in enumerate(members(groups)):
        matrix[row, items] = 1
    return matrix


def slow_scores(recommender, groups, direction, exclude):
    rows, weights = [], recommender.weights
    weights = weights.toarray() if scipy.sparse.issparse(weights) else weights
    for items in members(groups):
        for i in range(len(items)):
            context = items[:i] if direction == "causal" else items[:i] + items[i + 1 :]
            row = recommender.bias + weights[sorted(set(context))].sum(axis=0)
            if exclude:
                row[list(set(context))] = -np.inf
            rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("name", FITS)
def test_scores_add_up_over_the_distinct_items_of_the_context(name, repeats, direction, exclude):
    recommender = FITS[name](some_groups(0))
    groups = some_groups(1, repeats=repeats)[::-2]
    got = recommender.scores(groups, direction=direction, exclude=exclude)
    np.testing.assert_allclose(
        got, slow_scores(recommender, groups, direction, exclude), atol=1e-12
    )
    assert np.ptp(got[np.isfinite(got)]) > 0


@pytest.mark.parametrize("name", FITS)
def test_ranks_are_those_of_the_scores_however_they_are_cut(name, monkeypatch):
    recommender, groups = FITS[name](some_groups(0)), some_groups(1)
    whole = ranks(recommender.scores(groups), groups.item.astype(int))
    for most in (1, 60, 500):
        monkeypatch.setattr(recommenders, "_ENTRIES_AT_ONCE", most)
        np.testing.assert_array_equal(recommender.ranks(groups), whole)
        assert recommender.scores(groups).shape == (groups.n_targets, N_ITEMS)
    assert len(set(whole)) > 3


def test_knn_keeps_the_nearest_neighbors_of_each_item(monkeypatch):
    groups = some_groups(0, n=200)
    matrix = slow_matrix(groups)
    np.testing.assert_array_equal(popularity(groups).bias, matrix.sum(axis=0))
    np.testing.assert_array_equal(popularity(groups[5:20]).bias, matrix[5:20].sum(axis=0))
    # Shrinkage takes from cosines of rare pairs most.
    together, norms = matrix.T @ matrix, np.linalg.norm(matrix, axis=0)
    for shrinkage in (0.0, 5.0):
        cosine = together / (norms[:, None] * norms + shrinkage)
        np.fill_diagonal(cosine, 0.0)
        knn = item_knn(groups, n_neighbors=3, shrinkage=shrinkage).weights.toarray()
        expected = np.where(
            np.argsort(np.argsort(cosine, axis=0), axis=0) >= N_ITEMS - 3, cosine, 0
        )
        np.testing.assert_allclose(knn, expected, atol=1e-12)
        # However the catalog is cut.
        for most in (1, 500):
            with monkeypatch.context() as patch:
                patch.setattr(recommenders, "_ENTRIES_AT_ONCE", most)
                cut = item_knn(groups, n_neighbors=3, shrinkage=shrinkage).weights
            np.testing.assert_array_equal(cut.toarray(), knn)
            assert cut.nnz <= 3 * N_ITEMS


def test_ease_is_a_ridge_regression_of_each_item_on_the_others():
    groups = some_groups(0, n=200)
    matrix = slow_matrix(groups)
    weights = ease(groups, ridge=2.0).weights
    for d in range(N_ITEMS):
        others = np.delete(matrix, d, axis=1)
        solution = np.linalg.solve(
            others.T @ others + 2.0 * np.eye(N_ITEMS - 1), others.T @ matrix[:, d]
        )
        np.testing.assert_allclose(np.delete(weights[:, d], d), solution, atol=1e-10)
        assert weights[d, d] == 0


def test_context_only_elements_and_unknown_items():
    recommender = ease(some_groups(0), ridge=2.0)
    role = np.array([CONTEXT, TARGET, TARGET], dtype=np.int8)
    groups = Groups(start=[0], stop=[3], item=[2, -1, 4], role=role, vocabulary=VOCABULARY)
    scores = recommender.scores(groups, exclude=True)
    assert np.isneginf(scores).tolist()[0] == [code in (2, 4) for code in range(N_ITEMS)]
    assert np.isneginf(scores).tolist()[1] == [code == 2 for code in range(N_ITEMS)]
    rank = recommender.ranks(groups)
    assert np.isinf(rank[0]) and 1 <= rank[1] <= N_ITEMS
    assert recommender.scores(groups[:0]).shape == (0, N_ITEMS)
    assert recommender.ranks(groups[:0]).shape == (0,)


GROUPS = some_groups(0)
WITHOUT = Groups(start=[0], stop=[2])
LARGE = Groups(start=[0], stop=[2], item=[0, 1], vocabulary={"item": np.arange(50_000)})


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda r: r.scores(WITHOUT), "`groups` must hold item codes below 9, got no items"),
        (lambda r: r.ranks(WITHOUT.with_(item=[0, 11])), "codes below 9, got code 11.*training"),
        (lambda r: r.ranks(GROUPS, direction="up"), "`direction` must be one of .*, got 'up'"),
        (lambda _: popularity(WITHOUT), "`groups` must have items, got none"),
        (lambda _: ease(LARGE), "at most 20,000 items for ease, got 50,000.* 60 GB of mem"),
    ],
)
def test_what_cannot_be_ranked_is_refused(call, match):
    with pytest.raises(ExfamError, match=match):
        call(popularity(GROUPS))
