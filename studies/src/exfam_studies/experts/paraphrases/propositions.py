"""Propositions 4 and 7 on word vectors, 5 and 8 on context vectors, as checks of given vectors.

With W = {r, s} and W* = {t, u}, g = w_r + w_s - w_t - w_u and W C^T = M,

    c_r + c_s - c_t - c_u = W^+ (C^T g + kappa 1 + a)
    kappa = log p(c_t) p(c_u) / (p(c_r) p(c_s)) = delta + iota_W - iota_W*
    iota_W = log p(W) / (p(c_r) p(c_s))
    a_v = sum over r, s less that over t, u of log p(w_v, c_x) / p(w_x, c_v)

so that the conditions of Propositions 5 and 8 are that g, delta, both iota and a are about 0, and
W^+ exists. The paper's proof drops these one after the other; kept, they are an identity. a is 0
for CBOW, whose pairs are symmetric. Of attention all is of p_bar and c~.
Source: section 4 of the paper on bidirectional attention as a mixture of experts; its appendix G
numbers them 12, 13, 16 and 17.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam_studies.common.statements import Check, unmet
from exfam_studies.experts.factorized import asymmetry
from exfam_studies.experts.paraphrases.analogies import (
    TERMS,
    AttentionScales,
    Factors,
    analogy_errors,
)
from exfam_studies.experts.paraphrases.word_sets import WordSets, factorized_matrix

# What an equation may miss, as a share of vectors' lengths.
TOLERANCE = 1e-6
# What the gap of context vectors is a sum of.
PARTS = ("words", "kappa", "asymmetry", "residual")
# What must be about 0 for a statement on context vectors; the last for attention alone.
ASSUMED = {
    "delta": "p(W) = p(W*): got {:.3g} nats apart",
    "dependence": "words of W must be independent: got {:.3g} nats from that",
    "dependence_star": "words of W* must be independent: got {:.3g} nats from that",
    "word_gap": "w_r + w_s = w_t + w_u: got {:.3g} of a vector's length apart",
    "asymmetry": "p_bar(w_i, c_j) = p_bar(w_j, c_i): got these words' pairs {:.3g} nats apart",
}

# a, a*, b, b*: the u, s, r and t of Propositions 5 and 8.
Question = tuple[str, str, str, str]


def check_proposition_4(
    factors: Factors,
    sets: WordSets,
    questions: Sequence[Question],
    *,
    scales: AttentionScales | None = None,
) -> Check:
    """Proposition 4: w_b* = w_a* - w_a + w_b + C^+ (rho + Delta + delta) for any four words.

    `scales`: of `attention_scales`, which make c~_j of c_j; makes it Proposition 7, of attention

    Assumes that C has full row rank, that no pair has probability 0 and W C^T = M, M that of
    `factorized_matrix`. It suffices that each w_i is C^+ M_i, as truncated singular vectors are:
    that is what is tested. Concludes that the equation holds to 1e-6 of the answer's length.
    Measured: "max residual" in that unit, "distance from M" and "distance from C^+ M" as shares of
    lengths, and "spread of zeta", which analogies of vectors c, not c~, need to be 0.
    """
    name = "Proposition 4" if scales is None else "Proposition 7"
    factors, spread = _scaled(factors, scales)
    undefined = _undefined(lambda: (factors.words_of_contexts, factorized_matrix(sets)))
    if undefined:
        return Check(name, spread, {}, undefined, ("the equation has no terms",))
    listed = WordQuestions("given", tuple(questions), ("given",) * len(questions), {})
    errors = analogy_errors(factors, sets, listed)
    residual = float(errors.norms[:, TERMS.index("residual")].max())
    matrix = factorized_matrix(sets)
    off_best = _apart(factors.words, matrix @ factors.words_of_contexts.T)
    measured = {
        "max residual": residual,
        "distance from M": _apart(matrix, factors.words @ factors.context.T),
        "distance from C^+ M": off_best,
        "questions": float(len(errors)),
        **spread,
    }
    best = f"each w_i must be C^+ M_i (W C^T = M), got W {off_best:.2g} of its length off"
    equation = f"the equation, got a residual of {residual:.2g} answers' lengths"
    return Check(
        statement=name,
        measured=measured,
        expected={"max residual": 0.0},
        failed_assumptions=unmet((off_best <= TOLERANCE, best)),
        failed_conclusions=unmet((residual <= TOLERANCE, equation)),
    )


def check_proposition_5(
    factors: Factors,
    sets: WordSets,
    question: Question,
    *,
    scales: AttentionScales | None = None,
    tolerance: float = 0.1,
) -> Check:
    """Proposition 5: if w_r + w_s ~ w_t + w_u then c_r + c_s ~ c_t + c_u.

    `scales`: of `attention_scales`, which make c~_j of c_j; makes it Proposition 8, of attention
    `tolerance`: what counts as about 0: nats, and shares of the vectors' lengths

    Assumes `ASSUMED`, that W has full row rank, and W C^T = M. Concludes that the gap of context
    vectors is no longer than what these leave.
    Measured: `context_gap`, "distance from M", "condition" (largest over smallest singular value of
    W), and of attention "total variation" between p_bar and its transpose, and "spread of zeta".
    """
    name = "Proposition 5" if scales is None else "Proposition 8"
    factors, spread = _scaled(factors, scales)
    undefined = _undefined(lambda: (factors.contexts_of_words, factorized_matrix(sets)))
    if undefined:
        return Check(name, spread, {}, undefined, ("the gap has no parts",))
    numbers = context_gap(factors, sets, question)
    left = sum(numbers[f"part: {part}"] for part in PARTS if part != "residual")
    distance = _apart(factorized_matrix(sets), factors.words @ factors.context.T)
    measured = {
        **numbers,
        **spread,
        "condition": float(np.linalg.cond(factors.words)),
        "distance from M": distance,
    }
    rules = dict(ASSUMED)
    if scales is None:
        del rules["asymmetry"]
    else:
        measured["total variation"] = asymmetry(sets.pairs * sets.context)
    failed = unmet(
        *(
            (abs(numbers[key]) <= tolerance, rule.format(abs(numbers[key])))
            for key, rule in rules.items()
        ),
        (distance <= TOLERANCE, f"W C^T = M: got {distance:.2g} of its length off"),
    )
    gap = f"a gap of contexts of at most {left:.3g}, got {numbers['context_gap']:.3g}"
    conclusions = unmet((numbers["context_gap"] <= left + TOLERANCE, gap))
    return Check(name, measured, {"context_gap at most": left}, failed, conclusions)


def context_gap(factors: Factors, sets: WordSets, question: Question) -> dict[str, float]:
    """What Propositions 5 and 8 assume and conclude of a question of four different words.

    "delta", "dependence" (iota of W), "dependence_star" and "kappa" in nats; "asymmetry", the root
    mean square of a over words, in nats; "word_gap" and "context_gap", length of g and of c_r + c_s
    - c_t - c_u, 1 for one as long as the mean of the four vectors; "part: ..." the length of each
    of PARTS of the context gap, in the same unit.
    """
    a, a_star, b, b_star = question
    codes = [sets.windows.code(word) for word in question]
    sign = np.array([-1.0, 1.0, 1.0, -1.0])
    log_w, log_star = (float(np.log(sets.probability(own))) for own in ((b, a_star), (b_star, a)))
    of_a, of_star, of_b, of_answer = np.log(sets.context[codes]).tolist()
    kappa = of_answer + of_a - of_b - of_star
    joint = np.log(sets.pairs * sets.context)
    across = (joint[:, codes] - joint[codes].T) @ sign
    word_gap, gap = sign @ factors.words[codes], sign @ factors.context[codes]
    inverse = factors.contexts_of_words
    parts = [inverse @ (factors.context @ word_gap), kappa * inverse.sum(axis=1), inverse @ across]
    parts.append(gap - sum(parts))
    word_length, length = (
        np.linalg.norm(vectors[codes], axis=1).mean()
        for vectors in (factors.words, factors.context)
    )
    return {
        "delta": log_star - log_w,
        "dependence": log_w - of_b - of_star,
        "dependence_star": log_star - of_answer - of_a,
        "kappa": kappa,
        "asymmetry": float(np.sqrt((across**2).mean())),
        "word_gap": float(np.linalg.norm(word_gap) / word_length),
        "context_gap": float(np.linalg.norm(gap) / length),
        **{
            f"part: {name}": float(np.linalg.norm(part) / length)
            for name, part in zip(PARTS, parts, strict=True)
        },
    }


def _scaled(factors: Factors, scales: AttentionScales | None) -> tuple[Factors, dict[str, float]]:
    """Factors of c~_j, and how far zeta is from being the same for all words."""
    if scales is None:
        return factors, {}
    context = factors.context * scales.scale[:, None]
    return Factors(factors.words, context), {"spread of zeta": scales.spread}


def _undefined(compute: Callable[[], object]) -> tuple[str, ...]:
    """Why what a statement speaks of does not exist; nothing where it does."""
    try:
        compute()
    except DataError as error:
        return (str(error),)
    return ()


def _apart(
    matrix: Float[np.ndarray, "rows columns"], other: Float[np.ndarray, "rows columns"]
) -> float:
    """Length of the difference as a share of the matrix's own."""
    return float(np.linalg.norm(matrix - other) / np.linalg.norm(matrix))
