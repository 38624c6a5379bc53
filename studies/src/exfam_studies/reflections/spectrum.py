"""The eigenvalues of a symmetric matrix of words, and how they lie about 0."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float

from exfam.words.pmi import check_symmetric


class SignCounts(NamedTuple):
    """How many eigenvalues are above 0, below 0, and 0 but for rounding."""

    positive: int
    negative: int
    zero: int


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of a symmetric matrix in rising order, and what they look like.

    `top`: signs of those largest in absolute value; `skewness`: 0 if symmetric about their mean
    """

    eigenvalues: Float[np.ndarray, "words"]
    signs: SignCounts
    top: SignCounts
    trace: float
    skewness: float
    semicircle: float


def spectrum(matrix: Any, *, top: int = 200) -> Spectrum:
    """The spectrum of a symmetric matrix, sparse or dense, with the signs of its `top` largest.

    12,000 words take 1.2 GB. Raises DataError for a matrix that is not square, symmetric and
    finite.
    Source: Section 3.1 of the paper on reflections.
    """
    check_symmetric(matrix)
    dense = matrix.toarray() if scipy.sparse.issparse(matrix) else matrix
    dense = np.array(dense, dtype=np.float64, order="F")
    eigenvalues = scipy.linalg.eigh(dense, eigvals_only=True, overwrite_a=True, check_finite=False)
    largest = eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")[:top]]
    scale = float(np.abs(eigenvalues).max())
    centered = eigenvalues - eigenvalues.mean()
    spread = float(np.sqrt((centered**2).mean()))
    return Spectrum(
        eigenvalues=eigenvalues,
        signs=sign_counts(eigenvalues, scale=scale),
        top=sign_counts(largest, scale=scale),
        trace=float(eigenvalues.sum()),
        skewness=float((centered**3).mean() / spread**3) if spread > 0 else 0.0,
        semicircle=semicircle_distance(eigenvalues),
    )


def sign_counts(eigenvalues: Float[np.ndarray, "values"], *, scale: float) -> SignCounts:
    """Signs of eigenvalues; those within rounding of 0 for a matrix of norm `scale` count as 0."""
    least = np.finfo(np.float64).eps * scale * max(len(eigenvalues), 1)
    positive, negative = int((eigenvalues > least).sum()), int((eigenvalues < -least).sum())
    return SignCounts(positive, negative, len(eigenvalues) - positive - negative)


def semicircle_distance(eigenvalues: Float[np.ndarray, "values"]) -> float:
    """Largest gap between shares of eigenvalues and Wigner's semicircle of the same mean square.

    Kolmogorov's distance in [0, 1] to that of radius 2 sqrt(mean square) at 0; 1 if all are 0.
    Source: Wigner (1955); Section 3.1 of the paper on reflections.
    """
    radius = 2 * np.sqrt((eigenvalues**2).mean())
    if not radius:
        return 1.0
    n = len(eigenvalues)
    x = np.clip(np.sort(eigenvalues) / radius, -1, 1)
    below = 0.5 + (x * np.sqrt(1 - x**2) + np.arcsin(x)) / np.pi
    share = np.arange(n) / n
    return float(max((below - share).max(), (share + 1 / n - below).max()))
