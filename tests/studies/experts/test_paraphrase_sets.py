"""Probabilities of word sets are those of going through every sentence; Lemmas 11 and 15."""

import itertools

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.text import prepare_text
from exfam.vectors.neighbors import UnknownWordError
from exfam_studies.experts.paraphrases.analogies import attention_scales
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
