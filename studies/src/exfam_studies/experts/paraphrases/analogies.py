"""Errors of linear analogies, taken apart: which term keeps w_b* from w_a* - w_a + w_b.

    w_b* = w_a* - w_a + w_b + C^+ (rho + Delta + delta) + residual,  Delta = sigma^W - sigma^W*

with W = {w_b, w_a*} and W* = {w_b*, w_a}; rho + delta = xi. The residual is 0 where W C^T is the
factorized matrix M, or its best approximation by these C. Attention windows and vectors c~_j make
it the bar version.

The sum of rho, Delta and delta is C^+ of a sum of rows of M: it does not depend on what p(W | c)
is, which rho and Delta have with opposite signs. Where sets are rarely seen, both are large and
nearly cancel, and blame between them is as good as the smoothing is.
Source: Propositions 4 and 7 (12 and 16 of the appendix) of the paper on bidirectional attention as
a mixture of experts. Proposition 16 prints sigma^W* without its bar and (C~ C~^T)^-1 C for the
inverse of C~: the bar and the second tilde are meant, as the proof by Lemma 15 needs.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse.linalg
from jaxtyping import Float, Int64

from exfam.checks import DataError, ExfamError, check_whole
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam_studies.experts.paraphrases.windows import Windows, attention_windows
from exfam_studies.experts.paraphrases.word_sets import WordSets

# rho: the sets are no paraphrases; Delta: words of a set depend on each other given the context;
# delta: one set is rarer than the other; residual: vectors do not factorize the matrix.
TERMS = ("rho", "Delta", "delta", "residual")
# Iteration is the quicker way to the largest singular values if they are fewer than 1 in so many.
_FEW = 10

Questions = Float[np.ndarray, "questions"]
Terms = Float[np.ndarray, "questions terms"]


@dataclass(frozen=True, eq=False)
class Factors:
    """Vectors w_i and c_j of all words of `WordSets`, in its order; of attention, c~_j.

    One row a word. The paper's W and C have them as columns.
    """

    words: Float[np.ndarray, "_ _"]
    context: Float[np.ndarray, "_ _"]

    @cached_property
    def words_of_contexts(self) -> Float[np.ndarray, "dim contexts"]:
        """C^+ = (C C^T)^-1 C. Raises DataError without full row rank."""
        return _pseudo_inverse(self.context, name="context")

    @cached_property
    def contexts_of_words(self) -> Float[np.ndarray, "dim words"]:
        """W^+, which turns a column of numbers on all words into a context vector."""
        return _pseudo_inverse(self.words, name="words")


def _pseudo_inverse(vectors: np.ndarray, *, name: str) -> np.ndarray:
    rank, dim = int(np.linalg.matrix_rank(vectors)), vectors.shape[1]
    if rank < dim:
        raise DataError(
            f"`{name}` must have full row rank, got rank {rank} in {dim} dimensions "
            f"({len(vectors)} words): its pseudo-inverse (C C^T)^-1 C does not exist. "
            "Take fewer dimensions, or more words."
        )
    return np.linalg.pinv(vectors)


def truncated_factors(matrix: Float[np.ndarray, "words contexts"], dim: int) -> Factors:
    """W = U sqrt(S) and C = V sqrt(S) of the `dim` largest singular values: matrix ~ W C^T.

    They fulfill Propositions 4 and 7 exactly, for what was cut off is orthogonal to C.
    Raises ExfamError unless `dim` is from 1 to the rank of the matrix.
    """
    check_whole("dim", dim)
    if dim > min(matrix.shape) // _FEW:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    else:
        start = np.full(min(matrix.shape), 1.0)
        left, values, right = scipy.sparse.linalg.svds(matrix, k=dim, v0=start)
        order = np.argsort(-values)
        left, values, right = left[:, order], values[order], right[order]
    rank = int((values > np.finfo(np.float64).eps * max(matrix.shape) * values[0]).sum())
    if dim > rank:
        raise ExfamError(f"`dim` must be at most {rank}, the rank of the matrix, got {dim}.")
    root = np.sqrt(values[:dim])
    return Factors(left[:, :dim] * root, right[:dim].T * root)


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
    that is the same for all words and MASK, zeta is 1 / S and the scale 1. Source: Appendix G.2.
    """
    weighed = attention_windows(windows, tau, mask=mask)
    counted = weighed.tokens >= 0
    # The masked word itself is one of the S tokens.
    center, length = weighed.as_center, windows.around + counted

    def by_word(weight: Float[np.ndarray, "positions"]) -> Float[np.ndarray, "words"]:
        """Sums over the centers around each position, over the positions of each word."""
        own = weighed.as_context * weighed.sums(weight)
        return weighed.by_word(np.arange(len(own)), own)

    total = by_word(center)
    # gamma^2 of a pair is tau of the context times its gamma over the center's sum.
    return AttentionScales(
        zeta=tau * by_word(center**2) / total, scale=tau * by_word(length * center**2) / total
    )


@dataclass(frozen=True, eq=False)
class AnalogyErrors:
    """The gap w_b* - (w_a* - w_a + w_b) of each question, and the four terms that it is a sum of.

    `question`: which of those given; others have unknown words, or fewer than four different ones
    `pair`: a number for the row's a and a*, of which many questions share the same
    `answer`: length of w_b*
    `seen`: share of contexts around which W and W* were counted, before smoothing
    `log_frequency`: log p of the answer, a cheap predictor to compare with
    """

    question: Int64[np.ndarray, "questions"]
    categories: tuple[str, ...]
    pair: Int64[np.ndarray, "questions"]
    gap: Float[np.ndarray, "questions dim"]
    terms: Float[np.ndarray, "questions terms dim"]
    answer: Questions
    seen: Questions
    log_frequency: Questions

    def __len__(self) -> int:
        return len(self.question)

    @property
    def norms(self) -> Terms:
        """Lengths of the terms, 1 for one as long as the answer's vector."""
        return np.linalg.norm(self.terms, axis=2) / self.answer[:, None]

    @property
    def gap_norm(self) -> Questions:
        """Length of the gap, in the same unit."""
        return np.linalg.norm(self.gap, axis=1) / self.answer

    @property
    def statistics_norm(self) -> Questions:
        """Length of rho + Delta + delta together, all but the residual, in the same unit."""
        known = self.terms.sum(axis=1) - self.terms[:, TERMS.index("residual")]
        return np.linalg.norm(known, axis=1) / self.answer

    @property
    def shares(self) -> Terms:
        """Part of each term in the gap, along the gap: they sum to 1, or are 0 without a gap.

        Terms may cancel: a share may be below 0 or above 1.
        """
        along = np.einsum("qtd,qd->qt", self.terms, self.gap)
        square = (self.gap**2).sum(axis=1, keepdims=True)
        return along / np.where(square > 0, square, np.inf)

    @property
    def shares_of_all(self) -> Float[np.ndarray, "terms"]:
        """Parts of the terms in all gaps together (squared lengths), which sum to 1."""
        return np.einsum("qtd,qd->t", self.terms, self.gap) / (self.gap**2).sum()


def analogy_errors(factors: Factors, sets: WordSets, questions: WordQuestions) -> AnalogyErrors:
    """Take the error of each question "a is to a* as b is to b*" apart.

    `factors`: of the words of `sets` in its order; of attention, c~_j as context
    `sets`: smoothed, so that no set has probability 0; of attention, of attention windows

    Raises DataError for C without full row rank, where a set has probability 0, and where no
    question is left.
    """
    index, codes = sets.windows.index, {}
    for number, words in enumerate(questions.questions):
        four = [index.get(word, index.get(word.lower(), -1)) for word in words]
        if min(four) >= 0 and len(set(four)) == 4:
            codes[number] = four
    if not codes:
        raise DataError(
            f"`questions` must hold one of four different known words, got none of "
            f"{len(questions)}."
        )
    projected = _Projected(factors, sets)
    terms, seen = zip(*(projected.question(four) for four in codes.values()), strict=True)
    listed = np.array(list(codes.values()), dtype=np.int64)
    a, a_star, b, b_star = factors.words[listed].swapaxes(0, 1)
    gap, known = b_star - (a_star - a + b), np.stack(terms)
    _, pair = np.unique(listed[:, :2], axis=0, return_inverse=True)
    return AnalogyErrors(
        question=np.array(list(codes), dtype=np.int64),
        categories=tuple(questions.categories[i] for i in codes),
        pair=pair.reshape(-1).astype(np.int64),
        gap=gap,
        terms=np.concatenate([known, (gap - known.sum(axis=1))[:, None]], axis=1),
        answer=np.linalg.norm(b_star, axis=1),
        seen=np.array(seen),
        log_frequency=np.log(sets.center[listed[:, 3]]),
    )


class _Projected:
    """C^+ log p(W | c) of word sets, each computed once."""

    def __init__(self, factors: Factors, sets: WordSets) -> None:
        self._sets, self._inverse = sets, factors.words_of_contexts
        self._constant = self._inverse.sum(axis=1)
        self._logs: dict[frozenset[int], tuple[np.ndarray, float, float]] = {}

    def question(self, codes: Sequence[int]) -> tuple[Float[np.ndarray, "known dim"], float]:
        """C^+ of rho, Delta and delta; the share of contexts around W and W*."""
        a, a_star, b, b_star = codes
        log_w, p, seen = self._set([b, a_star])
        log_star, p_star, seen_star = self._set([b_star, a])
        mass = float(np.log(p_star) - np.log(p)) * self._constant
        sigma = log_w - self._set([b])[0] - self._set([a_star])[0]
        sigma_star = log_star - self._set([b_star])[0] - self._set([a])[0]
        # rho = xi - delta, by Bayes' rule.
        return np.stack([log_star - log_w - mass, sigma - sigma_star, mass]), (seen + seen_star) / 2

    def _set(self, codes: Collection[int]) -> tuple[Float[np.ndarray, "dim"], float, float]:
        key = frozenset(codes)
        if key not in self._logs:
            words = [self._sets.words[code] for code in codes]
            given, seen = self._sets.given_context(words)
            if not (given > 0).all():
                raise DataError(
                    f"`sets` must give each set a probability above 0 around every word, got 0 for "
                    f"{{{', '.join(words)}}} around {self._sets.words[int(given.argmin())]!r}. "
                    "Take smoothing above 0."
                )
            total = float(given @ self._sets.context)
            self._logs[key] = (self._inverse @ np.log(given), total, float(seen.mean()))
        return self._logs[key]
