"""The continuous ranked probability score against brute force, draws and known forms."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from exfam.families import (
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from exfam.families.mixtures import Mixture
from exfam.scores import crps as module
from exfam.scores.crps import crps
from family_cases import CASES, extreme_eta

DOUBLE = torch.float64
ROWS = 5


def law(case, *, members, seed=4):
    generator = torch.Generator().manual_seed(seed)
    eta = torch.randn(members, ROWS, case.family.n_params, generator=generator, dtype=DOUBLE)
    item = None if case.item is None else torch.full((ROWS,), case.item)
    return Mixture(case.family, eta, item)


def values(mixture, *, whole):
    """Draws, of which one lies far above, one far below the law, and one between whole numbers."""
    value = mixture.sample(torch.Generator().manual_seed(1))
    return value + torch.tensor([20.0, -15.0, 0.25 if whole else 0.0, 0.0, 0.0], dtype=DOUBLE)


def brute_force(mixture, value, *, whole):
    """Between the outermost quantiles, in steps far smaller than the law's own."""
    ends = torch.tensor([1e-12, 1 - 1e-12], dtype=DOUBLE)
    inner = torch.linspace(5e-4, 1 - 5e-4, 600, dtype=DOUBLE)
    tails = 10 ** torch.linspace(-12, -3, 150, dtype=DOUBLE)
    p = torch.cat([ends, inner, tails, 1 - tails]).view(-1, 1, 1)
    item = None if mixture.item is None else mixture.item[:1]
    told = []
    for row, y in enumerate(value):
        eta = mixture.eta[:, row]

        def cdf(x, eta=eta):
            return mixture.family.cdf(x.unsqueeze(-1), eta, item=item).mean(-1)

        near = mixture.family.quantile(p[..., 0], eta, item=item).flatten()
        if whole:
            low, high = min(near.min(), y).floor(), max(near.max(), y).floor() + 1
            near = torch.arange(float(low), float(high) + 1, dtype=DOUBLE)
        near = torch.cat([near, y[None]]).unique()
        at = near[:-1, None] + near.diff()[:, None] * torch.tensor([0.1127, 0.5, 0.8873])
        height = (cdf(at) - (at >= y).double()) ** 2
        weight = torch.tensor([5.0, 8.0, 5.0], dtype=DOUBLE) / 18
        told.append((height * weight * near.diff()[:, None]).sum())
    return torch.stack(told)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_integral_of_the_squared_distance_of_cdfs(name, members):
    case = CASES[name]
    mixture = law(case, members=members)
    value = values(mixture, whole=case.discrete)
    expected = brute_force(mixture, value, whole=case.discrete)
    error = (crps(mixture, value) - expected).abs() / mixture.variance().sqrt()
    assert error.max() < 2e-5
    assert expected.unique().numel() == ROWS


@pytest.mark.parametrize("name", ["gaussian", "student-t of known df", "gamma", "poisson"])
def test_it_is_the_distance_to_draws_less_half_of_that_between_them(name):
    mixture = law(CASES[name], members=2)
    value = mixture.sample(torch.Generator().manual_seed(5))
    many = Mixture(mixture.family, mixture.eta.repeat(1, 20_000, 1))
    one, other = (
        many.sample(torch.Generator().manual_seed(seed)).reshape(-1, ROWS) for seed in (1, 2)
    )
    each = (one - value).abs() - (one - other).abs() / 2
    error = each.std(0) / np.sqrt(len(each))
    assert ((crps(mixture, value) - each.mean(0)).abs() < 4.5 * error).all()


@pytest.mark.parametrize("df", [2.1, 3.0, 30.0, 1e6])
def test_students_t_is_its_integral(df):
    scale, z = 2.5, np.array([-40.0, -1.3, 0.0, 0.2, 6.0])
    told = crps(
        Mixture(StudentT(df=df), torch.tensor([1.0, np.log(scale)], dtype=DOUBLE).expand(1, 5, 2)),
        torch.from_numpy(1 + scale * z),
    )
    for actual, y in zip(told, z, strict=True):
        left, _ = integrate.quad(lambda x: special.stdtr(df, x) ** 2, -np.inf, y, epsabs=1e-11)
        right, _ = integrate.quad(lambda x: special.stdtr(df, -x) ** 2, y, np.inf, epsabs=1e-11)
        assert float(actual) == pytest.approx(scale * (left + right), rel=1e-7)


def test_known_forms():
    y = torch.tensor([0.0, 0.7, 3.0], dtype=DOUBLE)
    # Gneiting & Raftery (2007), eq. 21, and the exponential of Jordan, Krueger & Lerch (2019).
    z = y.numpy()
    gaussian = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
    exponential = z - 2 * stats.expon.cdf(z) + 0.5
    for family, expected in ((Gaussian(scale=1.0), gaussian), (Exponential(), exponential)):
        told = crps(Mixture(family, torch.zeros(1, 3, 1, dtype=DOUBLE)), y)
        np.testing.assert_allclose(told, expected, rtol=1e-8)
    even = crps(Mixture(Categorical(2), torch.zeros(1, 2, 2)), torch.tensor([0.0, 1.0]))
    assert even.tolist() == [0.25, 0.25]


@dataclass(frozen=True)
class Laplace(Gaussian):
    """A subclass with another density: its scale is that of a Laplace law."""

    name = "laplace"

    def _cdf(self, value, eta):
        z = (value - eta[..., 0]) * (-self._log_scale(eta)).exp()
        return 0.5 - 0.5 * z.sign() * torch.expm1(-z.abs())

    def _quantile(self, p, eta):
        u = torch.as_tensor(p, dtype=DOUBLE) - 0.5
        z = -u.sign() * torch.log1p(-2 * u.abs())
        return eta[..., 0] + self._log_scale(eta).exp() * z


@dataclass(frozen=True)
class Skewed(StudentT):
    """A subclass whose values are half as wide."""

    name = "skewed"

    def _cdf(self, value, eta):
        return super()._cdf(2 * value, eta)

    def _quantile(self, p, eta):
        return super()._quantile(p, eta) / 2


def test_subclasses_are_scored_by_their_own_law():
    value = torch.tensor([0.0, 1.0, -3.0], dtype=DOUBLE)
    eta = torch.zeros(1, 3, 2, dtype=DOUBLE)
    exact = value.abs() + (-value.abs()).exp() - 0.75
    torch.testing.assert_close(crps(Mixture(Laplace(), eta), value), exact, rtol=0, atol=1e-4)
    wide = torch.zeros(1, 3, StudentT().n_params, dtype=DOUBLE)
    half = crps(Mixture(StudentT(), wide), 2 * value) / 2
    torch.testing.assert_close(crps(Mixture(Skewed(), wide), value), half, rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", [Gaussian(), StudentT()], ids=str)
def test_it_has_the_unit_of_the_value(family):
    generator = torch.Generator().manual_seed(0)
    eta = torch.randn(2, 6, family.n_params, generator=generator, dtype=DOUBLE)
    value = torch.randn(6, generator=generator, dtype=DOUBLE)
    scaled = eta.clone()
    scaled[..., 0] = 100 * eta[..., 0] + 7
    scaled[..., 1] += np.log(100)
    one, other = crps(Mixture(family, eta), value), crps(Mixture(family, scaled), 100 * value + 7)
    torch.testing.assert_close(other, 100 * one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "student-t", "gamma", "poisson", "ordinal"])
def test_equal_members_are_one(name):
    one = law(CASES[name], members=1)
    value = one.sample(torch.Generator().manual_seed(2))
    four = Mixture(one.family, one.eta.expand(4, -1, -1))
    torch.testing.assert_close(crps(four, value), crps(one, value), rtol=1e-6, atol=1e-7)


def test_members_far_apart_and_of_unlike_spread():
    eta = torch.tensor([[0.0, 0.0], [100.0, 0.0], [50.0, -5.0], [50.0, 3.0]], dtype=DOUBLE)
    eta, value = eta[:, None].expand(-1, 4, -1), torch.tensor([0.0, 50.0, 60.0, 500.0]).double()
    torch.testing.assert_close(
        module._integral(Mixture(Gaussian(), eta), value),
        crps(Mixture(Gaussian(), eta), value),
        rtol=1e-5,
        atol=0.0,
    )


def test_the_true_law_has_the_lowest_mean():
    true = Mixture(StudentT(df=5.0), torch.zeros(1, 4000, 2))
    value = true.sample(torch.Generator().manual_seed(0))
    own = crps(true, value).mean()
    for shift in ([0.5, 0.0], [0.0, 0.5], [0.0, -0.5]):
        assert crps(Mixture(true.family, true.eta + torch.tensor(shift)), value).mean() > own


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


@pytest.mark.parametrize("family", [StudentT(), Poisson(), NegativeBinomial(), Gamma()], ids=str)
def test_the_size_of_chunks_changes_nothing(family, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    eta = torch.randn(2, 9, family.n_params, generator=generator, dtype=DOUBLE)
    eta[:, :2, 0] += 12  # among them laws of whole numbers without number
    mixture = Mixture(family, eta)
    value = mixture.sample(generator)
    whole = crps(mixture, value)
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", 1)
    torch.testing.assert_close(crps(mixture, value), whole, rtol=1e-9, atol=1e-12)
    assert whole.unique().numel() == 9


@pytest.mark.parametrize("name", CASES)
def test_unknown_and_infinite_values_in_single_precision(name):
    case = CASES[name]
    mixture = law(case, members=2)
    one = Mixture(mixture.family, mixture.eta.float(), mixture.item)
    one.eta[0, 3] = torch.nan
    value = mixture.sample(torch.Generator().manual_seed(1)).float()
    value[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    told = crps(one, value)
    assert told.dtype == torch.float32
    assert told[[0, 3]].isnan().all() and told[1:3].isposinf().all()
    expected = crps(mixture, value.double())[4]
    torch.testing.assert_close(told[4].double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_it_is_finite_for_extreme_parameters(name):
    case = CASES[name]
    eta = extreme_eta(case.family.n_params, DOUBLE)[None, ::3]
    item = None if case.item is None else torch.full((eta.shape[1],), case.item)
    value = torch.full((eta.shape[1],), 3.0, dtype=DOUBLE)
    told = crps(Mixture(case.family, eta, item), value)
    assert told.isfinite().all() and (told >= 0).all()


def test_no_rows_have_no_scores():
    assert crps(Mixture(Gaussian(), torch.zeros(2, 0, 2)), torch.zeros(0)).shape == (0,)
