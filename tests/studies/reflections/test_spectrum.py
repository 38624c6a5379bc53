"""Eigenvalues against other solvers, and random matrices whose spectra are known."""

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from exfam.checks import DataError, ExfamError
from exfam.words.pmi import largest_eigenpairs
from exfam_studies.reflections.pmi_spectrum import semicircle_distance, spectrum

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
