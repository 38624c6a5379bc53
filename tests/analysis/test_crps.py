"""The continuous ranked probability score against brute force and known forms."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

from exfam.families import Categorical, Gaussian, NegativeBinomial, Poisson, StudentT
from exfam.families.mixtures import Mixture
from exfam.scores import crps as module
from exfam.scores.crps import crps
from family_cases import CASES, extreme_eta

DOUBLE = torch.float64
ROWS = 5
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def mixture_of(case, *, members=2):
    generator = torch.Generator().manual_seed(4)
    eta = torch.randn(members, ROWS, case.family.n_params, generator=generator, dtype=DOUBLE)
    item = None if case.item is None else torch.full((ROWS,), case.item)
    return Mixture(case.family, eta, item)


def brute_force(mixture, value, *, whole):
    """Between the outermost quantiles, in steps far smaller than the law's own."""
    ends = torch.tensor([1e-12, 1 - 1e-12], dtype=DOUBLE)
    inner = torch.linspace(5e-4, 1 - 5e-4, 600, dtype=DOUBLE)
    tails = 10 ** torch.linspace(-12, -3, 150, dtype=DOUBLE)
    p = torch.cat([ends, inner, tails, 1 - tails]).unsqueeze(-1)
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


@pytest.mark.parametrize("members", [1, 3])
@every
def test_it_is_the_integral_of_the_squared_distance_of_cdfs(case, members):
    mixture = mixture_of(case, members=members)
    # Draws, of which one lies far above, one far below, and one between whole numbers.
    far = torch.tensor([20.0, -15.0, 0.25 if case.discrete else 0.0, 0.0, 0.0], dtype=DOUBLE)
    value = mixture.sample(torch.Generator().manual_seed(1)) + far
    expected = brute_force(mixture, value, whole=case.discrete)
    error = (crps(mixture, value) - expected).abs() / mixture.variance().sqrt()
    assert error.max() < 2e-5
    assert expected.unique().numel() == ROWS
    # Equal members are one.
    four = Mixture(mixture.family, mixture.eta[:1].expand(4, -1, -1), mixture.item)
    one = Mixture(mixture.family, mixture.eta[:1], mixture.item)
    torch.testing.assert_close(crps(four, value), crps(one, value), rtol=1e-6, atol=1e-7)


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
