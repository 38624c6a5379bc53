"""The unit of a column changes nothing but the unit of what is predicted."""

import numpy as np
import pandas as pd
import pytest

from exfam.checks import DataError
from exfam.families import Gaussian, StudentT
from fields.field_cases import BOUND, COUNTS, FRAME, FULL, KINDS, LAGGING, fitted, make

UNITS = [(1e-100, 0.0), (1e-8, -30.0), (1e10, 1e4)]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_unit = pytest.mark.parametrize(("a", "b"), UNITS)
SEEN = FRAME.v.notna().to_numpy()


def moved(frame, a, b):
    return frame.assign(v=a * (frame.v + b))


def assert_same_but_for_the_unit(one, other, a, b, frame=FRAME):
    """What `other`, fitted to a (v + b), says is what `one` says in that unit."""
    X = moved(frame, a, b)
    seen = frame.v.notna().to_numpy()
    np.testing.assert_allclose(
        other.log_prob(X)[seen] + np.log(a), one.log_prob(frame)[seen], rtol=0, atol=1e-5
    )
    assert other.score(X) + np.log(a) == pytest.approx(one.score(frame), abs=1e-5)
    dist, plain = other.predict_dist(X), one.predict_dist(frame)

    def same(found, wanted, by=1.0):
        np.testing.assert_allclose(found / (by * a), wanted, rtol=1e-6, atol=1e-6 + 1e-13 * abs(b))

    same(dist.mean, plain.mean + b)
    same(dist.sd, plain.sd)
    same(dist.quantile(0.1), plain.quantile(0.1) + b)
    for end, wanted in zip(dist.interval(0.8), plain.interval(0.8), strict=True):
        same(end, wanted + b)
    same(dist.crps(X.v), plain.crps(frame.v))
    np.testing.assert_allclose(dist.cdf(X.v), plain.cdf(frame.v), atol=1e-6)
    same(other.impute(X).v, one.impute(frame).v + b)
    some, same_days = X[:15], frame[:15]
    same(
        other.sample(some, n=2, seed=1, sweeps=1), one.sample(same_days, n=2, seed=1, sweeps=1) + b
    )
    found, wanted = (e.next_site(each, n=2) for e, each in ((other, some), (one, same_days)))
    np.testing.assert_allclose(found.variance / a / a, wanted.variance, rtol=1e-6)
    np.testing.assert_allclose(found.reduction / a / a, wanted.reduction, rtol=1e-5, atol=1e-6)


@every_kind
@every_unit
def test_a_field_in_another_unit_is_the_same_field(kind, a, b):
    one = fitted(kind, noise=False)
    assert_same_but_for_the_unit(one, make(kind).fit(moved(FULL, a, b)), a, b)


@pytest.mark.parametrize("kind", LAGGING)
@pytest.mark.parametrize(("a", "b"), UNITS[1:])
def test_forecasts_are_the_same_in_another_unit(kind, a, b):
    one = fitted(kind, noise=False, lags=1)
    other = make(kind, lags=1).fit(moved(FULL, a, b))
    wanted = one.forecast(FULL, steps=2, n=3).draws
    found = other.forecast(moved(FULL, a, b), steps=2, n=3).draws
    np.testing.assert_allclose(found / a, wanted + b, rtol=1e-6, atol=1e-6)


@every_kind
@pytest.mark.parametrize("standardize", ["none", "global", "seasonal"])
def test_every_way_to_standardize_is_the_same_in_another_unit(kind, standardize):
    if (kind, standardize) == ("field-climatology", "none"):
        return
    a, b = 1e-4, 50.0
    one = fitted(kind, noise=False, standardize=standardize)
    other = make(kind, standardize=standardize).fit(moved(FULL, a, b))
    nats = other.log_prob(moved(FRAME, a, b))[SEEN] + np.log(a)
    np.testing.assert_allclose(nats, one.log_prob(FRAME)[SEEN], rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", [Gaussian(scale=2.0), StudentT(), StudentT(df=5.0)], ids=str)
@pytest.mark.parametrize(("a", "b"), UNITS[1:])
def test_every_family_of_real_numbers_is_the_same_in_another_unit(family, a, b):
    there = Gaussian(scale=2.0 * a) if isinstance(family, Gaussian) else family
    one = fitted("field-efa", noise=False, family=family)
    other = make("field-efa", family=there).fit(moved(FULL, a, b))
    assert_same_but_for_the_unit(one, other, a, b)


@pytest.mark.parametrize("kind", ["field-efa", "field-latent-factor"])
def test_histories_are_in_the_unit_of_the_values(kind):
    one, other = fitted(kind, noise=False), make(kind).fit(moved(FULL, 1e-6, 0.0))
    for name in ("train_nats", "validation_nats"):
        pairs = zip(one.history_.rows, other.history_.rows, strict=True)
        for row, same in pairs:
            assert getattr(same, name) == pytest.approx(getattr(row, name) + np.log(1e-6), abs=1e-4)


def test_counts_have_no_unit():
    assert fitted("field-efa", frame=COUNTS, family="poisson").family_.name == "poisson"


def placed(frame, a, b):
    """The frame with its sites elsewhere on a plane, and as far apart in another unit."""
    return frame.assign(x=a * (frame.x + b), y=a * frame.y)


@every_kind
@pytest.mark.parametrize(("a", "b"), [(1e-6, 0.0), (1e140, 0.0), (1.0, 1e8)])
def test_places_in_another_unit_are_the_same_places(kind, a, b):
    one, other = fitted(kind, noise=False), make(kind).fit(placed(FULL, a, b))
    X = placed(FRAME, a, b)
    np.testing.assert_allclose(other.log_prob(X), one.log_prob(FRAME), rtol=0, atol=1e-5)
    if kind not in BOUND:
        at = np.array([[0.7, 0.3], [4.0, 2.0]])
        there = other.predict(X, at=a * (at + [b, 0.0]))
        np.testing.assert_allclose(there, one.predict(FRAME, at=at), rtol=1e-5)


def test_forecasts_and_explanations_name_places_as_they_came():
    X = placed(FULL, 1e6, 3.0).sort_values(["day", "site"])
    estimator = make("field-efa", lags=1).fit(X)
    np.testing.assert_array_equal(estimator.forecast(X, n=1).coordinates, X[["x", "y"]][:5])
    np.testing.assert_array_equal(estimator.explain(X)[0].coordinates, X[["x", "y"]][:5])


def test_places_are_finite_and_near():
    far = placed(FULL, 1e160, 0.0)
    with pytest.raises(DataError, match="`coordinates` must be at most 1e.150 in size, got 4.5e.1"):
        make("field-kriging").fit(far)
    message = (
        "`coordinates` must lie within 1e.09 times the extent of the training sites, 2.25, got"
    )
    with pytest.raises(DataError, match=message):
        fitted("field-kriging").predict(FRAME, at=[[1e308, 0.0]])
    new = FRAME.assign(site="new").drop_duplicates("day").assign(x=-1e12, y=0.0)
    with pytest.raises(DataError, match=message):
        fitted("field-kriging").predict(pd.concat([FRAME, new]))
