"""Pointwise mutual information as a sparse matrix, and its eigenpairs by Lanczos iteration."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float

from exfam.checks import DataError, ExfamError, check_positive


def association(
    counts: scipy.sparse.csr_array,
    *,
    positive: bool = False,
    shift: float = 0.0,
    exponent: float = 1.0,
) -> scipy.sparse.csr_array:
    """Pointwise mutual information in nats of all pairs that were counted; others stay 0.

    Entry (j, i) is log p(i | j) / p(i) less `shift` (log k for k negative samples), where p(i | j)
    is the share of i in row j and p(i) that of `context_probability`. Pairs never seen are 0,
    shifted or not: the matrix stays as sparse as the counts. `positive`: negative values become 0.
    `exponent`: of the contexts' frequencies; other than 1 the matrix is not symmetric.
    Source: Levy, Goldberg & Dagan (2015), section 3; Levy & Goldberg (2014), eq. 11.
    """
    check_positive("shift", shift, zero=True)
    check_positive("exponent", exponent)
    context = context_probability(counts, exponent=exponent)
    data = counts.data.astype(np.float64)
    length = np.diff(counts.indptr)
    row = np.repeat(np.asarray(counts.sum(axis=1), np.float64), length)
    # Logarithms apart: no product of counts overflows, and the matrix is symmetric to the last bit.
    with np.errstate(divide="ignore"):
        values = np.log(data) - (np.log(row) + np.log(context)[counts.indices]) - shift
    seen = data > 0
    if positive:
        seen &= values > 0
    entries = np.where(seen, values, 0.0), counts.indices.copy(), counts.indptr.copy()
    information = scipy.sparse.csr_array(entries, shape=counts.shape)
    if not seen.all():
        information.eliminate_zeros()
    return information


def context_probability(
    counts: scipy.sparse.csr_array, *, exponent: float
) -> Float[np.ndarray, "contexts"]:
    """Shares of the contexts, each frequency raised to `exponent`; they sum to 1."""
    data = counts.data
    if not np.isfinite(data).all() or data.min(initial=0) < 0:
        raise DataError(
            f"`counts` must be finite numbers >= 0, got {data[~(data >= 0) | np.isinf(data)][0]}."
        )
    total = np.asarray(counts.sum(axis=0), np.float64)
    if not total.any():
        raise DataError(
            "`counts` must hold at least one pair, got none. Take a longer text or a wider window."
        )
    frequency = np.where(total > 0, total, 1.0) ** exponent * (total > 0)
    return frequency / frequency.sum()


def largest_eigenpairs(
    matrix: Any, k: int, *, seed: int
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "words k"]]:
    """The `k` eigenvalues largest in absolute value, the largest first, and their vectors.

    From a start drawn with `seed`; each vector's entry largest in absolute value is positive.
    Raises DataError for a matrix that is not square, symmetric and finite.
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
    """Raise DataError for a matrix that is not square, symmetric and finite."""
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
