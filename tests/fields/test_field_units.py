"""The unit of a column changes nothing but the unit of what is predicted."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from exfam.checks import DataError
from exfam.families import Gaussian, StudentT
from fields.field_cases import BOUND, FRAME, FULL, LAGGING, SEEN, every_kind, fitted, make, seasonal


def moved(frame, a, b):
    return frame.assign(v=a * (frame.v + b))


def assert_same_but_for_the_unit(plain, other, a, b):
    """What `other`, fitted to a (v + b), predicts is what `plain` predicts in that unit."""
    X = moved(FRAME, a, b)
    nats = other.log_prob(X)[SEEN] + np.log(a)
    assert_allclose(nats, plain.log_prob(FRAME)[SEEN], rtol=0, atol=1e-5)
    dist, wanted = other.predict_dist(X), plain.predict_dist(FRAME)
    some, days = X[:15], FRAME[:15]
    draws = {"n": 2, "seed": 1, "sweeps": 1}
    pairs = [
        (dist.mean, wanted.mean + b),
        (dist.sd, wanted.sd),
        *zip(dist.interval(0.8), [end + b for end in wanted.interval(0.8)], strict=True),
        (dist.crps(X.v), wanted.crps(FRAME.v)),
        (other.impute(X).v, plain.impute(FRAME).v + b),
        (other.sample(some, **draws), plain.sample(days, **draws) + b),
    ]
    for ours, theirs in pairs:
        assert_allclose(ours / a, theirs, rtol=1e-6, atol=1e-6 + 1e-13 * abs(b))
    assert_allclose(dist.cdf(X.v), wanted.cdf(FRAME.v), atol=1e-6)
    sensing, wanted = other.next_site(some, n=2), plain.next_site(days, n=2)
    assert_allclose(sensing.variance / a / a, wanted.variance, rtol=1e-6)
    assert_allclose(sensing.reduction / a / a, wanted.reduction, rtol=1e-5, atol=1e-6)


@every_kind
@pytest.mark.parametrize(("a", "b"), [(1e-100, 0.0), (1e-8, -30.0), (1e10, 1e4)])
def test_a_field_in_another_unit_is_the_same_field(kind, a, b):
    # Seasons are worked out at both ends of what there is.
    for more in ({}, seasonal(kind))[: 1 if a == 1e-8 else 2]:
        other = make(kind, **more).fit(moved(FULL, a, b))
        assert_same_but_for_the_unit(fitted(kind, noise=False, **more), other, a, b)


@pytest.mark.parametrize("kind", LAGGING)
def test_forecasts_are_the_same_in_another_unit(kind):
    a, b = 1e10, 1e4
    other = make(kind, lags=1).fit(moved(FULL, a, b))
    wanted = fitted(kind, noise=False, lags=1).forecast(FULL, steps=2, n=3).draws
    draws = other.forecast(moved(FULL, a, b), steps=2, n=3).draws
    assert_allclose(draws / a, wanted + b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", [Gaussian(scale=2.0), StudentT(), StudentT(df=5.0)], ids=str)
def test_every_family_of_real_numbers_is_the_same_in_another_unit(family):
    a, b = 1e-8, -30.0
    there = Gaussian(scale=2.0 * a) if isinstance(family, Gaussian) else family
    other = make("field-efa", family=there).fit(moved(FULL, a, b))
    plain = fitted("field-efa", noise=False, family=family)
    assert_same_but_for_the_unit(plain, other, a, b)


def placed(frame, a, b):
    """The frame with its sites elsewhere on a plane, and as far apart in another unit."""
    return frame.assign(x=a * (frame.x + b), y=a * frame.y)


@every_kind
@pytest.mark.parametrize(("a", "b"), [(1e-6, 0.0), (1e140, 0.0), (1.0, 1e8)])
def test_places_in_another_unit_are_the_same_places(kind, a, b):
    plain, other = fitted(kind, noise=False), make(kind).fit(placed(FULL, a, b))
    X = placed(FRAME, a, b)
    assert_allclose(other.log_prob(X), plain.log_prob(FRAME), rtol=0, atol=1e-5)
    if kind not in BOUND:
        at = np.array([[0.7, 0.3], [4.0, 2.0]])
        there = other.predict(X, at=a * (at + [b, 0.0]))
        assert_allclose(there, plain.predict(FRAME, at=at), rtol=1e-5)


def test_forecasts_and_explanations_name_places_as_they_came():
    X = placed(FULL, 1e6, 3.0).sort_values(["day", "site"])
    estimator = make("field-efa", lags=1).fit(X)
    assert_array_equal(estimator.forecast(X, n=1).coordinates, X[["x", "y"]][:5])
    assert_array_equal(estimator.explain(X)[0].coordinates, X[["x", "y"]][:5])


def test_places_are_finite_and_near():
    with pytest.raises(DataError, match="`coordinates` must be at most 1e.150 in size, got 4.5e.1"):
        make("field-kriging").fit(placed(FULL, 1e160, 0.0))
    message = "`coordinates` must lie within 1e.09 times the extent of the training sites, 2.25,"
    with pytest.raises(DataError, match=message):
        fitted("field-kriging").predict(FRAME, at=[[1e308, 0.0]])
    new = FRAME.assign(site="new").drop_duplicates("day").assign(x=-1e12, y=0.0)
    with pytest.raises(DataError, match=message):
        fitted("field-kriging").predict(pd.concat([FRAME, new]))
