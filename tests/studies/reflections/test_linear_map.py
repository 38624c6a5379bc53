"""Reports of the map from word to context vectors, where the map is known."""

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.reflections.linear_map import (
    involution_report,
    linear_map,
)
from exfam_studies.reflections.spectrum import SignCounts

DIM = 8


@pytest.fixture
def words():
    return np.random.default_rng(0).standard_normal((60, DIM))


def orthogonal(seed=1):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((DIM, DIM)))[0]


def test_a_linear_map_is_found_again(words):
    transform = np.random.default_rng(2).standard_normal((DIM, DIM))
    np.testing.assert_allclose(linear_map(words, words @ transform.T), transform, atol=1e-12)


def test_q_is_that_of_the_pseudo_inverse(words):
    context = np.random.default_rng(3).standard_normal(words.shape)
    report = involution_report(words, context)
    expected = (np.linalg.pinv(words) @ context).T
    np.testing.assert_allclose(report.transform, expected, atol=1e-12)
    left = context - words @ expected.T
    assert report.residual == pytest.approx(np.linalg.norm(left) / np.linalg.norm(context))
    squared = expected @ expected
    off = squared[~np.eye(DIM, dtype=bool)]
    assert report.squared.diagonal_mean == pytest.approx(np.diag(squared).mean())
    assert report.squared.diagonal_sd == pytest.approx(np.diag(squared).std())
    assert report.squared.off_diagonal_mean == pytest.approx(off.mean())
    assert report.squared.off_diagonal_sd == pytest.approx(off.std())
    assert report.squared.off_diagonal_norm == pytest.approx(np.linalg.norm(off))
    share = (np.linalg.norm(off) / np.linalg.norm(squared)) ** 2
    assert report.squared.off_diagonal_share == pytest.approx(share)
    asymmetry = np.linalg.norm(expected - expected.T) / np.linalg.norm(expected)
    assert report.asymmetry == pytest.approx(asymmetry)


@pytest.mark.parametrize("n_positive", [0, 3, 8])
def test_a_reflection_is_an_involution_in_any_basis(words, n_positive):
    basis = orthogonal()
    signs = np.where(np.arange(DIM) < n_positive, 1.0, -1.0)
    report = involution_report(words, words @ (basis * signs) @ basis.T)
    assert report.signs == report.product_signs == SignCounts(n_positive, DIM - n_positive, 0)
    assert report.squared.diagonal_mean == pytest.approx(1)
    assert report.squared.off_diagonal_norm == pytest.approx(0, abs=1e-10)
    assert max(report.asymmetry, report.residual) < 1e-12
    assert report.norm_correlation == pytest.approx(1)
    assert report.cosine_correlation == pytest.approx(1)


def test_a_rotation_is_none(words):
    report = involution_report(words, words @ orthogonal().T)
    assert report.squared.diagonal_mean < 0.8 and report.asymmetry > 0.3
    assert report.squared.off_diagonal_share > 0.2
    assert report.cosine_correlation == pytest.approx(1)


def test_correlations_are_those_of_all_pairs(words):
    context = words * 0.5 + np.random.default_rng(4).standard_normal(words.shape)
    report = involution_report(words, context)
    lengths = [np.linalg.norm(each, axis=1) for each in (words, context)]
    assert report.norm_correlation == pytest.approx(np.corrcoef(*lengths)[0, 1])
    upper = np.triu_indices(len(words), 1)
    cosines = [
        (each @ each.T / np.outer(length, length))[upper]
        for each, length in zip((words, context), lengths, strict=True)
    ]
    assert report.cosine_correlation == pytest.approx(np.corrcoef(*cosines)[0, 1])
    some = involution_report(words, context, max_pairs=1_500, seed=0)
    assert some.cosine_correlation != report.cosine_correlation
    assert some.cosine_correlation == pytest.approx(report.cosine_correlation, abs=0.08)


def test_vectors_of_one_length_have_no_correlation_of_lengths():
    words = np.vstack([np.eye(3), -np.eye(3)])
    assert np.isnan(involution_report(words, -words).norm_correlation)


def test_the_gauge_changes_q_but_not_the_signs_of_the_model(words):
    signs = np.array([1, 1, 1, -1, -1, -1, -1, -1.0])
    context = words * signs
    mixing = np.random.default_rng(5).standard_normal((DIM, DIM))
    one = words @ mixing, context @ np.linalg.inv(mixing).T
    plain, gauged = involution_report(words, context), involution_report(*one)
    assert gauged.squared.diagonal_mean != pytest.approx(plain.squared.diagonal_mean, abs=0.1)
    assert gauged.product_signs == plain.product_signs == SignCounts(3, 5, 0)


def test_vectors_that_do_not_go_together_are_refused(words):
    with pytest.raises(DataError, match=r"`context` must have the shape of `words`, \(60, 8\)"):
        involution_report(words, words[:, :3])
    broken = words.copy()
    broken[17, 2] = np.nan
    with pytest.raises(DataError, match="`context` must be finite, got others in row 17"):
        linear_map(words, broken)
    with pytest.raises(DataError, match="`words` must be finite, got others in row 17"):
        linear_map(broken, words)


def test_vectors_that_do_not_span_all_dimensions_are_refused(words):
    flat = words.copy()
    flat[:, 3] = flat[:, 2]
    with pytest.raises(DataError, match="must span all 8 dimensions .* got rank 7 of 60 words"):
        involution_report(flat, words)
    with pytest.raises(DataError, match="got rank 5 of 5 words"):
        linear_map(words[:5], words[:5])
