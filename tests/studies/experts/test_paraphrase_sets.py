"""Probabilities of word sets, the lemmas about them, and what they say of analogies."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import roc_auc_score

from exfam.checks import DataError, ExfamError
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.reading.text import prepare_text
from exfam.vectors.queries import UnknownWordError
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
from exfam_studies.experts.paraphrases.lemmas import check_lemma_11, disjoint_pairs, enumerate_sets
from exfam_studies.experts.paraphrases.windows import (
    attention_windows,
    sentence_windows,
    text_windows,
)
from exfam_studies.experts.paraphrases.word_sets import (
    WordSets,
    factorized_matrix,
    paraphrase_terms,
)
from exfam_studies.experts.toy_sentences import toy_population, toy_sentences
from studies.experts.paraphrase_cases import MASK, drawn_tau, toy_sets, toy_windows


def given(sets, words):
    return sets.given_context(words)[0]


def random_sentences(seed):
    """Sentences of 1 to 6 words, in which words repeat."""
    random = np.random.default_rng(seed)
    drawn = [list(random.choice(list("abcde"), size=n)) for n in random.integers(1, 7, size=25)]
    # No word is always alone.
    return [list("abcde"), *drawn], random.uniform(0.1, 1, size=26)


def tau_of(words, seed=0):
    return dict(zip(words, drawn_tau(len(words), seed).tolist(), strict=True)), MASK


@pytest.mark.parametrize(("size", "window"), [(1, 1), (1, None), (2, 2), (2, None), (3, 2)])
@pytest.mark.parametrize("attention", [False, True])
def test_sets_have_the_probabilities_of_enumeration(size, window, attention):
    sentences, probability = random_sentences(seed=size)
    windows, tau = sentence_windows(sentences, probability=probability, window=window), None
    if attention:
        tau = tau_of(windows.words)
        windows = attention_windows(windows, drawn_tau(len(windows.words)), mask=MASK)
    sets = WordSets(windows)
    slow = enumerate_sets(sentences, probability.tolist(), size=size, tau=tau, window=window)
    n_seen = 0
    for words in itertools.combinations(sets.words, size):
        expected = [slow.get((frozenset(words), word), 0.0) for word in sets.words]
        np.testing.assert_allclose(given(sets, words) * sets.context, expected, atol=1e-14)
        assert sets.probability(words) == pytest.approx(sum(expected))
        n_seen += sum(expected) > 0
    assert n_seen >= 3
    # Both are of one distribution.
    np.testing.assert_allclose(sets.pairs @ sets.context, sets.center)


def test_pairs_are_those_that_the_kernel_counts():
    # Words that are left out keep their positions.
    for lines, n_words in ((toy_sentences(300, seed=0), 12), (["a b a c", "a a b"], 2)):
        text = prepare_text(lines, min_count=1)
        sets = WordSets(text_windows(text, window=2, n_words=n_words))
        counts = count_cooccurrences(text.tokens, n_words, window=2).toarray()
        np.testing.assert_allclose(sets.pairs * sets.context, counts / counts.sum(), atol=1e-14)


def test_independent_words_have_no_dependence():
    sentences = list(itertools.product("abcd", repeat=3))
    p = dict(zip("abcd", (0.4, 0.1, 0.2, 0.3), strict=True))
    weight = np.array([np.prod([p[word] for word in sentence]) for sentence in sentences])
    sets = WordSets(sentence_windows(sentences, probability=weight))
    terms = paraphrase_terms(sets, ["a", "b"], ["c", "d"])
    np.testing.assert_allclose([terms.sigma, terms.sigma_star, terms.rho], 0, atol=1e-12)
    np.testing.assert_allclose([terms.delta, *terms.xi], np.log(0.06 / 0.04))


def test_scales_are_the_papers_sums():
    sentences, probability = random_sentences(seed=9)
    windows = sentence_windows(sentences, probability=probability)
    of_word, _ = tau_of(windows.words)
    sums = {word: np.zeros(3) for word in windows.words}
    for sentence, p in zip(sentences, probability, strict=True):
        for center, context in itertools.permutations(range(len(sentence)), 2):
            others = [of_word[word] for m, word in enumerate(sentence) if m != center]
            gamma = of_word[sentence[context]] / (MASK + sum(others))
            sums[sentence[context]] += p * np.array([gamma, gamma**2, len(sentence) * gamma**2])
    scales = attention_scales(windows, drawn_tau(len(windows.words)), mask=MASK)
    table = np.array([sums[word] for word in windows.words])
    np.testing.assert_allclose(scales.zeta, table[:, 1] / table[:, 0])
    np.testing.assert_allclose(scales.scale, table[:, 2] / table[:, 0])
    assert scales.spread > 0.1


def test_smoothing_moves_sets_towards_independent_words():
    counted, smoothed, words = toy_sets(smoothing=0.0), toy_sets(smoothing=0.2), ("I", "history")
    apart = np.prod([counted.center[counted.windows.code(word)] for word in words])
    assert not given(counted, words).all()
    np.testing.assert_allclose(given(smoothed, words), 0.8 * given(counted, words) + 0.2 * apart)
    np.testing.assert_allclose(smoothed.center, counted.center)


def test_shrinkage_moves_sets_towards_words_independent_given_the_context():
    words, singles = ("fun", "history"), toy_sets(smoothing=0.1)
    apart = given(singles, ["fun"]) * given(singles, ["history"])
    np.testing.assert_allclose(given(toy_sets(shrinkage=1e12), words), apart)
    # Never seen together with "I": expected, yet not there.
    counted = given(toy_sets(smoothing=0.0), words)
    np.testing.assert_allclose(given(toy_sets(shrinkage=1e-12), words), counted, atol=1e-12)
    np.testing.assert_allclose(given(toy_sets(shrinkage=1.0), ["fun"]), given(singles, ["fun"]))


def test_the_matrix_needs_all_pairs():
    sets = toy_sets()
    np.testing.assert_allclose(factorized_matrix(sets), np.log(sets.pairs) + np.log(12))
    with pytest.raises(DataError, match="0 for 'I' around 'I' .*Take smoothing above 0"):
        factorized_matrix(toy_sets(smoothing=0.0))


@pytest.mark.parametrize("attention", [False, True])
def test_the_lemmas_are_identities_on_the_toy_grammar(attention):
    tau = tau_of(toy_windows().words) if attention else None
    check = check_lemma_11(*toy_population(), tau=tau)
    assert check.applies and check.holds and check.measured["max difference"] < 1e-8
    assert check.statement == ("Lemma 15" if attention else "Lemma 11")
    # All pairs of sets of two of 12 words that share none; 31 % of the cells are finite.
    assert check.measured["pairs of sets"] == 66 * 45 / 2
    assert (check.measured["cells"], check.measured["finite cells"]) == (1485 * 12, 5549)
    pairs = disjoint_pairs(["mathematics", "history", "fun", "boring", "is", "and"], 3)
    check = check_lemma_11(*toy_population(), tau=tau, pairs=pairs)
    assert check.holds and check.measured["finite cells"] > 0


def test_what_is_no_case_of_the_lemma_is_reported():
    check = check_lemma_11(*toy_population(), pairs=[(("boring", "history"), ("is",))])
    assert not check.applies and not check.holds
    assert "2 and 1 in W = {boring, history}, W* = {is}" in check.failed_assumptions[0]
    check = check_lemma_11(*toy_population(), pairs=[(("I", "is"), ("fun", "history"))])
    assert not check.applies and check.measured["finite cells"] == 0
    assert check.failed_assumptions[0] == "p(W) must be above 0, got 0 for {I, is}"


def test_a_wrong_probability_is_noticed(monkeypatch):
    right = WordSets._drawn
    monkeypatch.setattr(
        WordSets, "_drawn", lambda sets, at, members: right(sets, at, members) * (1 + at % 3)
    )
    check = check_lemma_11(*toy_population(), pairs=disjoint_pairs(toy_windows().words)[::10])
    assert not check.holds and check.measured["max difference"] > 0.1


def test_what_has_no_probability_is_refused():
    with pytest.raises(DataError, match="`words` must be different, got one twice in fun, fun"):
        toy_sets().probability(["fun", "fun"])
    with pytest.raises(UnknownWordError, match="got 'histroy'. Near: 'history'"):
        toy_sets().probability(["fun", "histroy"])
    with pytest.raises(DataError, match="none around 'c' \\(1 of 3 words\\)"):
        WordSets(sentence_windows([["a", "b"], ["c"]]))
    with pytest.raises(ExfamError, match="`smoothing` must be a number in"):
        toy_sets(smoothing=1.0)


@pytest.mark.parametrize(
    ("tau", "mask", "message"),
    [
        (np.ones(2), 1.0, "for each of 3 words, got 2"),
        (np.array([1.0, 0.0, 1.0]), 1.0, "a finite number > 0 .* from 0 to 1"),
        (np.array([1.0, 1.0, np.inf]), 1.0, "from 1 to inf"),
        (np.ones(3), 0.0, "`mask` must be a number > 0"),
    ],
)
def test_other_attention_is_refused(tau, mask, message):
    with pytest.raises(ExfamError, match=message):
        attention_windows(sentence_windows([["a", "b", "c"]]), tau, mask=mask)


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
