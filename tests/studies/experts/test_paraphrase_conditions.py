"""Propositions 5 and 8: what analogies of context vectors take."""

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam_studies.experts.factorized import asymmetry
from exfam_studies.experts.paraphrases import (
    Factors,
    WordLaw,
    attention_scales,
    attention_windows,
    check_proposition_5,
    check_proposition_8,
    context_conditions,
    factorized_matrix,
    truncated_factors,
)
from studies.experts.paraphrase_cases import (
    independent_windows,
    toy_law,
    toy_questions,
    toy_scales,
    unscaled,
)

ASKED = ("history", "boring", "statistics", "fun")
# Independent words with p(a) p(b) = p(c) p(d).
BALANCED = (0.4, 0.1, 0.2, 0.2, 0.1)


def balanced_factors(law):
    """The matrix of independent words has rank 1."""
    return truncated_factors(factorized_matrix(law), 1)


def test_the_context_gap_is_the_sum_of_its_parts():
    for attention in (False, True):
        law = toy_law(attention=attention)
        factors = truncated_factors(factorized_matrix(law), 12)
        conditions = context_conditions(factors, law, toy_questions().questions).numbers
        assert conditions["part: residual"].max() < 1e-8
        assert len(conditions["delta"]) == 144 and conditions["context_gap"].min() > 0.01
        kappa = conditions["delta"] + conditions["dependence"] - conditions["dependence_star"]
        np.testing.assert_allclose(conditions["kappa"], kappa, atol=1e-12)
        assert (conditions["asymmetry"].max() > 0.1) == attention
        # Of CBOW, the words' part and kappa's are all.
        left = conditions["part: words"] + conditions["part: kappa"]
        assert attention or (conditions["context_gap"] <= left + 1e-8).all()


def test_conditions_are_those_of_their_formulas():
    law = toy_law(attention=True)
    factors = truncated_factors(factorized_matrix(law), 12)
    conditions = context_conditions(factors, law, [ASKED]).numbers
    u, s, r, t = (law.windows.code(word) for word in ASKED)
    joint = np.log(law.pairs * law.context)
    signs = [(r, 1), (s, 1), (t, -1), (u, -1)]
    across = sum(sign * (joint[:, x] - joint[x]) for x, sign in signs)
    assert conditions["asymmetry"][0] == pytest.approx(np.sqrt((across**2).mean()))
    p = law.context
    assert conditions["dependence"][0] == pytest.approx(
        np.log(law.probability(("statistics", "boring")) / (p[r] * p[s]))
    )
    assert conditions["kappa"][0] == pytest.approx(np.log(p[t] * p[u] / (p[r] * p[s])))
    assert conditions["delta"][0] == pytest.approx(
        np.log(law.probability(("fun", "history")) / law.probability(("statistics", "boring")))
    )
    gap = sum(sign * factors.words[x] for x, sign in signs)
    lengths = np.linalg.norm(factors.words[[r, s, t, u]], axis=1)
    assert conditions["word_gap"][0] == pytest.approx(np.linalg.norm(gap) / lengths.mean())


def test_proposition_5_applies_to_balanced_independent_words():
    law = WordLaw(independent_windows(BALANCED))
    check = check_proposition_5(balanced_factors(law), law, ("c", "a", "b", "d"))
    assert check.applies and check.holds
    assert abs(check.measured["delta"]) < 1e-10 and check.measured["context_gap"] < 1e-8


def test_proposition_8_applies_to_balanced_words_that_are_attended_alike():
    plain = independent_windows(BALANCED)
    tau = np.full(5, 2.0)
    law = WordLaw(attention_windows(plain, tau, mask=1.0))
    scales = attention_scales(plain, tau, mask=1.0)
    own = unscaled(balanced_factors(law), scales)
    check = check_proposition_8(own, law, ("c", "a", "b", "d"), scales=scales)
    assert check.applies and check.holds and check.measured["spread of zeta"] < 1e-8


def test_uneven_sets_are_reported():
    law = WordLaw(independent_windows((0.5, 0.2, 0.1, 0.1, 0.1)))
    check = check_proposition_5(balanced_factors(law), law, ("c", "a", "b", "d"))
    assert not check.applies
    assert check.failed_assumptions[0].startswith("p(W) = p(W*): got 2.3 nats apart")
    assert any("w_r + w_s = w_t + w_u" in each for each in check.failed_assumptions)


def test_dependent_words_and_asymmetry_are_reported():
    law, scales = toy_law(attention=True), toy_scales()
    own = unscaled(truncated_factors(factorized_matrix(law), 12), scales)
    check = check_proposition_8(own, law, ASKED, scales=scales)
    assert not check.applies and check.holds
    conditions = "; ".join(check.failed_assumptions)
    assert (
        "words of W must be independent" in conditions
        and "words of W* must be independent" in conditions
    )
    assert "p_bar(w_i, c_j) = p_bar(w_j, c_i): got these words' pairs" in conditions
    assert check.measured["total variation"] == pytest.approx(asymmetry(law.pairs * law.context))


def test_vectors_that_factorize_nothing_are_reported():
    law = toy_law()
    factors = truncated_factors(factorized_matrix(law), 12)
    # The words' vectors do not notice: the contexts' gap is not what they say.
    other = Factors(factors.words, factors.context[::-1].copy())
    check = check_proposition_5(other, law, ASKED)
    assert any(each.startswith("W C^T = M: got") for each in check.failed_assumptions)
    assert check.measured["part: residual"] > 0.1


def test_a_gap_beyond_what_premises_leave_fails():
    law = WordLaw(independent_windows(BALANCED))
    factors = balanced_factors(law)
    moved = Factors(factors.words, factors.context * np.array([[2.0], [1.0], [1.0], [1.0], [1.0]]))
    check = check_proposition_5(moved, law, ("c", "a", "b", "d"))
    assert not check.holds and "a gap of contexts of at most" in check.failed_conclusions[0]
    assert not check.applies and check.failed_assumptions[0].startswith("W C^T = M")


def test_words_without_full_row_rank_are_reported():
    law = toy_law()
    factors = truncated_factors(factorized_matrix(law), 3)
    flat = Factors(factors.words * np.array([1.0, 1.0, 0.0]), factors.context)
    check = check_proposition_5(flat, law, ASKED)
    assert not check.applies and not check.holds
    assert "`words` must have full row rank, got rank 2 in 3" in check.failed_assumptions[0]
    scales = toy_scales()
    check = check_proposition_8(flat, toy_law(attention=True), ASKED, scales=scales)
    assert "full row rank" in check.failed_assumptions[0] and not check.holds


def test_cbow_is_symmetric_and_attention_is_not():
    plain, law = toy_law(), toy_law(attention=True, smoothing=0.0)
    assert asymmetry(plain.pairs * plain.context) < 1e-12
    assert 0.1 < asymmetry(law.pairs * law.context) < 1


def test_what_cannot_be_measured_is_reported():
    factors = truncated_factors(factorized_matrix(toy_law()), 12)
    with pytest.raises(DataError, match="`questions` must hold at least one question"):
        context_conditions(factors, toy_law(), [])
    with pytest.raises(DataError, match=r"p\(I, is\) is 0"):
        context_conditions(factors, toy_law(smoothing=0.0), [("fun", "is", "I", "history")])
    with pytest.raises(DataError, match="each pair a probability above 0, got 0 for"):
        context_conditions(factors, toy_law(smoothing=0.0), [ASKED])
    with pytest.raises(ExfamError, match="`tolerance` must be a number > 0"):
        check_proposition_5(factors, toy_law(), ASKED, tolerance=0.0)
