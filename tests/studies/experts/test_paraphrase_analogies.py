"""Errors of analogies are the sum of their terms; Propositions 4 and 7; what predicts failures."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import roc_auc_score

from exfam.checks import DataError, ExfamError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam_studies.experts.paraphrase import toy_questions
from exfam_studies.experts.paraphrases.analogies import (
    TERMS,
    AnalogyErrors,
    Factors,
    analogy_errors,
    attention_scales,
    check_proposition_4,
    truncated_factors,
)
from exfam_studies.experts.paraphrases.failures import failure_predictors
from exfam_studies.experts.paraphrases.word_sets import factorized_matrix, paraphrase_terms
from studies.experts.paraphrase_cases import MASK, drawn_tau, toy_sets, toy_windows

RESIDUAL = TERMS.index("residual")
QUESTION = ("history", "boring", "statistics", "fun")


def truncated(sets, dim):
    return truncated_factors(factorized_matrix(sets), dim)


def noisy(factors):
    random = np.random.default_rng(0)
    return replace(factors, words=factors.words + 0.3 * random.standard_normal(factors.words.shape))


def questions_of(*questions):
    return WordQuestions("x", questions, tuple("abcdef"[: len(questions)]), {})


@pytest.mark.parametrize("dim", [1, 12])
@pytest.mark.parametrize("shrinkage", [None, 0.5])
@pytest.mark.parametrize("attention", [False, True])
def test_propositions_4_and_7_hold_for_truncated_factors(dim, shrinkage, attention):
    sets = toy_sets(attention=attention, shrinkage=shrinkage)
    questions = list(itertools.permutations(sets.words, 4))[::97]
    factors, scales = truncated(sets, dim), None
    if attention:
        scales = attention_scales(toy_windows(), drawn_tau(12), mask=MASK)
        factors = Factors(factors.words, factors.context / scales.scale[:, None])
    check = check_proposition_4(factors, sets, questions, scales=scales)
    assert check.statement == ("Proposition 7" if attention else "Proposition 4")
    assert check.applies and check.holds and check.measured["max residual"] < 1e-6
    assert check.measured["questions"] == len(questions)
    assert (check.measured["distance from M"] > 0.01) == (dim < 12)
    # Vectors c in place of c~ are no factors of N.
    assert check_proposition_4(factors, sets, questions).applies == (not attention)


def test_a_projected_term_is_the_pseudo_inverse_of_the_term():
    sets = toy_sets(attention=True)
    factors = truncated(sets, 6)
    errors = analogy_errors(factors, sets, questions_of(QUESTION))
    a, a_star, b, b_star = QUESTION
    terms, c = paraphrase_terms(sets, {b, a_star}, {b_star, a}), factors.context
    known = terms.rho, terms.sigma - terms.sigma_star, np.full(12, terms.delta)
    for index, term in enumerate(known):
        # (C C^T)^-1 C of the paper, whose C has words in columns.
        expected = np.linalg.solve(c.T @ c, c.T @ term)
        np.testing.assert_allclose(errors.terms[0, index], expected, atol=1e-12)


def test_terms_and_residual_sum_to_the_gap_of_any_vectors():
    sets = toy_sets()
    factors = noisy(truncated(sets, 6))
    errors = analogy_errors(factors, sets, toy_questions())
    at = [sets.windows.code(word) for word in toy_questions().questions[5]]
    a, a_star, b, b_star = factors.words[at]
    np.testing.assert_allclose(errors.gap[5], b_star - (a_star - a + b))
    np.testing.assert_allclose(errors.terms.sum(axis=1), errors.gap, atol=1e-12)
    np.testing.assert_allclose(errors.shares.sum(axis=1), 1)
    assert errors.shares_of_all.sum() == pytest.approx(1)
    # The residual is what the vectors miss of C^+ M.
    missed = factors.words - factorized_matrix(sets) @ factors.words_of_contexts.T
    expected = np.array([1.0, -1.0, -1.0, 1.0]) @ missed[at]
    np.testing.assert_allclose(errors.terms[5, RESIDUAL], expected, atol=1e-12)
    without = replace(errors, gap=0 * errors.gap, terms=0 * errors.terms)
    assert not without.shares.any()


def test_questions_that_are_none_are_left_out():
    sets = toy_sets()
    factors = truncated(sets, 3)
    unknown = ("history", "boring", "physics", "fun")
    twice = ("history", "boring", "history", "fun")
    errors = analogy_errors(factors, sets, questions_of(unknown, ("HISTORY", *QUESTION[1:]), twice))
    assert errors.question.tolist() == [1] and errors.categories == ("b",)
    assert errors.log_frequency[0] == pytest.approx(np.log(sets.center[sets.words.index("fun")]))
    with pytest.raises(DataError, match="one of four different known words, got none of 1"):
        analogy_errors(factors, sets, questions_of(unknown))


def test_what_proposition_4_does_not_speak_of_is_reported():
    sets, with_holes = toy_sets(), toy_sets(smoothing=0.0)
    plain = truncated(sets, 3)
    flat = replace(plain, context=plain.context * [1.0, 1.0, 0.0])
    for factors, own, message in (
        (noisy(plain), sets, "each w_i must be C^+ M_i (W C^T = M), got W 0."),
        (flat, sets, "`context` must have full row rank, got rank 2 in 3"),
        (plain, with_holes, "each pair a probability above 0"),
    ):
        check = check_proposition_4(factors, own, [QUESTION])
        assert not check.applies and not check.holds and message in check.failed_assumptions[0]
    with pytest.raises(DataError, match="each set a probability above 0 around every word"):
        analogy_errors(plain, with_holes, toy_questions())


def test_factors_are_those_of_the_largest_singular_values():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((40, 3)) @ random.standard_normal((3, 40))
    factors = truncated_factors(matrix, 3)
    np.testing.assert_allclose(factors.words @ factors.context.T, matrix, atol=1e-8)
    lengths = np.linalg.norm(factors.words, axis=0)
    np.testing.assert_allclose(lengths**2, np.linalg.svd(matrix)[1][:3])
    with pytest.raises(ExfamError, match="`dim` must be at most 3, the rank of the matrix, got 5"):
        truncated_factors(matrix, 5)


def drawn_errors(n=400, seed=0):
    """Errors whose second term makes questions fail, and all others are noise or rounding."""
    random = np.random.default_rng(seed)
    terms = random.standard_normal((n, len(TERMS), 3))
    answered = np.linalg.norm(terms[:, 1], axis=1) + random.standard_normal(n) < 1.7
    terms[:, RESIDUAL] *= 1e-15
    errors = AnalogyErrors(
        question=np.arange(n) * 2,
        categories=tuple(random.choice(["x", "y", "z"], size=n).tolist()),
        codes=random.integers(60, size=(n, 1)).repeat(4, axis=1),
        gap=terms.sum(axis=1),
        terms=terms,
        answer=np.ones(n),
        seen=np.ones(n),
        log_frequency=np.round(random.standard_normal(n)),
    )
    # Flags of all questions, of which every second was left out.
    return errors, np.repeat(answered, 2)


def test_figures_are_those_of_scikit_learn_and_scipy():
    errors, answered = drawn_errors()
    failed, categories = ~answered[::2], np.array(errors.categories)
    result = failure_predictors(errors, answered, seed=0, n=20)
    assert list(result) == ["gap", *TERMS, "statistics", "rarity"]
    numbers = {"gap": errors.gap_norm, "Delta": errors.norms[:, 1], "rarity": -errors.log_frequency}
    for name, number in numbers.items():
        assert result[name]["auc"].mean == pytest.approx(roc_auc_score(failed, number))
        correlation = scipy.stats.pointbiserialr(failed, number).statistic
        assert result[name]["correlation"].mean == pytest.approx(correlation)
    # A term that is rounding predicts nothing.
    assert result["residual"]["auc"] == (0.5,) * 3
    assert result["residual"]["correlation"] == (0.0,) * 3
    # Within relations only their own questions are compared.
    parts = [categories == name for name in "xyz"]
    weights = [failed[own].sum() * (~failed[own]).sum() for own in parts]
    scores = [roc_auc_score(failed[own], errors.norms[own, 1]) for own in parts]
    assert result["Delta"]["auc-within"].mean == pytest.approx(np.average(scores, weights=weights))
    split = replace(errors, categories=tuple(map(str, failed)))
    assert failure_predictors(split, answered, seed=0, n=20)["gap"].keys() == {"auc", "correlation"}
    with pytest.raises(DataError, match="right and wrong answers, got 400 right of 400"):
        failure_predictors(errors, np.ones(800, dtype=bool), seed=0)


def test_the_term_that_matters_predicts_and_the_others_do_not():
    errors, answered = drawn_errors(seed=3)
    result = failure_predictors(errors, answered, seed=1, n=300)
    assert result["Delta"]["auc"].low > 0.6 and result["Delta"]["correlation"].low > 0.2
    for name in ("rho", "delta", "rarity"):
        assert result[name]["auc"].low < 0.5 < result[name]["auc"].high
    # Intervals are of redrawn pairs: copies of each question, of the same pair, say nothing new.
    many = {name: np.repeat(value, 5, axis=0) for name, value in vars(errors).items()}
    many |= {"question": np.arange(2000), "categories": tuple(many["categories"])}
    repeated = AnalogyErrors(**many), np.repeat(answered[::2], 5)
    of_copies = failure_predictors(*repeated, seed=1, n=300)["Delta"]["auc"]
    assert of_copies == pytest.approx(result["Delta"]["auc"])
