"""Errors of analogies are the sum of their terms; Propositions 4 and 7."""

import itertools

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.vectors import WordVectors
from exfam.vectors.queries import UnknownWordError
from exfam_studies.experts.paraphrases import (
    TERMS,
    AnalogyErrors,
    Factors,
    WordLaw,
    analogy_errors,
    by_relation,
    check_proposition_4,
    check_proposition_7,
    factorized_matrix,
    factors_of,
    paraphrase_terms,
    sentence_windows,
    truncated_factors,
)
from studies.experts.paraphrase_cases import toy_law, toy_questions, toy_scales, unscaled

RESIDUAL = TERMS.index("residual")
ASKED = ("history", "boring", "statistics", "fun")


def noisy(factors, seed=0, size=0.3):
    random = np.random.default_rng(seed)
    return Factors(
        factors.words + size * random.standard_normal(factors.words.shape), factors.context
    )


@pytest.mark.parametrize("dim", [1, 5, 12])
@pytest.mark.parametrize("shrinkage", [None, 0.5])
def test_proposition_4_holds_for_truncated_factors(dim, shrinkage):
    law = toy_law(shrinkage=shrinkage)
    factors = truncated_factors(factorized_matrix(law), dim)
    questions = list(itertools.permutations(law.words, 4))[::97]
    check = check_proposition_4(factors, law, questions)
    assert check.applies and check.holds and check.measured["max residual"] < 1e-6
    assert check.measured["questions"] == len(questions)
    assert (check.measured["distance from M"] > 0.01) == (dim < 12)


@pytest.mark.parametrize("dim", [1, 5, 12])
def test_proposition_7_holds_for_truncated_factors(dim):
    law, scales = toy_law(attention=True), toy_scales()
    tilde = truncated_factors(factorized_matrix(law), dim)
    questions = list(itertools.permutations(law.words, 4))[::97]
    own = unscaled(tilde, scales)
    check = check_proposition_7(own, law, questions, scales=scales)
    assert check.applies and check.holds and check.measured["max residual"] < 1e-6
    assert check.measured["spread of zeta"] > 0.1
    # Vectors c in place of c~ are no factors of N.
    assert not check_proposition_4(own, law, questions).applies


def test_a_projected_term_is_the_pseudo_inverse_of_the_term():
    law = toy_law(attention=True)
    factors = truncated_factors(factorized_matrix(law), 6)
    errors = analogy_errors(factors, law, WordQuestions("x", (ASKED,), ("x",), {}))
    a, a_star, b, b_star = ASKED
    terms = paraphrase_terms(law, {b, a_star}, {b_star, a})
    c = factors.context
    for name, each in (("rho", terms.rho), ("Delta", terms.dependence)):
        # (C C^T)^-1 C of the paper, whose C has words in columns.
        expected = np.linalg.solve(c.T @ c, c.T @ each)
        np.testing.assert_allclose(errors.terms[0, TERMS.index(name)], expected, atol=1e-12)
    constant = np.linalg.solve(c.T @ c, c.T @ np.full(12, terms.delta))
    np.testing.assert_allclose(errors.terms[0, TERMS.index("delta")], constant, atol=1e-12)
    assert errors.delta[0] == pytest.approx(terms.delta)


def test_terms_and_residual_sum_to_the_gap_of_any_vectors():
    law = toy_law()
    factors = noisy(truncated_factors(factorized_matrix(law), 6))
    errors = analogy_errors(factors, law, toy_questions())
    at = [law.windows.code(word) for word in toy_questions().questions[5]]
    a, a_star, b, b_star = factors.words[at]
    np.testing.assert_allclose(errors.gap[5], b_star - (a_star - a + b))
    np.testing.assert_allclose(errors.terms.sum(axis=1), errors.gap, atol=1e-12)
    np.testing.assert_allclose(errors.shares.sum(axis=1), 1)
    assert (errors.norms[:, RESIDUAL] > 0.01).all()
    # The residual is what the vectors miss of C^+ M.
    missed = factors.words - factorized_matrix(law) @ factors.words_of_contexts.T
    np.testing.assert_allclose(
        errors.terms[5, RESIDUAL], np.array([1.0, -1.0, -1.0, 1.0]) @ missed[at], atol=1e-12
    )


def test_smoothing_of_sets_moves_blame_and_not_the_sum():
    """p(W | c) is in rho and Delta with opposite signs."""
    mixed, shrunk = toy_law(), toy_law(shrinkage=1e6)
    factors = noisy(truncated_factors(factorized_matrix(mixed), 6))
    one, other = (analogy_errors(factors, law, toy_questions()) for law in (mixed, shrunk))
    np.testing.assert_allclose(one.terms[:, RESIDUAL], other.terms[:, RESIDUAL], atol=1e-10)
    np.testing.assert_allclose(one.statistics_norm, other.statistics_norm)
    assert np.abs(one.norms[:, 1] - other.norms[:, 1]).max() > 0.5
    assert other.norms[:, 1].max() < 1e-3


def test_blame_is_told_by_relation():
    law = toy_law()
    factors = noisy(truncated_factors(factorized_matrix(law), 6))
    asked = toy_questions()
    halves = ("one",) * 72 + ("two",) * 72
    questions = WordQuestions("toy", asked.questions, halves, {})
    errors = analogy_errors(factors, law, questions)
    result = by_relation(errors)
    assert [each.category for each in result] == ["one", "two"]
    assert [each.n_questions for each in result] == [72, 72]
    for each, own in zip(result, (slice(0, 72), slice(72, 144)), strict=True):
        assert sum(each.shares) == pytest.approx(1) and sum(each.blamed) == pytest.approx(1)
        assert each.gap == pytest.approx(errors.gap_norm[own].mean())
        assert each.blamed[0] == pytest.approx((errors.to_blame[own] == 0).mean())
        assert each.norms == pytest.approx(tuple(errors.norms[own].mean(axis=0)))
    assert result[0].gap != result[1].gap


def test_no_gap_has_no_shares():
    ones = np.ones(1)
    errors = AnalogyErrors(
        np.array([0]), ("x",), np.array([0]), np.zeros((1, 2)), np.zeros((1, 4, 2)), *[ones] * 5
    )
    assert not errors.shares.any() and by_relation(errors)[0].shares == (0.0,) * 4


def test_questions_that_are_none_are_left_out():
    law = toy_law()
    factors = truncated_factors(factorized_matrix(law), 3)
    asked = (
        ("history", "boring", "physics", "fun"),
        ("HISTORY", "boring", "statistics", "fun"),
        ("history", "boring", "history", "fun"),
    )
    errors = analogy_errors(factors, law, WordQuestions("x", asked, ("a", "b", "c"), {}))
    assert errors.question.tolist() == [1] and errors.categories == ("b",)
    assert errors.log_frequency[0] == pytest.approx(np.log(law.center[law.codes(["fun"])[0]]))
    with pytest.raises(DataError, match="one of four different known words, got none of 1"):
        analogy_errors(factors, law, WordQuestions("x", asked[:1], ("a",), {}))


def test_vectors_that_factorize_nothing_are_told():
    law = toy_law()
    factors = noisy(truncated_factors(factorized_matrix(law), 6))
    check = check_proposition_4(factors, law, [ASKED])
    assert not check.applies and not check.holds
    assert check.failed_assumptions[0].startswith("each w_i must be C^+ M_i (W C^T = M), got W 0.")
    assert check.measured["max residual"] > 0.01


def test_contexts_without_full_row_rank_are_told():
    law = toy_law()
    factors = truncated_factors(factorized_matrix(law), 3)
    flat = Factors(factors.words, factors.context * np.array([1.0, 1.0, 0.0]))
    check = check_proposition_4(flat, law, [ASKED])
    assert not check.applies and not check.holds
    assert "`context` must have full row rank, got rank 2 in 3" in check.failed_assumptions[0]
    with pytest.raises(DataError, match="got rank 2 in 3 dimensions"):
        analogy_errors(flat, law, toy_questions())
    scales = toy_scales()
    check = check_proposition_7(flat, toy_law(attention=True), [ASKED], scales=scales)
    assert "full row rank" in check.failed_assumptions[0]


def test_a_matrix_with_holes_is_told():
    law = toy_law(smoothing=0.0)
    factors = truncated_factors(factorized_matrix(toy_law()), 3)
    check = check_proposition_4(factors, law, [ASKED])
    assert "each pair a probability above 0" in check.failed_assumptions[0]
    with pytest.raises(DataError, match="each set a probability above 0 around every word"):
        analogy_errors(factors, law, toy_questions())


def test_more_dimensions_than_words_are_refused():
    random = np.random.default_rng(0)
    factors = Factors(random.standard_normal((12, 30)), random.standard_normal((12, 30)))
    with pytest.raises(DataError, match="got rank 12 in 30 dimensions \\(12 words\\)"):
        analogy_errors(factors, toy_law(), toy_questions())


def test_vectors_are_put_in_the_order_of_the_law():
    law = WordLaw(sentence_windows([["b", "a"], ["a", "c"]]))
    center = np.arange(8, dtype=np.float32).reshape(4, 2)
    vectors = WordVectors(("d", "c", "b", "a"), center, -center)
    factors = factors_of(vectors, law)
    np.testing.assert_array_equal(factors.words, center[[3, 2, 1]])
    np.testing.assert_array_equal(factors.context, -center[[3, 2, 1]])
    assert factors.dim == 2
    with pytest.raises(UnknownWordError, match="got 'c'"):
        factors_of(WordVectors(("a", "b"), center[:2], center[:2]), law)


def test_factors_of_other_shapes_are_refused():
    with pytest.raises(DataError, match="`context` must have the shape of `words`"):
        Factors(np.ones((3, 2)), np.ones((2, 2)))
    with pytest.raises(DataError, match="`words` must be finite"):
        Factors(np.full((3, 2), np.nan), np.ones((3, 2)))
    with pytest.raises(DataError, match="a row for each of the law's 12 words, got 3"):
        analogy_errors(Factors(np.ones((3, 1)), np.ones((3, 1))), toy_law(), toy_questions())


def test_iteration_finds_the_same_factors():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((60, 4)) @ random.standard_normal((4, 60))
    matrix += 0.01 * random.standard_normal((60, 60))
    few, many = truncated_factors(matrix, 3), truncated_factors(matrix, 20)
    np.testing.assert_allclose(
        few.words @ few.context.T, many.words[:, :3] @ many.context[:, :3].T, atol=1e-10
    )


@pytest.mark.parametrize(
    ("dim", "message"),
    [(0, "`dim` must be an integer >= 1"), (4, "at most 3, got 4"), (3, "at most 2, the rank")],
)
def test_other_dimensions_are_refused(dim, message):
    with pytest.raises(ExfamError, match=message):
        truncated_factors(np.diag([2.0, 1.0, 0.0]), dim)
