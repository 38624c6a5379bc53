"""Probing tasks solved from vectors: the classifier, its controls, cheap encoders."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from exfam.checks import DataError, ExfamError
from exfam_studies.positions.linguistic import (
    Example,
    HashedWords,
    LengthAlone,
    ProbingTask,
    TaskFeatures,
    bigram_shift_task,
    coordination_inversion_task,
    probe_task,
    sentence_length_task,
    task_features,
)
from exfam_studies.positions.linguistic.softmax import fit_softmax
from studies.positions.probing_cases import made_text, parsed

TEXT = made_text(900)
LENGTHS = sentence_length_task(TEXT, bins=[(5, 8), (9, 14), (15, 28)])
SHIFTS = bigram_shift_task(TEXT)


def random_vectors(sentences):
    """Vectors that have nothing to do with the sentences but are always the same."""
    return np.array(
        [np.random.default_rng([len(w) for w in words]).normal(size=5) for words in sentences]
    )


class Recording:
    """An encoder that remembers how many sentences it was given at once."""

    def __init__(self, encoder):
        self.encoder, self.asked = encoder, []

    def __call__(self, sentences):
        self.asked.append(len(sentences))
        assert all(isinstance(words, list) for words in sentences)
        return self.encoder(sentences)


@pytest.mark.parametrize("encoder", [HashedWords(dim=32), LengthAlone(), random_vectors])
def test_batches_change_nothing(encoder):
    result = []
    for at_once in (1, 7, 10_000):
        recording = Recording(encoder)
        features = task_features(recording, SHIFTS, sentences_at_once=at_once)
        assert max(recording.asked) == min(at_once, sum(SHIFTS.sizes.values()))
        assert sum(recording.asked) == sum(SHIFTS.sizes.values())
        result.append(features)
    for features in result[1:]:
        for part in SHIFTS.parts:
            np.testing.assert_array_equal(getattr(features, part), getattr(result[0], part))
    assert len({probe_task(features, SHIFTS, penalties=[0.1]).accuracy for features in result}) == 1


def test_a_length_tells_the_length_and_no_more():
    known = probe_task(task_features(LengthAlone(), LENGTHS), LENGTHS)
    assert known.accuracy == (1.0, 1.0, 1.0) and known.validation == 1.0
    assert known.majority == pytest.approx(1 / 3)
    assert known.shuffled.low < 0.5 and known.shuffled.mean < 0.6
    assert known.task == "SentLen" and known.version == LENGTHS.version
    assert known.sizes == LENGTHS.sizes
    shifts = probe_task(task_features(LengthAlone(), SHIFTS), SHIFTS)
    assert shifts.accuracy.low < 0.5 and shifts.accuracy.mean < 0.6


def test_words_without_order_do_not_tell_the_order_of_clauses():
    parses = [
        parsed(
            f"Xa{a}{b}/NOUN/_/nsubj/2 sleep/VERB/_/root/0 and/CCONJ/_/cc/5 "
            f"yb{b}{a}/NOUN/_/nsubj/5 bark/VERB/_/conj/2 ./PUNCT/_/punct/2"
        )
        for a in "abcdefgh"
        for b in "abcdefgh"
    ]
    task = coordination_inversion_task(parses)
    score = probe_task(task_features(HashedWords(dim=64), task), task)
    # Of each sentence both orders are there, and have one vector.
    assert score.accuracy.mean == 0.5 == score.validation


def test_the_penalty_is_the_largest_of_the_best_on_validation():
    features = task_features(HashedWords(dim=64), SHIFTS)
    alone = {
        penalty: probe_task(features, SHIFTS, penalties=[penalty]) for penalty in (1e-4, 1.0, 1e-2)
    }
    both = probe_task(features, SHIFTS, penalties=np.array(list(alone)))
    best = max(score.validation for score in alone.values())
    assert both.penalty == max(each for each in alone if alone[each].validation == best)
    assert both == alone[both.penalty]


def test_seeds_reproduce_and_tell_controls_apart():
    features = task_features(random_vectors, LENGTHS)
    first, again, other = (
        probe_task(features, LENGTHS, penalties=[0.01], seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert other.accuracy.mean == first.accuracy.mean and other.shuffled != first.shuffled


def test_groups_are_redrawn_together():
    """Sentences of one group are one piece of evidence: intervals are wider."""
    lone = tuple(Example((f"w{at}",), "xy"[at % 2], f"{at}") for at in range(120))
    together = tuple(Example(each.words, each.label, f"{at // 20}") for at, each in enumerate(lone))
    vectors = np.random.default_rng(0).normal(size=(120, 3))
    vectors[:60, 0] += 3 * (np.arange(60) % 2)
    features = TaskFeatures(vectors, vectors, vectors)
    alone, grouped = (
        probe_task(features, ProbingTask("T", ("x", "y"), lone, lone, test)).accuracy
        for test in (lone, together)
    )
    assert alone.mean == grouped.mean
    assert grouped.high - grouped.low > 1.2 * (alone.high - alone.low)


def test_the_classifier_is_logistic_regression():
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 4)) * [1, 2, 3, 4]
    y = (x @ random.normal(size=(4, 3)) + random.normal(size=(200, 3))).argmax(1)
    fit = fit_softmax(x, y, n_classes=3, penalty=0.02)
    scaled = (x - x.mean(0)) / np.sqrt(x.var(0).mean())
    witness = LogisticRegression(C=1 / (200 * 0.02), tol=1e-8, max_iter=1000).fit(scaled, y)
    np.testing.assert_allclose(fit.log_prob(x), witness.predict_log_proba(scaled), atol=1e-3)
    np.testing.assert_allclose(np.exp(fit.log_prob(x)).sum(1), 1)


def test_neither_scale_nor_place_of_vectors_matters():
    random = np.random.default_rng(1)
    x, y = random.normal(size=(100, 3)), np.arange(100) % 2
    x[:, 0] += y
    fit = fit_softmax(x, y, n_classes=2, penalty=0.1)
    moved = fit_softmax(1000 * x + 50, y, n_classes=2, penalty=0.1)
    np.testing.assert_allclose(fit.log_prob(x), moved.log_prob(1000 * x + 50), atol=1e-6)
    same = fit_softmax(np.ones((100, 3)), y, n_classes=2, penalty=0.1)
    np.testing.assert_allclose(same.log_prob(np.ones((2, 3))), np.log(0.5), atol=1e-6)


def test_more_penalty_makes_smaller_weights():
    random = np.random.default_rng(2)
    x, y = random.normal(size=(60, 3)), np.arange(60) % 2
    sizes = [
        np.abs(fit_softmax(x, y, n_classes=2, penalty=penalty).weights).sum()
        for penalty in (1e-3, 1e-1, 10.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2] > 0


def test_bags_count_words_whatever_their_case_and_order():
    bag = HashedWords(dim=16)
    first, second = bag([["The", "cat", "the"], ["cat", "the", "the"]])
    np.testing.assert_array_equal(first, second)
    assert first.sum() == 3 and bag([["dog"]]).sum() == 1
    for wrong in (HashedWords, LengthAlone):
        with pytest.raises(ExfamError, match="must be an integer >= 1, got 0"):
            wrong(0)


# What is refused


@pytest.mark.parametrize(
    "encoder",
    [
        lambda sentences: np.ones(len(sentences)),
        lambda sentences: np.ones((1, 3)),
        lambda sentences: [[1.0], *[[1.0, 2.0]] * (len(sentences) - 1)],
        lambda sentences: ["one"] * len(sentences),
        lambda sentences: np.ones((len(sentences), len(sentences[0]))),
    ],
)
def test_an_encoder_gives_a_vector_for_each_sentence(encoder):
    with pytest.raises(DataError, match="`encoder` must give a vector for each sentence, all of"):
        task_features(encoder, SHIFTS)


def test_an_encoder_gives_finite_numbers():
    def broken(sentences):
        vectors = np.ones((len(sentences), 2))
        vectors[1, 1] = np.nan
        return vectors

    with pytest.raises(DataError, match="`encoder` must give finite .* for the sentence 'Then"):
        task_features(broken, SHIFTS)


def test_an_encoder_gives_numbers_not_texts():
    with pytest.raises(DataError, match="`encoder` must give finite .* for the sentence 'Then"):
        task_features(lambda sentences: [["one", "two"]] * len(sentences), SHIFTS)


def test_numbers_of_vectors_are_finite():
    for wrong in (np.nan, np.inf):
        features = task_features(LengthAlone(), LENGTHS)
        features.test[3, 2] = wrong
        with pytest.raises(DataError, match="be finite .* for test sentence 3 of SentLen: 'Then"):
            probe_task(features, LENGTHS)


def test_a_seed_is_not_negative():
    features = task_features(LengthAlone(), LENGTHS)
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        probe_task(features, LENGTHS, seed=-1)


def test_vectors_are_those_of_the_task():
    features = task_features(LengthAlone(), LENGTHS)
    with pytest.raises(DataError, match="`features` must have a vector for each of the .* train s"):
        probe_task(features, SHIFTS)
    short = TaskFeatures(features.train, features.validation, features.test[:, :5])
    with pytest.raises(DataError, match="test sentences of SentLen, all of one dimension, got sha"):
        probe_task(short, LENGTHS)
    flat = replace(features)
    object.__setattr__(flat, "train", features.train[:, 0])  # no annotation checks users' arrays
    with pytest.raises(DataError, match=r"train sentences of .* all of one dim.* got shape \(\d+,"):
        probe_task(flat, LENGTHS)
    with pytest.raises(DataError, match="`penalties` must hold at least one number, got none"):
        probe_task(features, LENGTHS, penalties=[])
    with pytest.raises(ExfamError, match="`penalties` must be a number > 0, got 0"):
        probe_task(features, LENGTHS, penalties=[0.0])
