"""What word vectors stand beside: frequencies, letters, the nearest word; and the cloud's shape."""

from itertools import product

import numpy as np
import pytest

from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.reading.text import prepare_text
from exfam.vectors import WordVectors, evaluate_analogies, evaluate_nearest
from exfam.vectors.endings import ending_questions, letter_cosines
from exfam.vectors.spectra import (
    common_cosine,
    effective_dimensions,
    find_hubs,
    main_plane,
    singular_values,
)
from exfam.words import CBOW, PMIFactorization, SkipGram
from exfam.words.by_frequency import frequency_model, score_text
from exfam.words.matrices import WordMatrices
from words.vector_cases import matrix, some_vectors

SETTINGS = {"dim": 4, "min_count": 1, "threads": 1, "progress": False, "subsample": 0.05}


def sentences(n=600, *, seed=0):
    """Two topics whose words never meet, some words far more often than others."""
    random = np.random.default_rng(seed)
    topics = (["pan", "knife", "salt", "oven"], ["rake", "soil", "seed", "rose"])
    share = np.array([8, 4, 2, 1]) / 15
    return [" ".join(random.choice(topics[k % 2], 6, p=share)) for k in range(n)]


@pytest.fixture(scope="module")
def text():
    return prepare_text(sentences(), min_count=1)


MODELS = {
    "skip-gram": lambda: SkipGram(**SETTINGS, epochs=4, window=3),
    "tied": lambda: SkipGram(**SETTINGS, epochs=2, tie="linear"),
    "cbow": lambda: CBOW(**SETTINGS, epochs=4),
    "exact": lambda: CBOW(**{**SETTINGS, "subsample": 0.0}, epochs=40, likelihood="softmax"),
    "pmi": lambda: PMIFactorization(dim=2, min_count=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_frequencies_alone_are_behind_a_model_that_sees_contexts(text, name):
    model = MODELS[name]().fit(text)
    scores = score_text(model, sentences(seed=1))
    assert scores.n_tokens == 3600 and scores.unknown == 0 and len(scores.model) == 20
    if name != "tied":
        assert (scores.model - scores.frequency).mean() > 0.05
    assert frequency_model(model).score(text) == frequency_model(model).score(text)
    assert type(frequency_model(model)) is type(model)


def test_no_other_weight_of_the_predicted_word_alone_is_better(text):
    model = SkipGram(**SETTINGS, window=3, epochs=1).fit(text)
    rival = frequency_model(model)
    best, ones = rival.score(text), rival.matrices_.inputs
    for change in (
        np.full(8, 0.1),
        np.full(8, -0.1),
        0.3 * np.random.default_rng(0).normal(size=8),
    ):
        eta = rival.matrices_.outputs + change.astype(np.float32)[:, None]
        other = frequency_model(model)
        other.matrices_ = WordMatrices.restored({"center": ones, "context": eta})
        assert other.score(text) < best


def test_exact_ones_have_the_entropy_of_the_counts(text):
    model = MODELS["exact"]().fit(text)
    share = text.vocabulary.counts / text.vocabulary.counts.sum()
    entropy = -(share @ np.log(share))
    assert frequency_model(model).score(text) == pytest.approx(-entropy, abs=1e-5)


def test_unknown_words_are_counted_and_the_models_reading_is_used(text):
    model = SkipGram(**SETTINGS, lower=True).fit(text)
    scores = score_text(model, ["Pan KNIFE zebra salt"] * 10)
    assert scores.unknown == pytest.approx(0.25) and scores.n_tokens == 40
    assert len(scores.model) == 1


def test_the_nearest_word_answers_what_a_full_search_says():
    vectors = some_vectors(rows=12)
    names = [f"w{k}" for k in range(12)]
    questions = tuple(
        (names[a], names[b], names[c], names[d])
        for a, b, c, d in np.random.default_rng(0).permuted(
            np.tile(np.arange(12), (40, 1)), axis=1
        )[:, :4]
    )
    for among in (None, 9):
        right = 0
        for a, b, c, d in questions:
            inside = all(int(word[1:]) < (among or 12) for word in (a, b, c, d))
            near = vectors.most_similar(c, k=1, exclude=[a, b], among=among)
            right += inside and near[0].word == d
        test = WordQuestions("x", questions, ("x",) * 40, {})
        report = evaluate_nearest(vectors, test, among=among)
        assert report.total.n_correct == right
        assert (
            report.total.n_covered == evaluate_analogies(vectors, test, among=among).total.n_covered
        )
    three = WordVectors(("a", "b", "c"), matrix(rows=3))
    test = WordQuestions("x", (("a", "b", "c", "c"),), ("x",), {})
    assert evaluate_nearest(three, test).total.n_correct == 0


def test_reports_of_analogies_become_frames():
    vectors = some_vectors(rows=6)
    test = WordQuestions("x", (("w1", "w2", "w3", "w4"),) * 2, ("p", "q"), {"p": "semantic"})
    frame = evaluate_analogies(vectors, test).to_frame("pandas")
    assert frame["category"].tolist() == ["p", "q"] and frame["n_covered"].tolist() == [1, 1]


def test_endings_are_those_that_the_vocabulary_has():
    stems = ["cat", "dog", "pen", "hat", "cup", "map", "sea", "run"]
    words = [stem + ending for ending, stem in product(("", "s", "ing"), stems)]
    questions = ending_questions([*words, "bus", "x1", "is"])
    assert set(questions.categories) == {"-s", "-ing"} and len(questions) == 16
    for (a, b, c, d), category in zip(questions.questions, questions.categories, strict=True):
        assert b == a + category[1:] and d == c + category[1:] and a != c
    assert not len(ending_questions(words, among=8))


def test_spelling_is_alike_both_ways_and_most_with_itself():
    pairs = [("walk", "walked"), ("walked", "walk"), ("tree", "tree"), ("tree", "walk"), ("", "a")]
    there, back, same, none, empty = letter_cosines(pairs)
    assert there == back and 0 < there < 1 and same == pytest.approx(1) and none == empty == 0


def test_the_shape_of_a_cloud_is_that_of_plain_algebra():
    cloud = matrix(3, rows=50, dim=6)
    values = singular_values(cloud)
    np.testing.assert_allclose(values, np.linalg.svd(cloud, compute_uv=False), rtol=1e-5)
    assert effective_dimensions(np.array([5.0, 0.0, 0.0])) == 1
    assert 1 < effective_dimensions(values) < 6
    unit = cloud / np.linalg.norm(cloud, axis=1, keepdims=True)
    cosine = unit @ unit.T
    assert common_cosine(cloud) == pytest.approx(cosine[~np.eye(50, dtype=bool)].mean(), abs=1e-5)
    assert common_cosine(cloud[:1]) == 0
    points, share = main_plane(cloud)
    spread = np.linalg.svd(unit - unit.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(points, axis=0), spread[:2], rtol=1e-5)
    assert share == pytest.approx((spread[:2] ** 2).sum() / (spread**2).sum())
    assert main_plane(cloud[:1])[1] == 1 and (points.max(axis=0) >= -points.min(axis=0)).all()
    hubs = find_hubs(cloud, k=4)
    np.fill_diagonal(cosine, -2)
    near = np.argsort(-cosine, axis=1)[:, :4]
    assert hubs.count.tolist() == np.bincount(near.ravel(), minlength=50).tolist()
    assert hubs.share == hubs.count.max() / 49 and hubs.count[hubs.largest] == hubs.count.max()
