"""How well cosines rank pairs of words as people do."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from exfam.reading.public_sets.word_pairs import WordPairs
from exfam.vectors.covered import known_rows, share
from exfam.vectors.neighbors import row_blocks, unit_rows
from exfam.vectors.word_vectors import WordVectors

__all__ = ["SimilarityScore", "evaluate_similarity", "rank_correlation"]

_PAIRS = 1 << 14


@dataclass(frozen=True)
class SimilarityScore:
    """Rank correlations with what people say, from -1 to 1; nan where they are not defined.

    `kept`: over all pairs, those with a word that has no vector at a cosine of 0, as hyperwords
        does and the paper's table has it
    `skipped`: over the covered pairs alone, as gensim does
    `coverage`: share of pairs of which both words have a vector

    >>> print(SimilarityScore("rg-65", n_pairs=65, n_covered=52, kept=0.61, skipped=0.7))
    rg-65: 0.610 of all 65 pairs, 0.700 of the 52 covered (80 %)
    """

    name: str
    n_pairs: int
    n_covered: int
    kept: float
    skipped: float

    @property
    def coverage(self) -> float:
        """Share of pairs of which both words have a vector, in [0, 1]."""
        return share(self.n_covered, self.n_pairs)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.kept:.3f} of all {self.n_pairs} pairs, {self.skipped:.3f} of the "
            f"{self.n_covered} covered ({100 * self.coverage:.0f} %)"
        )


def evaluate_similarity(
    vectors: WordVectors, pairs: WordPairs, *, of: str = "center"
) -> SimilarityScore:
    """Spearman's correlation of cosines with human scores, which are ranked as numbers.

    `of`: "center", "context" or "both" (default "center")

    A word is looked for as it is written, then in lower case; a vector of zeros is none.
    Raises ExfamError or DataError for other `of`.
    Source: Levy, Goldberg & Dagan (2015), and their code, hyperwords.

    >>> vectors = WordVectors(("a", "b", "c"), np.array([[1, 0], [2, 1], [0, 1]], np.float32))
    >>> pairs = WordPairs("x", (("a", "b"), ("a", "c"), ("b", "c")), np.array([9.0, 1.0, 5.0]))
    >>> evaluate_similarity(vectors, pairs).skipped
    1.0
    """
    rows = known_rows(vectors, pairs.pairs, of=of)
    covered = (rows >= 0).all(axis=1)
    cosine = np.zeros(len(pairs))
    matrix, whose = vectors.matrix(of), np.flatnonzero(covered)
    for part in row_blocks(len(whose), _PAIRS):
        left, right = (unit_rows(matrix[rows[whose[part], side]]) for side in (0, 1))
        cosine[whose[part]] = np.einsum("pd,pd->p", left, right)
    return SimilarityScore(
        name=pairs.name,
        n_pairs=len(pairs),
        n_covered=int(covered.sum()),
        kept=rank_correlation(cosine, pairs.scores),
        skipped=rank_correlation(cosine[covered], pairs.scores[covered]),
    )


def rank_correlation(a: Float[np.ndarray, "values"], b: Float[np.ndarray, "values"]) -> float:
    """Spearman's correlation, ties at their mean rank; nan for fewer than 2 or all equal values.

    >>> rank_correlation(np.array([1.0, 2.0, 30.0]), np.array([0.1, 0.2, 0.3]))
    1.0
    """
    if len(a) < 2:
        return float("nan")
    left, right = (each - each.mean() for each in (_ranks(a), _ranks(b)))
    scale = np.sqrt((left @ left) * (right @ right))
    return float(left @ right / scale) if scale else float("nan")


def _ranks(values: Float[np.ndarray, "values"]) -> Float64[np.ndarray, "values"]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
