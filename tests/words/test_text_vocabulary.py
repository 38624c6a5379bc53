"""Vocabularies, and how often their words are kept and drawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.reading.text import Vocabulary, keep_probability, noise_probability

COUNTS = st.dictionaries(st.text("abcé", min_size=1, max_size=3), st.integers(0, 2**40), min_size=1)


@settings(max_examples=20)
@given(one=COUNTS, other=COUNTS)
def test_a_vocabulary_grows_and_is_read_as_it_was_written(tmp_path_factory, one, other):
    first, second = Vocabulary.counted(one), Vocabulary.counted(other)
    grown = first.grown(second)
    assert grown.words[: len(first)] == first.words
    assert set(grown.words) == {*one, *other} and len(grown) == len({*one, *other})
    for word in grown.words:
        assert grown.counts[grown.code(word)] == one.get(word, 0) + other.get(word, 0)
    assert grown.n_tokens == grown.counts.sum()
    with pytest.raises(UnknownItemError, match="words of the vocabulary, got 'zzzz'"):
        grown.code("zzzz")
    file = tmp_path_factory.mktemp("words") / "words.json"
    grown.write_json(file)
    again = Vocabulary.read_json(file)
    assert again.words == grown.words and again.n_tokens == grown.n_tokens
    assert again.counts.tolist() == grown.counts.tolist()


@pytest.mark.parametrize(
    ("words", "counts", "message"),
    [
        (("a", "b"), [1], "`counts` must be one a word, got 1 for 2 words"),
        (("a", "b"), [1, -2], "`counts` must be >= 0, got -2 for 'b' at code 1"),
        (("a", "b", "a"), [1, 2, 3], "each word once, got 'a' more than once"),
    ],
)
def test_words_and_counts_that_do_not_fit(words, counts, message):
    with pytest.raises(DataError, match=message):
        Vocabulary(words, np.array(counts, np.int64), 9)


@pytest.mark.parametrize(
    "held", [None, "the 5", "[1]", '{"words": ["a"]}', '{"words": 1, "counts": [], "n_tokens": 1}']
)
def test_a_file_of_something_else(tmp_path, held):
    file = tmp_path / "words.json"
    if held is not None:
        file.write_text(held)
    with pytest.raises(DataError, match="`path` must be a file of a vocabulary, got .*words"):
        Vocabulary.read_json(file)


def test_keeping_is_the_formula_of_word2vec():
    assert np.all(keep_probability(np.array([9, 0]), 0) == 1)
    counts = np.array([900, 90, 10])
    for count, kept in zip(counts, keep_probability(counts, 1e-2), strict=True):
        c_code = (np.sqrt(count / (1e-2 * 1000)) + 1) * (1e-2 * 1000) / count
        assert kept == pytest.approx(min(c_code, 1))


@given(counts=st.lists(st.integers(0, 2**50), min_size=1), exponent=st.floats(0.1, 4))
def test_noise_is_the_share_of_powers(counts, exponent):
    counts = np.array([*counts, 1])
    powers = (counts / counts.max()) ** exponent
    np.testing.assert_allclose(noise_probability(counts, exponent), powers / powers.sum())
    assert np.unique(noise_probability(counts[counts > 0], 0)).size == 1


@pytest.mark.parametrize("probability", [keep_probability, noise_probability])
def test_what_cannot_be(probability):
    with pytest.raises(ExfamError, match="must be a number >= 0, got -1"):
        probability(np.array([1, 2]), -1)
    with pytest.raises(DataError, match="`counts` must be >= 0, got -2 at word 1"):
        probability(np.array([1, -2]), 0.5)
    with pytest.raises(DataError, match="must have one above 0, got 2 words without any"):
        probability(np.array([0, 0]), 0.5)
