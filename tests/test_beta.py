"""Shares: precise at both ends and at any precision."""

import math

import pytest
import torch
from scipy import stats

from exfam.families import Beta

DOUBLE = torch.float64


def close(actual, expected, tolerance=1e-9):
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("logit", [-25.0, -3.0, 0.0, 0.4, 12.0])
@pytest.mark.parametrize("log_precision", [-15.0, 0.0, 4.0, 19.0])
def test_both_ends_are_alike(logit, log_precision):
    value = 0.5 ** torch.tensor([1.0, 2.0, 7.0, 30.0, 53.0], dtype=DOUBLE)
    there, back = (torch.tensor([sign * logit, log_precision], dtype=DOUBLE) for sign in (1, -1))
    nats = Beta().log_prob(value, there)
    close(nats, Beta().log_prob(1 - value, back), 1e-12)
    assert nats.isfinite().all() and nats.unique().numel() > 1


def test_single_precision_knows_values_that_it_would_round_to_one():
    value = torch.tensor([1 - 1e-10, 1 - 2e-15, 1e-300], dtype=DOUBLE)
    eta = torch.tensor([1.0, 2.0])
    nats = Beta().log_prob(value, eta)
    shapes = [eta[1].double().exp() * (sign * eta[0].double()).sigmoid() for sign in (1, -1)]
    assert nats.dtype == torch.float32
    close(nats.double(), stats.beta(*(float(a) for a in shapes)).logpdf(value), 1e-5)


def test_high_precision_is_all_but_gaussian():
    eta = torch.tensor([[1.0, 18.0]], dtype=DOUBLE)
    mean, sd = Beta().mean(eta), Beta().variance(eta).sqrt()
    z = torch.linspace(-3, 3, 7, dtype=DOUBLE)
    nats = Beta().log_prob(mean + sd * z, eta)
    close(nats, -0.5 * z**2 - 0.5 * math.log(2 * math.pi) - sd.log(), 1e-3)
    eta.requires_grad_()
    (gradient,) = torch.autograd.grad(Beta().log_prob(mean, eta).sum(), eta)
    # A half for each doubling of the precision, none for the mean's own value but its skewness.
    close(gradient[0, 1], 0.5, 1e-6)
    assert gradient[0, 0].abs() < 1


def test_the_start_is_that_of_scipy():
    value = stats.beta(0.7, 4.0).rvs(3000, random_state=1)
    a, b, *_ = stats.beta.fit(value, floc=0, fscale=1)
    start = Beta().initial_eta(torch.from_numpy(value))
    close(start, [math.log(a / b), math.log(a + b)], 1e-4)
    for odd in ([0.3] * 20, [1e-12], [1e-9, 1 - 1e-9]):
        value = torch.tensor(odd, dtype=DOUBLE)
        start = Beta().initial_eta(value)
        assert start.isfinite().all() and Beta().log_prob(value, start).isfinite().all()


def test_draws_of_the_smallest_shapes_are_inside():
    eta = torch.tensor([[30.0, -20.0], [-30.0, -20.0], [0.0, -20.0], [0.0, 20.0]]).repeat(500, 1)
    for dtype in (torch.float32, DOUBLE):
        drawn = Beta().sample(eta.to(dtype), generator=torch.Generator().manual_seed(0))
        assert Beta().in_support(drawn).all()
        share = (drawn.reshape(500, 4) > 0.5).double().mean(0)
        assert share[0] == 1 and share[1] == 0 and abs(share[2] - 0.5) < 0.1
