"""Families of measured values: a column's unit changes nothing but the unit; Student's t."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from exfam.checks import ExfamError
from exfam.families import (
    Exponential,
    Gamma,
    Gaussian,
    LogNormal,
    LogStudentT,
    PerItem,
    Poisson,
    Scaled,
    StudentT,
    family_from_config,
    family_to_config,
    location_and_scale,
    scaled_to,
)

SCALES = (1e-100, 1e-4, 7.3, 1e10, 1e100)
SHIFTS = (0.0, 3.0, -1e4, 1e6)  # in the unit of the values
REAL = [Gaussian(), Gaussian(scale=2.0), StudentT(), StudentT(df=5.0)]
POSITIVE = [Gamma(), Exponential(), LogNormal(), LogStudentT(df=3.0)]
every = pytest.mark.parametrize("family", [*REAL, *POSITIVE], ids=str)


def numbers(family):
    generator = np.random.default_rng(3)
    drawn = generator.normal(2.0, 3.0, 101) if family in REAL else generator.gamma(2.0, size=101)
    return torch.from_numpy(drawn)


@every
@pytest.mark.parametrize("a", SCALES)
def test_all_but_standardized_values_changes_with_the_unit(family, a):
    plain = numbers(family)
    unit = scaled_to(family, plain)
    for b in SHIFTS if family in REAL else (0.0,):
        moved = a * (plain + b)
        # A known scale grows with the values.
        other = scaled_to(family.rescaled(1 / a), moved)
        if b == 0:
            assert torch.equal(unit.standardize(plain), other.standardize(moved))
            assert torch.equal(unit.network_input(plain), other.network_input(moved))
            torch.testing.assert_close(unit.initial_eta(plain), other.initial_eta(moved))
        eta = torch.randn(101, unit.n_params, generator=torch.Generator().manual_seed(0)).double()
        for dtype in (torch.float32, torch.float64):
            expected = unit.log_prob(plain, eta.to(dtype)) - math.log(a)
            apart = (other.log_prob(moved, eta.to(dtype)) - expected).abs().max()
            # Single precision holds the 230 nats of a unit of 1e100, and 256 and more to 3e-5.
            assert apart < 1e-5 + (3e-5 if abs(math.log(a)) > 100 else 0)
        eta = eta[:9].clamp(-2, 2)
        for result in (
            lambda scaled, eta=eta: scaled.mean(eta),
            lambda scaled, eta=eta: scaled.quantile(0.9, eta),
            lambda scaled, eta=eta: scaled.sample(eta, generator=torch.Generator().manual_seed(1)),
        ):
            torch.testing.assert_close(result(other) / a - b, result(unit), rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(other.variance(eta) / a / a, unit.variance(eta))


@every
def test_no_finite_value_of_the_support_is_impossible(family):
    scaled = scaled_to(family, numbers(family))
    value = torch.tensor([1e-300, 1e-40, 1e20, 1e300], dtype=torch.float64)
    eta = torch.zeros(4, scaled.n_params, requires_grad=True)
    nats = scaled.log_prob(value, eta)
    assert nats.isfinite().all() and scaled.network_input(value).abs().max() < 1e5
    many = value.repeat(250)
    assert scaled.log_prob(many, torch.zeros(1000, scaled.n_params).double()).sum().isfinite()
    assert torch.autograd.grad(nats.sum(), eta)[0].isfinite().all()


def test_values_are_standardized_by_numbers_that_outliers_do_not_move():
    plain = numbers(Gaussian()).numpy()
    center, scale = location_and_scale(plain)
    assert abs(center - 2) < 1 and 2 < scale < 4
    far = location_and_scale(np.concatenate([plain, [1e30] * 9]))
    assert abs(far[0] - center) < 1 and far[1] < 2 * scale


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([5.0], (5.0, 5.0)),
        ([0.0, 0.0], (0.0, 1.0)),
        ([-3e-20] * 4, (-3e-20, 3e-20)),
        ([0.1 + 0.2, 0.3, 0.3], (0.3, 0.3)),  # a spread of rounding is none
        ([0.0] * 99 + [10.0], (0.0, 1.0)),  # the root mean square, where deciles are equal
        ([0.0] * 60 + [1e-17] * 10 + [4.0] * 30, (0.0, 4.0 / 1.6449)),
    ],
)
def test_a_scale_is_above_zero_whatever_the_values(value, expected):
    assert location_and_scale(np.array(value)) == pytest.approx(expected)


def test_what_has_no_scale_is_left_as_it_is():
    assert scaled_to(Exponential(), torch.zeros(3)) == Scaled(Exponential(), 0.0, 1.0)
    assert scaled_to(Gamma(), torch.zeros(3)) == Gamma()  # none of its values is in its support
    assert scaled_to(Poisson(), torch.tensor([1.0, 5.0])) == Poisson()
    far = Poisson().network_input(torch.tensor([7.0, 1e9, 1e20]))
    assert far[0] == 7 and far.diff().min() > 0 and far.max() < 1e8
    with pytest.raises(ExfamError, match="`family` must be one that its shifts and scales map"):
        Scaled(Gamma(), 1.0, 2.0)


def test_each_family_of_items_has_the_unit_of_its_own_items():
    family = PerItem({0: Gaussian(), 1: Poisson(), 2: Gaussian()}, default=Gamma())
    item = torch.tensor([0, 2, 0, 1, 1, 5])
    value = torch.tensor([10.0, 20.0, 30.0, 7.0, 1e9, 4.0])
    fitted = scaled_to(family, value, item=item)
    heights = location_and_scale(np.array([10.0, 20.0, 30.0]))
    assert fitted.families[0] == fitted.families[2] == Scaled(Gaussian(), *heights)
    assert fitted.families[1] == Poisson() and fitted.default == Scaled(Gamma(), 0.0, 4.0)
    unit = fitted.standardize(value, item=item)
    torch.testing.assert_close(fitted.restore(unit, item=item), value.double(), rtol=1e-5, atol=0)
    assert unit[3] == 7 and unit[5] == 1 and unit[1] == 0
    assert family_from_config(family_to_config(fitted)) == fitted
    # Values of items without a family, or of no item, are as they are.
    few = PerItem({0: Scaled(Gaussian(), 5.0, 2.0)})
    value = torch.tensor([9.0, 9.0])
    assert few.standardize(value, item=torch.tensor([0, -1])).tolist() == [2, 9]
    assert few.network_input(value).tolist() == [9, 9]


DOUBLE = torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
def test_the_distribution_is_that_of_scipy(dtype):
    eta = torch.tensor([[1.5, 0.7, excess] for excess in (-1.0, 0.5, 3.0, 9.0, 18.0)], dtype=dtype)
    value = torch.tensor([-30.0, 0.0, 1.5, 2.0, 9.0], dtype=dtype).unsqueeze(-1)
    location, log_scale, log_excess = eta.double().numpy().T
    witness = stats.t(2 + np.exp(log_excess), loc=location, scale=np.exp(log_scale))
    tolerance = 1e-9 if dtype == DOUBLE else 2e-5
    for actual, expected in (
        (StudentT().log_prob(value, eta), witness.logpdf(value.numpy())),
        (StudentT().cdf(value, eta), witness.cdf(value.numpy())),
        (StudentT().variance(eta), witness.var()),
        (StudentT().quantile(1e-4, eta), witness.ppf(1e-4)),
        (StudentT().quantile(0.9, eta), witness.ppf(0.9)),
    ):
        expected = torch.as_tensor(expected, dtype=dtype).expand(actual.shape)
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_known_degrees_of_freedom_are_the_learned_held_fast():
    value = torch.linspace(-6, 6, 13, dtype=DOUBLE)
    eta = torch.tensor([0.3, -0.2, np.log(3.0)], dtype=DOUBLE)
    nats = StudentT(df=5.0).log_prob(value, eta[:2])
    torch.testing.assert_close(nats, StudentT().log_prob(value, eta))


def test_values_far_out_stay_finite_in_single_precision():
    value = torch.tensor([1e30, -1e30])
    eta = torch.tensor([0.0, -5.0, 1.0], requires_grad=True)
    nats = StudentT().log_prob(value, eta)
    nats.sum().backward()
    witness = stats.t(2 + np.e, scale=np.exp(-5.0))
    np.testing.assert_allclose(nats.detach(), witness.logpdf(value), rtol=1e-5)
    assert eta.grad.isfinite().all() and (eta.grad != 0).any()


def test_the_start_is_that_of_scipy():
    value = stats.t(4.5, loc=3, scale=2).rvs(2000, random_state=1)
    df, location, scale = stats.t.fit(value)
    expected = [location, np.log(scale), np.log(df - 2)]
    for family, columns in ((StudentT(), 3), (StudentT(df=df), 2)):
        start = family.initial_eta(torch.from_numpy(value))
        np.testing.assert_allclose(start, expected[:columns], atol=1e-3)


ODD = [[3.7] * 50, [0.1] * 7, [0.0] * 90 + list(range(10)), [0.0, 1.0, 2.0, 1e300], [1.0]]


@pytest.mark.parametrize("value", ODD)
def test_the_start_is_finite_where_samples_are_odd(value):
    value = torch.tensor(value, dtype=DOUBLE)
    for family in (StudentT(), StudentT(df=3.0)):
        start = family.initial_eta(value)
        assert start.isfinite().all()
        assert family.log_prob(value, start).isfinite().all()
        assert family.variance(start) > 0


def test_impossible_degrees_of_freedom_are_refused():
    with pytest.raises(ExfamError, match="`df` must be a number > 2, got 2.0: from 2 down there"):
        StudentT(df=2.0)
    with pytest.raises(ExfamError, match="`df` must be a number > 0, got -1.0"):
        StudentT(df=-1.0)
    with pytest.raises(ExfamError, match="`df` must be a number > 2, got 1.5"):
        LogStudentT(df=1.5)
