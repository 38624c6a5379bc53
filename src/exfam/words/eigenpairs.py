"""Eigenpairs and singular triplets of a matrix of words, by Lanczos iteration."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float

from exfam.checks import DataError, ExfamError


def largest_eigenpairs(
    matrix: Any, k: int, *, seed: int
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "words k"]]:
    """The `k` eigenvalues largest in absolute value, the largest first, and their vectors.

    By Lanczos iteration (ARPACK), from a start drawn with `seed`. The sign of a vector is such that
    its entry largest in absolute value is positive.
    Raises DataError for a matrix that is not square, symmetric and finite, and for one without such
    pairs, ExfamError unless `k` is from 1 to one less than its rows.

    >>> values, vectors = largest_eigenpairs(np.diag([3.0, -4.0, 1.0]), 2, seed=0)
    >>> values.round(6), np.abs(vectors[:, 0]).round(6)
    (array([-4.,  3.]), array([0., 1., 0.]))
    """
    check_symmetric(matrix)
    n = matrix.shape[0]
    if not 1 <= k < n:
        raise ExfamError(f"`k` must be from 1 to {n - 1} for a matrix of {n} rows, got {k}.")
    start = np.random.default_rng(seed).standard_normal(n)
    with _lanczos_errors():
        values, vectors = scipy.sparse.linalg.eigsh(matrix.astype(np.float64), k, v0=start)
    order = np.argsort(-np.abs(values), kind="stable")
    vectors = vectors[:, order]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(k)]
    return values[order], vectors * np.sign(largest)


def largest_singular_triplets(
    matrix: scipy.sparse.csr_array, k: int, *, seed: int
) -> tuple[Float[np.ndarray, "words k"], Float[np.ndarray, "k"], Float[np.ndarray, "words k"]]:
    """The `k` largest singular values, the largest first, between their left and right vectors.

    Signs are such that the entry of a left vector largest in absolute value is positive.

    >>> left, values, right = largest_singular_triplets(
    ...     scipy.sparse.csr_array([[0.0, 3.0], [1.0, 0.0]]), 1, seed=0
    ... )
    >>> values.round(6), left[:, 0].round(6)
    (array([3.]), array([1., 0.]))
    """
    start = np.random.default_rng(seed).standard_normal(matrix.shape[0])
    with _lanczos_errors():
        left, values, right = scipy.sparse.linalg.svds(matrix, k, v0=start)
    order = np.argsort(-values, kind="stable")
    left, right = left[:, order], right[order].T
    sign = np.sign(left[np.abs(left).argmax(axis=0), np.arange(k)])
    return left * sign, values[order], right * sign


@contextlib.contextmanager
def _lanczos_errors() -> Iterator[None]:
    """DataError for a matrix of which Lanczos iteration finds no pairs, as one of zeros alone."""
    try:
        yield
    except scipy.sparse.linalg.ArpackError as error:
        raise DataError(
            f"The matrix must have as many pairs as are wanted, got {error}. If all its entries "
            "are 0, take more text or a smaller `shift`; else, a smaller `dim`."
        ) from error


def check_symmetric(matrix: Any) -> None:
    """Raise DataError for a matrix that is not square, symmetric and finite.

    >>> check_symmetric(np.eye(2))
    """
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise DataError(f"`matrix` must be square, got shape {shape}.")
    entries = matrix.data if scipy.sparse.issparse(matrix) else matrix
    if not np.isfinite(entries).all():
        raise DataError("`matrix` must be finite, got NaN or infinite entries.")
    apart = abs(matrix - matrix.T).max()
    if apart > 1e-9 * abs(matrix).max():
        raise DataError(
            f"`matrix` must be symmetric, got entries that are {apart:g} apart from those across "
            "the diagonal. Context exponents other than 1 make it so."
        )
