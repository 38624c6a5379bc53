"""Reports of the map from word to context vectors, where the map is known."""

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.reflections.linear_map import involution_report, linear_map
from exfam_studies.reflections.spectrum import SignCounts

DIM = 8


@pytest.fixture
def words():
    return np.random.default_rng(0).standard_normal((60, DIM))


def drawn(seed, shape=(DIM, DIM)):
    return np.random.default_rng(seed).standard_normal(shape)


def orthogonal():
    return np.linalg.qr(drawn(1))[0]


def test_q_is_that_of_the_pseudo_inverse(words):
    np.testing.assert_allclose(linear_map(words, words @ drawn(2).T), drawn(2), atol=1e-12)
    context = drawn(3, words.shape)
    report = involution_report(words, context)
    expected = (np.linalg.pinv(words) @ context).T
    np.testing.assert_allclose(report.transform, expected, atol=1e-12)
    norm = np.linalg.norm
    assert report.residual == pytest.approx(norm(context - words @ expected.T) / norm(context))
    assert report.asymmetry == pytest.approx(norm(expected - expected.T) / norm(expected))
    squared = expected @ expected
    off = squared[~np.eye(DIM, dtype=bool)]
    assert report.squared == pytest.approx(
        (
            np.diag(squared).mean(), off.mean(), off.std(), norm(off),
            (norm(off) / norm(squared)) ** 2,
        )
    )  # fmt: skip


@pytest.mark.parametrize("n_positive", [0, 3, 8])
def test_a_reflection_is_an_involution_in_any_basis(words, n_positive):
    signs = np.where(np.arange(DIM) < n_positive, 1.0, -1.0)
    report = involution_report(words, words @ (orthogonal() * signs) @ orthogonal().T)
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
    context = words * 0.5 + drawn(4, words.shape)
    report = involution_report(words, context)
    lengths = [np.linalg.norm(vectors, axis=1) for vectors in (words, context)]
    assert report.norm_correlation == pytest.approx(np.corrcoef(*lengths)[0, 1])
    upper = np.triu_indices(len(words), 1)
    cosines = [
        (vectors @ vectors.T / np.outer(length, length))[upper]
        for vectors, length in zip((words, context), lengths, strict=True)
    ]
    assert report.cosine_correlation == pytest.approx(np.corrcoef(*cosines)[0, 1])
    some = involution_report(words, context, max_pairs=1_500, seed=0)
    assert some.cosine_correlation != report.cosine_correlation
    assert some.cosine_correlation == pytest.approx(report.cosine_correlation, abs=0.08)
    alike = np.vstack([np.eye(3), -np.eye(3)])
    assert np.isnan(involution_report(alike, -alike).norm_correlation)


def test_the_gauge_changes_q_but_not_the_signs_of_the_model(words):
    context, mixing = words * np.array([1, 1, 1, -1, -1, -1, -1, -1.0]), drawn(5)
    plain = involution_report(words, context)
    gauged = involution_report(words @ mixing, context @ np.linalg.inv(mixing).T)
    assert gauged.squared.diagonal_mean != pytest.approx(plain.squared.diagonal_mean, abs=0.1)
    assert gauged.product_signs == plain.product_signs == SignCounts(3, 5, 0)


def test_vectors_without_a_map_are_refused(words):
    with pytest.raises(DataError, match=r"`context` must have the shape of `words`, \(60, 8\)"):
        involution_report(words, words[:, :3])
    broken, flat = words.copy(), words.copy()
    broken[17, 2] = np.nan
    for name, vectors in (("context", (words, broken)), ("words", (broken, words))):
        with pytest.raises(DataError, match=f"`{name}` must be finite, got others in row 17"):
            linear_map(*vectors)
    flat[:, 3] = flat[:, 2]
    with pytest.raises(DataError, match="must span all 8 dimensions .* got rank 7 of 60 words"):
        involution_report(flat, words)
