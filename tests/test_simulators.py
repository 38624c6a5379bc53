import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import (
    Bernoulli,
    Binomial,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    StudentT,
)
from exfam.groups import Groups
from exfam.simulators import (
    RATING_CASES,
    ratings_cases,
    ratings_true_means,
    simulate_latent_factor,
    simulate_ratings,
)


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


FAMILIES = [
    Bernoulli(),
    Binomial(4),
    Categorical(3),
    Exponential(),
    Gamma(),
    Gaussian(),
    NegativeBinomial(),
    Ordinal(5, start=1),
    Poisson(shift=1),
    StudentT(df=9.0),
    PerItem({code: Poisson() if code % 2 else Gaussian() for code in range(20)}),
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_latent_factor_values_follow_their_family(family):
    simulated = simulate_latent_factor(2000, family=family, seed=0)
    groups = simulated.groups
    value = torch.from_numpy(groups.values["value"])
    item = torch.from_numpy(groups.item.astype(np.int64))
    eta = torch.from_numpy(simulated.eta)
    assert family.in_support(value, item).all()
    deviation = (value - family.mean(eta, item=item)) / family.variance(eta, item=item).sqrt()
    # 16,000 standardized values: the mean of each is 0 and of its square 1, errors far below .1.
    assert abs(deviation.mean()) < 0.1
    assert deviation.square().mean().item() == pytest.approx(1, abs=0.15)


def test_latent_factor_truth_is_the_product_of_factors():
    simulated = simulate_latent_factor(30, family=Poisson(), seed=1, rank=3, scale=0.7, n_items=11)
    groups = simulated.groups
    group = np.repeat(np.arange(30), groups.lengths)
    product = (simulated.group_factor[group] * simulated.item_factor[groups.item]).sum(axis=1)
    score = 0.7 * (product + simulated.item_offset[groups.item])
    np.testing.assert_allclose(simulated.eta[:, 0], score)
    assert np.std(score) > 0.1


def test_latent_factor_items():
    simulated = simulate_latent_factor(3000, family=Gaussian(), seed=2, scale=1.0, mean_length=6.0)
    groups = simulated.groups
    assert not groups.repeats_items()
    assert groups.lengths.min() >= 1
    assert groups.lengths.mean() == pytest.approx(6, abs=0.2)
    # Items that suit a group come more often than to a group with the opposite factor.
    group = np.repeat(np.arange(3000), groups.lengths)
    match = simulated.group_factor[group] * simulated.item_factor[groups.item]
    assert match.sum(axis=1).mean() > 0.1
    # Their order says nothing.
    place = np.arange(groups.n_elements) - groups.start[group]
    early, late = match.sum(axis=1)[place == 0], match.sum(axis=1)[place == 2]
    assert abs(early.mean() - late.mean()) < 0.1


def test_latent_factor_seeds():
    one, same, other = (
        simulate_latent_factor(20, family=Poisson(), seed=seed).groups for seed in (1, 1, 2)
    )
    assert one.values["value"].tolist() == same.values["value"].tolist()
    assert one.item.tolist() == same.item.tolist() != other.item.tolist()


def test_one_item_is_enough():
    simulated = simulate_latent_factor(5, family=Gaussian(), seed=0, n_items=1, mean_length=0.5)
    assert simulated.groups.lengths.tolist() == [1] * 5


@pytest.mark.parametrize("name, zero", [("n_items", 0), ("rank", 0), ("mean_length", 0.0)])
def test_sizes_are_positive(name, zero):
    with pytest.raises(ExfamError, match=f"`{name}` must be a number > 0, got 0"):
        simulate_latent_factor(5, family=Gaussian(), seed=0, **{name: zero})
    with pytest.raises(ExfamError, match="`n_users` must be a number > 0"):
        simulate_ratings(0, seed=0)
    with pytest.raises(ExfamError, match="`n_groups` must be a number > 0"):
        simulate_latent_factor(0, family=Gaussian(), seed=0)
