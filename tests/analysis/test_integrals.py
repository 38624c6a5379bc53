"""Where values fall in their predicted distributions: histograms, central intervals, chance."""

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.families import Bernoulli, Categorical, Gaussian, Ordinal, PerItem, Poisson
from exfam.families.mixtures import Mixture
from exfam.scores import calibration as module
from exfam.scores.calibration import (
    central_share,
    integral_ends,
    integral_shares,
    interval_coverage,
    probability_integral,
    share_between,
)
from family_cases import CASES, MIXED

N = 1500
DOUBLE = torch.float64
# Of shares of so many bars and families, none is farther off by chance, in standard deviations.
FAR = 4.5


def random_mixture(family, *, members=2, rows=N, item=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    size = (members, rows, family.n_params)
    return Mixture(family, 0.5 * torch.randn(size, generator=generator, dtype=DOUBLE), item)


def drawn(mixture, *, seed=1):
    return mixture.sample(torch.Generator().manual_seed(seed))


def assert_calibrated(mixture, value):
    shares = integral_shares(mixture, value, n_bars=8)
    assert shares.n == len(value) and shares.share.sum() == pytest.approx(1.0)
    assert (np.abs(shares.share - 1 / 8) < FAR * shares.spread + 1e-9).all()
    coverages = interval_coverage(mixture, value, levels=(0.5, 0.8))
    assert [coverage.level for coverage in coverages] == [0.5, 0.8]
    for coverage in coverages:
        assert abs(coverage.observed - coverage.level) < FAR * coverage.spread + 1e-9


@pytest.mark.parametrize("name", CASES)
def test_draws_are_spread_evenly_and_intervals_hold_their_level(name):
    case = CASES[name]
    item = None if case.item is None else torch.full((N,), case.item)
    mixture = random_mixture(case.family, item=item)
    assert_calibrated(mixture, drawn(mixture))


def test_families_by_item_are_judged_together():
    item = torch.tensor([3, 1, 8]).repeat(N // 3)
    mixture = random_mixture(MIXED, members=3, item=item)
    value = drawn(mixture)
    below, at_most = integral_ends(mixture, value)
    assert ((at_most > below) == (item == 3).numpy()).all()
    assert_calibrated(mixture, value)


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Ordinal(4)], ids=str)
def test_values_of_another_distribution_are_beyond_chance(family):
    mixture, other = random_mixture(family), random_mixture(family, seed=9)
    value = torch.cat([drawn(mixture)[: N // 2], drawn(other).clamp(max=0.0)[N // 2 :]])
    shares = integral_shares(mixture, value)
    assert (np.abs(shares.share - 0.05) > FAR * shares.spread).sum() > 2
    # Wider distributions than values: more of these in the middle.
    middle = Mixture(family, mixture.eta[:1]).quantile(0.5)
    (coverage,) = interval_coverage(Mixture(family, mixture.eta[:1]), middle, levels=(0.5,))
    assert coverage.observed > coverage.level + FAR * coverage.spread


@pytest.mark.parametrize("family", [Ordinal(5, start=1), Categorical(3), Bernoulli()], ids=str)
@pytest.mark.parametrize("members", [1, 3])
def test_means_and_spreads_are_those_of_all_values_weighted_by_their_probability(family, members):
    mixture = random_mixture(family, members=members, rows=200)
    probability = mixture.probs().numpy()
    edges = np.linspace(0, 1, 8)
    ends = [integral_ends(mixture, torch.full((200,), float(k))) for k in family.categories]

    def moments(low, high):
        share = np.stack([share_between(*pair, low=low, high=high) for pair in ends], axis=1)
        return (probability * share).sum(1), (probability * share**2).sum(1) - (high - low) ** 2

    shares = integral_shares(mixture, drawn(mixture), n_bars=7)
    for bar in range(7):
        mean, variance = moments(edges[bar], edges[bar + 1])
        np.testing.assert_allclose(mean, 1 / 7, atol=1e-9)
        assert shares.spread[bar] == pytest.approx(np.sqrt(variance.sum()) / 200, abs=1e-9)
    (coverage,) = interval_coverage(mixture, drawn(mixture), levels=(0.8,))
    mean, variance = moments(0.1, 0.9)
    np.testing.assert_allclose(mean, 0.8, atol=1e-9)
    assert coverage.spread == pytest.approx(np.sqrt(variance.sum()) / 200, abs=1e-9)


def test_spreads_of_some_rows_stand_for_those_of_all(monkeypatch):
    item = torch.tensor([0, 1]).repeat(N // 2)
    mixture = random_mixture(PerItem({0: Ordinal(4), 1: Gaussian()}), item=item)
    value = drawn(mixture)
    monkeypatch.setattr(module, "_MOST_SEARCHED", N)
    exact = integral_shares(mixture, value).spread
    monkeypatch.setattr(module, "_MOST_SEARCHED", 200)
    some = integral_shares(mixture, value).spread
    np.testing.assert_allclose(some, exact, rtol=0.05)
    assert not np.array_equal(some, exact)
    # Rows without jumps are binomial, and the others vary less.
    assert (exact < np.sqrt(0.05 * 0.95 / N)).all() and (exact > np.sqrt(0.05 * 0.95 / N / 2)).all()


def test_shares_are_the_expected_histogram_of_random_integrals():
    mixture = random_mixture(Poisson(), rows=40)
    value = drawn(mixture)
    shares = integral_shares(mixture, value, n_bars=5).share
    draws = np.stack([probability_integral(mixture, value, seed=seed) for seed in range(2000)])
    counts = [np.histogram(draw, bins=5, range=(0, 1))[0] for draw in draws]
    np.testing.assert_allclose(np.mean(counts, axis=0) / 40, shares, atol=0.005)
    inside = ((draws >= 0.1) & (draws < 0.9)).mean(axis=0)
    share = central_share(*integral_ends(mixture, value), level=0.8)
    np.testing.assert_allclose(inside, share, atol=0.06)
    assert ((share > 0) & (share < 1)).any()


def test_intervals_that_make_up_the_whole_hold_every_value_once():
    random = np.random.default_rng(0)
    below, at_most = np.sort(random.random((2, 300)), axis=0)
    below[:100] = at_most[:100]
    below[:4] = at_most[:4] = [0.0, 0.25, 0.5, 1.0]
    edges = [0.0, 0.25, 0.5, 0.8, 1.0]
    shares = np.stack(
        [
            share_between(below, at_most, low=low, high=high)
            for low, high in zip(edges[:-1], edges[1:], strict=True)
        ]
    )
    np.testing.assert_allclose(shares.sum(axis=0), 1.0)
    assert shares.min() >= 0 and shares[:, :4].argmax(axis=0).tolist() == [0, 1, 2, 3]
    assert set(shares[:, :100].ravel()) == {0.0, 1.0} and ((shares > 0) & (shares < 1)).any()
    np.testing.assert_array_equal(share_between(below, at_most, low=0.0, high=1.0), np.ones(300))


@pytest.mark.parametrize("family", [Bernoulli(), Poisson()], ids=str)
def test_certain_and_impossible_values(family):
    certain = Mixture(family, torch.full((2, 3, 1), -1e4, dtype=DOUBLE))
    shares = integral_shares(certain, torch.zeros(3, dtype=DOUBLE), n_bars=4)
    np.testing.assert_allclose(shares.share, 0.25)
    np.testing.assert_allclose(shares.spread, 0.0, atol=1e-9)
    (coverage,) = interval_coverage(certain, torch.zeros(3, dtype=DOUBLE), levels=(0.8,))
    assert coverage.observed == pytest.approx(0.8)
    assert coverage.spread == pytest.approx(0.0, abs=1e-9)
    for value, bar in ((1.0, 3), (-2.0, 0)):
        shares = integral_shares(certain, torch.full((3,), value, dtype=DOUBLE), n_bars=4)
        assert shares.share[bar] == 1.0 and shares.share.sum() == 1.0


def test_one_bar_holds_all():
    mixture = random_mixture(Poisson(), rows=5)
    shares = integral_shares(mixture, drawn(mixture), n_bars=1)
    assert shares.share.tolist() == [1.0]
    assert shares.spread == pytest.approx([0.0], abs=1e-6)


ONE, NO_ROWS = np.full(1, 0.5), torch.zeros(0)
NO_MIXTURE = Mixture(Gaussian(), torch.zeros(1, 0, 2))
SOME = Mixture(Gaussian(), torch.zeros(1, 1, 2))
WRONG = [
    (lambda: integral_shares(NO_MIXTURE, NO_ROWS), "`value` must hold at least one row, got none"),
    (lambda: integral_shares(SOME, torch.zeros(1), n_bars=0), "`n_bars` must be .*, got 0"),
    (lambda: interval_coverage(SOME, torch.zeros(1), levels=(1.0,)), "`level` must be .* got 1.0"),
    (lambda: central_share(ONE, ONE, level=0.0), "`level` must be .*, got 0.0"),
    (lambda: share_between(ONE, ONE, low=0.5, high=0.5), "0 <= low < high <= 1, got 0.5 and 0.5"),
    (lambda: share_between(ONE, ONE, low=-0.1, high=0.5), "`low` and `high` must be .* got -0.1"),
    (lambda: share_between(ONE, ONE, low=0.1, high=1.5), "0 <= low < high <= 1, got 0.1 and 1.5"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ExfamError, match=message) as caught:
        call()
    assert isinstance(caught.value, DataError) == ("row" in message)
