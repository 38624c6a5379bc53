"""Laws of values known to be at most a limit: their evidence, and draws in their place."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats

from exfam.fields.base.complete import completed
from exfam.fields.base.conditionals import OfMatrix, given_all, given_near, nearest_columns
from exfam.fields.base.limits import log_cdf, moments_below, observation_below
from fields.test_field_base import by_definition, field_maps, random_covariance, rows

LIMITS = torch.tensor([-4.0, -1.0, 0.0, 0.7, 2.5]).double()


def test_moments_below_a_limit_are_those_of_a_truncated_gaussian():
    mean, variance = moments_below(LIMITS)
    for limit, m, v in zip(LIMITS.tolist(), mean, variance, strict=True):
        truncated = stats.truncnorm(-np.inf, limit)
        assert_allclose([m, v], [truncated.mean(), truncated.var()], rtol=1e-6)


def test_evidence_below_a_limit_gives_these_moments_back():
    value, noise = observation_below(LIMITS)
    mean, variance = moments_below(LIMITS)
    assert_allclose(value / (1 + noise), mean, rtol=1e-9)
    assert_allclose(noise / (1 + noise), variance, rtol=1e-9)
    far = observation_below(torch.tensor([-1e6, 1e6]).double())
    assert torch.isfinite(torch.stack(far)).all() and bool((far.noise > 0).all())


@pytest.mark.parametrize("df", [8.0, 30.0, 1e6])
def test_log_cdf_is_near_that_of_scipy(df):
    at = torch.linspace(-4, 4, 33).double()
    assert_allclose(log_cdf(at, torch.tensor(df).double()).exp(), stats.t.cdf(at, df), atol=1e-3)


def test_noisy_values_are_those_of_a_covariance_with_noise():
    covariance, (values, shown) = random_covariance(6), rows(9, 6, missing=0.3)
    noise = torch.from_numpy(np.random.default_rng(2).exponential(size=(9, 6)))
    noise[:, ::2], noise[:3] = 0.0, 0.0
    targets = torch.arange(4)
    near = OfMatrix(covariance, targets, nearest_columns(covariance, targets, most=6))
    found = [
        given_all(values, shown, covariance, targets, noise=noise),
        given_near(values, shown, near, n_used=5, noise=noise),
    ]
    for r in range(len(values)):
        for t in range(4):
            off = noise[r].clone()
            off[t] = 0.0
            mean, variance, squares, _ = by_definition(
                values[r], shown[r], covariance + torch.diag(off), t
            )
            others = [j for j in range(6) if shown[r, j] and j != t]
            number = float((1 / (1 + noise[r, others])).sum())
            for given in found:
                ours = [float(part[r, t]) for part in given]
                assert_allclose(ours, (mean, variance, squares, number), atol=1e-9)


def test_draws_below_a_limit_are_like_what_was_hidden():
    maps = field_maps(n_maps=600, n_sites=9, n_lags=0)
    true = maps.panel.values
    limit = float(true.median())
    censored = true <= limit
    hidden = torch.where(censored, limit, true)
    panel = maps.panel._replace(values=hidden, censored=censored, limit=limit)
    drawn = completed(maps._replace(panel=panel)).panel.values
    assert torch.equal(drawn[~censored], true[~censored])
    assert bool((drawn[censored] <= limit).all())
    assert_allclose(drawn.mean(), true.mean(), atol=0.1)
    assert_allclose(drawn.std() / true.std(), 1.0, atol=0.1)
    ours, theirs, naive = (np.corrcoef(v.T.numpy()) for v in (drawn, true, hidden))
    assert np.abs(ours - theirs).mean() < 0.7 * np.abs(naive - theirs).mean()
    assert completed(maps) is maps
