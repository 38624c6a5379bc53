"""Mixtures of an ensemble's distributions: moments, quantiles, draws."""

import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import (
    Beta,
    Categorical,
    Gaussian,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    RoundedStudentT,
    Scaled,
)
from exfam.families.mixtures import Mixture
from exfam.scores.crps import crps

LEVELS = (0.03, 0.25, 0.5, 0.75, 0.97)
ITEM = torch.tensor([0, 1, 0, 1, 0, 1])
BY_ITEM = PerItem({0: Poisson(), 1: Gaussian()})
FAMILIES = [
    Poisson(shift=1),
    Gaussian(),
    Gaussian(scale=0.5),
    NegativeBinomial(),
    Categorical(5, start=1),
    Ordinal(4, start=1),
    BY_ITEM,
    Beta(),
]


def random_mixture(family, *, members=3, rows=6):
    eta = torch.randn(members, rows, family.n_params, generator=torch.Generator().manual_seed(0))
    return Mixture(family, eta, ITEM[:rows])


@pytest.mark.parametrize("family", FAMILIES, ids=str)
class TestMixtures:
    def test_quantiles_are_the_smallest_values_that_reach_the_level(self, family):
        mixture, single = random_mixture(family), random_mixture(family, members=1)
        quantiles = torch.stack([mixture.quantile(p) for p in LEVELS])
        for p, value in zip(LEVELS, quantiles, strict=True):
            assert (mixture.cdf(value) >= p - 1e-5).all()
            whole = mixture.has_jumps(value)
            below = torch.where(whole, value - 1, value - 1e-3 * (1 + value.abs()))
            assert (mixture.cdf(below) < p).all()
            alone = family.quantile(p, single.eta[0], item=ITEM)
            torch.testing.assert_close(single.quantile(p), alone, rtol=1e-4, atol=1e-4)
        assert (quantiles.diff(dim=0) >= 0).all() and (quantiles[-1] > quantiles[0]).all()

    def test_draws_have_the_moments_and_are_seeded(self, family):
        mixture = random_mixture(family, members=2)
        means = family.mean(mixture.eta, item=ITEM)
        torch.testing.assert_close(mixture.mean(), means.mean(0))
        squares = (family.variance(mixture.eta, item=ITEM) + means**2).mean(0)
        torch.testing.assert_close(mixture.variance(), squares - means.mean(0) ** 2)
        many = Mixture(family, mixture.eta.repeat(1, 4000, 1), ITEM.repeat(4000))
        first, same, other = (
            many.sample(torch.Generator().manual_seed(seed)).reshape(4000, 6) for seed in (1, 1, 2)
        )
        assert torch.equal(first, same) and not torch.equal(first, other)
        error = (mixture.variance() / len(first)).sqrt()
        assert ((first.mean(0) - mixture.mean()).abs() < 5 * error).all()
        torch.testing.assert_close(first.var(0), mixture.variance(), rtol=0.25, atol=0.05)


@pytest.mark.parametrize("family", [*FAMILIES, Scaled(Gaussian(), 1.0, 3.0)], ids=str)
class TestWeights:
    def test_a_member_of_twice_the_weight_is_as_good_as_two(self, family):
        alike = random_mixture(family)
        weight = torch.tensor([[0.5, 0.25, 0.25]]).T.repeat(1, 6)
        weighted = Mixture(family, alike.eta, ITEM, weight)
        four = Mixture(family, alike.eta[[0, 0, 1, 2]], ITEM)
        value, more = four.quantile(0.3), torch.linspace(0.2, 0.9, 6)

        def measures(own):
            some = own[torch.tensor([4, 1])].double()
            moments = own.mean(), own.variance(), some.mean()
            return *moments, own.log_prob(value), own.cdf(value), crps(own, value)

        for result, expected, other in zip(*map(measures, (weighted, four, alike)), strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
            assert not torch.allclose(result, other, rtol=1e-3)
        torch.testing.assert_close(weighted.quantile(more), four.quantile(more))

    def test_a_member_without_weight_is_never_drawn(self, family):
        alike = random_mixture(family)
        weight = torch.zeros(3, 6)
        weight[ITEM, torch.arange(6)] = 1.0
        own = alike.eta[ITEM, torch.arange(6)][None]
        single = Mixture(family, own, ITEM)
        weighted = Mixture(family, alike.eta, ITEM, weight)
        torch.testing.assert_close(weighted.mean(), single.mean())
        rows = torch.arange(6).repeat(4000)
        drawn = weighted[rows].sample(torch.Generator().manual_seed(0)).reshape(4000, 6)
        error = (single.variance() / 4000).sqrt()
        assert ((drawn.mean(0) - single.mean()).abs() < 5 * error).all()


def test_probabilities_are_weighted():
    mixture, weight = random_mixture(Categorical(4)), torch.tensor([[0.7, 0.2, 0.1]]).T.repeat(1, 6)
    members = torch.stack([mixture.family.probs(eta) for eta in mixture.eta])
    weighted = Mixture(mixture.family, mixture.eta, weight=weight)
    torch.testing.assert_close(weighted.probs(), (weight[..., None] * members).sum(0))


@pytest.mark.parametrize("family", [Gaussian(), BY_ITEM], ids=str)
def test_log_probabilities_are_those_of_the_mean_density(family):
    mixture, value = random_mixture(family), torch.tensor([1.0, -1.2, 2.0, 0.4, 0.0, 2.0])
    members = family.log_prob(value, mixture.eta, item=ITEM.expand(3, -1))
    torch.testing.assert_close(mixture.log_prob(value), members.exp().mean(0).log())
    # Members of whose densities none is above 0 in single precision.
    assert mixture.log_prob(torch.full((6,), 1e3)).isfinite().all()
    # Outside the support nothing is possible.
    assert (random_mixture(Poisson()).log_prob(torch.linspace(-2, 2, 6)) == -torch.inf).any()


@pytest.mark.parametrize(
    "family",
    [
        Gaussian(),
        BY_ITEM,
        RoundedStudentT(atoms=(0, 3)),
        LogStudentT(),
        Scaled(LogStudentT(), 0.0, 7.0),
        PerItem({0: RoundedStudentT(), 1: Gaussian()}),
    ],
    ids=str,
)
def test_centers_are_means_or_medians_of_families_without_a_mean(family):
    mixture = random_mixture(family)
    mean, median = mixture.mean(), mixture.quantile(0.5)
    no_mean = mean.isinf()
    by_item = isinstance(family, PerItem) and not family.has_mean
    assert no_mean.any() == (not family.has_mean) and no_mean.all() == (no_mean.any() > by_item)
    assert torch.equal(mixture.center(), torch.where(no_mean, median, mean))
    assert torch.equal(mixture.variance().isinf(), no_mean)


def test_probabilities_are_means():
    mixture = random_mixture(Categorical(4))
    members = torch.stack([mixture.family.probs(eta) for eta in mixture.eta])
    torch.testing.assert_close(mixture.probs(), members.mean(0))


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, float("nan")])
def test_levels_outside_the_open_interval(p):
    with pytest.raises(ExfamError, match="`quantiles` must be numbers strictly between 0 and 1"):
        random_mixture(Gaussian()).quantile(p)


def test_whole_numbers_are_known_from_the_family():
    value = torch.arange(3.0)
    for family, jumps in (
        (Poisson(), [True] * 3),
        (RoundedStudentT(start=2), [True] * 3),
        (Gaussian(), [False] * 3),
        (Beta(), [False] * 3),
    ):
        assert random_mixture(family, rows=3).has_jumps(value).tolist() == jumps
    assert random_mixture(BY_ITEM, rows=3).has_jumps(value).tolist() == [True, False, True]
