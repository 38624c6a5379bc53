"""Word and context vectors as a factorization of what a law says of pairs."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse.linalg
from jaxtyping import Float

from exfam.checks import DataError, ExfamError, check_whole
from exfam.vectors.word_vectors import WordVectors
from exfam_studies.experts.paraphrases.laws import WordLaw
from exfam_studies.experts.paraphrases.windows import Windows, attention_windows

# Iteration is the quicker way to the largest singular values if they are fewer than 1 in so many.
_FEW = 10


@dataclass(frozen=True, eq=False)
class Factors:
    """Vectors w_i and c_j of all words of a law, in its order; of attention, c~_j instead of c_j.

    `words`, `context`: one row a word. The paper's W and C have them as columns

    Raises DataError for matrices of other shapes, or that are not finite.
    """

    words: Float[np.ndarray, "_ _"]
    context: Float[np.ndarray, "_ _"]

    def __post_init__(self) -> None:
        if self.words.shape != self.context.shape:
            raise DataError(
                f"`context` must have the shape of `words`, {self.words.shape}, got "
                f"{self.context.shape}."
            )
        for name in ("words", "context"):
            if not np.isfinite(getattr(self, name)).all():
                raise DataError(f"`{name}` must be finite, got NaN or infinite entries.")

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.words.shape[1]

    @cached_property
    def words_of_contexts(self) -> Float[np.ndarray, "dim contexts"]:
        """C^+ = (C C^T)^-1 C, which turns a row of numbers on all contexts into a word vector."""
        return pseudo_inverse(self.context, name="context")

    @cached_property
    def contexts_of_words(self) -> Float[np.ndarray, "dim words"]:
        """W^+, which turns a column of numbers on all words into a context vector."""
        return pseudo_inverse(self.words, name="words")


def pseudo_inverse(
    vectors: Float[np.ndarray, "words dim"], *, name: str
) -> Float[np.ndarray, "dim words"]:
    """(C C^T)^-1 C of a matrix C that has these vectors as columns.

    Raises DataError unless C has full row rank: as many independent vectors as dimensions.
    """
    rank, dim = int(np.linalg.matrix_rank(vectors)), vectors.shape[1]
    if rank < dim:
        raise DataError(
            f"`{name}` must have full row rank, got rank {rank} in {dim} dimensions "
            f"({len(vectors)} words): its pseudo-inverse (C C^T)^-1 C does not exist. "
            "Take fewer dimensions, or more words."
        )
    return np.linalg.pinv(vectors)


def factors_of(vectors: WordVectors, law: WordLaw) -> Factors:
    """The vectors of a law's words, w_i from the center matrix and c_j from the context one.

    Vectors of words that the law does not know are left out.
    Raises UnknownWordError, with near spellings, for a word of the law without a vector; DataError
    for vectors without context vectors.
    """
    rows = vectors.codes(law.words)
    center, context = vectors.matrix("center")[rows], vectors.matrix("context")[rows]
    return Factors(center.astype(np.float64), context.astype(np.float64))


def truncated_factors(matrix: Float[np.ndarray, "words contexts"], dim: int) -> Factors:
    """W = U sqrt(S) and C = V sqrt(S) of the `dim` largest singular values: matrix ~ W C^T.

    Vectors of truncated factors fulfill Propositions 4 and 7 exactly: C^+ takes each row of the
    matrix to its word vector, for what was cut off is orthogonal to C.
    Raises ExfamError unless `dim` is from 1 to the rank of the matrix.
    """
    most = min(matrix.shape)
    check_whole("dim", dim)
    if dim > most:
        raise ExfamError(f"`dim` must be at most {most}, got {dim}.")
    left, values, right = _singular(matrix, dim)
    tiny = np.finfo(np.float64).eps * max(matrix.shape) * values[0]
    if not values[-1] > tiny:
        rank = int((values > tiny).sum())
        raise ExfamError(f"`dim` must be at most {rank}, the rank of the matrix, got {dim}.")
    root = np.sqrt(values)
    return Factors(left * root, right.T * root)


def _singular(
    matrix: Float[np.ndarray, "words contexts"], dim: int
) -> tuple[
    Float[np.ndarray, "words dim"], Float[np.ndarray, "dim"], Float[np.ndarray, "dim contexts"]
]:
    """The largest singular values, falling, and their vectors."""
    if dim > min(matrix.shape) // _FEW:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return left[:, :dim], values[:dim], right[:dim]
    start = np.full(min(matrix.shape), 1.0)
    left, values, right = scipy.sparse.linalg.svds(matrix, k=dim, v0=start)
    order = np.argsort(-values)
    return left[:, order], values[order], right[order]


class AttentionScales(NamedTuple):
    """zeta_j = sum of gamma^2 / sum of gamma, and S times that, by which c_j becomes c~_j.

    Analogies of c_j itself, and not of c~_j, need a zeta that is the same for all words.
    """

    zeta: Float[np.ndarray, "words"]
    scale: Float[np.ndarray, "words"]

    @property
    def spread(self) -> float:
        """Standard deviation of zeta as a share of its mean: 0 if analogies of c_j hold too."""
        return float(self.zeta.std() / self.zeta.mean())


def attention_scales(
    windows: Windows, tau: Float[np.ndarray, "words"], *, mask: float
) -> AttentionScales:
    """What turns context vectors c_j of attention into c~_j, from plain windows and tau.

    Sentences of other lengths S have theirs in the sum over gamma^2, as in the proof. With a tau
    that is the same for all words and MASK, zeta is 1 / S and the scale 1.
    Raises as `attention_windows` does.
    Source: Appendix G.2 of the paper on bidirectional attention as a mixture of experts.
    """
    weighed = attention_windows(windows, tau, mask=mask)
    counted = weighed.tokens >= 0
    word, center = weighed.tokens[counted], weighed.as_center
    # The masked word itself is one of the S tokens.
    length = windows.around + counted

    def by_word(weight: Float[np.ndarray, "places"]) -> Float[np.ndarray, "words"]:
        """Sums over the centers around each place, over the places of each word."""
        own = weighed.as_context * weighed._sums(weight)
        return np.bincount(word, own[counted], minlength=len(windows.words))

    total = by_word(center)
    # gamma^2 of a pair is tau of the context times its gamma over the center's sum.
    return AttentionScales(
        zeta=tau * by_word(center**2) / total, scale=tau * by_word(length * center**2) / total
    )
