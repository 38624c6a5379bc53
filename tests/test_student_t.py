"""Student's t: its limits, its precision, its start from samples of all kinds."""

import re

import numpy as np
import pytest
import torch
from scipy import stats

from exfam.checks import ExfamError
from exfam.families import Gaussian, StudentT

DOUBLE = torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
def test_the_law_is_that_of_scipy(dtype):
    eta = torch.tensor([[1.5, 0.7, excess] for excess in (-1.0, 0.5, 3.0, 9.0, 18.0)], dtype=dtype)
    value = torch.tensor([-30.0, 0.0, 1.5, 2.0, 9.0], dtype=dtype).unsqueeze(-1)
    location, log_scale, log_excess = eta.double().numpy().T
    law = stats.t(2 + np.exp(log_excess), loc=location, scale=np.exp(log_scale))
    tolerance = 1e-9 if dtype == DOUBLE else 2e-5
    for actual, expected in (
        (StudentT().log_prob(value, eta), law.logpdf(value.numpy())),
        (StudentT().cdf(value, eta), law.cdf(value.numpy())),
        (StudentT().variance(eta), law.var()),
        (StudentT().quantile(1e-4, eta), law.ppf(1e-4)),
        (StudentT().quantile(0.9, eta), law.ppf(0.9)),
    ):
        expected = torch.as_tensor(expected, dtype=dtype).expand(actual.shape)
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_many_degrees_of_freedom_are_a_gaussian_and_known_ones_the_learned_held_fast():
    value, eta = torch.linspace(-6, 6, 13), torch.tensor([0.3, -0.2, 1e4])
    for method in ("log_prob", "cdf"):
        actual = getattr(StudentT(), method)(value, eta)
        expected = getattr(Gaussian(), method)(value, eta[:2])
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    eta = torch.tensor([0.3, -0.2, np.log(3.0)], dtype=DOUBLE)
    nats = StudentT(df=5.0).log_prob(value.double(), eta[:2])
    torch.testing.assert_close(nats, StudentT().log_prob(value.double(), eta))


def test_values_far_out_stay_finite_in_single_precision():
    value = torch.tensor([1e30, -1e30], requires_grad=True)
    eta = torch.tensor([0.0, -5.0, 1.0], requires_grad=True)
    nats = StudentT().log_prob(value, eta)
    nats.sum().backward()
    law = stats.t(2 + np.e, scale=np.exp(-5.0))
    np.testing.assert_allclose(nats.detach(), law.logpdf([1e30, -1e30]), rtol=1e-5)
    assert eta.grad.isfinite().all() and (eta.grad != 0).any()


def test_one_value_far_out_moves_its_start_less_than_the_gaussians():
    value = torch.from_numpy(np.append(np.random.default_rng(0).normal(5, 2, 400), 1e4))
    location, log_scale, _ = StudentT().initial_eta(value)
    assert abs(location - 5) < 0.3 and abs(log_scale.exp() - 2) < 0.8
    assert Gaussian().initial_eta(value)[0] > 20


def test_the_start_is_that_of_scipy():
    value = stats.t(4.5, loc=3, scale=2).rvs(2000, random_state=1)
    df, location, scale = stats.t.fit(value)
    expected = [location, np.log(scale), np.log(df - 2)]
    for family, columns in ((StudentT(), 3), (StudentT(df=df), 2)):
        start = family.initial_eta(torch.from_numpy(value))
        np.testing.assert_allclose(start, expected[:columns], atol=1e-3)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_start_has_the_unit_of_the_values(unit):
    value = torch.from_numpy(stats.t(6).rvs(300, random_state=2)) + 1
    plain, scaled = (StudentT().initial_eta(sample) for sample in (value, value * unit))
    moved = plain[1:] + torch.tensor([np.log(unit), 0])
    torch.testing.assert_close(scaled[0], plain[0] * unit, rtol=1e-4, atol=0.0)
    torch.testing.assert_close(scaled[1:], moved, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "value",
    [
        [3.7] * 50,
        [0.1] * 7,
        [0.0] * 90 + list(range(10)),
        [0.0, 1e308, -1e308],
        [0.0, 1.0, 2.0, 1e300],
        [1.0],
        [-1.0, 1.0],
    ],
)
def test_the_start_is_finite_where_samples_are_odd(value):
    value = torch.tensor(value, dtype=DOUBLE)
    for family in (StudentT(), StudentT(df=3.0)):
        with torch.no_grad():
            start = family.initial_eta(value)
        assert start.isfinite().all()
        assert family.log_prob(value, start).isfinite().all()
        assert family.variance(start) > 0


@pytest.mark.parametrize(
    ("df", "message"),
    [
        (2.0, "`df` must be a number > 2, got 2.0: from 2 down there is no variance"),
        (-1.0, "`df` must be a number > 0, got -1.0"),
    ],
)
def test_impossible_degrees_of_freedom_are_refused(df, message):
    with pytest.raises(ExfamError, match=re.escape(message)):
        StudentT(df=df)
