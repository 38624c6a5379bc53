import numpy as np
import pytest
import torch
from scipy import stats

from exfam.checks import DataError, ExfamError
from exfam.families import Gaussian, Poisson, StudentT
from exfam.families.mixtures import Mixture
from exfam.scores.calibration import (
    TopItem,
    distance_to_uniform,
    interval_coverage,
    probability_integral,
    reliability,
    top_item,
)
from family_cases import CASES

N = 2000
# Of N uniform draws, more than this is seen once in ten thousand times.
FAR = 2.2 / np.sqrt(N)


def law(case, *, members=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    size = (members, N, case.family.n_params)
    eta = 0.5 * torch.randn(size, generator=generator, dtype=torch.float64)
    item = None if case.item is None else torch.full((N,), case.item)
    return Mixture(case.family, eta, item)


@pytest.mark.parametrize("name", CASES)
def test_integrals_of_draws_from_the_law_itself_are_uniform(name):
    mixture = law(CASES[name])
    value = mixture.sample(torch.Generator().manual_seed(1))
    integral = probability_integral(mixture, value, seed=2)
    assert ((integral >= 0) & (integral <= 1)).all()
    assert distance_to_uniform(integral) < FAR


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_integrals_of_another_law_are_not(name):
    value = law(CASES[name]).sample(torch.Generator().manual_seed(1)) + 1.0
    assert distance_to_uniform(probability_integral(law(CASES[name]), value, seed=2)) > 2 * FAR


def test_integrals_are_repeatable_and_random_only_where_the_law_jumps():
    for family, jumps in ((Gaussian(), False), (Poisson(), True)):
        mixture = Mixture(family, torch.zeros(1, 9, family.n_params))
        value = torch.arange(1.0, 10.0)
        assert bool(mixture.has_jumps(value).all()) is jumps
        first, again, other = (
            probability_integral(mixture, value, seed=seed) for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(first, again)
        assert np.array_equal(first, other) is not jumps


def test_the_distance_to_uniform_is_that_of_scipy():
    draws = np.random.default_rng(0).beta(2, 3, size=300)
    expected = stats.kstest(draws, "uniform").statistic
    assert distance_to_uniform(draws) == pytest.approx(expected)


@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_what_they_promise(name):
    # Quantiles of mixtures are searched for, which takes time.
    mixture = law(CASES[name], members=2 if name == "gaussian" else 1)
    value = mixture.sample(torch.Generator().manual_seed(1))
    for told in interval_coverage(mixture, value, levels=(0.5, 0.9)):
        assert told.observed == pytest.approx(told.promised, abs=4 * 0.5 / np.sqrt(N))
        assert told.promised >= told.level - 1e-6
        if not CASES[name].discrete:
            assert told.promised == pytest.approx(told.level, abs=1e-6)


@pytest.mark.parametrize("family", [Gaussian(), StudentT(), StudentT(df=4.0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_mixtures_of_real_numbers_are_calibrated_in_either_precision(family, dtype):
    shift = torch.tensor([-2.0, 0.0, 3.0]).view(3, 1, 1)
    eta = torch.randn(3, N, family.n_params, generator=torch.Generator().manual_seed(0)) + shift
    mixture = Mixture(family, eta.to(dtype))
    value = mixture.sample(torch.Generator().manual_seed(1))
    assert value.dtype == dtype
    assert distance_to_uniform(probability_integral(mixture, value, seed=2)) < FAR
    (told,) = interval_coverage(mixture, value, levels=(0.9,))
    assert told.observed == pytest.approx(0.9, abs=4 * 0.5 / np.sqrt(N))
    assert told.promised == pytest.approx(0.9, abs=1e-5)


def test_intervals_of_laws_that_are_too_narrow_hold_less():
    value = 2 * law(CASES["gaussian"]).sample(torch.Generator().manual_seed(1))
    (told,) = interval_coverage(law(CASES["gaussian"]), value, levels=(0.8,))
    assert told.observed < told.promised - 0.1


def probabilities(n=500, n_items=7, *, seed=0):
    random = np.random.default_rng(seed)
    probability = random.dirichlet(np.full(n_items, 0.5), size=n)
    item = np.array([random.choice(n_items, p=row) for row in probability])
    return probability, item


def test_bins_hold_all_probability_and_all_targets():
    probability, item = probabilities()
    told = reliability(probability, item)
    assert told.predicted.sum() == pytest.approx(500)
    assert told.observed.sum() == 500
    assert told.pairs.sum() == probability.size
    assert (told.observed > 0).sum() > 4
    assert told.variance.sum() == pytest.approx((probability * (1 - probability)).sum())
    mean = told.predicted[:5] / told.pairs[:5]
    assert (mean <= 0.5 ** np.arange(5)).all() and (mean >= 0.5 ** np.arange(1, 6)).all()


def test_bins_of_parts_add_up():
    probability, item = probabilities()
    whole = reliability(probability, item)
    parts = reliability(probability[:200], item[:200]) + reliability(probability[200:], item[200:])
    for name in ("pairs", "predicted", "observed", "variance"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name))


def test_excluded_items_are_in_no_bin():
    told = reliability(np.array([[1.0, 0.0, 0.0]]), np.array([0]))
    assert told.pairs.tolist() == [1] + [0] * 19
    assert told.error == 0.0


def test_a_hit_that_was_thought_impossible_is_among_the_least_probable():
    told = reliability(np.array([[1.0, 0.0]]), np.array([1]))
    assert told.observed.tolist() == [0.0] * 19 + [1.0]
    assert told.error == 2.0


def test_the_error_of_probabilities_that_are_right_is_small_and_of_others_large():
    probability, item = probabilities(20_000)
    bold = probability**3 / (probability**3).sum(axis=1, keepdims=True)
    assert reliability(probability, item).error < 0.05
    assert reliability(bold, item).error > 0.3
    assert top_item(probability, item).error() < 0.02
    assert top_item(bold, item).error() > 0.15


def test_the_most_probable_item_is_found():
    probability, item = probabilities()
    told = top_item(probability, item)
    np.testing.assert_array_equal(told.confidence, probability.max(axis=1))
    np.testing.assert_array_equal(told.correct, np.argmax(probability, axis=1) == item)


def test_the_error_in_bins_of_equal_size_is_the_mean_of_their_distances():
    random = np.random.default_rng(0)
    told = TopItem(random.random(40), random.random(40) < 0.5)
    order = np.argsort(told.confidence).reshape(4, 10)
    gaps = [abs(told.confidence[rows].mean() - told.correct[rows].mean()) for rows in order]
    assert told.error(n_bins=4) == pytest.approx(np.mean(gaps))


def test_nothing_is_told_of_nothing():
    none, nothing = np.zeros(0), np.zeros(0, dtype=bool)
    law = Mixture(Gaussian(), torch.zeros(1, 0, 2))
    with pytest.raises(DataError, match="`integral` must hold at least one row, got none"):
        distance_to_uniform(none)
    with pytest.raises(DataError, match="`value` must hold at least one row, got none"):
        interval_coverage(law, torch.zeros(0))
    with pytest.raises(DataError, match="`confidence` must hold at least one target, got none"):
        TopItem(none, nothing).error()
    with pytest.raises(DataError, match="`reliability` must hold at least one target, got none"):
        _ = reliability(np.zeros((0, 3)), np.zeros(0, dtype=int)).error


def test_a_target_without_an_item_has_no_place_in_bins():
    with pytest.raises(ExfamError, match="`item` must be known for every target, got code -1"):
        reliability(np.array([[0.5, 0.5]]), np.array([-1]))


def test_bins_are_at_least_one():
    with pytest.raises(ExfamError, match="`n_bins` must be a number > 0, got 0"):
        TopItem(np.ones(1), np.ones(1, dtype=bool)).error(n_bins=0)
