"""Probabilities of word sets are those of going through every sentence."""

import itertools

import numpy as np
import pytest
import scipy.stats

from exfam.checks import DataError, ExfamError
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.text import prepare_text
from exfam.vectors.queries import UnknownWordError
from exfam_studies.experts.paraphrases import (
    WordLaw,
    attention_scales,
    attention_windows,
    enumerate_law,
    factorized_matrix,
    paraphrase_terms,
    sentence_windows,
    text_windows,
)
from exfam_studies.experts.toy_sentences import toy_population, toy_sentences
from studies.experts.paraphrase_cases import (
    MASK,
    drawn_tau,
    independent_windows,
    toy_law,
    toy_windows,
)


def test_sentences_are_drawn_from_the_population():
    sentences, probability = toy_population()
    assert probability.sum() == pytest.approx(1) and len(set(sentences)) == len(sentences)
    drawn = [tuple(each) for each in toy_sentences(20_000, seed=5)]
    assert set(drawn) <= set(sentences)
    counts = np.array([drawn.count(each) for each in sentences])
    assert scipy.stats.chisquare(counts, 20_000 * probability).pvalue > 0.001


def random_sentences(seed):
    """Sentences of 1 to 6 words, in which words repeat."""
    random = np.random.default_rng(seed)
    words = np.array(list("abcde"))
    # Longer ones too, so that no word is always alone.
    drawn = [list(words[random.integers(5, size=n)]) for n in random.integers(1, 7, size=25)]
    return [list("abcde"), *drawn], random.uniform(0.1, 1, size=26)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("window", [None, 1, 2])
@pytest.mark.parametrize("attention", [False, True])
def test_sets_have_the_probabilities_of_enumeration(size, window, attention):
    sentences, probability = random_sentences(seed=size)
    windows, tau = sentence_windows(sentences, probability=probability, window=window), None
    if attention:
        drawn = drawn_tau(len(windows.words))
        tau = (dict(zip(windows.words, drawn.tolist(), strict=True)), MASK)
        windows = attention_windows(windows, drawn, mask=MASK)
    law = WordLaw(windows)
    slow = enumerate_law(sentences, probability.tolist(), size=size, tau=tau, window=window)
    found = 0
    for words in itertools.combinations(law.words, size):
        expected = [slow.joint.get((frozenset(words), word), 0.0) for word in law.words]
        np.testing.assert_allclose(law.given_context(words) * law.context, expected, atol=1e-14)
        assert law.probability(words) == pytest.approx(sum(expected))
        if sum(expected):
            found += 1
            result = [slow.context_given(frozenset(words), word) for word in law.words]
            np.testing.assert_allclose(law.context_given(words), result, atol=1e-12)
    assert found >= 3 or (size, window) == (3, 1)


def test_pairs_are_those_that_the_kernel_counts():
    text = prepare_text(toy_sentences(300, seed=0), min_count=1)
    law = WordLaw(text_windows(text, window=2))
    counts = count_cooccurrences(text.tokens, len(law.words), window=2).toarray()
    np.testing.assert_allclose(law.pairs, counts / counts.sum(axis=0), atol=1e-14)
    np.testing.assert_allclose(law.context, counts.sum(axis=0) / counts.sum(), atol=1e-14)


def test_words_that_are_left_out_keep_their_places():
    text = prepare_text(["a b a c", "a a b"], min_count=1)
    law = WordLaw(text_windows(text, window=2, n_words=2))
    counts = count_cooccurrences(text.tokens, 2, window=2).toarray()
    assert law.words == ("a", "b")
    np.testing.assert_allclose(law.pairs * law.context, counts / counts.sum())


@pytest.mark.parametrize("attention", [False, True])
def test_probabilities_belong_to_one_law(attention):
    law = toy_law(attention=attention)
    np.testing.assert_allclose(law.pairs.sum(axis=0), 1)
    np.testing.assert_allclose(law.pairs @ law.context, law.center)
    for at, word in enumerate(law.words):
        np.testing.assert_allclose(law.centers_given(word), law.pairs[:, at], atol=1e-12)
    words = ("fun", "history")
    given = law.context_given(words)
    assert given.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        given * law.probability(words), law.given_context(words) * law.context
    )


def test_the_first_of_two_words_is_drawn_as_a_single_one():
    """With equal weights, sets of two and their words' repetition sum to p(w_i | c_j)."""
    law = WordLaw(toy_windows())
    others = [word for word in law.words if word != "like"]
    # "like" stands in a sentence once.
    total = sum(law.given_context(["like", other]) for other in others)
    np.testing.assert_allclose(total, law.given_context(["like"]), atol=1e-14)


def test_independent_words_have_no_dependence():
    law = WordLaw(independent_windows([0.4, 0.1, 0.2, 0.3]))
    terms = paraphrase_terms(law, ["a", "b"], ["c", "d"])
    np.testing.assert_allclose([terms.sigma, terms.sigma_star, terms.rho], 0, atol=1e-12)
    assert terms.delta == pytest.approx(np.log(0.06 / 0.04))
    assert terms.finite.all() and terms.seen.all() and np.abs(terms.rho).max() < 1e-12
    np.testing.assert_allclose(terms.xi, terms.delta)


def test_gamma_is_the_attention_of_the_masked_word():
    plain = sentence_windows([["a", "b", "c", "a"]])
    tau = np.array([1.0, 2.0, 5.0])
    windows = attention_windows(plain, tau, mask=0.5)
    gamma = np.outer(windows.as_center[:4], windows.as_context[:4])
    # "b" masked: a, c, a and MASK are left.
    assert gamma[1, 2] == pytest.approx(5 / (1 + 5 + 1 + 0.5))
    assert gamma[0, 3] == pytest.approx(1 / (2 + 5 + 1 + 0.5))


def test_attention_to_all_alike_is_cbow():
    plain = toy_windows()
    law = WordLaw(attention_windows(plain, np.full(12, 3.0), mask=1.5))
    np.testing.assert_allclose(law.pairs, WordLaw(plain).pairs, atol=1e-12)
    np.testing.assert_allclose(
        law.given_context(["fun", "history"]), WordLaw(plain).given_context(["fun", "history"])
    )


def test_scales_are_the_papers_sums():
    sentences, probability = random_sentences(seed=9)
    windows = sentence_windows(sentences, probability=probability)
    tau = drawn_tau(len(windows.words))
    of_word = dict(zip(windows.words, tau, strict=True))
    sums = {word: np.zeros(3) for word in windows.words}
    for sentence, p in zip(sentences, probability, strict=True):
        for center, context in itertools.permutations(range(len(sentence)), 2):
            others = [of_word[word] for m, word in enumerate(sentence) if m != center]
            gamma = of_word[sentence[context]] / (MASK + sum(others))
            sums[sentence[context]] += p * np.array([gamma, gamma**2, len(sentence) * gamma**2])
    scales = attention_scales(windows, tau, mask=MASK)
    table = np.array([sums[word] for word in windows.words])
    np.testing.assert_allclose(scales.zeta, table[:, 1] / table[:, 0])
    np.testing.assert_allclose(scales.scale, table[:, 2] / table[:, 0])
    assert scales.spread > 0.1


def test_smoothing_moves_sets_towards_independent_words():
    counted, smoothed = toy_law(smoothing=0.0), toy_law(smoothing=0.2)
    words = ("I", "history")
    apart = np.prod([counted.center[code] for code in counted.codes(words)])
    assert not counted.given_context(words).all()
    np.testing.assert_allclose(
        smoothed.given_context(words), 0.8 * counted.given_context(words) + 0.2 * apart
    )
    np.testing.assert_allclose(smoothed.center, counted.center)


def test_shrinkage_moves_sets_towards_words_independent_given_the_context():
    words = ("fun", "history")
    singles = toy_law(smoothing=0.1)
    apart = singles.given_context(["fun"]) * singles.given_context(["history"])
    strong = toy_law(shrinkage=1e12).given_context(words)
    np.testing.assert_allclose(strong, apart)
    weak = toy_law(shrinkage=1e-12).given_context(words)
    # Never seen together with "I": expected, yet not there.
    counted = toy_law(smoothing=0.0).given_context(words)
    np.testing.assert_allclose(weak, counted, atol=1e-12)
    one = toy_law(shrinkage=1.0)
    np.testing.assert_allclose(one.given_context(["fun"]), singles.given_context(["fun"]))


def test_terms_are_those_of_their_formulas():
    law = toy_law(attention=True)
    w, star = ("fun", "history"), ("boring", "statistics")
    terms = paraphrase_terms(law, w, star)
    pairs = dict(zip(law.words, law.pairs, strict=True))
    np.testing.assert_allclose(
        terms.sigma, np.log(law.given_context(w) / (pairs["fun"] * pairs["history"]))
    )
    np.testing.assert_allclose(terms.rho, np.log(law.context_given(star) / law.context_given(w)))
    np.testing.assert_allclose(terms.xi, terms.rho + terms.delta)
    assert np.abs(terms.rho).max() > 0.1


def test_the_matrix_needs_all_pairs():
    matrix = factorized_matrix(toy_law())
    np.testing.assert_allclose(matrix, np.log(toy_law().pairs) + np.log(12))
    with pytest.raises(DataError, match="0 for 'I' around 'I' .*Take smoothing above 0"):
        factorized_matrix(toy_law(smoothing=0.0))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "got an empty one"),
        (["fun", "fun"], "must be a set of different words, got 'fun' twice"),
        (["fun", "histroy"], "got 'histroy'. Near: 'history'"),
    ],
)
def test_sets_that_are_none_are_refused(words, message):
    with pytest.raises(DataError, match=message):
        toy_law().probability(words)


def test_unknown_words_are_told():
    with pytest.raises(UnknownWordError, match="Near: 'boring'"):
        toy_law().centers_given("borring")


@pytest.mark.parametrize("which", [0, 1])
def test_sets_that_never_occur_have_no_terms(which):
    law = toy_law(smoothing=0.0)
    sets = [("I", "is"), ("fun", "history")]
    assert law.probability(sets[0]) == 0 and not law.given_and_seen(sets[0])[1].any()
    with pytest.raises(DataError, match=r"`words` must occur together: p\(I, is\) is 0"):
        paraphrase_terms(law, sets[which], sets[1 - which])
    with pytest.raises(DataError, match=r"p\(I, is\) is 0"):
        law.context_given(sets[0])


def test_words_that_are_always_alone_are_refused():
    with pytest.raises(DataError, match="none around 'c' \\(1 of 3 words\\)"):
        WordLaw(sentence_windows([["a", "b"], ["c"]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"smoothing": 1.0}, "`smoothing` must be a number in"),
        ({"shrinkage": 0.0}, "`shrinkage` must be a number > 0"),
    ],
)
def test_other_smoothing_is_refused(arguments, message):
    with pytest.raises(ExfamError, match=message):
        WordLaw(toy_windows(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentences": [[]]}, "`sentences` must hold at least one word"),
        ({"probability": np.ones(2)}, "one number a sentence, got shape \\(2,\\) for 1"),
        ({"probability": np.array([-1.0])}, "`probability` must be finite numbers >= 0"),
        ({"window": 0}, "`window` must be an integer >= 1"),
    ],
)
def test_sentences_that_are_none_are_refused(arguments, message):
    with pytest.raises(ExfamError, match=message):
        sentence_windows(**{"sentences": [["a", "b"]], **arguments})


def test_other_numbers_of_words_are_refused():
    with pytest.raises(ExfamError, match="`n_words` must be an integer >= 1"):
        text_windows(prepare_text(["a b"], min_count=1), n_words=0)


@pytest.mark.parametrize(
    ("tau", "mask", "message"),
    [
        (np.ones(2), 1.0, "one number a word, got 2 for 3 words"),
        (np.array([1.0, 0.0, 1.0]), 1.0, "finite numbers > 0, got 0.0 for 'b'"),
        (np.array([1.0, 1.0, np.inf]), 1.0, "got inf for 'c'"),
        (np.ones(3), 0.0, "`mask` must be a number > 0"),
    ],
)
def test_other_attention_is_refused(tau, mask, message):
    with pytest.raises(ExfamError, match=message):
        attention_windows(sentence_windows([["a", "b", "c"]]), tau, mask=mask)


def test_attention_is_given_once():
    windows = attention_windows(sentence_windows([["a", "b", "c"]]), np.ones(3), mask=1.0)
    assert repr(windows) == "Windows(3 words at 3 places)"
    with pytest.raises(DataError, match="weighed by attention already"):
        attention_windows(windows, np.ones(3), mask=1.0)
