"""Laws of fits to maps of which much is missing: neighbors say what days were like."""

import torch
from numpy.testing import assert_array_equal

from exfam.fields.base.complete import courses_beside
from exfam.fields.base.courses import CHOICES
from exfam.fields.base.kernel import fit_kernel
from exfam.fields.base.maps import MANY_MISSING, kernel_of
from exfam.fields.base.moments import pairwise_products
from fields.test_field_base import field_maps


def with_gaps(maps, share, *, seed=0):
    """The maps with a share of all values hidden."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.rand(maps.panel.shown.shape, generator=generator) < share
    shown = maps.panel.shown & ~hidden
    values = torch.where(shown, maps.panel.values, 0.0)
    return maps._replace(panel=maps.panel._replace(values=values, shown=shown))


def test_levels_of_sites_seldom_seen_are_nearer_to_those_of_all_days():
    errors = []
    for seed in range(3):
        whole = field_maps(n_maps=80, n_lags=0, seed=seed)
        maps = with_gaps(whole, 0.8, seed=seed)
        truth, plain = whole.courses(CHOICES[0]), maps.courses(CHOICES[0])
        kernel = kernel_of(*whole.rows(truth), whole.sites)
        beside = courses_beside(maps, plain, CHOICES[0], kernel)
        assert (beside.scale > 0).all()
        errors.append(
            [float((found.level - truth.level).square().mean()) for found in (beside, plain)]
        )
    ours, theirs = torch.tensor(errors).mean(0)
    assert ours < 0.85 * theirs


def test_courses_of_maps_with_few_gaps_stay_as_they_are():
    maps = with_gaps(field_maps(n_maps=60, n_lags=0), 0.01)
    courses = maps.courses(CHOICES[0])
    kernel = kernel_of(*maps.rows(courses), maps.sites)
    assert courses_beside(maps, courses, CHOICES[0], kernel) is courses


def test_kernels_of_maps_with_many_gaps_forget_less_of_what_sites_share():
    whole = field_maps(n_maps=80, n_lags=0)
    courses = whole.courses(CHOICES[0])
    maps = with_gaps(whole, 0.75)
    rows, shown = maps.rows(courses)
    columns = maps.sites.columns
    truth = kernel_of(*whole.rows(courses), whole.sites).of(columns)
    plain = fit_kernel(pairwise_products(rows, shown), columns, n_flat=2).of(columns)
    again = kernel_of(rows, shown, maps.sites).of(columns)

    def off(covariance):
        spread = covariance.diagonal().sqrt()
        expected = truth.diagonal().sqrt()
        correlation = covariance / spread[:, None] / spread
        return (correlation - truth / expected[:, None] / expected).square().mean()

    assert off(again) < off(plain)
    few = with_gaps(whole, 0.5 * MANY_MISSING)
    rows, shown = few.rows(courses)
    once = fit_kernel(pairwise_products(rows, shown), columns, n_flat=2)
    assert_array_equal(kernel_of(rows, shown, few.sites).numbers, once.numbers)
