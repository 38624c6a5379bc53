"""Laws of joint draws: values hang together as in the base, each has its own distribution."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats

from exfam.fields.base.conditionals import MOST_DF, OfBlocks, OfMatrix, given_all
from exfam.fields.base.joint_draws import Wanted, joint_levels
from exfam.fields.local.local_part import levels_in_turn
from fields.field_cases import N_SITES, a_day, fitted

N = 4000
SOME_SHOWN = torch.tensor([True, False, False, True, False, False])


def random_covariance(n, seed=0):
    x = torch.randn(3 * n, n, generator=torch.Generator().manual_seed(seed)).double()
    return x.T @ x / (3 * n) + 0.1 * torch.eye(n).double()


def seeded():
    return torch.Generator().manual_seed(1)


def wanted_rows(n=N, **noise):
    return Wanted(SOME_SHOWN.expand(n, -1), ~SOME_SHOWN.expand(n, -1), **noise)


def correlation_given_shown(covariance):
    """Of what is missing, by the inverse of its block of the precision."""
    left = torch.linalg.inv(torch.linalg.inv(covariance)[~SOME_SHOWN][:, ~SOME_SHOWN])
    return left / left.diagonal().outer(left.diagonal()).sqrt()


def scores(levels):
    return torch.special.ndtri(levels[:, ~SOME_SHOWN])


def in_turn(covariance, rows, *, n_used=5):
    """The same draws one value after the other, given all columns."""
    others = torch.stack([torch.tensor([j for j in range(6) if j != i]) for i in range(6)])
    index = torch.cat([torch.arange(6)[:, None], others], 1)
    near = OfBlocks(covariance[index[:, :, None], index[:, None]], others)
    return levels_in_turn(rows, wanted_rows(), near, MOST_DF, n_used=n_used, generator=seeded())


def test_joint_draws_hang_together_as_the_covariance_says():
    covariance, rows = random_covariance(6), torch.zeros(N, 6).double()
    truth = correlation_given_shown(covariance)
    assert truth.triu(1).abs().max() > 0.2
    together = joint_levels(wanted_rows(), covariance, MOST_DF, generator=seeded())
    for levels in (together, in_turn(covariance, rows)):
        assert torch.all(levels[:, SOME_SHOWN] == 0.5)
        assert_allclose(np.corrcoef(scores(levels).T), truth, atol=4 / N**0.5)
        for column in levels[:, ~SOME_SHOWN].T:
            assert stats.kstest(column, "uniform").pvalue > 1e-4


def test_joint_draws_reproduce_the_conditionals():
    """A drawn value regressed on all others has the weights of its conditional distribution."""
    covariance = random_covariance(6)
    nothing, everything = torch.zeros(N, 6, dtype=torch.bool), torch.ones(N, 6, dtype=torch.bool)
    levels = joint_levels(Wanted(nothing, everything), covariance, MOST_DF, generator=seeded())
    drawn = torch.special.ndtri(levels) * covariance.diagonal().sqrt()
    given = given_all(drawn, everything, covariance, torch.arange(6))
    for i in range(6):
        error = drawn[:, i] - given.mean[:, i]
        assert_allclose(error.square().mean(), given.variance[0, i], rtol=5 * (2 / N) ** 0.5)
        others = [j for j in range(6) if j != i]
        shared = (error[:, None] * drawn[:, others]).mean(0)
        size = (error.square().mean() * drawn[:, others].square().mean(0)).sqrt()
        assert bool((shared.abs() < 5 * size / N**0.5).all())


def test_wild_rows_are_wild_everywhere():
    """Sizes of uncorrelated values hang together in a multivariate t, not in a Gaussian."""
    eye = torch.eye(6).double()
    sizes = []
    for df in (3.0, MOST_DF):
        levels = joint_levels(wanted_rows(), eye, df, generator=seeded())
        size = scores(levels).abs()
        sizes.append(np.corrcoef(size.T)[np.triu_indices(4, 1)].mean())
    assert sizes[0] > 0.1 > 5 * abs(sizes[1])


def test_noisy_values_leave_more_of_what_hangs_together():
    covariance = 0.2 * torch.eye(6).double() + 0.8
    noise = torch.full((N, 6), 1e9).double()
    levels = joint_levels(wanted_rows(noise=noise), covariance, MOST_DF, generator=seeded())
    own = covariance[~SOME_SHOWN][:, ~SOME_SHOWN]
    alone = own / own.diagonal().outer(own.diagonal()).sqrt()
    assert (alone - correlation_given_shown(covariance)).abs().max() > 0.4
    assert_allclose(np.corrcoef(scores(levels).T), alone, atol=4 / N**0.5)


def test_few_columns_near_are_those_of_the_matrix():
    """In turn, what is drawn of a chain needs its neighbors alone."""
    chain = 0.8 ** (torch.arange(6)[:, None] - torch.arange(6)).abs().double()
    near = torch.tensor([[1, 2], [0, 2], [1, 3], [2, 4], [3, 5], [4, 3]])
    rows = torch.zeros(N, 6).double()
    wanted = Wanted(torch.zeros(N, 6, dtype=torch.bool), torch.ones(N, 6, dtype=torch.bool))
    of = OfMatrix(chain, torch.arange(6), near)
    levels = levels_in_turn(rows, wanted, of, MOST_DF, n_used=2, generator=seeded())
    correlation = np.corrcoef(torch.special.ndtri(levels).T)
    assert correlation[0, 1] > 0.6 and correlation[2, 3] > 0.6


@pytest.mark.parametrize("kind", ["field-gaussian", "field-efa"])
def test_each_value_is_drawn_from_what_is_predicted(kind):
    options = {"base": "auto"} if kind == "field-efa" else {}
    estimator, missing = fitted(kind, **options), [1, 2, 4]
    day, n = a_day(missing=missing), 2000
    draws, dist = estimator.sample(day, n=n, seed=0), estimator.predict_dist(day)
    for q in (0.1, 0.5, 0.9):
        below = (draws[:, missing] <= dist.quantile(q)[missing]).mean(0)
        assert_allclose(below, q, atol=4.5 * (q * (1 - q) / n) ** 0.5)


def test_new_places_are_drawn_with_the_sites_around():
    estimator = fitted("field-gaussian")
    day = a_day(missing=[1, 2])
    near = day.iloc[[1]].assign(site="new", x=day.x.iloc[1] + 1e-3, v=np.nan)
    draws = estimator.sample(pd.concat([day, near], ignore_index=True), n=1000, seed=0)
    assert np.corrcoef(draws[:, 1], draws[:, N_SITES])[0, 1] > 0.3
