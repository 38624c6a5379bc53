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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError
from exfam_studies.experts.paraphrases.factors import Factors
from exfam_studies.experts.paraphrases.laws import WordLaw, never_together

# What the gap of context vectors is a sum of.
PARTS = ("words", "kappa", "asymmetry", "residual")

Question = tuple[str, str, str, str]


@dataclass(frozen=True, eq=False)
class ContextConditions:
    """What Proposition 5 or 8 assumes and concludes, measured for each question a, a*, b, b*.

    r, s = b, a* and t, u = b*, a. `numbers`, by name and question: "delta", "dependence" (iota of
    W), "dependence_star" and "kappa" in nats; "asymmetry", the root mean square of a over words, in
    nats; "word_gap" and "context_gap", length of g and of c_r + c_s - c_t - c_u, 1 for one as long
    as the mean of the four vectors; "part: ..." the length of each of PARTS of the context gap, in
    the same unit.
    `condition`: largest over smallest singular value of W, by how much errors may grow
    """

    numbers: Mapping[str, Float[np.ndarray, "questions"]]
    condition: float


def context_conditions(
    factors: Factors, law: WordLaw, questions: Sequence[Question]
) -> ContextConditions:
    """Measure the conditions of Propositions 5 (CBOW) and 8 (attention) for each question.

    `factors`: in the law's order; of attention, c~_j as context
    `law`: smoothed, so that no pair has probability 0; of attention, of attention windows
    `questions`: a, a*, b, b* of the law's words, all different

    Raises DataError where W does not have full row rank, a probability is 0, or a question names a
    word twice; UnknownWordError, with near spellings, for unknown words.
    """
    inverse = factors.contexts_of_words
    rows = [_measured(factors, law, inverse, question) for question in questions]
    if not rows:
        raise DataError("`questions` must hold at least one question, got none.")
    numbers = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return ContextConditions(numbers, condition=float(np.linalg.cond(factors.words)))


def _measured(
    factors: Factors, law: WordLaw, inverse: Float[np.ndarray, "dim words"], question: Question
) -> dict[str, float]:
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
    return {
        "delta": log_star - log_w,
        "dependence": iota,
        "dependence_star": iota_star,
        "kappa": kappa,
        "asymmetry": float(np.sqrt((across**2).mean())),
        "word_gap": float(np.linalg.norm(word_gap)) / _mean_length(factors.words[codes]),
        "context_gap": float(np.linalg.norm(context_gap)) / length,
        **{
            f"part: {name}": float(np.linalg.norm(part)) / length
            for name, part in zip(PARTS, parts, strict=True)
        },
    }


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
