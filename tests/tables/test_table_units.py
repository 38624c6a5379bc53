"""Families of columns; another unit changes a density by the unit alone, and nothing else."""

import numpy as np
import pytest

from exfam.checks import ExfamError, SupportError
from exfam.families import Gamma, Gaussian, NegativeBinomial, Poisson
from tables.table_estimator_cases import (
    CLASS,
    CLASSIFIER,
    EVERY,
    FRAME,
    JOINT,
    NUMBER,
    REGRESSOR,
    RESPONSES,
    fit,
    fitted,
    make,
)

DRAWS = np.random.default_rng(0)
TABLE = {
    "wait": DRAWS.gamma(2.0, 3.0, 60),
    "size": DRAWS.normal(size=60),
    "visits": DRAWS.poisson(2.0, 60),
    "city": DRAWS.choice(["a", "b"], 60).astype(object),
}
COUNTS = {"kinds": {"visits": "count"}}


def test_columns_have_the_families_that_are_given():
    model = fit(JOINT, TABLE, families={"wait": Gamma(), "visits": "poisson"}, **COUNTS)
    result = dict(zip(model.schema_.names, model.families_, strict=True))
    assert (result["wait"], result["size"], result["visits"]) == (Gamma(), Gaussian(), Poisson())
    assert fit(JOINT, TABLE, **COUNTS).families_[2] == NegativeBinomial()


@pytest.mark.parametrize(
    ("families", "error", "message"),
    [
        ({"height": "gamma"}, ExfamError, "`families` must name columns of the table, got 'height"),
        ({"city": "gamma"}, ExfamError, "`families` must name columns of continuous numbers or co"),
        ({"wait": "ordinal"}, ExfamError, "`family` must be an instance where it has arguments"),
        ({"size": Gamma()}, SupportError, "`size` must be .* at row"),
    ],
)
def test_families_that_fit_no_column(families, error, message):
    with pytest.raises(error, match=message):
        fit(JOINT, TABLE, families=families)
    with pytest.raises(ExfamError, match="`families` must name columns of the table, got 'tier'"):
        fit(CLASSIFIER, FRAME, CLASS, families={"tier": "gamma"})


@pytest.mark.parametrize(
    ("numeric", "n_rows", "n_tokens"),
    [
        ("binned", [60, 320, 2000], [8, 20, 32]),
        ("continuous", [60, 320, 2000, 20_000], [4, 4, 7, 16]),
    ],
)
def test_bins_and_knots_follow_the_number_of_rows(numeric, n_rows, n_tokens):
    for n, expected in zip(n_rows, n_tokens, strict=True):
        model = fit(JOINT, {"a": np.linspace(0, 1, n)}, numeric=numeric)
        assert model.schema_.columns[0].n_tokens == expected


UNITS = [(1e-8, 1e-3), (1e-3, 5.0), (1e10, 1e10)]
IN_UNITS = pytest.mark.parametrize(("a", "b"), UNITS)
KNOWN = FRAME["height"].notna().to_numpy()


@IN_UNITS
@EVERY
def test_a_feature_in_another_unit(kind, a, b):
    """Beyond 1e8 or so, parameters in the own unit ended where scales do."""
    plain, other = fitted(kind), FRAME.assign(height=a * FRAME["height"] + b)
    moved = make(kind).fit(other, RESPONSES[kind])
    result = moved.pseudo_log_likelihood(other) + KNOWN * np.log(a)
    np.testing.assert_allclose(result, plain.pseudo_log_likelihood(FRAME), atol=1e-5)
    means = [m.impute(X).frame["height"] for m, X in ((plain, FRAME), (moved, other))]
    np.testing.assert_allclose((means[1] - b) / a, means[0], rtol=1e-4)


@IN_UNITS
def test_a_response_in_another_unit(a, b):
    plain, other = fitted(REGRESSOR, extra_masking="auto"), a * NUMBER + b
    moved = make(REGRESSOR, extra_masking="auto").fit(FRAME, other)
    result = moved.log_scores(FRAME, other) + np.log(a)
    np.testing.assert_allclose(result, plain.log_scores(FRAME, NUMBER), atol=1e-5)
    expected, dist = plain.predict_dist(FRAME), moved.predict_dist(FRAME)
    np.testing.assert_allclose((dist.mean - b) / a, expected.mean, rtol=1e-5)
    np.testing.assert_allclose(dist.sd / a, expected.sd, rtol=1e-5)
    np.testing.assert_allclose(dist.crps(other) / a, expected.crps(NUMBER), rtol=1e-4)


@pytest.mark.parametrize("a", [1e-8, 1e10])
@pytest.mark.parametrize("family", ["exponential", "gamma"])
def test_positive_numbers_in_another_unit(family, a):
    y = NUMBER - NUMBER.min() + 0.1
    plain, moved = (make(REGRESSOR, family=family).fit(FRAME, u * y) for u in (1, a))
    densities = moved.log_scores(FRAME, a * y) + np.log(a)
    np.testing.assert_allclose(densities, plain.log_scores(FRAME, y), atol=1e-5)
    np.testing.assert_allclose(moved.predict(FRAME) / a, plain.predict(FRAME), rtol=1e-5)


@pytest.mark.parametrize("value", [1e308, 5e-324])
@EVERY
def test_numbers_at_the_ends_of_what_there_is(kind, value):
    frame = FRAME.assign(height=np.where(np.arange(len(FRAME)) % 2, value, 1.0))
    model = fit(kind, frame)
    for X in (frame, frame.assign(height=-value)):
        assert np.isfinite(model.log_prob(X)).all()
        assert np.isfinite(model.conditional(["height"], given=X).predict_dist("height").mean).all()


def test_a_score_of_numbers_far_beyond_those_fitted_is_a_number():
    """Each row had one; the sum of their densities was minus infinity."""
    model = make(JOINT, kinds=None).fit(FRAME.assign(far=NUMBER))
    assert np.isfinite(model.score(FRAME.assign(far=-1e300)))
