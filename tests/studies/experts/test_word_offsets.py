"""Analogies by b + c - a, and the questions that several sets of vectors share."""

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.vectors import WordVectors, evaluate_analogies
from exfam_studies.experts.offsets import (
    answer_by_neighbors,
    answer_by_offsets,
    common_questions,
    single_words,
    words_in_common,
)
from words.vector_cases import some_vectors


def asked(n=40, *, words=60, seed=0):
    """Questions of four different words drawn by chance, of three categories and two kinds."""
    random = np.random.default_rng(seed)
    drawn = [tuple(f"w{row}" for row in random.choice(words, 4, replace=False)) for _ in range(n)]
    categories = tuple(("capital", "gram1", "family")[place % 3] for place in range(n))
    kinds = {"capital": "semantic", "family": "semantic", "gram1": "syntactic"}
    return WordQuestions("x", tuple(drawn), categories, kinds)


def one_by_one(vectors, question):
    """The nearest word and the cosine of the right one, by loops."""
    a, b, c, d = (vectors[word].astype(float) for word in question)
    sums = b + c - a

    def cosine(vector):
        return float(sums @ vector / np.linalg.norm(sums) / np.linalg.norm(vector))

    others = [word for word in vectors if word not in question[:3]]
    return max(others, key=lambda word: cosine(vectors[word].astype(float))), cosine(d)


def test_answers_are_what_loops_find():
    vectors, questions = some_vectors(), asked()
    found = answer_by_offsets(vectors, questions)
    result = [one_by_one(vectors, question) for question in questions.questions]
    assert list(found.answer) == [word for word, _ in result] and len(set(found.answer)) > 5
    np.testing.assert_allclose(found.cosine, [cosine for _, cosine in result], atol=1e-6)
    right = [
        word == question[3] for (word, _), question in zip(result, questions.questions, strict=True)
    ]
    assert found.correct.tolist() == right


def test_of_vectors_of_one_length_answers_are_those_of_3cosadd():
    vectors = some_vectors()
    unit = vectors.center / np.linalg.norm(vectors.center, axis=1, keepdims=True)
    same, questions = WordVectors(vectors.words, unit), asked()
    every = [(*question[:3], word) for question in questions.questions for word in vectors]
    whole = WordQuestions("x", tuple(every), ("x",) * len(every), {})
    right = answer_by_offsets(same, whole).overall
    assert right.accuracy == evaluate_analogies(same, whole).total.accuracy > 0
    assert answer_by_offsets(vectors, whole).answer != answer_by_offsets(same, whole).answer


def test_scores_are_of_categories_kinds_and_all():
    found = answer_by_offsets(some_vectors(rows=12), asked(words=12))
    scores = found.by_category()
    assert [each.category for each in scores] == ["capital", "gram1", "family"]
    assert [each.category for each in found.by_kind()] == ["semantic", "syntactic"]
    for parts in (scores, found.by_kind()):
        n = np.array([each.n_questions for each in parts])
        assert n.sum() == found.overall.n_questions == 40
        for name in ("accuracy", "cosine", "cosine_others"):
            mean = n @ [getattr(each, name) for each in parts] / 40
            assert mean == pytest.approx(getattr(found.overall, name))
    assert 0 < found.overall.accuracy < 1


def test_more_words_to_choose_from_leave_cosines_as_they_are():
    many, questions = some_vectors(), asked(words=12)
    few = answer_by_offsets(WordVectors(many.words[:12], many.center[:12]), questions)
    result = answer_by_offsets(many, questions)
    np.testing.assert_array_equal(result.cosine, few.cosine)
    assert result.overall.accuracy < few.overall.accuracy


def test_neighbors_are_those_of_c_alone():
    vectors, questions = some_vectors(), asked()
    found = answer_by_neighbors(vectors, questions)
    for question, answer, cosine in zip(
        questions.questions, found.answer, found.cosine, strict=True
    ):
        near = vectors.most_similar(question[2], k=1, exclude=question[:2])
        assert answer == near[0].word
        assert cosine == pytest.approx(vectors.similarity(*question[2:]), abs=1e-6)
    assert found.answer != answer_by_offsets(vectors, questions).answer


def test_vectors_that_point_one_way_are_near_all_answers():
    vectors, questions = some_vectors(), asked()
    found = answer_by_offsets(vectors, questions)
    answers = sorted({question[3] for question in questions.questions})
    a, b, c = (vectors[word] for word in questions.questions[0][:3])
    others = [vectors.similarity(b + c - a, word) for word in answers]
    assert found.cosine_others[0] == pytest.approx(np.mean(others), abs=1e-6)
    one_way = answer_by_offsets(WordVectors(vectors.words, vectors.center + 9), questions)
    assert abs(found.overall.cosine_others) < 0.3 < 0.9 < one_way.overall.cosine_others


def test_without_another_word_no_answer_is_right():
    result = answer_by_offsets(
        some_vectors(rows=3), WordQuestions("x", (("w0", "w1", "w2", "w2"),), ("x",), {})
    )
    assert result.answer == ("",) and not result.correct.any()
    assert answer_by_offsets(some_vectors(rows=3), result.questions).by_kind() == []


def test_a_sum_of_zeros_has_cosine_zero():
    plane = np.array([[1, 0], [1, 0], [0, 0.5], [0, 1]], dtype=np.float32)
    vectors = WordVectors(("a", "b", "c", "d"), plane)
    zero = WordVectors(("a", "b", "c", "d"), np.array([[1], [2], [-1], [3]], dtype=np.float32))
    questions = WordQuestions("x", (("a", "b", "c", "d"),), ("x",), {})
    assert answer_by_offsets(zero, questions).cosine.tolist() == [0.0]
    assert answer_by_offsets(vectors, questions).cosine.tolist() == [1.0]


def test_common_questions_are_those_that_every_set_can_be_asked():
    one = WordVectors(("athens", "greece", "oslo", "norway", "Rome"), np.eye(5, dtype=np.float32))
    other = WordVectors(("norway", "oslo", "greece", "athens"), np.eye(4, dtype=np.float32))
    questions = WordQuestions(
        "x",
        (
            ("Athens", "Greece", "Oslo", "Norway"),
            ("Athens", "Greece", "Rome", "Norway"),
            ("Oslo", "Norway", "Athens", "Greece"),
        ),
        ("one", "two", "three"),
        {"one": "semantic"},
    )
    kept = common_questions([one, other], questions)
    assert kept.questions == (
        ("athens", "greece", "oslo", "norway"),
        ("oslo", "norway", "athens", "greece"),
    )
    assert kept.categories == ("one", "three") and kept.kinds == questions.kinds
    gone = WordVectors(other.words, other.center * np.array([[0], [1], [1], [1]], np.float32))
    with pytest.raises(DataError, match="four words of a question in common, got none of 3"):
        common_questions([one, gone], questions)


def test_a_question_with_an_unknown_word_is_refused_by_its_place():
    result = (("w0", "w1", "w2", "w3"), ("w0", "W1", "w2", "gone"))
    questions = WordQuestions("x", result, ("x", "x"), {})
    with pytest.raises(DataError, match=r"got 'gone' in question 1\. Take `common_questions`"):
        answer_by_offsets(some_vectors(), questions)
    with pytest.raises(ExfamError, match="`of` must be one of"):
        answer_by_offsets(some_vectors(), asked(), of="output")


def test_plain_words_keep_all_their_vectors():
    words = ("w0", "cat", "New", "dog", "a b")
    center, context = np.arange(10, dtype=np.float32).reshape(2, 5, 1) + 1
    kept = single_words(WordVectors(words, center, context))
    assert kept.words == ("cat", "dog")
    assert kept.center.ravel().tolist() == [2, 4] and kept.context.ravel().tolist() == [7, 9]
    signs = np.array([-1], dtype=np.int8)
    tied = single_words(WordVectors(words, center, signs=signs))
    assert tied.matrix("context").ravel().tolist() == [-2, -4]


def test_sets_cut_to_what_they_have_in_common_keep_their_vectors():
    one, other = some_vectors(rows=9), some_vectors(1, rows=20)
    result = words_in_common([other, one])
    assert [set(each.words) for each in result] == [set(one.words)] * 2
    for cut, whole in zip(result, (other, one), strict=True):
        np.testing.assert_array_equal(cut.center, np.stack([whole[word] for word in cut.words]))
