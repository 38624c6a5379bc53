"""Propositions 4, 5, 7 and 8, as checks of given vectors and laws.

Each check measures what a statement says, and whether what it assumes is so. One that does not hold
while all it assumes is so would be refuted; one whose assumptions fail says nothing.
`analogy_errors` and `context_conditions` have the numbers for many questions.
Source: section 4 of the paper on bidirectional attention as a mixture of experts; its appendix G
numbers them 12, 13, 16 and 17.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError, check_positive
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam_studies.common.statements import Check
from exfam_studies.experts.factorized import asymmetry
from exfam_studies.experts.paraphrases.analogies import TERMS, analogy_errors
from exfam_studies.experts.paraphrases.conditions import PARTS, context_conditions
from exfam_studies.experts.paraphrases.factors import AttentionScales, Factors
from exfam_studies.experts.paraphrases.laws import WordLaw
from exfam_studies.experts.paraphrases.terms import factorized_matrix

# What an equation may miss, as a share of vectors' lengths.
TOLERANCE = 1e-6

Question = tuple[str, str, str, str]


def check_proposition_4(factors: Factors, law: WordLaw, questions: Sequence[Question]) -> Check:
    """Proposition 4: w_b* = w_a* - w_a + w_b + C^+ (rho + Delta + delta) for any four words.

    Assumes that C has full row rank, that M is finite (no pair has probability 0) and W C^T = M, M
    that of `factorized_matrix`. It suffices that each w_i is C^+ M_i, as truncated singular vectors
    are: that is what is tested. Concludes that the equation holds to
    1e-6 of the answer's length, also with xi for rho + delta.
    Measured: "max residual" in that unit, "distance from M" and "distance from C^+ M" as shares of
    the lengths of M and of W, and the number of "questions".
    Raises as `analogy_errors` does, but for what is assumed.
    """
    return _check_equation("Proposition 4", factors, law, questions)


def check_proposition_7(
    factors: Factors, law: WordLaw, questions: Sequence[Question], *, scales: AttentionScales
) -> Check:
    """Proposition 7: w_b* = w_a* - w_a + w_b + C~^+ (rho + Delta + delta), all of p_bar.

    `factors`: w_i and c_j, as the model has them
    `law`: of attention windows
    `scales`: of `attention_scales`, which make c~_j of c_j

    Assumes that C~ has full row rank, that N is finite and W C~^T = N, as Proposition 4 does of C
    and M. Concludes the equation to 1e-6. Measured as there, and "spread of zeta": analogies of
    vectors c, not c~, need it to be 0.
    Raises as `analogy_errors` does, but for what is assumed.
    """
    return _check_equation("Proposition 7", _scaled(factors, scales), law, questions, scales)


def check_proposition_5(
    factors: Factors, law: WordLaw, question: Question, *, tolerance: float = 0.1
) -> Check:
    """Proposition 5: if w_r + w_s ~ w_t + w_u then c_r + c_s ~ c_t + c_u.

    `question`: a, a*, b, b*, which are u, s, r, t
    `tolerance`: what counts as about 0: nats, and shares of the vectors' lengths (default 0.1)

    Assumes p(W) ~ p(W*), that words of W, and of W*, are about marginally independent, that W has
    full row rank, W C^T = M, and w_r + w_s ~ w_t + w_u. Concludes that the gap of context vectors
    is no longer than what these leave: the lengths of W^+ C^T g and W^+ kappa, see
    `context_conditions`. Measured: all those numbers.
    Raises as `context_conditions` does, but for what is assumed; ExfamError for a `tolerance` that
    is not above 0.
    """
    return _check_contexts("Proposition 5", factors, law, question, tolerance)


def check_proposition_8(
    factors: Factors,
    law: WordLaw,
    question: Question,
    *,
    scales: AttentionScales,
    tolerance: float = 0.1,
) -> Check:
    """Proposition 8: if w_r + w_s ~ w_t + w_u then c~_r + c~_s ~ c~_t + c~_u.

    `factors`: w_i and c_j, as the model has them
    `scales`: of `attention_scales`, which make c~_j of c_j
    `tolerance`: as in `check_proposition_5` (default 0.1)

    Assumes what Proposition 5 does, of p_bar and c~, and that p_bar(w_i, c_j) ~ p_bar(w_j, c_i).
    Concludes as there, what the asymmetry leaves added. Measured: also "total variation" between
    p_bar and its transpose, and "spread of zeta", which must be 0 for c in place of c~.
    Raises as `check_proposition_5` does.
    """
    check = _check_contexts("Proposition 8", _scaled(factors, scales), law, question, tolerance)
    variation = asymmetry(law.pairs * law.context)
    measured = {**check.measured, "total variation": variation, "spread of zeta": scales.spread}
    failed = list(check.failed_assumptions)
    if check.measured.get("asymmetry", 0.0) > tolerance:
        failed.append(
            "p_bar(w_i, c_j) = p_bar(w_j, c_i): got these words' pairs "
            f"{check.measured['asymmetry']:.3g} nats apart"
        )
    return Check(check.statement, measured, check.expected, tuple(failed), check.failed_conclusions)


def _check_equation(
    name: str,
    factors: Factors,
    law: WordLaw,
    questions: Sequence[Question],
    scales: AttentionScales | None = None,
) -> Check:
    expected = {"max residual": 0.0}
    spread = {} if scales is None else {"spread of zeta": scales.spread}
    undefined = _undefined(lambda: (factors.words_of_contexts, factorized_matrix(law)))
    if undefined:
        return Check(name, spread, expected, undefined, ("the equation has no terms",))
    asked = WordQuestions("asked", tuple(questions), ("asked",) * len(questions), {})
    errors = analogy_errors(factors, law, asked)
    residual = float(errors.norms[:, TERMS.index("residual")].max())
    matrix = factorized_matrix(law)
    best = matrix @ factors.words_of_contexts.T
    off_best = _apart(factors.words, best)
    failed = []
    if off_best > TOLERANCE:
        failed.append(
            f"each w_i must be C^+ M_i (W C^T = M), got W {off_best:.2g} of its length off"
        )
    conclusions = []
    if residual > TOLERANCE:
        conclusions.append(f"the equation, got a residual of {residual:.2g} answers' lengths")
    return Check(
        statement=name,
        measured={
            "max residual": residual,
            "distance from M": _apart(matrix, factors.words @ factors.context.T),
            "distance from C^+ M": off_best,
            "questions": float(len(errors)),
            **spread,
        },
        expected=expected,
        failed_assumptions=tuple(failed),
        failed_conclusions=tuple(conclusions),
    )


def _check_contexts(
    name: str, factors: Factors, law: WordLaw, question: Question, tolerance: float
) -> Check:
    check_positive("tolerance", tolerance)
    undefined = _undefined(lambda: (factors.contexts_of_words, factorized_matrix(law)))
    if undefined:
        return Check(name, {}, {}, undefined, ("the gap has no parts",))
    conditions = context_conditions(factors, law, [question])
    numbers = {name: float(values[0]) for name, values in conditions.numbers.items()}
    parts = {name: numbers.pop(f"part: {name}") for name in PARTS}
    left = sum(parts.values()) - parts["residual"]
    distance = _apart(factorized_matrix(law), factors.words @ factors.context.T)
    failed = _not_about_zero(numbers, tolerance)
    if distance > TOLERANCE:
        failed.append(f"W C^T = M: got {distance:.2g} of its length off")
    conclusions = []
    if numbers["context_gap"] > left + TOLERANCE:
        conclusions.append(
            f"a gap of contexts of at most {left:.3g}, got {numbers['context_gap']:.3g}"
        )
    return Check(
        statement=name,
        measured={
            **numbers,
            **{f"part: {name}": size for name, size in parts.items()},
            "condition": conditions.condition,
            "distance from M": distance,
        },
        expected={"context_gap at most": left},
        failed_assumptions=tuple(failed),
        failed_conclusions=tuple(conclusions),
    )


def _not_about_zero(numbers: dict[str, float], tolerance: float) -> list[str]:
    rules = {
        "delta": "p(W) = p(W*): got {:.3g} nats apart",
        "dependence": "words of W must be independent: got log p(W) / p(r) p(s) = {:.3g}",
        "dependence_star": "words of W* must be independent: got log p(W*) / p(t) p(u) = {:.3g}",
        "word_gap": "w_r + w_s = w_t + w_u: got {:.3g} of a vector's length apart",
    }
    return [
        rule.format(numbers[name] if "log" in rule else abs(numbers[name]))
        for name, rule in rules.items()
        if abs(numbers[name]) > tolerance
    ]


def _scaled(factors: Factors, scales: AttentionScales) -> Factors:
    return Factors(factors.words, factors.context * scales.scale[:, None])


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
