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


def test_cases_name_the_rules():
    groups = simulate_ratings(500, seed=1)
    means, cases = ratings_true_means(groups), ratings_cases(groups)
    assert set(cases) == set(RATING_CASES)
    assert [RATING_CASES[case] for case in cases] == means.tolist()
    assert set(groups.item[cases == "4 right after 3"] + 1) == {4}


def test_truth_is_known_of_simulated_ratings_only():
    with pytest.raises(ExfamError, match="`groups` must come from simulate_ratings"):
        ratings_true_means(Groups(start=[0], stop=[5]))
    with pytest.raises(ExfamError, match="each of 5 movies once"):
        ratings_true_means(Groups(start=[0], stop=[5], item=[0, 1, 2, 3, 3]))
    with pytest.raises(ExfamError, match="`n_users` must be a number > 0"):
        simulate_ratings(0, seed=0)
