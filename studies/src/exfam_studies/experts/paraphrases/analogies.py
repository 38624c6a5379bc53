"""Errors of linear analogies, taken apart: which term keeps w_b* from w_a* - w_a + w_b.

    w_b* = w_a* - w_a + w_b + C^+ (rho + Delta + delta) + residual,  Delta = sigma^W - sigma^W*

with W = {w_b, w_a*} and W* = {w_b*, w_a}; rho + delta = xi. The residual is 0 where W C^T is the
factorized matrix M, or its best approximation by these C; for fitted vectors it is what they miss
of M, a fourth term. A law of attention windows and vectors c~_j make it the bar version.

The sum of rho, Delta and delta is C^+ of a sum of rows of M: it does not depend on what p(W | c)
is, which rho and Delta have with opposite signs. Where sets are rarely seen, both are large and
nearly cancel, and blame between them is as good as the smoothing is; delta and the residual are
not touched by that, nor is xi + Delta.
Source: Propositions 4 and 7 (12 and 16 of the appendix) of the paper on bidirectional attention as
a mixture of experts. Proposition 16 prints sigma^W* without its bar and (C~ C~^T)^-1 C for the
inverse of C~: the bar and the second tilde are meant, as the proof by Lemma 15 needs.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam_studies.experts.paraphrases.factors import Factors
from exfam_studies.experts.paraphrases.laws import WordLaw

# rho: the sets are no paraphrases; Delta: words of a set depend on each other given the context;
# delta: one set is rarer than the other; residual: vectors do not factorize the matrix.
TERMS = ("rho", "Delta", "delta", "residual")


@dataclass(frozen=True, eq=False)
class AnalogyErrors:
    """The gap w_b* - (w_a* - w_a + w_b) of each question, and the four terms that it is a sum of.

    `question`: which of the given questions each row is of; those with unknown words, or with
        fewer than four different ones, are left out
    `categories`: of the rows
    `pair`: a number for the row's a and a*, of which many questions share the same
    `terms`: vectors of `TERMS`
    `answer`: length of w_b*
    `delta`: log p(W*) / p(W) in nats
    `seen`, `seen_star`: share of contexts around which W and W* were counted, before smoothing
    `log_frequency`: log p of the answer, a cheap predictor to compare with
    """

    question: Int64[np.ndarray, "questions"]
    categories: tuple[str, ...]
    pair: Int64[np.ndarray, "questions"]
    gap: Float[np.ndarray, "questions dim"]
    terms: Float[np.ndarray, "questions terms dim"]
    answer: Float[np.ndarray, "questions"]
    delta: Float[np.ndarray, "questions"]
    seen: Float[np.ndarray, "questions"]
    seen_star: Float[np.ndarray, "questions"]
    log_frequency: Float[np.ndarray, "questions"]

    def __len__(self) -> int:
        return len(self.question)

    @property
    def norms(self) -> Float[np.ndarray, "questions terms"]:
        """Lengths of the terms, 1 for one as long as the answer's vector."""
        return np.linalg.norm(self.terms, axis=2) / self.answer[:, None]

    @property
    def gap_norm(self) -> Float[np.ndarray, "questions"]:
        """Length of the gap, in the same unit."""
        return np.linalg.norm(self.gap, axis=1) / self.answer

    @property
    def statistics_norm(self) -> Float[np.ndarray, "questions"]:
        """Length of rho + Delta + delta together, all but the residual, in the same unit."""
        known = self.terms.sum(axis=1) - self.terms[:, TERMS.index("residual")]
        return np.linalg.norm(known, axis=1) / self.answer

    @property
    def shares(self) -> Float[np.ndarray, "questions terms"]:
        """Part of each term in the gap, along the gap: they sum to 1. Terms may cancel: a share may
        be below 0 or above 1. All are 0 where there is no gap."""
        along = np.einsum("qtd,qd->qt", self.terms, self.gap)
        square = (self.gap**2).sum(axis=1, keepdims=True)
        return along / np.where(square > 0, square, np.inf)

    @property
    def to_blame(self) -> Int64[np.ndarray, "questions"]:
        """Which of `TERMS` has the largest share of each gap."""
        return self.shares.argmax(axis=1).astype(np.int64)


@dataclass(frozen=True)
class RelationErrors:
    """Errors of the questions of one relation.

    `gap`, `norms`: mean lengths, 1 for one as long as the answer's vector
    `shares`: of the terms in all gaps together (squared lengths), which sum to 1
    `blamed`: share of questions with each term to blame, which sum to 1
    `seen`: mean share of contexts around which a set was counted
    """

    category: str
    n_questions: int
    gap: float
    norms: tuple[float, ...]
    shares: tuple[float, ...]
    blamed: tuple[float, ...]
    seen: float


def analogy_errors(factors: Factors, law: WordLaw, questions: WordQuestions) -> AnalogyErrors:
    """Take the error of each question "a is to a* as b is to b*" apart.

    `factors`: vectors of the law's words in its order (`factors_of`); of attention, c~_j as context
    `law`: smoothed, so that no set has probability 0; of attention, of attention windows

    A word is looked for as it is written, then in lower case.
    Raises DataError for factors of other words, for C without full row rank, where a set has
    probability 0, and where no question is left.
    """
    if len(factors.words) != len(law.words):
        raise DataError(
            f"`factors` must have a row for each of the law's {len(law.words)} words, got "
            f"{len(factors.words)}. Take those of `factors_of`."
        )
    chosen, codes = _known_questions(law, questions)
    if not len(chosen):
        raise DataError(
            f"`questions` must hold one of four different known words, got none of "
            f"{len(questions)}."
        )
    sets = _Projected(factors, law)
    rows = [sets.question(question) for question in codes.tolist()]
    terms, delta, seen, seen_star = zip(*rows, strict=True)
    a, a_star, b, b_star = factors.words[codes].swapaxes(0, 1)
    gap = b_star - (a_star - a + b)
    known = np.stack(terms)
    _, pair = np.unique(codes[:, :2], axis=0, return_inverse=True)
    return AnalogyErrors(
        question=chosen,
        categories=tuple(questions.categories[i] for i in chosen),
        pair=pair.reshape(-1).astype(np.int64),
        gap=gap,
        terms=np.concatenate([known, (gap - known.sum(axis=1))[:, None]], axis=1),
        answer=np.linalg.norm(b_star, axis=1),
        delta=np.array(delta),
        seen=np.array(seen),
        seen_star=np.array(seen_star),
        log_frequency=np.log(law.center[codes[:, 3]]),
    )


def by_relation(errors: AnalogyErrors) -> tuple[RelationErrors, ...]:
    """Errors of each category, in the order in which they come."""
    categories = np.array(errors.categories)
    along = np.einsum("qtd,qd->qt", errors.terms, errors.gap)
    square = (errors.gap**2).sum(axis=1)
    relations = []
    for category in dict.fromkeys(errors.categories):
        own = categories == category
        total = square[own].sum()
        counts = np.bincount(errors.to_blame[own], minlength=len(TERMS))
        shares = along[own].sum(axis=0) / (total if total > 0 else np.inf)
        relations.append(
            RelationErrors(
                category=category,
                n_questions=int(own.sum()),
                gap=float(errors.gap_norm[own].mean()),
                norms=tuple(errors.norms[own].mean(axis=0).tolist()),
                shares=tuple(shares.tolist()),
                blamed=tuple((counts / own.sum()).tolist()),
                seen=float((errors.seen + errors.seen_star)[own].mean() / 2),
            )
        )
    return tuple(relations)


class _Projected:
    """C^+ log p(W | c) of word sets, each found once."""

    def __init__(self, factors: Factors, law: WordLaw) -> None:
        self._law, self._inverse = law, factors.words_of_contexts
        self._constant = self._inverse.sum(axis=1)
        self._logs: dict[frozenset[int], tuple[np.ndarray, float, float]] = {}

    def question(
        self, codes: Sequence[int]
    ) -> tuple[Float[np.ndarray, "known dim"], float, float, float]:
        """C^+ of rho, Delta and delta; delta in nats; shares of contexts around W and W*."""
        a, a_star, b, b_star = codes
        log_w, p, seen = self._set([b, a_star])
        log_star, p_star, seen_star = self._set([b_star, a])
        delta = float(np.log(p_star) - np.log(p))
        mass = delta * self._constant
        sigma = log_w - self._set([b])[0] - self._set([a_star])[0]
        sigma_star = log_star - self._set([b_star])[0] - self._set([a])[0]
        # rho = xi - delta, by Bayes' rule.
        return np.stack([log_star - log_w - mass, sigma - sigma_star, mass]), delta, seen, seen_star

    def _set(self, codes: Collection[int]) -> tuple[Float[np.ndarray, "dim"], float, float]:
        key = frozenset(codes)
        if key not in self._logs:
            words = [self._law.words[code] for code in codes]
            given, seen = self._law.given_and_seen(words)
            if not (given > 0).all():
                raise DataError(
                    f"`law` must give each set a probability above 0 around every word, got 0 for "
                    f"{{{', '.join(words)}}} around {self._law.words[int(given.argmin())]!r}. "
                    "Take smoothing above 0."
                )
            total = float(given @ self._law.context)
            self._logs[key] = (self._inverse @ np.log(given), total, float(seen.mean()))
        return self._logs[key]


def _known_questions(
    law: WordLaw, questions: WordQuestions
) -> tuple[Int64[np.ndarray, "chosen"], Int64[np.ndarray, "chosen 4"]]:
    index = law.windows.index
    chosen, codes = [], []
    for number, words in enumerate(questions.questions):
        four = [index.get(word, index.get(word.lower(), -1)) for word in words]
        if min(four) >= 0 and len(set(four)) == 4:
            chosen.append(number)
            codes.append(four)
    return np.array(chosen, dtype=np.int64), np.array(codes, dtype=np.int64).reshape(-1, 4)
