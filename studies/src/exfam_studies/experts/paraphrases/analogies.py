"""Errors of linear analogies, taken apart: which term keeps w_b* from w_a* - w_a + w_b.

    w_b* = w_a* - w_a + w_b + C^+ (rho + Delta + delta) + residual,  Delta = sigma^W - sigma^W*

with W = {w_b, w_a*} and W* = {w_b*, w_a}; rho + delta = xi. The residual is 0 where W C^T is the
factorized matrix M, or its best approximation by these C. Attention windows and vectors c~_j make
it the bar version.

The sum of rho, Delta and delta does not depend on p(W | c), which rho and Delta have with opposite
signs: where sets are rarely seen, both are large and nearly cancel.
Source: Propositions 4 and 7 of the paper on bidirectional attention as a mixture of experts.
Proposition 16 of its appendix lacks a bar and a tilde, which the proof by Lemma 15 needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64
from scipy.sparse import linalg

from exfam.checks import DataError, ExfamError, check_whole
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam_studies.common.statements import Check, unmet
from exfam_studies.experts.paraphrases.windows import Windows, attention_windows
from exfam_studies.experts.paraphrases.word_sets import WordSets, factorized_matrix

# rho: the sets are no paraphrases; Delta: words of a set depend on each other given the context;
# delta: one set is rarer than the other; residual: vectors do not factorize the matrix.
TERMS = ("rho", "Delta", "delta", "residual")
# Iteration is the quicker way to the largest singular values if they are fewer than 1 in so many.
_FEW = 10
# What an equation may miss, as a share of vectors' lengths.
TOLERANCE = 1e-6

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
        rank, dim = int(np.linalg.matrix_rank(self.context)), self.context.shape[1]
        if rank < dim:
            raise DataError(
                f"`context` must have full row rank, got rank {rank} in {dim} dimensions "
                f"({len(self.context)} words): its pseudo-inverse (C C^T)^-1 C does not exist. "
                "Take fewer dimensions, or more words."
            )
        return np.linalg.pinv(self.context)


def truncated_factors(matrix: Float[np.ndarray, "words contexts"], dim: int) -> Factors:
    """W = U sqrt(S) and C = V sqrt(S) of the `dim` largest singular values: matrix ~ W C^T.

    Raises ExfamError unless `dim` is from 1 to the rank of the matrix.
    """
    check_whole("dim", dim)
    if dim > min(matrix.shape) // _FEW:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    else:
        left, values, right = linalg.svds(matrix, k=dim, v0=np.ones(min(matrix.shape)))
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

    Sentences of other lengths S have theirs in the sum over gamma^2. Source: Appendix G.2.
    """
    weighed = attention_windows(windows, tau, mask=mask)
    counted = weighed.tokens >= 0
    # The masked word itself is one of the S tokens.
    center, length = weighed.as_center, windows.around + counted

    def by_word(weight: Float[np.ndarray, "positions"]) -> Float[np.ndarray, "words"]:
        """Sums over the centers around each position, over the positions of each word."""
        return weighed.by_word(weighed.as_context * weighed.sums(weight))

    total = by_word(center)
    # gamma^2 of a pair is tau of the context times its gamma over the center's sum.
    return AttentionScales(
        zeta=tau * by_word(center**2) / total, scale=tau * by_word(length * center**2) / total
    )


@dataclass(frozen=True, eq=False)
class AnalogyErrors:
    """The gap w_b* - (w_a* - w_a + w_b) of each question, and the four terms that it is a sum of.

    `question`: which of those given; `codes`: of its words a, a*, b and b*
    `answer`: length of w_b*; `log_frequency`: log p of the answer
    `seen`: share of contexts around which W and W* were counted, before smoothing
    """

    question: Int64[np.ndarray, "questions"]
    categories: tuple[str, ...]
    codes: Int64[np.ndarray, "questions 4"]
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
        """Part of each term in the gap, along it: they sum to 1 (or are all 0)."""
        along = np.einsum("qtd,qd->qt", self.terms, self.gap)
        square = (self.gap**2).sum(axis=1, keepdims=True)
        return along / np.where(square > 0, square, np.inf)

    @property
    def shares_of_all(self) -> Float[np.ndarray, "terms"]:
        """Parts of the terms in all gaps together (squared lengths), which sum to 1."""
        return np.einsum("qtd,qd->t", self.terms, self.gap) / (self.gap**2).sum()


def analogy_errors(factors: Factors, sets: WordSets, questions: WordQuestions) -> AnalogyErrors:
    """Take the error of each question "a is to a* as b is to b*" of four known words apart.

    Raises DataError for C without full row rank, where a set has probability 0 (smooth them), and
    where no question is left.
    """
    index, known = sets.windows.index, {}
    for number, words in enumerate(questions.questions):
        four = [index.get(word, index.get(word.lower(), -1)) for word in words]
        if min(four) >= 0 and len(set(four)) == 4:
            known[number] = four
    if not known:
        raise DataError(
            f"`questions` must hold one of four different known words, got none of "
            f"{len(questions)}."
        )
    statistics, seen = _statistics(list(known.values()), sets, factors.words_of_contexts)
    codes = np.array(list(known.values()), dtype=np.int64)
    a, a_star, b, b_star = factors.words[codes].swapaxes(0, 1)
    gap = b_star - (a_star - a + b)
    return AnalogyErrors(
        question=np.array(list(known), dtype=np.int64),
        categories=tuple(questions.categories[i] for i in known),
        codes=codes,
        gap=gap,
        terms=np.concatenate([statistics, (gap - statistics.sum(axis=1))[:, None]], axis=1),
        answer=np.linalg.norm(b_star, axis=1),
        seen=seen,
        log_frequency=np.log(sets.center[codes[:, 3]]),
    )


def _statistics(
    questions: Sequence[Sequence[int]], sets: WordSets, inverse: Float[np.ndarray, "dim contexts"]
) -> tuple[Float[np.ndarray, "questions known dim"], Questions]:
    """C^+ times rho, Delta and delta, and the share of contexts around which sets were counted."""
    kept: dict[frozenset[int], tuple[np.ndarray, float, float]] = {}

    def projected(*codes: int) -> tuple[np.ndarray, float, float]:
        """C^+ log p(W | c), p(W) and the share of a set, computed once."""
        if (key := frozenset(codes)) not in kept:
            words = [sets.words[code] for code in codes]
            given, seen = sets.given_context(words)
            if not (given > 0).all():
                raise DataError(
                    f"`sets` must give each set a probability above 0 around every word, got 0 for "
                    f"{{{', '.join(words)}}} around {sets.words[int(given.argmin())]!r}. "
                    "Take smoothing above 0."
                )
            total = float(given @ sets.context)
            kept[key] = inverse @ np.log(given), total, float(seen.mean())
        return kept[key]

    constant, terms, shares = inverse.sum(axis=1), [], []
    for a, a_star, b, b_star in questions:
        (log_w, p, seen), (log_star, p_star, seen_star) = projected(b, a_star), projected(b_star, a)
        mass = float(np.log(p_star) - np.log(p)) * constant
        sigma = log_w - projected(b)[0] - projected(a_star)[0]
        sigma_star = log_star - projected(b_star)[0] - projected(a)[0]
        # rho = xi - delta, by Bayes' rule.
        terms.append([log_star - log_w - mass, sigma - sigma_star, mass])
        shares.append((seen + seen_star) / 2)
    return np.array(terms), np.array(shares)


def check_proposition_4(
    factors: Factors,
    sets: WordSets,
    questions: Sequence[tuple[str, str, str, str]],
    *,
    scales: AttentionScales | None = None,
) -> Check:
    """Proposition 4: w_b* = w_a* - w_a + w_b + C^+ (rho + Delta + delta) for any four words.

    `scales`: of `attention_scales`, which make c~_j of c_j; makes it Proposition 7, of attention

    Assumes that C has full row rank, that no pair has probability 0, and W C^T = M, of which each
    w_i = C^+ M_i suffices and is tested. Concludes that the equation holds to 1e-6 of the answer's
    length. Distances measured are shares of lengths.
    """
    name, spread = ("Proposition 4" if scales is None else "Proposition 7"), {}
    if scales is not None:
        factors = Factors(factors.words, factors.context * scales.scale[:, None])
        spread = {"spread of zeta": scales.spread}
    try:
        matrix, inverse = factorized_matrix(sets), factors.words_of_contexts
    except DataError as error:
        return Check(name, spread, {}, (str(error),), ("the equation has no terms",))
    listed = WordQuestions("given", tuple(questions), ("given",) * len(questions), {})
    errors = analogy_errors(factors, sets, listed)
    residual = float(errors.norms[:, TERMS.index("residual")].max())
    off_best = _apart(factors.words, matrix @ inverse.T)
    best = f"each w_i must be C^+ M_i (W C^T = M), got W {off_best:.2g} of its length off"
    equation = f"the equation, got a residual of {residual:.2g} answers' lengths"
    return Check(
        statement=name,
        measured={
            "max residual": residual,
            "distance from M": _apart(matrix, factors.words @ factors.context.T),
            "distance from C^+ M": off_best,
            "questions": float(len(errors)),
            **spread,
        },
        expected={"max residual": 0.0},
        failed_assumptions=unmet((off_best <= TOLERANCE, best)),
        failed_conclusions=unmet((residual <= TOLERANCE, equation)),
    )


def _apart(matrix: np.ndarray, other: np.ndarray) -> float:
    """Length of the difference as a share of the matrix's own."""
    return float(np.linalg.norm(matrix - other) / np.linalg.norm(matrix))
