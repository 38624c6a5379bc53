"""Spectra of word matrices, and the theorems about them."""

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from exfam.checks import DataError, ExfamError
from exfam.words.pmi import largest_eigenpairs
from exfam_studies.reflections.pmi_spectrum import semicircle_distance, spectrum
from exfam_studies.reflections.theorems import (
    check_lemma_1,
    check_lemma_2,
    check_lemma_3,
    check_theorem_1,
)
from words.simulated_words import simulate_words

FORMS = pytest.mark.parametrize("form", [np.array, scipy.sparse.csr_array])


def symmetric(seed, n=120):
    drawn = np.random.default_rng(seed).standard_normal((n, n))
    return (drawn + drawn.T) / np.sqrt(2 * n)


@FORMS
def test_a_spectrum_is_what_other_solvers_find(form):
    dense = symmetric(0)
    before = dense.copy()
    result = spectrum(form(dense), top=20)
    np.testing.assert_array_equal(dense, before)
    expected = np.linalg.eigvals(dense).real
    np.testing.assert_allclose(result.arrays["eigenvalues"], np.sort(expected), atol=1e-12)
    assert result.figures["spectrum-trace-per-word"] == pytest.approx(np.trace(dense) / 120)
    assert result.figures["spectrum-skewness"] == pytest.approx(scipy.stats.skew(expected))
    n_above = sum(float(x) > 0 for x in sorted(expected, key=abs)[-20:])
    assert result.figures["count-positive-of-20"] == n_above
    # Zeros are zeros but for rounding.
    basis, _ = np.linalg.qr(dense)
    low = (basis * np.repeat([1.0, -2.0, 0.0], [7, 4, 109])) @ basis.T
    figures = spectrum(form((low + low.T) / 2), top=11).figures
    names = ("positive", "negative", "positive-of-11", "negative-of-11")
    assert [figures[f"count-{name}"] for name in names] == [7, 4, 7, 4]


@FORMS
def test_lanczos_finds_the_largest_of_a_dense_solver(form):
    dense = symmetric(2)
    values, vectors = largest_eigenpairs(form(dense), 9, seed=0)
    every = np.linalg.eigvalsh(dense)
    np.testing.assert_allclose(values, every[np.argsort(-np.abs(every))[:9]], rtol=1e-9)
    np.testing.assert_allclose(dense @ vectors, vectors * values, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(9), atol=1e-9)
    assert (np.abs(vectors).max(axis=0) == vectors.max(axis=0)).all()
    np.testing.assert_array_equal(vectors, largest_eigenpairs(form(dense), 9, seed=0)[1])
    for k in (0, 10):
        with pytest.raises(ExfamError, match=f"`k` must be from 1 to 9 for .* 10 rows, got {k}"):
            largest_eigenpairs(symmetric(6, n=10), k, seed=0)


def test_gaussian_matrices_have_the_semicircle_and_others_do_not():
    assert semicircle_distance(np.linalg.eigvalsh(symmetric(4, n=400))) < 0.02
    assert semicircle_distance(np.repeat([1.0, -1.0, 0.0], [3, 3, 394])) > 0.4
    assert semicircle_distance(np.zeros(4)) == 1.0
    values = np.random.default_rng(5).normal(0.3, 1.0, 200)
    assert semicircle_distance(3 * values) == pytest.approx(semicircle_distance(values), abs=1e-9)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"`matrix` must be square, got shape \(2, 3\)"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), "`matrix` must be symmetric, got entries that are 1"),
        (scipy.sparse.csr_array([[0.0, np.nan], [np.nan, 0]]), "`matrix` must be finite"),
    ],
)
def test_matrices_without_a_spectrum_are_refused(matrix, message):
    with pytest.raises(DataError, match=message):
        spectrum(matrix)


DIM, N = 60, 1_000


@pytest.fixture(scope="module")
def truth():
    return simulate_words(N, dim=DIM, seed=0)


@pytest.fixture(scope="module")
def uneven(truth):
    """Vectors of the same directions and very different lengths, as frequent and rare words'."""
    return truth.words * np.random.default_rng(2).exponential(size=(N, 1))


ROTATION = np.linalg.qr(np.random.default_rng(1).standard_normal((DIM, DIM)))[0]


def failed(check):
    assert not check.applies
    return " ".join(check.failed_assumptions)


def test_lemma_1(truth, uneven):
    turn = np.kron(np.eye(DIM // 2), [[0.0, 1.0], [-1.0, 0.0]])
    for transform in (truth.transform, ROTATION, turn):
        check = check_lemma_1(truth.words, transform, t=1.5)
        assert check.applies and check.holds, check
    # w'Qw is 0 for every w where Q turns all by a right angle.
    assert check.measured["variance"] == pytest.approx(0, abs=1e-25)
    check = check_lemma_1(truth.words, np.eye(DIM), t=1.0)
    exceeding = np.abs((truth.words**2).sum(axis=1) - 1) > np.sqrt(2 / DIM)
    assert check.measured["exceeding share"] == pytest.approx(exceeding.mean())
    assert check.expected["variance"] == pytest.approx(2 / DIM)
    check = check_lemma_1(uneven, np.eye(DIM), t=3.0)
    assert "squared lengths" in failed(check)
    assert {words[:6] for words in check.failed_conclusions} == {"eq. 9:", "eq. 10"}
    check = check_lemma_1(truth.words, 3 * np.eye(DIM), t=2.0)
    assert failed(check) == "assumption 2: Q must be orthogonal, got |QQ' - 1| / sqrt(dim) = 8"


def test_lemma_2(truth):
    check = check_lemma_2(truth.words, truth.transform, truth.probability)
    assert check.applies and check.holds, check
    assert check.measured["alpha"] == pytest.approx(0.25)
    share = np.full(N, 0.5 / (N - 1))
    share[0] = 0.5
    check = check_lemma_2(truth.words, truth.transform, share)
    assert "assumption 3" in failed(check) and "eq. 25" in check.failed_conclusions[0]
    check = check_lemma_2(3 * truth.words, truth.transform, truth.probability)
    assert "assumption 1" in failed(check) and "eq. 18" in check.failed_conclusions[0]


def test_lemma_3(truth):
    for transform in (truth.transform, ROTATION @ truth.transform @ ROTATION.T):
        simulated = simulate_words(N, dim=DIM, transform=transform, seed=0)
        check = check_lemma_3(simulated.words, simulated.information())
        assert check.applies and check.holds, check
    turned = simulate_words(N, dim=DIM, transform=ROTATION, seed=0)
    check = check_lemma_3(turned.words, turned.information())
    assert "information must be symmetric" in failed(check)
    assert "eq. 27" in check.failed_conclusions[0]
    scale = np.diag(np.linspace(0.2, 2, DIM))
    check = check_lemma_3(truth.words, truth.words @ scale @ truth.words.T)
    assert "assumption 2" in failed(check) and not check.holds


@pytest.mark.parametrize("n_positive", [0, 30, 48])
def test_theorem_1(n_positive):
    truth = simulate_words(N, dim=DIM, n_positive=n_positive, seed=0)
    check = check_theorem_1(truth.words, truth.information())
    assert check.measured["share of +1"] == n_positive / DIM
    assert check.measured["off-diagonal variance"] == pytest.approx(1 / DIM, rel=0.05)
    assert check.measured["trace / n"] == pytest.approx(2 * n_positive / DIM - 1, abs=0.05)
    means = (figures["diagonal mean"] for figures in (check.measured, check.expected))
    assert next(means) == pytest.approx(next(means), abs=0.05)
    assert check.applies == check.holds == (n_positive == 30)
    if n_positive != 30:
        # All else that it assumes is so: assumptions 1 to 3 leave the number of signs open.
        assert len(check.failed_assumptions) == 1 and "equation 36" in failed(check)


def test_theorem_1_says_that_vectors_are_not_gaussian(truth, uneven):
    check = check_theorem_1(uneven, uneven @ truth.transform @ uneven.T)
    assert "assumption 1" in failed(check)
    assert {text[:6] for text in check.failed_conclusions} >= {"eq. 31", "eq. 32"}
