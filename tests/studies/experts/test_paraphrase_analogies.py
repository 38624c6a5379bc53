"""Errors of analogies are the sum of their terms; Propositions 4, 5, 7 and 8."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import roc_auc_score

from exfam.checks import DataError, ExfamError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam_studies.experts.factorized import asymmetry
from exfam_studies.experts.paraphrase import toy_questions
from exfam_studies.experts.paraphrases.analogies import (
    TERMS,
    AnalogyErrors,
    analogy_errors,
    attention_scales,
    truncated_factors,
)
from exfam_studies.experts.paraphrases.failures import failure_predictors
from exfam_studies.experts.paraphrases.propositions import (
    check_proposition_4,
    check_proposition_5,
    context_gap,
)
from exfam_studies.experts.paraphrases.windows import attention_windows
from exfam_studies.experts.paraphrases.word_sets import (
    WordSets,
    factorized_matrix,
    paraphrase_terms,
)
from studies.experts.paraphrase_cases import independent_windows, toy_scales, toy_sets, unscaled

RESIDUAL = TERMS.index("residual")
QUESTION = ("history", "boring", "statistics", "fun")
# Independent words with p(a) p(b) = p(c) p(d), and a question of them.
BALANCED, OF_BALANCED = (0.4, 0.1, 0.2, 0.2, 0.1), ("c", "a", "b", "d")


def truncated(sets, dim):
    return truncated_factors(factorized_matrix(sets), dim)


def noisy(factors):
    random = np.random.default_rng(0)
    return replace(factors, words=factors.words + 0.3 * random.standard_normal(factors.words.shape))


def questions_of(*questions):
    return WordQuestions("x", questions, tuple("abcdef"[: len(questions)]), {})


@pytest.mark.parametrize("dim", [1, 5, 12])
@pytest.mark.parametrize("shrinkage", [None, 0.5])
def test_proposition_4_holds_for_truncated_factors(dim, shrinkage):
    sets = toy_sets(shrinkage=shrinkage)
    questions = list(itertools.permutations(sets.words, 4))[::97]
    check = check_proposition_4(truncated(sets, dim), sets, questions)
    assert check.applies and check.holds and check.measured["max residual"] < 1e-6
    assert check.measured["questions"] == len(questions)
    assert (check.measured["distance from M"] > 0.01) == (dim < 12)


@pytest.mark.parametrize("dim", [1, 5, 12])
def test_proposition_7_holds_for_truncated_factors(dim):
    sets, scales = toy_sets(attention=True), toy_scales()
    questions = list(itertools.permutations(sets.words, 4))[::97]
    own = unscaled(truncated(sets, dim), scales)
    check = check_proposition_4(own, sets, questions, scales=scales)
    assert check.statement == "Proposition 7" and check.measured["spread of zeta"] > 0.1
    assert check.applies and check.holds and check.measured["max residual"] < 1e-6
    # Vectors c in place of c~ are no factors of N.
    assert not check_proposition_4(own, sets, questions).applies


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
    assert (errors.norms[:, RESIDUAL] > 0.01).all()
    without = replace(errors, gap=0 * errors.gap, terms=0 * errors.terms)
    assert not without.shares.any()


def test_questions_that_are_none_are_left_out():
    sets = toy_sets()
    factors = truncated(sets, 3)
    unknown = ("history", "boring", "physics", "fun")
    twice = ("history", "boring", "history", "fun")
    errors = analogy_errors(factors, sets, questions_of(unknown, ("HISTORY", *QUESTION[1:]), twice))
    assert errors.question.tolist() == [1] and errors.categories == ("b",)
    expected = np.log(sets.center[sets.windows.code("fun")])
    assert errors.log_frequency[0] == pytest.approx(expected)
    with pytest.raises(DataError, match="one of four different known words, got none of 1"):
        analogy_errors(factors, sets, questions_of(unknown))


def test_what_proposition_4_does_not_speak_of_is_reported():
    sets = toy_sets()
    check = check_proposition_4(noisy(truncated(sets, 6)), sets, [QUESTION])
    assert not check.applies and not check.holds
    assert check.failed_assumptions[0].startswith("each w_i must be C^+ M_i (W C^T = M), got W 0.")
    flat = truncated(sets, 3)
    flat = replace(flat, context=flat.context * [1.0, 1.0, 0.0])
    for own, scales in ((sets, None), (toy_sets(attention=True), toy_scales())):
        check = check_proposition_4(flat, own, [QUESTION], scales=scales)
        assert not check.applies and not check.holds
        assert "`context` must have full row rank, got rank 2 in 3" in check.failed_assumptions[0]
    with_holes = toy_sets(smoothing=0.0)
    check = check_proposition_4(truncated(sets, 3), with_holes, [QUESTION])
    assert "each pair a probability above 0" in check.failed_assumptions[0]
    with pytest.raises(DataError, match="each set a probability above 0 around every word"):
        analogy_errors(truncated(sets, 3), with_holes, toy_questions())


def test_factors_are_those_of_the_largest_singular_values():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((40, 3)) @ random.standard_normal((3, 40))
    factors = truncated_factors(matrix, 3)
    np.testing.assert_allclose(factors.words @ factors.context.T, matrix, atol=1e-8)
    lengths = np.linalg.norm(factors.words, axis=0)
    np.testing.assert_allclose(lengths**2, np.linalg.svd(matrix)[1][:3])
    with pytest.raises(ExfamError, match="`dim` must be at most 3, the rank of the matrix, got 5"):
        truncated_factors(matrix, 5)


@pytest.mark.parametrize("attention", [False, True])
def test_the_context_gap_is_the_sum_of_its_parts(attention):
    sets = toy_sets(attention=attention)
    factors = truncated(sets, 12)
    for question in toy_questions().questions[::12]:
        gap = context_gap(factors, sets, question)
        assert gap["part: residual"] < 1e-8 < 0.01 < gap["context_gap"]
        kappa = gap["delta"] + gap["dependence"] - gap["dependence_star"]
        assert gap["kappa"] == pytest.approx(kappa, abs=1e-12)
        # Of CBOW, the words' part and kappa's are all.
        left = gap["part: words"] + gap["part: kappa"]
        assert attention or gap["context_gap"] <= left + 1e-8
        assert (gap["asymmetry"] > 1e-6) == attention


def test_conditions_are_those_of_their_formulas():
    sets = toy_sets(attention=True)
    factors = truncated(sets, 12)
    gap = context_gap(factors, sets, QUESTION)
    u, s, r, t = (sets.windows.code(word) for word in QUESTION)
    joint, p = np.log(sets.pairs * sets.context), sets.context
    signs = [(r, 1), (s, 1), (t, -1), (u, -1)]
    across = sum(sign * (joint[:, x] - joint[x]) for x, sign in signs)
    assert gap["asymmetry"] == pytest.approx(np.sqrt((across**2).mean()))
    of_w, of_star = sets.probability(("statistics", "boring")), sets.probability(("fun", "history"))
    assert gap["dependence"] == pytest.approx(np.log(of_w / (p[r] * p[s])))
    assert gap["kappa"] == pytest.approx(np.log(p[t] * p[u] / (p[r] * p[s])))
    assert gap["delta"] == pytest.approx(np.log(of_star / of_w))
    lengths = np.linalg.norm(factors.words[[r, s, t, u]], axis=1)
    word_gap = np.linalg.norm(sum(sign * factors.words[x] for x, sign in signs))
    assert gap["word_gap"] == pytest.approx(word_gap / lengths.mean())


def test_propositions_5_and_8_apply_to_balanced_independent_words():
    windows, tau = independent_windows(BALANCED), np.full(5, 2.0)
    sets = WordSets(windows)
    # The matrix of independent words has rank 1.
    check = check_proposition_5(truncated(sets, 1), sets, OF_BALANCED)
    assert check.applies and check.holds
    assert abs(check.measured["delta"]) < 1e-10 and check.measured["context_gap"] < 1e-8
    sets = WordSets(attention_windows(windows, tau, mask=1.0))
    scales = attention_scales(windows, tau, mask=1.0)
    own = unscaled(truncated(sets, 1), scales)
    check = check_proposition_5(own, sets, OF_BALANCED, scales=scales)
    assert check.statement == "Proposition 8"
    assert check.applies and check.holds and check.measured["spread of zeta"] < 1e-8


def test_what_propositions_5_and_8_assume_is_reported():
    uneven = WordSets(independent_windows((0.5, 0.2, 0.1, 0.1, 0.1)))
    check = check_proposition_5(truncated(uneven, 1), uneven, OF_BALANCED)
    assert check.failed_assumptions[0].startswith("p(W) = p(W*): got 2.3 nats apart")
    assert any("w_r + w_s = w_t + w_u" in failed for failed in check.failed_assumptions)
    sets, scales = toy_sets(attention=True), toy_scales()
    own = unscaled(truncated(sets, 12), scales)
    check = check_proposition_5(own, sets, QUESTION, scales=scales)
    assert not check.applies and check.holds
    for words in ("words of W must", "words of W* must", "p_bar(w_i, c_j) = p_bar(w_j, c_i): got"):
        assert words in "; ".join(check.failed_assumptions)
    assert check.measured["total variation"] == pytest.approx(asymmetry(sets.pairs * sets.context))
    flat = truncated(toy_sets(), 3)
    flat = replace(flat, words=flat.words * [1.0, 1.0, 0.0])
    check = check_proposition_5(flat, toy_sets(), QUESTION)
    assert not check.applies and not check.holds
    assert "`words` must have full row rank, got rank 2 in 3" in check.failed_assumptions[0]


def test_a_gap_beyond_what_premises_leave_fails():
    sets = WordSets(independent_windows(BALANCED))
    factors = truncated(sets, 1)
    moved = replace(factors, context=factors.context * [[2.0], [1.0], [1.0], [1.0], [1.0]])
    check = check_proposition_5(moved, sets, OF_BALANCED)
    assert not check.holds and "a gap of contexts of at most" in check.failed_conclusions[0]
    assert not check.applies and check.failed_assumptions[0].startswith("W C^T = M")


def drawn_errors(n=400, seed=0):
    """Errors whose second term makes questions fail, and all others are noise."""
    random = np.random.default_rng(seed)
    terms = random.standard_normal((n, len(TERMS), 3))
    answered = np.linalg.norm(terms[:, 1], axis=1) + random.standard_normal(n) < 1.7
    errors = AnalogyErrors(
        question=np.arange(n) * 2,
        categories=tuple(random.choice(["x", "y", "z"], size=n).tolist()),
        pair=random.integers(60, size=n),
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
    # Within relations only their own questions are compared.
    parts = [categories == name for name in "xyz"]
    weights = [failed[own].sum() * (~failed[own]).sum() for own in parts]
    scores = [roc_auc_score(failed[own], errors.norms[own, 1]) for own in parts]
    assert result["Delta"]["auc-within"].mean == pytest.approx(np.average(scores, weights=weights))
    split = replace(errors, categories=tuple(map(str, failed)))
    assert failure_predictors(split, answered, seed=0, n=20)["gap"].keys() == {"auc", "correlation"}


def test_the_term_that_matters_predicts_and_the_others_do_not():
    result = failure_predictors(*drawn_errors(seed=3), seed=1, n=300)
    assert result["Delta"]["auc"].low > 0.6 and result["Delta"]["correlation"].low > 0.2
    for name in ("rho", "delta", "rarity"):
        assert result[name]["auc"].low < 0.5 < result[name]["auc"].high
        assert result[name]["correlation"].low < 0 < result[name]["correlation"].high


def test_intervals_are_those_of_redrawn_pairs():
    """Copies of each question, of the same pair, say nothing new."""
    errors, answered = drawn_errors(n=120)
    errors = replace(errors, pair=np.arange(120))
    many = {name: np.repeat(value, 5, axis=0) for name, value in vars(errors).items()}
    many |= {"question": np.arange(600), "categories": tuple(many["categories"])}
    repeated = AnalogyErrors(**many), np.repeat(answered[::2], 5)
    auc, of_copies = (
        failure_predictors(*own, seed=0, n=200)["Delta"]["auc"]
        for own in ((errors, answered), repeated)
    )
    assert of_copies == pytest.approx(auc) and auc.low < auc.mean < auc.high


def test_a_term_that_is_rounding_predicts_nothing():
    errors, answered = drawn_errors()
    terms = errors.terms * np.array([1, 1, 1, 1e-15])[:, None]
    result = failure_predictors(replace(errors, terms=terms), answered, seed=0, n=20)["residual"]
    assert result["auc"] == (0.5, 0.5, 0.5) and result["correlation"] == (0.0, 0.0, 0.0)


def test_answers_of_one_kind_are_refused():
    errors, _ = drawn_errors(n=20)
    with pytest.raises(DataError, match="right and wrong answers, got 20 right of 20"):
        failure_predictors(errors, np.ones(40, dtype=bool), seed=0)
