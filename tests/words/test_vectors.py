"""Words and their vectors: a mapping; nearest words and analogies by full search and gensim."""

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.vectors import WordVectors
from exfam.vectors.neighbors import analogy_answers, nearest_rows, nearest_to
from exfam.vectors.queries import as_terms
from words.vector_cases import matrix, some_vectors

WORDS = ("the", "cat", "dog", "Paris")
SIGNS = np.where(np.arange(8) % 2, 1, -1).astype(np.int8)
CONTEXT = matrix(5, rows=60, dim=8)
VECTOR = np.arange(8.0)
KEYS = ((1, 2, 3), ("w1", "w2", "w3"))


def four(**parts):
    return WordVectors(WORDS, matrix(rows=4, dim=3), **parts)


def test_it_is_a_mapping_from_words_to_center_vectors():
    vectors = four()
    assert list(vectors) == list(WORDS) and len(vectors) == 4 and vectors.dim == 3
    assert "cat" in vectors and "lion" not in vectors
    for row in (vectors["dog"], vectors.get("dog")):
        np.testing.assert_array_equal(row, vectors.center[2])
    assert vectors.get("lion") is None and vectors.get("lion", 0) == 0
    assert vectors.codes(["Paris", "the"]).tolist() == [3, 0]
    assert repr(some_vectors(signs=SIGNS)) == "WordVectors(60 words, 8 columns, tied)"


def test_tied_vectors_equal_untied_ones_of_the_reflected_matrix():
    tied = some_vectors(signs=SIGNS)
    untied = some_vectors(context=tied.center * SIGNS)
    assert tied.tied and tied.context is None and not untied.tied
    assert untied.matrix() is untied.center and untied.matrix("context") is untied.context
    np.testing.assert_array_equal(untied.matrix("both"), untied.center + untied.context)
    for of in ("center", "context", "both"):
        assert tied.matrix(of).dtype == np.float32
        np.testing.assert_array_equal(tied.matrix(of), untied.matrix(of))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"words": (), "center": np.zeros((0, 3))}, "`center` must hold at least one word"),
        ({"center": np.zeros((3, 3))}, r"a row for each of 4 words .* got 3 x 3"),
        ({"words": ("a", "b", "a", "b")}, "each word once, got 'a' at row 0 and again at row 2"),
        ({"center": [[0.0], [np.nan], [0.0], [np.inf]]}, r"row 1 \(word 'cat'; 2 of 4 rows\)"),
        ({"context": np.zeros((4, 2))}, "`context` must have the shape of `center`, 4 x 3, got 4"),
        ({"context": np.zeros((4, 3)), "signs": [1, 1, 1]}, "None where `context` is given, got"),
        ({"signs": [1, -1]}, "one sign for each of 3 columns, got 2"),
        ({"signs": [1, 0, 1]}, r"`signs` must be -1 or \+1, got 0 in column 1"),
    ],
)
def test_what_does_not_fit_is_refused(fields, message):
    kinds = {"center": np.float32, "context": np.float32, "signs": np.int8}
    given = {"words": WORDS, "center": matrix(rows=4, dim=3), **fields}
    given = {k: np.array(v, dtype=kinds[k]) if k in kinds else v for k, v in given.items()}
    with pytest.raises(DataError, match=message):
        WordVectors(**given)


def cosines(rows):
    unit = rows.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit @ unit.T


@pytest.mark.parametrize(("rows", "k"), [(40, 1), (40, 5), (40, 39), (40, 60), (3, 2)])
def test_the_nearest_are_those_of_all_cosines_sorted(rows, k):
    vectors = matrix(rows=rows)
    cosine = cosines(vectors)
    np.fill_diagonal(cosine, -np.inf)
    nearest = nearest_rows(vectors, vectors, k=k, excluded=np.arange(rows)[:, None])
    expected = np.argsort(-cosine, axis=1)[:, : min(k, rows - 1)]
    np.testing.assert_array_equal(nearest.rows, expected)
    np.testing.assert_allclose(nearest.score, np.take_along_axis(cosine, expected, 1), atol=1e-6)


def test_blocks_of_any_size_find_the_same(monkeypatch):
    vectors = matrix(rows=50)
    vectors[[7, 30, 49]] = vectors[3]  # ties go to the first row, whatever the blocks
    questions = np.random.default_rng(1).integers(0, 50, (30, 3))
    whole = nearest_rows(vectors, vectors, k=3)
    assert whole.rows[3].tolist() == [3, 7, 30] == whole.rows[49].tolist()
    answers = [analogy_answers(vectors, questions, rule="3cosmul", k=k) for k in (1, 4)]
    for rows, queries in ((1, 1), (3, 7), (2, 50), (49, 2)):
        sizes = {"_ROWS": rows, "_QUERIES": queries, "_ENTRIES": 1, "_QUESTIONS": queries}
        for name, size in sizes.items():
            monkeypatch.setattr(f"exfam.vectors.neighbors.{name}", size)
        np.testing.assert_array_equal(nearest_rows(vectors, vectors, k=3).rows, whole.rows)
        np.testing.assert_array_equal(nearest_rows(vectors, vectors, k=1).rows, whole.rows[:, :1])
        for k, answer in zip((1, 4), answers, strict=True):
            again = analogy_answers(vectors, questions, rule="3cosmul", k=k)
            np.testing.assert_allclose(again.score, answer.score, rtol=1e-5)


@pytest.mark.parametrize("rule", ["3cosadd", "3cosmul"])
def test_answers_are_those_of_the_written_rule(rule):
    rows = matrix(rows=30)
    cosine = cosines(rows)
    s = (cosine + 1) / 2
    questions = np.random.default_rng(3).permutation(30).reshape(10, 3)
    answers = analogy_answers(rows, questions, rule=rule, k=2)
    for (a, b, c), row, score in zip(questions, *answers, strict=True):
        scores = cosine[b] - cosine[a] + cosine[c]
        scores = scores if rule == "3cosadd" else s[b] * s[c] / (s[a] + 0.01)
        scores[[a, b, c]] = -np.inf
        assert row.tolist() == np.argsort(-scores)[:2].tolist()
        np.testing.assert_allclose(score, scores[row], rtol=1e-4)


@pytest.mark.parametrize("of", ["center", "context", "both"])
def test_the_most_similar_are_those_of_the_sum_of_unit_vectors(of):
    vectors, options = some_vectors(context=CONTEXT), {"k": 7, "among": 20, "of": of}
    rows = vectors.matrix(of)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    own = np.full(8, 2.0)
    total = unit[3] + unit[4] + own - unit[9]
    cosine = unit[:20] @ total / np.linalg.norm(total)
    cosine[[3, 4, 9]] = -np.inf
    near = vectors.most_similar(["w3", "w4", own], ["w9"], **options)
    best = np.argsort(-cosine)[:7]
    assert [word for word, _ in near] == [f"w{row}" for row in best]
    np.testing.assert_allclose([score for _, score in near], cosine[best], atol=1e-6)
    # Many words at once are as one after the other, and of one matrix as alone.
    alone = WordVectors(vectors.words, rows)
    both = vectors.neighbors(["w5", "w0"], **options)
    assert list(both) == ["w5", "w0"] and vectors.neighbors([]) == {}
    for word, words in both.items():
        expected = alone.most_similar(word, k=7, among=20)
        assert [near.word for near in words] == [near.word for near in expected]
    assert vectors.analogy("w1", "w2", "w3", of=of) == alone.analogy("w1", "w2", "w3")
    first, second = vectors.most_similar("w3", k=2, of=of)
    assert vectors.most_similar("w3", k=1, exclude=[first.word], of=of) == [second]
    assert len(vectors.most_similar("w2", k=99)) == 59


def test_similarity_is_the_cosine_whatever_the_length_or_reflection():
    vectors = some_vectors(signs=SIGNS)
    expected = pytest.approx(cosines(vectors.center)[1, 2], abs=1e-6)
    assert vectors.similarity("w1", "w2") == expected
    assert vectors.similarity("w1", "w2", of="context") == expected
    assert vectors.similarity("w1", "w2", of="both") != expected
    assert vectors.similarity(vectors["w1"].astype(float) * 1e90, "w2") == expected
    assert vectors.similarity(vectors["w1"] * np.float32(1e-35), "w1") == pytest.approx(1, abs=1e-5)


def test_a_vector_of_zeros_has_no_direction_and_is_at_a_right_angle_to_all():
    center = matrix(rows=4)
    center[2] = 0
    vectors = WordVectors(("a", "b", "zero", "d"), center)
    assert dict(vectors.most_similar("a", k=3))["zero"] == 0
    for use in (
        lambda: vectors.most_similar("zero"),
        lambda: vectors.neighbors(["a", "zero"]),
        lambda: vectors.similarity("a", "zero"),
        lambda: vectors.analogy("a", "b", "zero"),
    ):
        with pytest.raises(DataError, match="The vector of 'zero' must not be zero"):
            use()


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda v: v.most_similar(), ExfamError, "`positive` or `negative` must name a word"),
        (lambda v: v.most_similar("w1", "w1"), DataError, "must not cancel out"),
        (lambda v: v.most_similar(np.ones(3)), DataError, "must have 8 numbers .* got 3"),
        (lambda v: v.most_similar(np.full(8, np.nan)), DataError, "must be finite"),
        (lambda v: v.most_similar(np.zeros(8)), DataError, "The vector must not be zero"),
        (lambda v: v.most_similar([True]), ExfamError, "`positive` must hold words, .* got True"),
        (lambda v: v.most_similar("w1", [("w2", 0)]), ExfamError, "`negative` must have weights >"),
        (lambda v: v.most_similar(VECTOR.astype(int)), ExfamError, "or vectors of floats, .* int"),
        (lambda v: v.most_similar("w1", k=2, topn=2), ExfamError, "`topn` must be left out where"),
        (lambda v: v.most_similar("w1", topn=0), ExfamError, "`topn` must be a number > 0"),
        (lambda v: v.similar_by_vector(np.ones(3)), DataError, "must have 8 numbers .* got 3"),
        (lambda v: v.get_mean_vector([np.ones(3)]), DataError, "must have 8 numbers .* got 3"),
        (lambda v: v.get_mean_vector([]), DataError, "`keys` must hold at least one known word"),
        (lambda v: v.get_mean_vector(["w1"], [1, 2]), DataError, "`weights` must be a finite numb"),
        (lambda v: v.get_mean_vector(["w1"], [np.nan]), DataError, "number for each of 1 keys"),
        (lambda v: v.n_similarity(["w1"], ["x"]), UnknownItemError, "got 'x'.*ignore_missing=True"),
        (lambda v: v.doesnt_match(["w1", "w2"]), DataError, "`words` must hold at least 3 words"),
        (
            lambda v: v.most_similar_to_given("w1", []),
            DataError,
            "hold at least one word, got none",
        ),
        (lambda v: v[60], KeyError, "a known word or a row from 0 to 59, got 60"),
        (lambda v: v[["w1", -1]], UnknownItemError, "a row from 0 to 59, got -1"),
        (lambda v: v[True], UnknownItemError, "a row from 0 to 59, got True"),
        (lambda v: v.most_similar("w1", among=0), ExfamError, "`among` must be a number > 0"),
        (lambda v: v.matrix("all"), ExfamError, "`of` must be one of 'center', 'context', 'both'"),
        (lambda v: v.matrix("both"), DataError, "must be 'center' for vectors without context"),
        (lambda v: v.analogy("w1", "w2", "w3", rule="pairs"), ExfamError, "`rule` must be one of"),
        (lambda v: v["W1"], UnknownItemError, r"60 known words, got 'W1'\. Near: 'w1"),
        (lambda v: v.code(b"a"), KeyError, "60 known words, got b'a'. No known word is spelled al"),
        (lambda v: v.codes("w1"), DataError, "`words` must be a list of words, got 'w1'"),
        (lambda v: v.codes(np.array("w1")), DataError, "`words` must be a list of words, got"),
    ],
)
def test_what_cannot_be_found_is_refused(use, error, message):
    with pytest.raises(error, match=message):
        use(some_vectors())


def test_one_product_finds_what_scaled_rows_do_whatever_the_lengths():
    vectors = matrix(rows=50) * np.geomspace(1e-3, 1e3, 50)[:, None].astype(np.float32)
    vectors[[7, 30]] = vectors[3]
    unit = vectors[3] / np.linalg.norm(vectors[3])
    out = np.array([3, 9])
    for scale in (1.0, 1e-30, 1e30):
        lengths = np.linalg.norm(vectors.astype(float), axis=1).astype(np.float32) * np.float32(
            scale
        )
        scaled = vectors * np.float32(scale)
        for k in (1, 4, 60):
            one = nearest_to(unit, scaled, lengths=lengths, k=k, excluded=out)
            all_rows = nearest_rows(unit[None], scaled, k=k, excluded=out[None])
            np.testing.assert_array_equal(one.rows, all_rows.rows)
            np.testing.assert_allclose(one.score, all_rows.score, atol=1e-6)
            assert one.rows[0, 0] == 7


def test_nothing_is_no_query():
    with pytest.raises(ExfamError, match="`positive` must hold words, row numbers .* got None"):
        as_terms(None, name="positive")


def test_rows_are_as_good_as_words_and_lists_give_matrices():
    vectors = some_vectors(signs=SIGNS)
    assert vectors[["w3", 5]].tolist() == vectors.center[[3, 5]].tolist()
    assert vectors[[]].shape == (0, 8) and vectors[np.int64(4)].tolist() == vectors["w4"].tolist()
    assert 59 in vectors and 60 not in vectors and True not in vectors and vectors.get(60) is None
    for of in ("center", "context"):
        by_row, by_word = (vectors.most_similar([a, (b, 2)], c, of=of) for a, b, c in KEYS)
        assert by_row == by_word
    assert vectors.index_to_key is vectors.words and vectors.key_to_index is vectors.index
    assert vectors.vectors is vectors.center and vectors.vector_size == vectors.dim


@pytest.mark.parametrize("of", ["center", "context", "both"])
def test_distances_are_one_less_cosines_and_ranks_count_them(of, monkeypatch):
    monkeypatch.setattr("exfam.vectors.distances._ROWS", 7)
    vectors = some_vectors(context=CONTEXT)
    cosine = cosines(vectors.matrix(of))
    distances = vectors.distances("w5", of=of)
    np.testing.assert_allclose(distances, 1 - cosine[5], atol=1e-6)
    assert distances[5] == 0 == vectors.distance("w5", "w5", of=of)
    assert vectors.distances("w5", ["w9", 5], of=of).tolist() == distances[[9, 5]].tolist()
    assert vectors.distance("w5", "w9", of=of) == pytest.approx(distances[9], abs=1e-6)
    order = [near.word for near in vectors.most_similar("w5", k=59, of=of)]
    for n in (0, 1, 30, 58):
        assert vectors.rank("w5", order[n], of=of) == n + 1
        assert vectors.closer_than("w5", order[n], of=of) == order[:n]
    assert vectors.closer_than("w5", "w5", of=of) == []
    assert vectors.rank(vectors.matrix(of)[5], order[3], of=of) == 5  # w5 itself is closer
    assert vectors.most_similar_to_given("w5", order[20:10:-1], of=of) == order[11]


def test_a_mean_is_that_of_its_words_and_of_a_repeated_one_the_word():
    vectors = some_vectors(context=CONTEXT)
    unit = vectors.center / vectors.norms[:, None]
    mean = vectors.get_mean_vector(["w1", VECTOR, "x", 2], [1, 2, 9, -1], ignore_missing=True)
    np.testing.assert_allclose(mean, (unit[1] + 2 * VECTOR - unit[2]) / 4, atol=1e-6)
    same = vectors.get_mean_vector(["w7"] * 3, pre_normalize=False, of="context")
    np.testing.assert_allclose(same, CONTEXT[7], rtol=1e-6)
    assert np.linalg.norm(vectors.get_mean_vector(["w1"], post_normalize=True)) == pytest.approx(1)
    assert vectors.n_similarity(["w1", "w2"], ["w2", "w1"]) == pytest.approx(1)
    odd = WordVectors(("a", "b", "c", "d"), np.array([[1, 0], [2, 1], [0, 1], [3, 1]], np.float32))
    assert odd.doesnt_match(["a", "c", "b", "d"]) == "c"


def test_a_row_of_zeros_is_at_distance_one_of_all_but_has_no_direction_itself():
    center = matrix(rows=4)
    center[2] = 0
    vectors = WordVectors(("a", "b", "zero", "d"), center)
    assert vectors.distances("a", ["zero"]).tolist() == [1.0]
    with pytest.raises(DataError, match="The vector of 'zero' must not be zero"):
        vectors.distance("a", "zero")
    assert vectors.get_mean_vector(["a", "zero"], pre_normalize=False) == pytest.approx(
        center[0] / 2
    )


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_safetensors_keep_everything(tmp_path, ending):
    path = tmp_path / f"v.safetensors{ending}"
    for given in ({}, {"signs": SIGNS}, {"context": CONTEXT}):
        some_vectors(**given).save(path)
        read = WordVectors.load(path)
        np.testing.assert_array_equal(read.center, some_vectors().center)
        for name in ("signs", "context"):
            assert (getattr(read, name) is None) == (name not in given)
            np.testing.assert_array_equal(getattr(read, name), given.get(name))
    assert WordVectors.load(path, limit=7).context.shape == (7, 8)
    with pytest.raises(DataError, match="must be None for a file that holds context vectors"):
        WordVectors.load(path, context=path)
    # Two files of one matrix have center and context.
    some_vectors(context=CONTEXT).save(path, of="context")
    some_vectors().save(tmp_path / "center.txt")
    read = WordVectors.load(tmp_path / "center.txt", context=path, limit=9)
    np.testing.assert_array_equal(read.context, CONTEXT[:9])
    some_vectors(rows=5).save(tmp_path / "five.txt")
    with pytest.raises(DataError, match=r"each of 60 words, got none for 'w5' \(55 missing\)"):
        WordVectors.load(path, context=tmp_path / "five.txt")
