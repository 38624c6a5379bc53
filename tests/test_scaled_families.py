"""Families on standardized values: the unit of a column changes nothing but the unit."""

import math

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import (
    Exponential,
    Gamma,
    Gaussian,
    PerItem,
    Poisson,
    Scaled,
    StudentT,
    family_from_config,
    family_to_config,
    location_and_scale,
    scaled_to,
)

SCALES = (1e-100, 1e-8, 1e-4, 1e-3, 7.3, 1e4, 1e10, 1e100)
SHIFTS = (0.0, 3.0, -1e4, 1e6)  # in the unit of the values
REAL = [Gaussian(), Gaussian(scale=2.0), StudentT(), StudentT(df=5.0)]
POSITIVE = [Gamma(), Exponential()]


def numbers(family):
    generator = np.random.default_rng(3)
    return generator.normal(2.0, 3.0, 101) if family in REAL else generator.gamma(2.0, size=101)


def in_unit(family, scale):
    """The same family for values times `scale`: a known scale grows with them."""
    return family.rescaled(1 / scale)


def shifts(family):
    return SHIFTS if family in REAL else (0.0,)


def both(family, a, b):
    """The family on values, and on a y + a b, with both values."""
    plain = torch.from_numpy(numbers(family))
    moved = a * (plain + b)
    return scaled_to(family, plain), scaled_to(in_unit(family, a), moved), plain, moved


every = pytest.mark.parametrize("family", [*REAL, *POSITIVE], ids=str)
every_scale = pytest.mark.parametrize("a", SCALES)


@every
@every_scale
def test_standardized_values_are_the_same_bits_in_any_unit(family, a):
    one, other, plain, moved = both(family, a, 0.0)
    assert torch.equal(one.standardize(plain), other.standardize(moved))
    assert torch.equal(one.network_input(plain), other.network_input(moved))


@every
@every_scale
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_densities_change_by_the_log_of_the_unit(family, a, dtype):
    for b in shifts(family):
        one, other, plain, moved = both(family, a, b)
        eta = torch.randn(101, one.n_params, generator=torch.Generator().manual_seed(0)).to(dtype)
        expected = one.log_prob(plain, eta) - math.log(a)
        apart = (other.log_prob(moved, eta) - expected).abs().max()
        # Single precision holds the 230 nats of a unit of 1e100 to 1e-5.
        assert apart < 1e-5 + (1e-5 if abs(math.log(a)) > 100 else 0)


@every
@every_scale
def test_moments_and_quantiles_change_with_the_unit(family, a):
    for b in shifts(family):
        one, other, _, _ = both(family, a, b)
        eta = torch.randn(9, one.n_params, dtype=torch.float64).clamp(-2, 2)
        seeded = [torch.Generator().manual_seed(1) for _ in "12"]
        pairs = [(each.mean(eta), each.quantile(0.9, eta)) for each in (one, other)]
        drawn = [one.sample(eta, generator=seeded[0]), other.sample(eta, generator=seeded[1])]
        for plain, moved in zip((*pairs[0], drawn[0]), (*pairs[1], drawn[1]), strict=True):
            torch.testing.assert_close(moved / a - b, plain, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(other.variance(eta) / a / a, one.variance(eta))


@every
def test_what_a_sample_starts_from_is_the_same_in_any_unit(family):
    for a in SCALES:
        one, other, plain, moved = both(family, a, 0.0)
        torch.testing.assert_close(one.initial_eta(plain), other.initial_eta(moved))


@every
def test_no_finite_value_of_the_support_is_impossible(family):
    one = scaled_to(family, torch.from_numpy(numbers(family)))
    value = torch.tensor([1e-300, 1e-40, 1e20, 1e300], dtype=torch.float64)
    eta = torch.zeros(4, one.n_params, requires_grad=True)
    nats = one.log_prob(value, eta)
    assert nats.isfinite().all() and one.network_input(value).abs().max() < 1e5
    many = value.repeat(250)
    assert one.log_prob(many, torch.zeros(1000, one.n_params).double()).sum().isfinite()
    assert torch.autograd.grad(nats.sum(), eta)[0].isfinite().all()


def test_values_are_standardized_by_numbers_that_outliers_do_not_move():
    plain = numbers(Gaussian())
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


def test_zeros_leave_a_positive_family_as_it_is():
    assert scaled_to(Exponential(), torch.zeros(3)) == Scaled(Exponential(), 0.0, 1.0)
    assert scaled_to(Gamma(), torch.zeros(3)) == Gamma()  # none of its values is in its support


def test_families_of_counts_are_left_as_they_are():
    assert scaled_to(Poisson(), torch.tensor([1.0, 5.0])) == Poisson()
    far = Poisson().network_input(torch.tensor([7.0, 1e9, 1e20]))
    assert far[0] == 7 and far.diff().min() > 0 and far.max() < 1e8


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
    assert fitted.network_input(value, item=item).max() < 1e8
    loaded = family_from_config(family_to_config(fitted))
    assert loaded == fitted


def test_values_of_items_without_a_family_or_of_no_item_are_as_they_are():
    family = PerItem({0: Scaled(Gaussian(), 5.0, 2.0)})
    value = torch.tensor([9.0, 9.0])
    assert family.standardize(value, item=torch.tensor([0, -1])).tolist() == [2, 9]
    assert family.network_input(value).tolist() == [9, 9]


@pytest.mark.parametrize(("family", "center"), [(Poisson(), 0.0), (Gamma(), 1.0)])
def test_families_that_a_shift_or_scale_changes_are_refused(family, center):
    with pytest.raises(ExfamError, match="`family` must be one that its shifts and scales map"):
        Scaled(family, center, 2.0)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ({"center": 1.0}, "`standardized` must hold a center and a scale"),
        ({"center": "1", "scale": 1.0}, "`center` must be a number, got '1'"),
    ],
)
def test_broken_configs_are_refused(units, message):
    with pytest.raises(ExfamError, match=message):
        family_from_config({"name": "gaussian", "standardized": units})
