"""How near the map from word vectors to context vectors is to a reflection."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.special
from jaxtyping import Float

from exfam.checks import DataError

_PAIRS_AT_ONCE, _LOGITS_AT_ONCE = 50_000, 16_000_000

Vectors = Float[np.ndarray, "_ _"]
Pairs = Float[np.ndarray, "pairs"]
Probability = Float[np.ndarray, "_"]


class SignCounts(NamedTuple):
    """How many eigenvalues are above 0, below 0, and 0 but for rounding."""

    positive: int
    negative: int
    zero: int


class SquareSummary(NamedTuple):
    """Entries of a square matrix on and off its diagonal, norms in the sense of Frobenius."""

    diagonal_mean: float
    off_diagonal_mean: float
    off_diagonal_sd: float
    off_diagonal_norm: float
    off_diagonal_share: float


@dataclass(frozen=True, eq=False)
class InvolutionReport:
    """What is known of Q, where context vectors are about Q times word vectors.

    `asymmetry`: |Q - Q'| / |Q|; `residual`: |C - W Q'| / |C|; `signs`: of the real parts of Q's
    eigenvalues; `product_signs`: of those of W C', without its zeros; correlations: of the lengths
    of word and context vectors and of the cosines of pairs, NaN where all are alike.
    """

    transform: Vectors
    squared: SquareSummary
    asymmetry: float
    residual: float
    signs: SignCounts
    product_signs: SignCounts
    norm_correlation: float
    cosine_correlation: float


def involution_report(
    words: Vectors, context: Vectors, *, max_pairs: int = 1_000_000, seed: int = 0
) -> InvolutionReport:
    """Q by least squares, whether it is an involution, and how alike the two vectors are.

    Cosines are compared of `max_pairs` drawn with `seed`. Q depends on the gauge: words W A with
    contexts C inverse(A') make the same model with another Q; eigenvalues of W C' do not.
    Raises DataError as `linear_map`. Source: Section 3.2 and Figure 3 of the paper.
    """
    transform = linear_map(words, context)
    # W C' has the eigenvalues of the small matrix C' W, and zeros.
    product = np.linalg.eigvals(context.T @ words).real
    norm = np.linalg.norm
    squared = transform @ transform
    off = squared[~np.eye(len(squared), dtype=bool)]
    off_square = float((off**2).sum())
    return InvolutionReport(
        transform=transform,
        squared=SquareSummary(
            diagonal_mean=float(np.diag(squared).mean()),
            off_diagonal_mean=float(off.mean()),
            off_diagonal_sd=float(off.std()),
            off_diagonal_norm=off_square**0.5,
            off_diagonal_share=off_square / float((squared**2).sum()),
        ),
        asymmetry=float(norm(transform - transform.T) / norm(transform)),
        residual=float(norm(context - words @ transform.T) / norm(context)),
        signs=sign_counts(np.linalg.eigvals(transform).real, scale=float(norm(transform, 2))),
        product_signs=sign_counts(product, scale=float(np.abs(product).max())),
        norm_correlation=_correlation(norm(words, axis=1), norm(context, axis=1)),
        cosine_correlation=_correlation(*_cosines(words, context, max_pairs=max_pairs, seed=seed)),
    )


def linear_map(words: Vectors, context: Vectors) -> Vectors:
    """Q with the least |C - W Q'|: the pseudo-inverse of W times C, transposed.

    Raises DataError unless vectors are finite and alike in shape, and words span all dimensions.
    """
    check_pair(words, context)
    dim = words.shape[1]
    basis, triangle = np.linalg.qr(words.astype(np.float64))
    rank = int(np.linalg.matrix_rank(triangle))
    if rank < dim:
        raise DataError(
            f"`words` must span all {dim} dimensions for a map to be determined, got rank {rank} "
            f"of {len(words)} words. Take more words, or fewer dimensions."
        )
    return scipy.linalg.solve_triangular(triangle, basis.T @ context).T


def sign_counts(eigenvalues: Float[np.ndarray, "values"], *, scale: float) -> SignCounts:
    """Signs of eigenvalues; those within rounding of 0 for a matrix of norm `scale` count as 0."""
    least = np.finfo(np.float64).eps * scale * max(len(eigenvalues), 1)
    positive, negative = int((eigenvalues > least).sum()), int((eigenvalues < -least).sum())
    return SignCounts(positive, negative, len(eigenvalues) - positive - negative)


def check_pair(words: Vectors, context: Vectors) -> None:
    """Raise DataError unless there is one finite context vector for each finite word vector."""
    if words.shape != context.shape:
        raise DataError(
            f"`context` must have the shape of `words`, {words.shape}, got {context.shape}."
        )
    for name, vectors in (("words", words), ("context", context)):
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            raise DataError(f"`{name}` must be finite, got others in row {int(finite.argmin())}.")


def _cosines(words: Vectors, context: Vectors, *, max_pairs: int, seed: int) -> tuple[Pairs, Pairs]:
    n = len(words)
    if n * (n - 1) // 2 <= max_pairs:
        left, right = np.triu_indices(n, 1)
    else:
        random = np.random.default_rng(seed)
        left = random.integers(n, size=max_pairs)
        right = (left + random.integers(1, n, size=max_pairs)) % n
    both = []
    for vectors in (words, context):
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(length > 0, length, 1.0)
        cosines = np.empty(len(left))
        for first in range(0, len(left), _PAIRS_AT_ONCE):
            some = slice(first, first + _PAIRS_AT_ONCE)
            cosines[some] = np.einsum("pd,pd->p", unit[left[some]], unit[right[some]])
        both.append(cosines)
    return both[0], both[1]


def _correlation(left: Pairs, right: Pairs) -> float:
    if len(left) < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return float("nan")
    return float(np.corrcoef(left, right)[0, 1])


class PartitionReport(NamedTuple):
    """Mean and standard deviation of Z over words, against what theory expects of all of them.

    `expected`: 1 + 1 / (2 dim); `within`: share of words whose Z lies within a tenth of it.
    """

    mean: float
    spread: float
    expected: float
    within: float


def partition_report(
    words: Vectors,
    context: Vectors,
    probability: Probability,
    *,
    n_words: int | None = None,
    shift: float = 0.0,
) -> PartitionReport:
    """Z_j of all words, or the first `n_words`, against 1 + 1 / (2 dim).

    `shift`: added to each exponent: log k for vectors trained with k negative samples

    Source: Lemma 2 of the paper on reflections, eq. 12.
    """
    z = np.exp(log_partition(words, context, probability, n_words=n_words) + shift)
    expected = 1 + 1 / (2 * words.shape[1])
    within = np.abs(z - expected) <= 0.1 * expected
    return PartitionReport(float(z.mean()), float(z.std()), expected, float(within.mean()))


def log_partition(
    words: Vectors, context: Vectors, probability: Probability, *, n_words: int | None = None
) -> Float[np.ndarray, "chosen"]:
    """log Z_j = log of the sum over i of p_i exp(w_j . c_i), in nats, of all or the first words.

    Raises DataError for vectors that do not go together, or probabilities that are none.
    """
    check_pair(words, context)
    # Single precision sums to 1 only so far.
    is_whole = abs(float(probability.sum()) - 1) <= 1e-4
    if len(probability) != len(words) or not is_whole or not (probability >= 0).all():
        raise DataError(
            f"`probability` must be {len(words)} numbers >= 0 that sum to 1, got "
            f"{len(probability)} with sum {probability.sum():g} and minimum "
            f"{probability.min(initial=np.inf):g}."
        )
    with np.errstate(divide="ignore"):
        log_p = np.log(probability)
    step = max(1, _LOGITS_AT_ONCE // len(context))
    chosen = words[:n_words]
    pieces = [
        scipy.special.logsumexp(chosen[first : first + step] @ context.T + log_p, axis=1)
        for first in range(0, len(chosen), step)
    ]
    return np.concatenate(pieces)
