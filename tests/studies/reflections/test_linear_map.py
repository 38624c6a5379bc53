"""Maps from word to context vectors and partition functions, where the truth is known."""

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.reflections import linear_map as partition
from exfam_studies.reflections.linear_map import (
    SignCounts,
    involution_report,
    linear_map,
    log_partition,
    partition_report,
)
from words.simulated_words import simulate_words

DIM = 8


@pytest.fixture
def words():
    return drawn(0, (60, DIM))


@pytest.fixture(scope="module")
def truth():
    return simulate_words(300, dim=50, seed=0)


def drawn(seed, shape=(DIM, DIM)):
    return np.random.default_rng(seed).standard_normal(shape)


def test_a_report_is_that_of_the_pseudo_inverse_and_of_all_pairs(words):
    np.testing.assert_allclose(linear_map(words, words @ drawn(2).T), drawn(2), atol=1e-12)
    context = words * 0.5 + drawn(3, words.shape)
    report = involution_report(words, context)
    expected = (np.linalg.pinv(words) @ context).T
    np.testing.assert_allclose(report.transform, expected, atol=1e-12)
    norm = np.linalg.norm
    assert report.residual == pytest.approx(norm(context - words @ expected.T) / norm(context))
    assert report.asymmetry == pytest.approx(norm(expected - expected.T) / norm(expected))
    squared = expected @ expected
    off = squared[~np.eye(DIM, dtype=bool)]
    share = (norm(off) / norm(squared)) ** 2
    figures = np.diag(squared).mean(), off.mean(), off.std(), norm(off), share
    assert report.squared == pytest.approx(figures)
    lengths = [norm(vectors, axis=1) for vectors in (words, context)]
    assert report.norm_correlation == pytest.approx(np.corrcoef(*lengths)[0, 1])
    upper = np.triu_indices(len(words), 1)
    cosines = [
        (vectors @ vectors.T / np.outer(length, length))[upper]
        for vectors, length in zip((words, context), lengths, strict=True)
    ]
    assert report.cosine_correlation == pytest.approx(np.corrcoef(*cosines)[0, 1])
    some = involution_report(words, context, max_pairs=1_500, seed=0).cosine_correlation
    assert some != report.cosine_correlation
    assert some == pytest.approx(report.cosine_correlation, abs=0.08)
    alike = np.vstack([np.eye(3), -np.eye(3)])
    assert np.isnan(involution_report(alike, -alike).norm_correlation)


@pytest.mark.parametrize("n_positive", [0, 3])
def test_a_reflection_is_an_involution_in_any_basis_and_a_rotation_is_none(words, n_positive):
    basis, _ = np.linalg.qr(drawn(1))
    signs = np.where(np.arange(DIM) < n_positive, 1.0, -1.0)
    report = involution_report(words, words @ (basis * signs) @ basis.T)
    assert report.signs == report.product_signs == SignCounts(n_positive, DIM - n_positive, 0)
    assert report.squared.diagonal_mean == pytest.approx(1)
    assert report.squared.off_diagonal_norm == pytest.approx(0, abs=1e-10)
    assert max(report.asymmetry, report.residual) < 1e-12
    turned = involution_report(words, words @ basis.T)
    assert turned.squared.diagonal_mean < 0.8 and turned.asymmetry > 0.3
    # The gauge changes Q, but not the signs of the model.
    mixing = drawn(5)
    gauged = involution_report(words @ mixing, words * signs @ np.linalg.inv(mixing).T)
    assert gauged.squared.off_diagonal_norm > 0.1
    assert gauged.product_signs == report.signs


def test_vectors_without_a_map_are_refused(words):
    with pytest.raises(DataError, match=r"`context` must have the shape of `words`, \(60, 8\)"):
        involution_report(words, words[:, :3])
    broken, flat = words.copy(), words.copy()
    broken[17, 2] = np.nan
    with pytest.raises(DataError, match="`context` must be finite, got others in row 17"):
        linear_map(words, broken)
    flat[:, 3] = flat[:, 2]
    with pytest.raises(DataError, match="must span all 8 dimensions .* got rank 7 of 60 words"):
        involution_report(flat, words)


def test_partition_functions_are_their_sums(truth, monkeypatch):
    expected = np.log(np.exp(truth.words @ truth.context.T) @ truth.probability)
    parts = truth.words, truth.context, truth.probability
    whole = log_partition(*parts)
    np.testing.assert_allclose(whole, expected, rtol=1e-9)
    logits = truth.words @ truth.context.T
    np.testing.assert_allclose(truth.information(), logits - whole[:, None], atol=1e-12)
    monkeypatch.setattr(partition, "_LOGITS_AT_ONCE", 700)
    np.testing.assert_allclose(log_partition(*parts, n_words=5), whole[:5], rtol=1e-12)
    large = np.full((2, 1), 1e3)  # does not overflow
    np.testing.assert_allclose(log_partition(large, large, np.array([0.5, 0.5])), 1e6)
    for probability, message in (
        (np.full(299, 1 / 299), "`probability` must be 300 numbers >= 0 that sum to 1, got 299"),
        (np.append(np.full(299, 2 / 299), -1.0), "with sum 1 and minimum -1"),
        (np.full(300, np.nan), "with sum nan"),
    ):
        with pytest.raises(DataError, match=message):
            log_partition(truth.words, truth.context, probability)


def test_the_report_sees_models_that_do_and_do_not_normalize_themselves(truth):
    report = partition_report(truth.words, truth.context, truth.probability)
    assert report.expected == 1.01
    assert report.mean == pytest.approx(1.01, abs=0.01) and report.within > 0.99
    loud = partition_report(4 * truth.words, 4 * truth.context, truth.probability)
    assert loud.within < 0.2 and loud.spread > 10 * report.spread
    shifted = partition_report(truth.words, truth.context, truth.probability, shift=np.log(5))
    assert shifted.mean == pytest.approx(5 * report.mean)
