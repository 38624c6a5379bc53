import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.groups import Groups
from exfam.simulators import RATING_CASES, ratings_cases, ratings_true_means, simulate_ratings


def true_mean(order, index):
    """The rules of Appendix H.1, one by one."""
    movie, before = order[index], order[index - 1] if index else None
    if movie == 2:
        return 1.0 if 1 in order[:index] else 5.0
    if (movie, before) in {(4, 3), (3, 4)}:
        return 1.0
    return 5.0 if movie == 5 and index == 4 else 3.0


def test_the_draw_of_the_notebook_has_the_recorded_bayes_error():
    groups = simulate_ratings(seed=42)
    test = groups[7500:]
    error = (test.values["value"][test.elements()] - ratings_true_means(test)) ** 2
    assert np.mean(error) == pytest.approx(1.0226, abs=5e-5)
    assert np.std(error) / np.sqrt(error.size) == pytest.approx(0.013, abs=5e-4)
    random = np.random.RandomState(42)
    for user in range(50):
        order = (random.permutation(5) + 1).tolist()
        elements = groups[user].elements()
        assert (groups.item[elements] + 1).tolist() == order
        value = [random.normal(true_mean(order, index), 1) for index in range(5)]
        assert groups.values["value"][elements].tolist() == value


def test_means_follow_the_rules_and_the_cases():
    groups = simulate_ratings(500, seed=1)
    means, cases = ratings_true_means(groups), ratings_cases(groups)
    orders = (groups.item.reshape(-1, 5) + 1).tolist()
    assert means.tolist() == [true_mean(order, index) for order in orders for index in range(5)]
    assert set(cases) == set(RATING_CASES)
    assert [RATING_CASES[case] for case in cases] == means.tolist()
    assert set(groups.item[cases == "4 right after 3"] + 1) == {4}
    view = ratings_true_means(groups[[7, 3]])
    assert view.tolist() == means.reshape(-1, 5)[[7, 3]].ravel().tolist()


def test_seeds_decide():
    values = [simulate_ratings(20, seed=seed).values["value"].tolist() for seed in (1, 1, 2)]
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        (Groups(start=[0], stop=[5]), "`groups` must come from simulate_ratings"),
        (Groups(start=[0], stop=[4], item=[0, 1, 2, 3]), "`groups` must come from simulate_rat"),
        (Groups(start=[0], stop=[5], item=[0, 1, 2, 3, 3]), "each of 5 movies once"),
    ],
)
def test_truth_is_known_of_simulated_ratings_only(groups, match):
    with pytest.raises(ExfamError, match=match):
        ratings_true_means(groups)
    with pytest.raises(ExfamError, match="`n_users` must be a number > 0"):
        simulate_ratings(0, seed=0)
