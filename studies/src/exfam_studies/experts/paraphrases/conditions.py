"""When analogies of word vectors are analogies of context vectors: what that takes, in numbers.

With W = {r, s} and W* = {t, u}, g = w_r + w_s - w_t - w_u and W C^T = M,

    c_r + c_s - c_t - c_u = W^+ (C^T g + kappa 1 + a)
    kappa = log p(c_t) p(c_u) / (p(c_r) p(c_s)) = delta + iota_W - iota_W*
    iota_W = log p(W) / (p(c_r) p(c_s))
    a_v = sum over r, s less that over t, u of log p(w_v, c_x) / p(w_x, c_v)

so that the paper's conditions are that g, delta, both iota and a are about 0, and W^+ exists. The
paper's proof drops these one after the other; kept, they are an identity. a is 0 for CBOW, whose
pairs are symmetric. Of attention all is of p_bar, c is c~, and c itself needs one zeta for all.
Source: Propositions 5 and 8 (13 and 17 of the appendix, proofs in K and L) of the paper on
bidirectional attention as a mixture of experts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError
from exfam_studies.experts.paraphrases.factors import Factors
from exfam_studies.experts.paraphrases.laws import WordLaw, never_together

__all__ = ["PARTS", "Asymmetry", "ContextConditions", "asymmetry", "context_conditions"]

# What the gap of context vectors is a sum of.
PARTS = ("words", "kappa", "asymmetry", "residual")

Question = tuple[str, str, str, str]


@dataclass(frozen=True, eq=False)
class ContextConditions:
    """What Proposition 5 or 8 assumes and concludes, measured for each question a, a*, b, b*.

    r, s = b, a* and t, u = b*, a. `delta`, `dependence` (iota of W), `dependence_star` and `kappa`
    are in nats, `asymmetry` is the root mean square of a over words, in nats.
    `word_gap`, `context_gap`: length of g and of c_r + c_s - c_t - c_u, 1 for one as long as the
        mean of the four vectors
    `parts`: length of each of `PARTS` of the context gap, in the unit of `context_gap`
    `condition`: largest over smallest singular value of W, by how much errors may grow
    """

    delta: Float[np.ndarray, "questions"]
    dependence: Float[np.ndarray, "questions"]
    dependence_star: Float[np.ndarray, "questions"]
    kappa: Float[np.ndarray, "questions"]
    asymmetry: Float[np.ndarray, "questions"]
    word_gap: Float[np.ndarray, "questions"]
    context_gap: Float[np.ndarray, "questions"]
    parts: Float[np.ndarray, "questions parts"]
    condition: float

    def __len__(self) -> int:
        return len(self.delta)


def context_conditions(
    factors: Factors, law: WordLaw, questions: Sequence[Question]
) -> ContextConditions:
    """Measure the conditions of Propositions 5 (CBOW) and 8 (attention) for each question.

    `factors`: in the law's order; of attention, c~_j as context
    `law`: smoothed, so that no pair has probability 0; of attention, of attention windows
    `questions`: a, a*, b, b* of the law's words, all different

    Raises DataError where W does not have full row rank, a probability is 0, or a question names a
    word twice; UnknownWordError, with near spellings, for unknown words.

    >>> from exfam_studies.experts.paraphrases import factorized_matrix, sentence_windows
    >>> from exfam_studies.experts.paraphrases.factors import truncated_factors
    >>> from exfam_studies.experts.toy_sentences import toy_population
    >>> sentences, probability = toy_population()
    >>> law = WordLaw(sentence_windows(sentences, probability=probability), smoothing=0.1)
    >>> factors = truncated_factors(factorized_matrix(law), 12)
    >>> asked = [("history", "boring", "statistics", "fun")]
    >>> told = context_conditions(factors, law, asked)
    >>> told.asymmetry.round(6), bool(told.parts[0, PARTS.index("residual")] < 1e-8)
    (array([0.]), True)
    """
    inverse = factors.contexts_of_words
    rows = [_measured(factors, law, inverse, question) for question in questions]
    if not rows:
        raise DataError("`questions` must hold at least one question, got none.")
    table = np.array(rows)
    delta, iota, iota_star, kappa, across, word_gap, context_gap = table[:, :7].T
    return ContextConditions(
        delta=delta,
        dependence=iota,
        dependence_star=iota_star,
        kappa=kappa,
        asymmetry=across,
        word_gap=word_gap,
        context_gap=context_gap,
        parts=table[:, 7:],
        condition=float(np.linalg.cond(factors.words)),
    )


@dataclass(frozen=True)
class Asymmetry:
    """How far p(w_i, c_j) is from p(w_j, c_i).

    `total_variation`: half the sum of absolute differences, in [0, 1]
    `log_ratio`: mean of |log p(w_i, c_j) / p(w_j, c_i)| over pairs as they occur, in nats; of pairs
        with both probabilities above 0
    `one_sided`: probability of pairs of which only one order occurs
    """

    total_variation: float
    log_ratio: float
    one_sided: float


def asymmetry(law: WordLaw) -> Asymmetry:
    """How far pairs are from symmetric: 0 for CBOW, and what Proposition 8 needs small.

    Takes memory for all pairs of words.

    >>> from exfam_studies.experts.paraphrases import attention_windows, sentence_windows
    >>> plain = sentence_windows([["a", "b", "c"], ["a", "b"]])
    >>> asymmetry(WordLaw(plain)).total_variation
    0.0
    >>> weighed = attention_windows(plain, np.array([1.0, 2.0, 9.0]), mask=1.0)
    >>> round(asymmetry(WordLaw(weighed)).total_variation, 3)
    0.283
    """
    joint = law.pairs * law.context
    other = joint.T
    both = (joint > 0) & (other > 0)
    logs = np.abs(np.log(joint[both]) - np.log(other[both]))
    mass = joint[both].sum()
    return Asymmetry(
        total_variation=float(np.abs(joint - other).sum() / 2),
        log_ratio=float(logs @ joint[both] / mass) if mass > 0 else 0.0,
        one_sided=float(joint[(joint > 0) & ~both].sum()),
    )


def _measured(
    factors: Factors, law: WordLaw, inverse: Float[np.ndarray, "dim words"], question: Question
) -> list[float]:
    """Delta, both iota, kappa, the size of a, both gaps, and the four parts."""
    a, a_star, b, b_star = question
    codes = law.codes(question)
    at_a, at_star, at_b, at_answer = codes
    signed = {b: 1.0, a_star: 1.0, b_star: -1.0, a: -1.0}
    log_w, log_star = (_log_probability(law, words) for words in ((b, a_star), (b_star, a)))
    log_c = np.log(law.context)
    iota = log_w - log_c[at_b] - log_c[at_star]
    iota_star = log_star - log_c[at_answer] - log_c[at_a]
    kappa = log_c[at_answer] + log_c[at_a] - log_c[at_b] - log_c[at_star]
    across = sum((sign * _log_asymmetry(law, word) for word, sign in signed.items()), np.zeros(1))
    sign = np.array([-1.0, 1.0, 1.0, -1.0])
    word_gap, context_gap = sign @ factors.words[codes], sign @ factors.context[codes]
    parts = [
        inverse @ (factors.context @ word_gap),
        kappa * inverse.sum(axis=1),
        inverse @ across,
    ]
    parts.append(context_gap - sum(parts))
    length = _mean_length(factors.context[codes])
    return [
        log_star - log_w,
        iota,
        iota_star,
        kappa,
        float(np.sqrt((across**2).mean())),
        float(np.linalg.norm(word_gap)) / _mean_length(factors.words[codes]),
        float(np.linalg.norm(context_gap)) / length,
        *(float(np.linalg.norm(part)) / length for part in parts),
    ]


def _log_probability(law: WordLaw, words: Sequence[str]) -> float:
    p = law.probability(words)
    if not p > 0:
        raise never_together(words)
    return float(np.log(p))


def _log_asymmetry(law: WordLaw, word: str) -> Float[np.ndarray, "words"]:
    """log p(w_v, c_x) / p(w_x, c_v) of all v, x the given word."""
    of_context = law.centers_given(word) * law.context[law.windows.code(word)]
    of_center = law.given_context([word]) * law.context
    if not ((of_context > 0) & (of_center > 0)).all():
        at = int(np.minimum(of_context, of_center).argmin())
        raise DataError(
            f"`law` must give each pair a probability above 0, got 0 for {word!r} and "
            f"{law.words[at]!r}. Take smoothing above 0."
        )
    return np.log(of_context) - np.log(of_center)


def _mean_length(vectors: Float[np.ndarray, "four dim"]) -> float:
    return float(np.linalg.norm(vectors, axis=1).mean())
