"""Student's t of the logarithm, rounded to counts: masses, atoms, tails, starts, errors."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from exfam.checks import ExfamError
from exfam.families import RoundedStudentT
from exfam.families.bin_mass import log_bin_mass

DOUBLE = torch.float64


def draws(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def close(actual, expected, tolerance=1e-9):
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_degrees_of_freedom_of_cells_are_those_of_one_cell_at_a_time():
    df = 1.2 + draws(6).exp()
    low = torch.tensor([-torch.inf, -0.5, 3.0, -9.0, -1.0, 27.0], dtype=DOUBLE)
    width = torch.tensor([0.2, 1.0, 0.5, 1.0, 1e-6, 1e-12], dtype=DOUBLE)
    location, log_scale = draws(6, seed=1), draws(6, seed=2) / 3
    given = [tensor.requires_grad_() for tensor in (location, log_scale, df)]
    mass = log_bin_mass(low, width, *given)
    alone = [
        log_bin_mass(low[k, None], width[k, None], location[k, None], log_scale[k, None], df[k])
        for k in range(6)
    ]
    close(mass, torch.cat(alone), 1e-12)
    assert torch.autograd.gradcheck(lambda *given: log_bin_mass(low, width, *given), given)
    same = torch.tensor(4.0, dtype=DOUBLE, requires_grad=True)
    (once,) = torch.autograd.grad(log_bin_mass(low, width, location, log_scale, same).sum(), same)
    cells = same.detach().expand(6).clone().requires_grad_()
    (each,) = torch.autograd.grad(log_bin_mass(low, width, location, log_scale, cells).sum(), cells)
    assert each.unique().numel() > 1
    close(once, each.sum(), 1e-12)


@pytest.mark.parametrize("family", [RoundedStudentT(), RoundedStudentT(2, (2, 5, 90))], ids=str)
def test_all_counts_together_have_probability_one(family):
    eta = draws(5, family.n_params) / 2
    value = torch.arange(family.start, 3000.0, dtype=DOUBLE).unsqueeze(-1)
    mass = family.log_prob(value, eta).exp()
    close(mass.cumsum(0), family.cdf(value, eta))
    assert mass.sum(0).min() > 0.9


@pytest.mark.parametrize("count", [1e6, 1e12, 2.0**52, 1e100, 1e300])
def test_large_counts_have_the_density_of_their_logarithm(count):
    eta = torch.tensor([[math.log(count) - 0.7, 0.2, 1.0]], dtype=DOUBLE)
    value = torch.tensor([count], dtype=DOUBLE)
    if count < 2.0**512:
        log_count = math.log(count + 0.5)
        density = stats.t(1 + math.e, eta[0, 0].item(), math.exp(0.2)).logpdf(log_count)
        close(RoundedStudentT().log_prob(value, eta), [density - log_count])
    eta.requires_grad_()
    assert torch.autograd.gradcheck(lambda eta: RoundedStudentT().log_prob(value, eta), (eta,))


def test_quantiles_and_draws_reach_beyond_whole_numbers_of_double_precision():
    family = RoundedStudentT(atoms=(0, 7))
    eta = torch.tensor([[4.0, 1.5, -1.0, 0.5, -0.5]], dtype=DOUBLE)
    levels = torch.tensor([0.5, 0.9, 0.99, 0.999, 0.9999], dtype=DOUBLE)
    quantile = family.quantile(levels, eta)
    assert quantile[3] > 2.0**60 and (quantile.diff() > 0).all()
    assert (family.cdf(quantile, eta) > levels - 1e-12).all()
    close(family.cdf(quantile[3], eta), levels[3, None], 1e-12)
    assert family.quantile(1 - 1e-9, eta) == torch.inf, "its logarithm is above 1000"
    drawn = family.sample(eta.expand(4000, -1), generator=torch.Generator().manual_seed(0))
    assert drawn.max() > 2.0**53 and family.in_support(drawn).all()
    share = [(drawn == count).double().mean().item() for count in (0, 7)]
    expected = family.log_prob(torch.tensor([0.0, 7.0]), eta).exp()
    np.testing.assert_allclose(share, expected, atol=0.03)
    # A weight of nearly one leaves nothing to the smooth part, at any level.
    certain = torch.tensor([[4.0, 1.5, -1.0, 80.0, -80.0]], dtype=DOUBLE)
    assert (family.quantile(torch.tensor([0.1, 0.999]), certain) == 0).all()


def test_a_start_finds_the_smooth_part_and_the_atoms():
    truth = torch.tensor([[1.2, -0.4, 1.0, -2.0, -1.0, -40.0]], dtype=DOUBLE)
    family = RoundedStudentT(start=1, atoms=(1, 10, 4000))
    value = family.sample(truth.expand(20_000, -1), generator=torch.Generator().manual_seed(0))
    start = family.initial_eta(value)
    close(start[:5], truth[0, :5], 0.2)
    assert start[5] == math.log(1e-3)
    for odd in ([3.0], [5.0] * 9, [1.0] * 50 + [1e12], [10.0] * 90):
        value = torch.tensor(odd, dtype=DOUBLE)
        start = family.initial_eta(value)
        assert start.isfinite().all() and family.log_prob(value, start).isfinite().all()


def test_many_atoms_take_part_in_gradients_where_they_are():
    family = RoundedStudentT(atoms=tuple(range(0, 640, 10)))
    eta = draws(3, family.n_params).requires_grad_()
    value = torch.tensor([10.0, 11.0, 10_000.0], dtype=DOUBLE)
    (gradient,) = torch.autograd.grad(family.log_prob(value, eta).sum(), eta)
    assert gradient[0, 4] > 0 and (gradient[1:, 3:] < 0).all()
    assert torch.autograd.gradcheck(lambda eta: family.log_prob(value, eta), (eta,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": -1}, "`start` must be an integer >= 0, got -1"),
        ({"start": 2, "atoms": (1,)}, "`atoms` must be an integer >= 2, got 1"),
        ({"atoms": (True,)}, "`atoms` must be an integer >= 0, got True"),
        ({"atoms": (3, 1)}, r"`atoms` must be integers that increase, got \(3, 1\). Name each"),
        ({"atoms": (3, 3)}, r"`atoms` must be integers that increase, got \(3, 3\)"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ExfamError, match=message):
        RoundedStudentT(**options)


def test_hints_follow_the_support():
    assert RoundedStudentT(2).hint == "Use RoundedStudentT(start=0) for counts from 0."
    assert RoundedStudentT().hint == "Use StudentT() for real numbers."
