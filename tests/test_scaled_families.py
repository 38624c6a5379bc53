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
every = pytest.mark.parametrize("family", [*REAL, Gamma(), Exponential()], ids=str)
every_scale = pytest.mark.parametrize("a", SCALES)


def numbers(family):
    generator = np.random.default_rng(3)
    drawn = generator.normal(2.0, 3.0, 101) if family in REAL else generator.gamma(2.0, size=101)
    return torch.from_numpy(drawn)


def both(family, a, b=0.0):
    """The family on values, and on a y + a b, where a known scale grows with them; both values."""
    plain = numbers(family)
    moved = a * (plain + b)
    return scaled_to(family, plain), scaled_to(family.rescaled(1 / a), moved), plain, moved


@every
@every_scale
def test_standardized_values_are_the_same_bits_in_any_unit(family, a):
    one, other, plain, moved = both(family, a)
    assert torch.equal(one.standardize(plain), other.standardize(moved))
    assert torch.equal(one.network_input(plain), other.network_input(moved))
    torch.testing.assert_close(one.initial_eta(plain), other.initial_eta(moved))


@every
@every_scale
def test_densities_moments_and_quantiles_change_with_the_unit(family, a):
    for b in SHIFTS if family in REAL else (0.0,):
        one, other, plain, moved = both(family, a, b)
        eta = torch.randn(101, one.n_params, generator=torch.Generator().manual_seed(0)).double()
        for dtype in (torch.float32, torch.float64):
            expected = one.log_prob(plain, eta.to(dtype)) - math.log(a)
            apart = (other.log_prob(moved, eta.to(dtype)) - expected).abs().max()
            # Single precision holds the 230 nats of a unit of 1e100 to 1e-5.
            assert apart < 1e-5 + (1e-5 if abs(math.log(a)) > 100 else 0)
        eta = eta[:9].clamp(-2, 2)
        results = [
            (
                scaled.mean(eta),
                scaled.quantile(0.9, eta),
                scaled.sample(eta, generator=torch.Generator().manual_seed(1)),
            )
            for scaled in (one, other)
        ]
        for unit, result in zip(*results, strict=True):
            torch.testing.assert_close(result / a - b, unit, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(other.variance(eta) / a / a, one.variance(eta))


@every
def test_no_finite_value_of_the_support_is_impossible(family):
    one = scaled_to(family, numbers(family))
    value = torch.tensor([1e-300, 1e-40, 1e20, 1e300], dtype=torch.float64)
    eta = torch.zeros(4, one.n_params, requires_grad=True)
    nats = one.log_prob(value, eta)
    assert nats.isfinite().all() and one.network_input(value).abs().max() < 1e5
    many = value.repeat(250)
    assert one.log_prob(many, torch.zeros(1000, one.n_params).double()).sum().isfinite()
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
    assert family_from_config(family_to_config(fitted)) == fitted
    # Values of items without a family, or of no item, are as they are.
    few = PerItem({0: Scaled(Gaussian(), 5.0, 2.0)})
    value = torch.tensor([9.0, 9.0])
    assert few.standardize(value, item=torch.tensor([0, -1])).tolist() == [2, 9]
    assert few.network_input(value).tolist() == [9, 9]


@pytest.mark.parametrize(("family", "center"), [(Poisson(), 0.0), (Gamma(), 1.0)])
def test_families_that_a_shift_or_scale_changes_are_refused(family, center):
    with pytest.raises(ExfamError, match="`family` must be one that its shifts and scales map"):
        Scaled(family, center, 2.0)
