import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from exfam.checks import DataError, ExfamError
from exfam.scores import metrics as scores
from exfam.scores.metrics import (
    mrr,
    mse,
    ndcg_at,
    paired_bootstrap,
    ranks,
    recall_at,
    rmse,
)


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def test_ranks_are_positions_in_the_sorted_row(generator):
    table = generator.normal(size=(50, 12))
    target = generator.integers(12, size=50)
    expected = np.argwhere(np.argsort(-table, axis=1) == target[:, None])[:, 1] + 1
    np.testing.assert_array_equal(ranks(table, target), expected)
    # Ties share their mean rank, and excluded and unknown items come last.
    table = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, -np.inf, -np.inf, 2.0]])
    np.testing.assert_array_equal(ranks(table, np.array([1, 2])), [2.0, 3.5])
    rank = ranks(np.zeros((1, 3)), np.array([-1]))
    assert recall_at(rank, k=3) == ndcg_at(rank, k=3) == mrr(rank) == 0.0


def test_ndcg_is_that_of_scikit_learn_and_recall_rises_to_one(generator):
    table = generator.normal(size=(40, 30))
    target = generator.integers(30, size=40)
    relevant = np.eye(30)[target]
    for k in (1, 5, 10, 30):
        assert ndcg_at(ranks(table, target), k=k) == pytest.approx(ndcg_score(relevant, table, k=k))
    recalls = [recall_at(ranks(table, target), k=k) for k in range(1, 31)]
    assert recalls == sorted(recalls) and recalls[-1] == 1.0 and recalls[0] < 0.5


def test_errors_are_means_of_squares(generator):
    value, mean = generator.integers(1, 4, size=200), generator.normal(size=200)
    assert mse(value, mean) == pytest.approx(((value - mean) ** 2).mean())
    assert rmse(10 * value, 10 * mean) == pytest.approx(10 * np.sqrt(mse(value, mean)))


def slow_bootstrap(difference, group, generator, n):
    names = np.unique(group)
    means = []
    for _ in range(n):
        drawn = generator.choice(names, size=len(names))
        means.append(np.concatenate([difference[group == name] for name in drawn]).mean())
    return np.quantile(means, [0.025, 0.975])


def test_the_bootstrap_redraws_whole_groups(generator):
    group = np.repeat(generator.permutation(60) + 100, generator.integers(1, 6, size=60))
    difference = generator.normal(size=60)[group - 100] + 0.1 * generator.normal(size=len(group))
    mean, low, high = paired_bootstrap(difference, group, seed=1, n=4000)
    assert mean == pytest.approx(difference.mean())
    expected = slow_bootstrap(difference, group, generator, 2000)
    np.testing.assert_allclose([low, high], expected, atol=0.03)
    apart = paired_bootstrap(difference, np.arange(len(group)), seed=1)
    assert high - low > 1.2 * (apart.high - apart.low)
    # A constant difference has no spread, whatever the group sizes.
    interval = paired_bootstrap(np.ones(21), np.repeat(np.arange(6), np.arange(1, 7)), seed=0)
    np.testing.assert_allclose(interval, 1.0)


def test_the_bootstrap_depends_on_its_seed_and_not_on_the_chunks(generator, monkeypatch):
    difference, group = generator.normal(size=300), np.arange(300) // 3
    whole = paired_bootstrap(difference, group, seed=5, n=500)
    assert whole == paired_bootstrap(difference, group, seed=5, n=500)
    assert whole != paired_bootstrap(difference, group, seed=6, n=500)
    monkeypatch.setattr(scores, "_ENTRIES_AT_ONCE", 700)
    assert whole == paired_bootstrap(difference, group, seed=5, n=500)
    narrow, wide = (paired_bootstrap(difference, group, seed=0, level=x) for x in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.mean < narrow.high < wide.high


def test_nothing_cannot_be_scored_and_k_must_be_positive():
    nothing = np.empty(0)
    for score in (mrr, lambda rank: recall_at(rank, k=1), lambda rank: mse(rank, rank)):
        with pytest.raises(DataError, match="must hold at least one element, got none"):
            score(nothing)
    with pytest.raises(DataError, match="`difference` must hold at least one element"):
        paired_bootstrap(nothing, nothing.astype(int), seed=0)
    for score in (recall_at, ndcg_at):
        with pytest.raises(ExfamError, match="`k` must be a number > 0, got 0"):
            score(np.ones(2), k=0)
