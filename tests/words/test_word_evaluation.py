"""Scores of similarity and analogies: gensim and scipy as witnesses, both ways to count."""

import math

import numpy as np
import pytest
import scipy.stats

from exfam.checks import DataError, ExfamError
from exfam.reading.public_sets.word_pairs import PAIR_SETS, WordPairs, read_word_pairs, word_pairs
from exfam.reading.public_sets.word_questions import (
    WordQuestions,
    read_word_questions,
    word_questions,
)
from exfam.vectors import AnalogyReport, WordVectors, evaluate_analogies, evaluate_similarity
from exfam.vectors.evaluation import rank_correlation
from words.vector_cases import matrix, some_vectors


def some_pairs(n=200, *, rows=60, seed=4):
    """Pairs of words of which some are unknown, with scores in ties."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, rows + 15, (n, 2))
    pairs = tuple((f"w{a}", f"w{b}") for a, b in codes)
    return WordPairs("some", pairs, rng.integers(0, 20, n) / 2)


def regular_vectors(n=30, dim=24, seed=0):
    """Words a0, b0, a1, b1, ... with nearly the same offset from each a to its b."""
    rng = np.random.default_rng(seed)
    center = np.empty((2 * n, dim), dtype=np.float32)
    center[::2] = rng.normal(size=(n, dim))
    center[1::2] = center[::2] + rng.normal(size=dim) + 0.7 * rng.normal(size=(n, dim))
    return WordVectors(tuple(f"{x}{i}" for i in range(n) for x in "ab"), center)


def some_questions(n=300, *, words=36, seed=1):
    """Questions in two categories; words from 30 on are unknown."""
    rng = np.random.default_rng(seed)
    pairs = [rng.choice(words, 2, replace=False) for _ in range(n)]
    questions = tuple((f"a{i}", f"b{i}", f"a{j}", f"b{j}") for i, j in pairs)
    categories = tuple(np.where(np.arange(n) < n // 3, "capital", "gram1-plural").tolist())
    return WordQuestions(
        "some", questions, categories, {"capital": "semantic", "gram1-plural": "syntactic"}
    )


def test_rank_correlation_is_not_defined_for_equal_values():
    assert math.isnan(rank_correlation(np.ones(3), np.arange(3.0)))
    assert math.isnan(rank_correlation(np.ones(1), np.ones(1)))


def test_missing_words_are_kept_at_0_or_skipped():
    vectors, pairs = some_vectors(), some_pairs()
    score = evaluate_similarity(vectors, pairs)
    known = np.array([a in vectors and b in vectors for a, b in pairs.pairs])
    cosine = np.array(
        [vectors.similarity(a, b) if k else 0 for (a, b), k in zip(pairs.pairs, known, strict=True)]
    )
    assert 0 < known.sum() < len(pairs) == score.n_pairs
    assert score.n_covered == known.sum() and score.coverage == known.mean()
    assert score.kept == pytest.approx(scipy.stats.spearmanr(cosine, pairs.scores)[0], abs=1e-6)
    expected = scipy.stats.spearmanr(cosine[known], pairs.scores[known])[0]
    assert score.skipped == pytest.approx(expected, abs=1e-6) != score.kept


def test_words_are_looked_for_in_lower_case_too_and_zeros_are_not_covered():
    center = np.array([[1, 0], [0, 1], [1, 0.1], [1, 1], [0, 0]], dtype=np.float32)
    vectors = WordVectors(("Polish", "polish", "athens", "greece", "zero"), center)
    # Ranked as letters, 9 would be above 10.
    given = ("Polish", "Athens"), ("polish", "Athens"), ("zero", "athens")
    score = evaluate_similarity(vectors, WordPairs("x", given, np.array([10.0, 9.0, 8.0])))
    assert score.n_covered == 2 and score.skipped == 1
    assert str(score).endswith(" of all 3 pairs, 1.000 of the 2 covered (67 %)")
    given = ("Polish", "polish", "athens", "zero"), ("Polish", "polish", "athens", "greece")
    questions = WordQuestions("x", given, ("x", "x"), {})
    assert evaluate_analogies(vectors, questions).total.n_covered == 1


def test_nothing_covered_is_nan_and_not_an_error():
    pairs = WordPairs("x", (("p", "q"), ("q", "r")), np.arange(2.0))
    score = evaluate_similarity(some_vectors(), pairs)
    assert math.isnan(score.kept) and math.isnan(score.skipped) and score.coverage == 0
    few = WordVectors(("p", "q", "r"), matrix(rows=3))
    for vectors, n_covered in ((some_vectors(), 0), (few, 1)):
        questions = WordQuestions("x", (("p", "q", "r", "p"),), ("x",), {})
        total = evaluate_analogies(vectors, questions).total
        assert total.accuracy == 0 and math.isnan(total.accuracy_covered) == (not n_covered)


@pytest.mark.parametrize("among", [None, 40])
@pytest.mark.parametrize("rule", ["3cosadd", "3cosmul"])
def test_analogies_are_counted_as_in_the_source(rule, among):
    """Its guess, written down: all cosines but those of the words in question."""
    vectors, questions = regular_vectors(), some_questions()
    known = vectors.words[:among]
    unit = vectors.center / np.linalg.norm(vectors.center, axis=1, keepdims=True)
    shifted = (unit @ unit.T + 1) / 2
    right = []
    for a, b, c, d in questions.questions:
        if not {a, b, c, d} <= set(known):
            right.append(False)
            continue
        i, j, k = vectors.codes([a, b, c])
        scores = shifted[j] - shifted[i] + shifted[k]
        scores = scores if rule == "3cosadd" else shifted[j] * shifted[k] / (shifted[i] + 0.01)
        scores[[i, j, k]] = 0
        right.append(known[np.argmax(scores[: len(known)])] == d)
    report = evaluate_analogies(vectors, questions, rule=rule, among=among)
    assert 0.1 < np.mean(right) < 0.95
    assert report.total.accuracy == np.mean(right)
    capital, plural = report.categories
    assert [capital.n_correct, plural.n_correct] == [sum(right[:100]), sum(right[100:])]
    assert report.semantic.n_questions == capital.n_questions == 100
    assert report.total.n_covered == capital.n_covered + plural.n_covered < 300
    assert AnalogyReport("x", "3cosadd", ()).semantic is None
    lines = str(report).splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["semantic", "syntactic", "total"]
    assert f"{report.total.n_covered} / 300" in lines[-1]


@pytest.mark.parametrize(
    "text",
    [
        "cat\tdog\t7.5\r\ntiger\tcat\t1e1\r\n",
        "word1,word2,score\ncat,dog,7.5\n\ntiger, cat ,10\n",
        "cat dog  7.5\ntiger cat 10",
    ],
)
def test_forms_of_pairs_that_mean_the_same(tmp_path, text):
    (tmp_path / "p.txt").write_bytes(text.encode())
    read = read_word_pairs(tmp_path / "p.txt")
    assert read.pairs == (("cat", "dog"), ("tiger", "cat")) and read.scores.tolist() == [7.5, 10]
    assert read.name == "p.txt" and len(read) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a b 1\na b\n", "two words and a finite number .* got 'a b' at line 2 of .*/p"),
        (b"a b 1\na b nan\n", "got 'a b nan' at line 2 of"),
        (b"a,b,1\na,,2\n", "got 'a,,2' at line 2 of"),
        (b"a b 1\ncaf\xe9 b 2\n", "encoded in UTF-8, got .* at line 2 of .*/p"),
        (b"word1 word2 score\n", "at least one pair of words, got none in .*/p"),
    ],
)
def test_broken_pairs_are_refused(tmp_path, content, message):
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_word_pairs(tmp_path / "p")


def test_questions_have_the_categories_of_their_file(tmp_path):
    path = tmp_path / "q"
    path.write_bytes(b"a b c d\r\n")
    read = read_word_questions(path)
    assert read.categories == ("q",) and read.kinds == {} and len(read) == 1
    path.write_bytes(b": family\na b c d\n: gram1-plural\na b c d\na b d c\n")
    read = read_word_questions(path)
    assert read.categories == ("family", "gram1-plural", "gram1-plural")
    assert read.kinds == {"family": "semantic", "gram1-plural": "syntactic"}
    for broken, message in (
        (b": family\na b c\n", "four words .* got 'a b c' at line 2 of .*/q"),
        (b": family\n", "at least one question, got none in .*/q"),
    ):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=message):
            read_word_questions(path)


def test_public_sets_are_what_was_published(data_folder):
    sizes = [353, 203, 252, 3000, 287, 771, 2034, 999, 3500, 65]
    assert [len(word_pairs(name)) for name in PAIR_SETS] == sizes
    google, msr = word_questions("google"), word_questions("msr")
    assert len(google) == 19_544 and len(google.kinds) == 14
    kinds = np.array([google.kinds[name] for name in google.categories])
    assert (kinds == "semantic").sum() == 8869 and (kinds == "syntactic").sum() == 10_675
    assert len(msr) == 8000 and set(msr.categories) == {"msr"} and msr.kinds == {"msr": "syntactic"}


def test_sets_that_are_not_there_say_where_to_find_them(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    with pytest.raises(DataError, match="eval-word-vectors.*EXFAM_DATA=FOLDER"):
        word_pairs("men")
    with pytest.raises(DataError, match="tmikolov/word2vec.*hyperwords.*EXFAM_DATA=FOLDER"):
        word_questions("google")
    with pytest.raises(ExfamError, match="`name` must be one of 'wordsim-353'"):
        word_pairs("wordsim")
    with pytest.raises(ExfamError, match="`name` must be one of 'google', 'msr'"):
        word_questions("bats")
