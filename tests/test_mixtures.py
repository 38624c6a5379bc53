"""Mixtures of an ensemble's laws: moments, quantiles, draws."""

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import Categorical, Gaussian, NegativeBinomial, Ordinal, PerItem, Poisson
from exfam.families.mixtures import Mixture

LEVELS = (0.03, 0.25, 0.5, 0.75, 0.97)


def random_mixture(family, *, members=3, rows=6, seed=0, item=None):
    eta = torch.randn(members, rows, family.n_params, generator=torch.Generator().manual_seed(seed))
    return Mixture(family, eta, item)


FAMILIES = [
    Poisson(),
    Poisson(shift=1),
    Gaussian(),
    Gaussian(scale=0.5),
    NegativeBinomial(),
    Categorical(5, start=1),
    Ordinal(4, start=1),
    PerItem({0: Poisson(), 1: Gaussian()}),
]
ITEM = torch.tensor([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("family", FAMILIES, ids=str)
class TestQuantiles:
    def test_smallest_value_that_reaches_the_level(self, family):
        mixture = random_mixture(family, item=ITEM)
        for p in LEVELS:
            value = mixture.quantile(p)
            assert (mixture.cdf(value) >= p - 1e-5).all()
            whole = mixture.has_jumps(value)
            below = torch.where(whole, value - 1, value - 1e-3 * (1 + value.abs()))
            assert (mixture.cdf(below) < p).all()

    def test_grow_with_the_level(self, family):
        mixture = random_mixture(family, item=ITEM)
        told = torch.stack([mixture.quantile(p) for p in LEVELS])
        assert (told.diff(dim=0) >= 0).all() and (told[-1] > told[0]).all()

    def test_equal_members_are_one(self, family):
        one = random_mixture(family, members=1, item=ITEM)
        three = Mixture(family, one.eta.expand(3, -1, -1), ITEM)
        for p in LEVELS:
            torch.testing.assert_close(three.quantile(p), one.quantile(p))
        torch.testing.assert_close(three.mean(), one.mean())
        torch.testing.assert_close(three.variance(), one.variance())

    def test_draws_have_the_moments(self, family):
        mixture = random_mixture(family, members=2, item=ITEM)
        many = Mixture(family, mixture.eta.repeat(1, 4000, 1), ITEM.repeat(4000))
        draws = many.sample(torch.Generator().manual_seed(1)).reshape(4000, 6)
        error = (mixture.variance() / len(draws)).sqrt()
        assert ((draws.mean(0) - mixture.mean()).abs() < 5 * error).all()
        torch.testing.assert_close(draws.var(0), mixture.variance(), rtol=0.25, atol=0.05)


def test_median_between_whole_numbers_of_a_continuous_family():
    mixture = Mixture(Gaussian(scale=1.0), torch.tensor([[[0.0]], [[3.0]]]))
    assert mixture.quantile(0.5).item() == pytest.approx(1.5, abs=1e-5)


def test_variance_by_hand():
    mixture = Mixture(Gaussian(scale=1.0), torch.tensor([[[0.0]], [[2.0]]]))
    assert mixture.variance().item() == pytest.approx(1 + 1)
    assert mixture.cdf(torch.tensor([1.0])).item() == pytest.approx(0.5)


def test_log_probabilities_are_those_of_the_mean_density():
    mixture, value = random_mixture(Gaussian()), torch.linspace(-2, 2, 6)
    each = torch.stack([mixture.family.log_prob(value, eta) for eta in mixture.eta])
    torch.testing.assert_close(mixture.log_prob(value), each.exp().mean(0).log())
    assert (random_mixture(Poisson()).log_prob(value) == -torch.inf).any()
    # Members of whose densities none is above 0 in single precision.
    assert mixture.log_prob(torch.full((6,), 1e3)).isfinite().all()


def test_log_probabilities_are_those_of_the_items_family():
    family, value = PerItem({0: Poisson(), 1: Gaussian()}), torch.ones(6)
    mixture = random_mixture(family, item=ITEM)
    expected = family.log_prob(value, mixture.eta, item=ITEM.expand(3, -1))
    torch.testing.assert_close(mixture.log_prob(value), expected.exp().mean(0).log())


def test_probabilities_are_means_and_sum_to_one():
    mixture = random_mixture(Categorical(4))
    each = torch.stack([mixture.family.probs(eta) for eta in mixture.eta])
    torch.testing.assert_close(mixture.probs(), each.mean(0))
    torch.testing.assert_close(mixture.probs().sum(-1), torch.ones(6))


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, float("nan")])
def test_levels_outside_the_open_interval(p):
    with pytest.raises(ExfamError, match="`quantiles` must be numbers strictly between 0 and 1"):
        random_mixture(Gaussian()).quantile(p)


def test_the_same_generator_gives_the_same_draw():
    mixture = random_mixture(Poisson())
    one, two, other = (mixture.sample(torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(one, two) and not torch.equal(one, other)


def test_whole_numbers_are_known_from_the_family():
    value = torch.arange(3.0)
    assert random_mixture(Poisson(), rows=3).has_jumps(value).all()
    assert not random_mixture(Gaussian(), rows=3).has_jumps(value).any()
    assert np.array_equal(
        random_mixture(PerItem({0: Poisson(), 1: Gaussian()}), rows=3, item=ITEM[:3])
        .has_jumps(value)
        .numpy(),
        [True, False, True],
    )
