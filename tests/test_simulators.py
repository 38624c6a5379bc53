import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.groups import Groups
from exfam.simulators import RATING_CASES, ratings_cases, ratings_true_means, simulate_ratings


def movies(groups):
    return (groups.item.reshape(-1, 5) + 1).tolist()


def true_mean(order, place):
    """The rules of Appendix H.1, one by one."""
    movie = order[place]
    before = order[place - 1] if place else None
    if movie == 2:
        return 1.0 if 1 in order[:place] else 5.0
    if (movie, before) in {(4, 3), (3, 4)}:
        return 1.0
    return 5.0 if movie == 5 and place == 4 else 3.0


def test_the_notebooks_draw_has_the_recorded_bayes_error():
    groups = simulate_ratings(seed=42)
    test = groups[7500:]
    error = (test.values["value"][test.elements()] - ratings_true_means(test)) ** 2
    assert np.mean(error) == pytest.approx(1.0226, abs=5e-5)
    assert np.std(error) / np.sqrt(error.size) == pytest.approx(0.013, abs=5e-4)


def test_ratings_are_drawn_as_the_notebook_does():
    random = np.random.RandomState(42)
    groups = simulate_ratings(50, seed=42)
    for user in range(50):
        order = (random.permutation(5) + 1).tolist()
        assert movies(groups[user].compact()) == [order]
        value = [random.normal(true_mean(order, place), 1) for place in range(5)]
        assert groups.values["value"][groups[user].elements()].tolist() == value


def test_means_follow_the_rules():
    groups = simulate_ratings(500, seed=1)
    orders = movies(groups)
    assert len({tuple(order) for order in orders}) > 100
    expected = [[true_mean(order, place) for place in range(5)] for order in orders]
    assert ratings_true_means(groups).reshape(-1, 5).tolist() == expected


def test_cases_tell_the_mean_and_all_occur():
    groups = simulate_ratings(500, seed=1)
    cases = ratings_cases(groups)
    assert set(cases) == set(RATING_CASES)
    assert [RATING_CASES[case] for case in cases] == ratings_true_means(groups).tolist()
    first = groups.item[cases == "4 right after 3"] + 1
    assert set(first) == {4}


def test_truth_follows_the_view():
    groups = simulate_ratings(20, seed=2)
    means = ratings_true_means(groups).reshape(-1, 5)
    assert ratings_true_means(groups[[7, 3]]).reshape(-1, 5).tolist() == means[[7, 3]].tolist()


def test_seeds_differ():
    one, same, other = (simulate_ratings(20, seed=seed) for seed in (1, 1, 2))
    assert one.values["value"].tolist() == same.values["value"].tolist()
    assert one.values["value"].tolist() != other.values["value"].tolist()


@pytest.mark.parametrize(
    "groups, match",
    [
        (Groups(start=[0], stop=[5]), "`groups` must come from simulate_ratings"),
        (Groups(start=[0], stop=[4], item=[0, 1, 2, 3]), "`groups` must come from simulate_rat"),
        (Groups(start=[0], stop=[5], item=[0, 1, 2, 3, 3]), "each of 5 movies once"),
    ],
)
def test_truth_is_known_of_simulated_ratings_only(groups, match):
    with pytest.raises(ExfamError, match=match):
        ratings_true_means(groups)


def test_there_are_users():
    with pytest.raises(ExfamError, match="`n_users` must be a number > 0"):
        simulate_ratings(0, seed=0)
