"""Nearest words and analogies: laws, exhaustive search and gensim as witnesses."""

import os

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.vectors import WordVectors
from exfam.vectors.neighbors import analogy_answers, nearest_rows
from words.vector_cases import matrix, some_vectors


def unit(rows):
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def theirs(vectors):
    models = pytest.importorskip("gensim.models")
    read = models.KeyedVectors(vectors.dim)
    read.add_vectors(list(vectors.words), vectors.center)
    return read


def assert_same(found, expected):
    assert [each.word for each in found] == [word for word, _ in expected]
    np.testing.assert_allclose([each.score for each in found], [s for _, s in expected], atol=1e-6)


@pytest.mark.parametrize(("rows", "k"), [(40, 1), (40, 5), (40, 39), (40, 60), (3, 2)])
def test_the_nearest_are_those_of_all_cosines_sorted(rows, k):
    vectors = matrix(rows=rows)
    cosine = unit(vectors) @ unit(vectors).T
    np.fill_diagonal(cosine, -np.inf)
    found = nearest_rows(vectors, vectors, k=k, excluded=np.arange(rows)[:, None])
    expected = np.argsort(-cosine, axis=1)[:, : min(k, rows - 1)]
    np.testing.assert_array_equal(found.rows, expected)
    np.testing.assert_allclose(found.score, np.take_along_axis(cosine, expected, 1), atol=1e-6)


def test_blocks_of_any_size_find_the_same(monkeypatch):
    vectors = matrix(rows=50)
    vectors[[7, 30, 49]] = vectors[3]  # ties go to the first row, whatever the blocks
    questions = np.random.default_rng(1).integers(0, 50, (30, 3))
    whole = nearest_rows(vectors, vectors, k=3)
    assert whole.rows[3].tolist() == [3, 7, 30] == whole.rows[49].tolist()
    scores = [analogy_answers(vectors, questions, rule="3cosmul", k=k) for k in (1, 4)]
    for rows, queries in ((1, 1), (3, 7), (2, 50), (49, 2)):
        monkeypatch.setattr("exfam.vectors.neighbors._ROWS", rows)
        monkeypatch.setattr("exfam.vectors.neighbors._QUERIES", queries)
        np.testing.assert_array_equal(nearest_rows(vectors, vectors, k=3).rows, whole.rows)
        np.testing.assert_array_equal(nearest_rows(vectors, vectors, k=1).rows, whole.rows[:, :1])
        monkeypatch.setattr("exfam.vectors.neighbors._ENTRIES", 1)
        monkeypatch.setattr("exfam.vectors.neighbors._QUESTIONS", queries)
        for k, each in zip((1, 4), scores, strict=True):
            again = analogy_answers(vectors, questions, rule="3cosmul", k=k)
            np.testing.assert_allclose(again.score, each.score, rtol=1e-5)


@pytest.mark.parametrize(
    ("positive", "negative"),
    [
        (["w3"], []),
        (["w3", "w4"], ["w9"]),
        ([], ["w5", "w6"]),
        (["w1", np.full(8, 2.0)], [np.arange(8.0)]),
    ],
)
def test_gensim_finds_the_same_words(positive, negative):
    vectors = some_vectors()
    expected = theirs(vectors).most_similar(positive=positive, negative=negative, topn=7)
    assert_same(vectors.most_similar(positive, negative, k=7), expected)


def test_gensim_finds_the_same_words_among_the_first():
    vectors = some_vectors()
    expected = theirs(vectors).most_similar("w50", topn=7, restrict_vocab=20)
    assert_same(vectors.most_similar("w50", k=7, among=20), expected)
    assert len(vectors.most_similar("w2", k=30, among=20)) == 19
    assert len(vectors.most_similar("w2", k=99)) == 59


@pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")  # by gensim itself
def test_gensim_gives_the_same_analogies():
    vectors, other = some_vectors(), theirs(some_vectors())
    add = vectors.analogy("w1", "w2", "w3", k=6)
    mul = vectors.analogy("w1", "w2", "w3", rule="3cosmul", k=6)
    expected = other.most_similar(positive=["w2", "w3"], negative=["w1"], topn=6)
    assert [each.word for each in add] == [word for word, _ in expected]
    # gensim adds 1e-6 where the source adds 0.01 to s in [0, 1]: nearly the same order.
    expected = other.most_similar_cosmul(positive=["w2", "w3"], negative=["w1"], topn=6)
    assert mul[0].word == expected[0][0]


@pytest.mark.parametrize("rule", ["3cosadd", "3cosmul"])
def test_answers_are_those_of_the_written_rule(rule):
    rows = matrix(rows=30)
    cosine = unit(rows) @ unit(rows).T
    questions = np.random.default_rng(3).permutation(30).reshape(10, 3)
    found = analogy_answers(rows, questions, rule=rule, k=2)
    for (a, b, c), row, score in zip(questions, *found, strict=True):
        s = (cosine + 1) / 2
        scores = cosine[b] - cosine[a] + cosine[c]
        scores = scores if rule == "3cosadd" else s[b] * s[c] / (s[a] + 0.01)
        scores[[a, b, c]] = -np.inf
        assert row.tolist() == np.argsort(-scores)[:2].tolist()
        np.testing.assert_allclose(score, scores[row], rtol=1e-4)


def test_the_two_rules_differ():
    rows = matrix(rows=200)
    questions = np.random.default_rng(3).integers(0, 200, (50, 3))
    add, mul = (analogy_answers(rows, questions, rule=rule).rows for rule in ("3cosadd", "3cosmul"))
    assert 0 < (add == mul).mean() < 1


def test_many_words_at_once_are_as_one_after_the_other():
    vectors = some_vectors()
    found = vectors.neighbors(["w5", "w0"], k=4)
    assert list(found) == ["w5", "w0"]
    for word, near in found.items():
        alone = vectors.most_similar(word, k=4)
        assert [each.word for each in near] == [each.word for each in alone]
    assert vectors.neighbors([]) == {}
    among = vectors.neighbors(["w5", "w50"], k=3, among=10)
    assert all(int(each.word[1:]) < 10 for near in among.values() for each in near)


def test_excluded_words_are_not_found():
    vectors = some_vectors()
    first, second = vectors.most_similar("w3", k=2)
    assert vectors.most_similar("w3", k=1, exclude=[first.word])[0].word == second.word


def test_context_and_both_are_searched_when_asked():
    vectors = some_vectors(context=matrix(5, rows=60, dim=8))
    for of in ("context", "both"):
        alone = WordVectors(vectors.words, vectors.matrix(of))
        assert vectors.most_similar("w3", of=of) == alone.most_similar("w3")
        assert vectors.most_similar("w3", of=of) != vectors.most_similar("w3")
        assert vectors.neighbors(["w3"], of=of) == alone.neighbors(["w3"])
        assert vectors.analogy("w1", "w2", "w3", of=of) == alone.analogy("w1", "w2", "w3")
        assert vectors.similarity("w1", "w2", of=of) == alone.similarity("w1", "w2")


def test_a_reflection_changes_no_cosine():
    signs = np.where(np.arange(8) % 2, 1, -1).astype(np.int8)
    vectors = some_vectors(signs=signs)
    assert vectors.similarity("w1", "w2", of="context") == pytest.approx(
        vectors.similarity("w1", "w2"), abs=1e-6
    )
    assert vectors.similarity("w1", "w2", of="both") != pytest.approx(
        vectors.similarity("w1", "w2"), abs=1e-3
    )


def test_similarity_is_the_cosine_whatever_the_length():
    vectors = some_vectors()
    plain = unit(vectors.center)
    expected = pytest.approx(plain[1] @ plain[2], abs=1e-6)
    assert vectors.similarity("w1", "w2") == expected
    assert vectors.similarity(vectors["w1"].astype(float) * 1e90, "w2") == expected
    assert vectors.similarity(vectors["w1"] * np.float32(1e-35), "w1") == pytest.approx(1, abs=1e-5)


def with_zero():
    center = matrix(rows=4)
    center[2] = 0
    return WordVectors(("a", "b", "zero", "d"), center)


@pytest.mark.parametrize(
    "ask",
    [
        lambda v: v.most_similar("zero"),
        lambda v: v.neighbors(["a", "zero"]),
        lambda v: v.similarity("a", "zero"),
        lambda v: v.analogy("a", "b", "zero"),
    ],
)
def test_a_vector_of_zeros_has_no_direction(ask):
    with pytest.raises(DataError, match="The vector of 'zero' must not be zero"):
        ask(with_zero())


def test_a_vector_of_zeros_is_at_a_right_angle_to_all():
    assert dict(with_zero().most_similar("a", k=3))["zero"] == 0


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda v: v.most_similar(), ExfamError, "`positive` or `negative` must name a word"),
        (lambda v: v.most_similar("w1", "w1"), DataError, "must not cancel out"),
        (lambda v: v.most_similar(np.ones(3)), DataError, "must have 8 numbers .* got 3"),
        (lambda v: v.most_similar(np.full(8, np.nan)), DataError, "must be finite"),
        (lambda v: v.most_similar(np.zeros(8)), DataError, "The vector must not be zero"),
        (lambda v: v.most_similar("w1", k=0), ExfamError, "`k` must be a number > 0, got 0"),
        (lambda v: v.most_similar("w1", among=0), ExfamError, "`among` must be a number > 0"),
        (lambda v: v.most_similar("w1", of="all"), ExfamError, "`of` must be one of"),
        (lambda v: v.analogy("w1", "w2", "w3", rule="pairs"), ExfamError, "`rule` must be one of"),
        (lambda v: v.analogy("w1", "w2", "w3", k=0), ExfamError, "`k` must be a number > 0"),
        (lambda v: v.analogy("w1", "w2", "w99"), UnknownItemError, "got 'w99'. Near: 'w"),
        (lambda v: v.neighbors(["w1", "x1"]), UnknownItemError, "60 known words, got 'x1'"),
        (lambda v: v.similarity("w1", "w1x"), UnknownItemError, "got 'w1x'. Near: 'w1"),
        (lambda v: v.most_similar("w1", exclude=["q"]), UnknownItemError, "got 'q'"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, error, message):
    with pytest.raises(error, match=message):
        ask(some_vectors())


def test_memory_does_not_grow_with_words_times_vocabulary():
    tracemalloc = pytest.importorskip("tracemalloc")
    vectors = matrix(rows=12_000)
    questions = np.random.default_rng(0).integers(0, 500, (4000, 3))
    tracemalloc.start()
    nearest_rows(vectors[:4000], vectors, k=2)
    analogy_answers(vectors, questions, rule="3cosadd")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * 12_000 * 4 / 3


@pytest.mark.parametrize("format", ["word2vec", "word2vec-binary", "glove", "fasttext"])
def test_files_of_one_matrix_hold_the_one_asked_for(tmp_path, format):
    vectors = some_vectors(context=matrix(5, rows=60, dim=8))
    vectors.save(tmp_path / "center", format=format)
    vectors.save(tmp_path / "context", format=format, of="context")
    read = WordVectors.load(tmp_path / "center", context=tmp_path / "context")
    assert read.words == vectors.words
    np.testing.assert_array_equal(read.center, vectors.center)
    np.testing.assert_array_equal(read.context, vectors.context)
    assert WordVectors.load(tmp_path / "center", limit=5).context is None


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_safetensors_keep_everything(tmp_path, ending):
    signs = np.where(np.arange(8) % 2, 1, -1).astype(np.int8)
    context = matrix(5, rows=60, dim=8)
    for given in ({}, {"signs": signs}, {"context": context}):
        some_vectors(**given).save(tmp_path / f"v.safetensors{ending}")
        read = WordVectors.load(tmp_path / f"v.safetensors{ending}")
        np.testing.assert_array_equal(read.center, some_vectors().center)
        for name in ("signs", "context"):
            assert (getattr(read, name) is None) == (name not in given)
            np.testing.assert_array_equal(getattr(read, name), given.get(name))
    assert WordVectors.load(tmp_path / f"v.safetensors{ending}", limit=7).context.shape == (7, 8)
    some_vectors(context=context).save(tmp_path / "one.safetensors", of="context")
    np.testing.assert_array_equal(WordVectors.load(tmp_path / "one.safetensors").center, context)


def test_tied_vectors_take_half_the_space(tmp_path):
    signs = np.ones(100, dtype=np.int8)
    some_vectors(rows=500, dim=100, signs=signs).save(tmp_path / "tied.safetensors")
    untied = some_vectors(rows=500, dim=100, context=matrix(1, rows=500, dim=100))
    untied.save(tmp_path / "untied.safetensors")
    sizes = [os.path.getsize(tmp_path / f"{each}.safetensors") for each in ("tied", "untied")]
    assert sizes[0] < 0.52 * sizes[1]


def test_context_vectors_of_other_words_are_refused(tmp_path):
    some_vectors(rows=5).save(tmp_path / "five.txt")
    some_vectors(rows=3).save(tmp_path / "three.txt")
    with pytest.raises(DataError, match=r"each of 5 words, got none for 'w3' \(2 missing\)"):
        WordVectors.load(tmp_path / "five.txt", context=tmp_path / "three.txt")
    some_vectors(rows=5, signs=np.ones(8, dtype=np.int8)).save(tmp_path / "tied.safetensors")
    with pytest.raises(DataError, match="must be None for a file that holds context vectors"):
        WordVectors.load(tmp_path / "tied.safetensors", context=tmp_path / "five.txt")


def test_it_is_shown_in_a_line():
    assert repr(some_vectors()) == "WordVectors(60 words, 8 columns, center alone)"
    assert repr(some_vectors(signs=np.ones(8, dtype=np.int8))).endswith("8 columns, tied)")
    assert "with context" in repr(some_vectors(context=some_vectors().center))
