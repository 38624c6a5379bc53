"""Calibration and the continuous ranked probability score."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

from exfam.checks import DataError, ExfamError
from exfam.families import Categorical, Gaussian, NegativeBinomial, Poisson, StudentT
from exfam.families.mixtures import Mixture
from exfam.scores import crps as module
from exfam.scores.calibration import (
    TopItem,
    distance_to_uniform,
    interval_coverage,
    probability_integral,
    reliability,
    top_item,
)
from exfam.scores.crps import crps
from family_cases import CASES, extreme_eta

N = 2000
# Of N uniform draws, more than this is seen once in ten thousand times.
FAR = 2.2 / np.sqrt(N)


def drawn_from(case, *, members):
    """A mixture, and a value of each of its rows."""
    size = (members, N, case.family.n_params)
    eta = 0.5 * torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    item = None if case.item is None else torch.full((N,), case.item)
    mixture = Mixture(case.family, eta, item)
    return mixture, mixture.sample(torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", CASES)
def test_draws_from_the_distribution_itself_are_calibrated_and_others_are_not(name):
    mixture, value = drawn_from(CASES[name], members=2)
    integral = probability_integral(mixture, value, seed=2)
    assert ((integral >= 0) & (integral <= 1)).all()
    assert distance_to_uniform(integral) < FAR
    if name in ("gaussian", "poisson"):
        assert distance_to_uniform(probability_integral(mixture, value + 1.0, seed=2)) > 2 * FAR
    if name == "gaussian":
        (coverage,) = interval_coverage(mixture, 2 * value, levels=(0.8,))
        assert coverage.observed < coverage.level - 0.1


@pytest.mark.parametrize(("family", "jumps"), [(Gaussian(), False), (Poisson(), True)], ids=str)
def test_integrals_are_repeatable_and_random_only_where_the_distribution_jumps(family, jumps):
    mixture = Mixture(family, torch.zeros(1, 9, family.n_params))
    first, again, other = (
        probability_integral(mixture, torch.arange(1.0, 10.0), seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.array_equal(first, other) is not jumps
    draws = np.random.default_rng(0).beta(2, 3, size=300)
    assert distance_to_uniform(draws) == pytest.approx(stats.kstest(draws, "uniform").statistic)


def probabilities(n=500, n_items=7):
    random = np.random.default_rng(0)
    probability = random.dirichlet(np.full(n_items, 0.5), size=n)
    item = np.array([random.choice(n_items, p=row) for row in probability])
    return probability, item


def test_bins_hold_all_probability_and_all_targets_and_add_up():
    probability, item = probabilities()
    bins = reliability(probability, item)
    assert bins.predicted.sum() == pytest.approx(500) and bins.observed.sum() == 500
    assert bins.pairs.sum() == probability.size and (bins.observed > 0).sum() > 4
    assert bins.variance.sum() == pytest.approx((probability * (1 - probability)).sum())
    mean = bins.predicted[:5] / bins.pairs[:5]
    assert (mean <= 0.5 ** np.arange(5)).all() and (mean >= 0.5 ** np.arange(1, 6)).all()
    parts = reliability(probability[:200], item[:200]) + reliability(probability[200:], item[200:])
    for name in ("pairs", "predicted", "observed", "variance"):
        np.testing.assert_allclose(getattr(parts, name), getattr(bins, name))
    # Excluded items are in no bin, impossible hits in the last one.
    bins = reliability(np.array([[1.0, 0.0]]), np.array([1]))
    assert bins.observed.tolist() == [0.0] * 19 + [1.0] and bins.error == 2.0


def test_the_most_probable_item_and_its_error_by_hand():
    probability, item = probabilities()
    top = top_item(probability, item)
    np.testing.assert_array_equal(top.confidence, probability.max(axis=1))
    np.testing.assert_array_equal(top.correct, np.argmax(probability, axis=1) == item)
    random = np.random.default_rng(0)
    top = TopItem(random.random(40), random.random(40) < 0.5)
    order = np.argsort(top.confidence).reshape(4, 10)
    gaps = [abs(top.confidence[rows].mean() - top.correct[rows].mean()) for rows in order]
    assert top.error(n_bins=4) == pytest.approx(np.mean(gaps))


NO_ITEMS, NO_ROWS = np.zeros(0, dtype=int), torch.zeros(0)
NO_MIXTURE = Mixture(Gaussian(), torch.zeros(1, 0, 2))
NOTHING = [
    (lambda: distance_to_uniform(np.zeros(0)), "`integral` must hold at least one row"),
    (lambda: interval_coverage(NO_MIXTURE, NO_ROWS), "`value` must hold at least one row"),
    (lambda: TopItem(np.zeros(0), NO_ITEMS > 0).error(), "`confidence` must hold at least one tar"),
    (lambda: reliability(np.zeros((0, 3)), NO_ITEMS).error, "`reliability` must hold at least one"),
]


@pytest.mark.parametrize(("call", "message"), NOTHING)
def test_nothing_can_be_said_of_nothing(call, message):
    with pytest.raises(DataError, match=f"{message}.*, got none"):
        call()


def test_bins_need_items_and_a_number_above_0():
    with pytest.raises(ExfamError, match="`item` must be known for every target, got code -1"):
        reliability(np.array([[0.5, 0.5]]), np.array([-1]))
    with pytest.raises(ExfamError, match="`n_bins` must be a number > 0, got 0"):
        TopItem(np.ones(1), np.ones(1, dtype=bool)).error(n_bins=0)


DOUBLE = torch.float64
ROWS = 5
WITH_MEANS = {name: case for name, case in CASES.items() if case.family.has_mean}
every = pytest.mark.parametrize("case", WITH_MEANS.values(), ids=WITH_MEANS)


def mixture_of(case, *, members=2):
    generator = torch.Generator().manual_seed(4)
    eta = torch.randn(members, ROWS, case.family.n_params, generator=generator, dtype=DOUBLE)
    item = None if case.item is None else torch.full((ROWS,), case.item)
    return Mixture(case.family, eta, item)


def brute_force(mixture, value, *, whole):
    """Between the outermost quantiles, in steps far smaller than the law's own."""
    inner = torch.linspace(5e-4, 1 - 5e-4, 240, dtype=DOUBLE)
    # Of the squared distance, 1e-7 of a tail adds nothing; whole numbers there may be millions.
    tails = 10 ** torch.linspace(-7 if whole else -12, -3, 60, dtype=DOUBLE)
    p = torch.cat([inner, tails, 1 - tails]).unsqueeze(-1)
    item = None if mixture.item is None else mixture.item[:1]
    weight = torch.tensor([5.0, 8.0, 5.0], dtype=DOUBLE) / 18
    scores = []
    for row, y in enumerate(value):
        eta = mixture.eta[:, row]
        near = mixture.family.quantile(p, eta, item=item).flatten()
        if whole:
            low, high = min(near.min(), y).floor(), max(near.max(), y).floor() + 1
            near = torch.arange(float(low), float(high) + 1, dtype=DOUBLE)
        near = torch.cat([near, y[None]]).unique()
        at = near[:-1, None] + near.diff()[:, None] * torch.tensor([0.1127, 0.5, 0.8873])
        cdf = mixture.family.cdf(at.unsqueeze(-1), eta, item=item).mean(-1)
        height = (cdf - (at >= y).double()) ** 2
        scores.append((height * weight * near.diff()[:, None]).sum())
    return torch.stack(scores)


@every
def test_it_is_the_integral_of_the_squared_distance_of_cdfs(case):
    mixture = mixture_of(case, members=3)
    # Draws, of which one lies far above, one far below, and one between whole numbers.
    far = torch.tensor([20.0, -15.0, 0.25 if case.discrete else 0.0, 0.0, 0.0], dtype=DOUBLE)
    value = mixture.sample(torch.Generator().manual_seed(1)) + far
    expected = brute_force(mixture, value, whole=case.discrete)
    error = (crps(mixture, value) - expected).abs() / mixture.variance().sqrt()
    assert error.max() < 2e-5
    assert expected.unique().numel() == ROWS
    # Equal members are one, which has sums of its own.
    four = Mixture(mixture.family, mixture.eta[:1].expand(4, -1, -1), mixture.item)
    one = Mixture(mixture.family, mixture.eta[:1], mixture.item)
    torch.testing.assert_close(crps(four, value), crps(one, value), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", sorted(set(CASES) - set(WITH_MEANS)))
def test_it_is_infinite_without_a_mean(name):
    value = torch.tensor([1.0, 5.0, torch.inf, torch.nan, -3.0], dtype=DOUBLE)
    scores = crps(mixture_of(CASES[name]), value)
    assert scores[3].isnan() and scores[[0, 1, 2, 4]].isposinf().all()


@dataclass(frozen=True)
class Skewed(StudentT):
    """A subclass with another density: its values are half as wide."""

    name = "skewed"

    def _cdf(self, value, eta):
        return super()._cdf(2 * value, eta)

    def _quantile(self, p, eta):
        return super()._quantile(p, eta) / 2


def test_subclasses_are_scored_by_their_own_distribution():
    value = torch.tensor([0.0, 1.0, -3.0], dtype=DOUBLE)
    eta = torch.zeros(1, 3, 3, dtype=DOUBLE)
    half = crps(Mixture(StudentT(), eta), 2 * value) / 2
    torch.testing.assert_close(crps(Mixture(Skewed(), eta), value), half, rtol=0, atol=1e-4)
    # Gneiting & Raftery (2007), eq. 21.
    z = value.numpy()
    exact = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
    scores = crps(Mixture(Gaussian(scale=1.0), eta[..., :1]), value)
    np.testing.assert_allclose(scores, exact, rtol=1e-8)
    even = crps(Mixture(Categorical(2), torch.zeros(1, 2, 2)), torch.tensor([0.0, 1.0]))
    assert even.tolist() == [0.25, 0.25]
    assert crps(Mixture(Gaussian(), torch.zeros(2, 0, 2)), torch.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("family", "eta"),
    [(NegativeBinomial(), [[7.0, -1.0], [7.0, 0.0]]), (Poisson(), [[14.0], [14.001]])],
    ids=["negative-binomial", "poisson"],
)
def test_thousands_of_whole_numbers_are_thinned(family, eta, monkeypatch):
    mixture = Mixture(family, torch.tensor(eta, dtype=DOUBLE)[:, None])
    value = mixture.mean().round() + 0.5
    thinned = crps(mixture, value)
    monkeypatch.setattr(module, "_WIDEST", 10**6)
    error = (thinned - crps(mixture, value)).abs()
    assert 0 < error < 1e-4 * mixture.variance().sqrt()


@every
def test_unknown_and_infinite_values_and_extreme_parameters(case):
    mixture = mixture_of(case)
    single = Mixture(mixture.family, mixture.eta.float(), mixture.item)
    single.eta[0, 3] = torch.nan
    value = mixture.sample(torch.Generator().manual_seed(1)).float()
    value[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    scores = crps(single, value)
    assert scores.dtype == torch.float32
    assert scores[[0, 3]].isnan().all() and scores[1:3].isposinf().all()
    expected = crps(mixture, value.double())[4]
    torch.testing.assert_close(scores[4].double(), expected, rtol=1e-5, atol=1e-6)
    eta = extreme_eta(case.family.n_params, DOUBLE)[None, ::3]
    item = None if case.item is None else torch.full((eta.shape[1],), case.item)
    value = torch.full((eta.shape[1],), 3.0, dtype=DOUBLE)
    scores = crps(Mixture(case.family, eta, item), value)
    assert scores.isfinite().all() and (scores >= 0).all()
