"""Laws of fits to maps of which much is missing: neighbors say what days were like."""

import pytest
import torch
from numpy.testing import assert_allclose

from exfam.fields.base.complete import courses_beside
from exfam.fields.base.courses import CHOICES, site_spreads
from exfam.fields.base.kernel import fit_kernel
from exfam.fields.base.likelihood import CompleteRows, IncompleteRows
from exfam.fields.base.maps import kernel_of
from exfam.fields.base.moments import pairwise_products
from fields.test_field_base import field_maps, random_covariance

ONE = torch.tensor(1.0).double()


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
        beside = courses_beside(maps, plain, CHOICES[0], kernel).courses
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
    assert courses_beside(maps, courses, CHOICES[0], kernel) == (courses, None)


def test_a_level_is_in_doubt_as_the_mean_of_the_days_seen_is():
    whole = field_maps(n_maps=80, n_lags=0)
    courses = whole.courses(CHOICES[0])
    kernel = kernel_of(*whole.rows(courses), whole.sites)
    covariance = kernel.of(whole.sites.columns)
    # A map in two shows everything, the others nothing.
    shown = (torch.arange(80) % 2 == 0)[:, None].expand_as(whole.panel.shown)
    maps = whole._replace(panel=whole.panel._replace(shown=shown))
    beside = courses_beside(maps, maps.courses(CHOICES[0]), CHOICES[0], kernel)
    assert_allclose(beside.doubt, covariance / 40, rtol=0.05, atol=1e-4)


def test_kernels_of_maps_with_many_gaps_forget_less_of_what_sites_share():
    whole = field_maps(n_maps=80, n_lags=0)
    courses = whole.courses(CHOICES[0])
    maps = with_gaps(whole, 0.75)
    rows, shown = maps.rows(courses)
    columns = maps.sites.columns
    truth = kernel_of(*whole.rows(courses), whole.sites).of(columns)
    pairs = CompleteRows(pairwise_products(rows, shown), columns.lag)
    plain = fit_kernel(pairs, columns, n_flat=2, variance=ONE).of(columns)
    again = kernel_of(rows, shown, maps.sites).of(columns)

    def off(covariance):
        spread = covariance.diagonal().sqrt()
        expected = truth.diagonal().sqrt()
        correlation = covariance / spread[:, None] / spread
        return (correlation - truth / expected[:, None] / expected).square().mean()

    assert off(again) < 0.5 * off(plain)


@pytest.mark.parametrize("n_lags", [0, 1])
def test_rows_that_show_all_have_the_nats_of_their_products(n_lags):
    maps = field_maps(n_maps=60, n_lags=n_lags)
    rows, shown = maps.rows(maps.courses(CHOICES[0]))
    whole = shown.all(1)
    rows, shown, lag = rows[whole], shown[whole], maps.sites.columns.lag
    covariance = random_covariance(len(lag))
    ours = IncompleteRows(rows, shown, lag).nats(covariance)
    theirs = CompleteRows(rows.T @ rows / len(rows), lag).nats(covariance)
    assert_allclose(ours.nats, theirs.nats)
    assert_allclose(ours.slope, theirs.slope, rtol=1e-6, atol=1e-9)


def test_slopes_of_incomplete_rows_are_those_of_what_each_shows():
    maps = with_gaps(field_maps(n_maps=20, n_lags=1), 0.6)
    rows, shown = maps.rows(maps.courses(CHOICES[0]))
    lag, covariance = maps.sites.columns.lag, random_covariance(rows.shape[1])

    def loss(free):
        total = free.new_zeros(())
        for x, there in zip(rows, shown, strict=True):
            for sign, some in ((1, there), (-1, there & (lag > 0))):
                block = free[some][:, some]
                solved = torch.linalg.solve(block, x[some])
                total = total + sign * 0.5 * (x[some] @ solved + block.logdet())
        return total / (shown & (lag == 0)).sum()

    found = IncompleteRows(rows, shown, lag).nats(covariance)
    assert_allclose(found.nats, loss(covariance))
    assert_allclose(found.slope, torch.func.grad(loss)(covariance), rtol=1e-6, atol=1e-9)


def test_spreads_of_sites_that_are_alike_are_one_and_others_stay_apart():
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(40, 30, generator=generator).double()
    shown = torch.ones_like(left, dtype=torch.bool)
    plain = left.square().mean(0).sqrt()
    assert site_spreads(left, shown).var() < 0.2 * plain.var()
    apart = torch.linspace(-1, 1, 30).double().exp()
    found = site_spreads(left * apart, shown)
    assert ((found / (plain * apart)).log().abs() < 0.5).all()
    assert_allclose(site_spreads(3 * left, shown), 3 * site_spreads(left, shown))
