"""Another unit of a column of numbers changes its density by the unit alone, and nothing else."""

import numpy as np
import pytest

from tables.table_estimator_cases import (
    FRAME,
    JOINT,
    KINDS,
    NUMBER,
    REGRESSOR,
    RESPONSES,
    fitted,
    make,
)

UNITS = [(1e-8, 0.0), (1e-8, 1e-3), (1e-3, 5.0), (1e4, -3.0), (1e10, 1e10)]


@pytest.mark.parametrize(("a", "b"), UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_feature_in_another_unit(kind, a, b):
    """Beyond 1e8 or so, parameters in the own unit ended where scales do."""
    plain, other = fitted(kind), FRAME.assign(height=a * FRAME["height"] + b)
    moved = make(kind).fit(other, RESPONSES[kind])
    known = FRAME["height"].notna().to_numpy()
    result = moved.pseudo_log_likelihood(other) + known * np.log(a)
    np.testing.assert_allclose(result, plain.pseudo_log_likelihood(FRAME), atol=1e-5)
    means = [m.impute(X).frame["height"] for m, X in ((plain, FRAME), (moved, other))]
    np.testing.assert_allclose((means[1] - b) / a, means[0], rtol=1e-4)
    if kind != JOINT:
        same = [m.log_scores(X, RESPONSES[kind]) for m, X in ((plain, FRAME), (moved, other))]
        np.testing.assert_allclose(*same, atol=1e-5)


@pytest.mark.parametrize(("a", "b"), UNITS)
def test_a_response_in_another_unit(a, b):
    plain, other = fitted(REGRESSOR, extra_masking="auto"), a * NUMBER + b
    moved = make(REGRESSOR, extra_masking="auto").fit(FRAME, other)
    result = moved.log_scores(FRAME, other) + np.log(a)
    np.testing.assert_allclose(result, plain.log_scores(FRAME, NUMBER), atol=1e-5)
    distributions = moved.predict_dist(FRAME), plain.predict_dist(FRAME)
    np.testing.assert_allclose((distributions[0].mean - b) / a, distributions[1].mean, rtol=1e-5)
    np.testing.assert_allclose(distributions[0].sd / a, distributions[1].sd, rtol=1e-5)
    crps = [
        distribution.crps(y) for distribution, y in zip(distributions, (other, NUMBER), strict=True)
    ]
    np.testing.assert_allclose(crps[0] / a, crps[1], rtol=1e-4)


@pytest.mark.parametrize("a", [1e-8, 1e-3, 1e4, 1e10])
@pytest.mark.parametrize("family", ["exponential", "gamma"])
def test_positive_numbers_in_another_unit(family, a):
    y = NUMBER - NUMBER.min() + 0.1
    plain = make(REGRESSOR, family=family).fit(FRAME, y)
    moved = make(REGRESSOR, family=family).fit(FRAME, a * y)
    densities = moved.log_scores(FRAME, a * y) + np.log(a)
    np.testing.assert_allclose(densities, plain.log_scores(FRAME, y), atol=1e-5)
    means = moved.predict(FRAME) / a, plain.predict(FRAME)
    np.testing.assert_allclose(*means, rtol=1e-5)


@pytest.mark.parametrize("a", [1e-8, 1e-3, 1e4, 1e10])
@pytest.mark.parametrize("family", ["exponential", "gamma"])
def test_a_column_of_positive_numbers_in_another_unit(family, a):
    frames = [FRAME.assign(height=unit * (FRAME["height"] - 100)) for unit in (1.0, a)]
    plain, moved = (make(JOINT, families={"height": family}).fit(frame) for frame in frames)
    densities = moved.pseudo_log_likelihood(frames[1])
    densities += FRAME["height"].notna().to_numpy() * np.log(a)
    np.testing.assert_allclose(densities, plain.pseudo_log_likelihood(frames[0]), atol=1e-5)


@pytest.mark.parametrize("constant", [10**18, 4e38, -1e300, 1e-300])
def test_a_constant_column_of_any_size(constant):
    """Such a column of numbers above 3e38 was infinite in single precision."""
    model = make(JOINT, kinds=None).fit(FRAME.assign(one=constant))
    assert np.isfinite(model.pseudo_log_likelihood(FRAME.assign(one=constant))).all()


def test_a_score_of_numbers_far_beyond_those_fitted_is_a_number():
    """Each row had one; the sum of their densities was minus infinity."""
    model = make(JOINT, kinds=None).fit(FRAME.assign(one=NUMBER))
    assert np.isfinite(model.score(FRAME.assign(one=-1e300)))
