"""Words and their vectors: a mapping that never stores a tied matrix twice."""

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.vectors import WordVectors
from exfam.vectors.queries import near_spellings

WORDS = ("the", "cat", "dog", "Paris")


def matrix(seed=0, rows=4, dim=3):
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


def test_it_is_a_mapping_from_words_to_center_vectors():
    vectors = WordVectors(WORDS, matrix(), matrix(1))
    assert list(vectors) == list(WORDS) and len(vectors) == 4 and vectors.dim == 3
    assert "cat" in vectors and "lion" not in vectors
    np.testing.assert_array_equal(vectors["dog"], matrix()[2])
    np.testing.assert_array_equal(vectors.get("dog"), matrix()[2])
    assert vectors.get("lion") is None and vectors.get("lion", 0) == 0
    assert vectors.codes(["Paris", "the"]).tolist() == [3, 0]


def test_context_and_both_are_what_they_say():
    center, context = matrix(), matrix(1)
    vectors = WordVectors(WORDS, center, context)
    assert vectors.matrix() is center and not vectors.tied
    np.testing.assert_array_equal(vectors.matrix("context"), context)
    np.testing.assert_array_equal(vectors.matrix("both"), center + context)


def test_tied_vectors_equal_untied_ones_of_the_reflected_matrix():
    signs = np.array([1, -1, -1], dtype=np.int8)
    tied = WordVectors(WORDS, matrix(), signs=signs)
    untied = WordVectors(WORDS, matrix(), matrix() * signs)
    assert tied.tied and tied.context is None
    for of in ("center", "context", "both"):
        assert tied.matrix(of).dtype == np.float32
        np.testing.assert_array_equal(tied.matrix(of), untied.matrix(of))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"words": (), "center": np.zeros((0, 3))}, "`center` must hold at least one word"),
        ({"center": np.zeros((3, 3))}, r"a row for each of 4 words .* got 3 x 3"),
        ({"center": np.zeros((4, 0))}, r"at least one column, got 4 x 0"),
        (
            {"words": ("a", "b", "a", "b")},
            r"each word once, got .a. at row 0 and again at row 2",
        ),
        ({"center": [[0.0], [np.nan], [0.0], [np.inf]]}, r"row 1 \(word 'cat'; 2 of 4 rows\)"),
        ({"context": np.zeros((4, 2))}, "`context` must have the shape of `center`, 4 x 3, got 4"),
        ({"context": np.full((4, 3), np.nan)}, "`context` must be finite, got nan or inf in row 0"),
        ({"context": np.zeros((4, 3)), "signs": [1, 1, 1]}, "None where `context` is given, got"),
        ({"signs": [1, -1]}, "one sign for each of 3 columns, got 2"),
        ({"signs": [1, 0, 1]}, r"`signs` must be -1 or \+1, got 0 in column 1"),
    ],
)
def test_what_does_not_fit_is_refused(fields, message):
    kinds = {"center": np.float32, "context": np.float32, "signs": np.int8}
    given = {"words": WORDS, "center": matrix(), **fields}
    given = {k: np.array(v, dtype=kinds[k]) if k in kinds else v for k, v in given.items()}
    with pytest.raises(DataError, match=message):
        WordVectors(**given)


def test_another_matrix_is_refused():
    vectors = WordVectors(WORDS, matrix())
    with pytest.raises(ExfamError, match="`of` must be one of 'center', 'context', 'both'"):
        vectors.matrix("output")
    with pytest.raises(DataError, match="must be 'center' for vectors without context vectors"):
        vectors.matrix("both")


def test_an_unknown_word_is_refused_with_near_spellings():
    vectors = WordVectors(WORDS, matrix())
    with pytest.raises(UnknownItemError, match=r"4 known words, got 'paris'. Near: 'Paris'\.$"):
        vectors["paris"]
    with pytest.raises(KeyError, match="got 'zzzzzz'. No known word is spelled alike"):
        vectors.code("zzzzzz")


def test_near_spellings_are_bounded_and_nearest_first():
    words = [f"b{i:05d}" for i in range(5000)] + ["kitchen", "kitten"]
    assert near_spellings("kitchn", words) == ["kitchen", "kitten"]
    assert near_spellings("", words) == []


@pytest.mark.parametrize("word", [3, None, np.array([1]), ["a"], b"a"])
def test_what_is_no_word_is_unknown(word):
    vectors = WordVectors(WORDS, matrix())
    with pytest.raises(UnknownItemError, match="`word` must be one of 4 known words, got .*alike"):
        vectors.code(word)
    with pytest.raises(UnknownItemError, match="`word` must be one of 4 known words"):
        vectors.codes([word])


@pytest.mark.parametrize("words", [3, "cat", None, 0.5, np.array("cat"), torch.tensor(2)])
def test_what_is_no_list_of_words_is_refused(words):
    with pytest.raises(DataError, match="`words` must be a list of words, got"):
        WordVectors(WORDS, matrix()).codes(words)
