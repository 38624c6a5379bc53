"""Probing tasks solved from vectors: the classifier, its controls, cheap encoders."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from exfam_studies.positions.linguistic.balancing import Example, ProbingTask
from exfam_studies.positions.linguistic.of_parses import coordination_inversion_task
from exfam_studies.positions.linguistic.of_sentences import bigram_shift_task, sentence_length_task
from exfam_studies.positions.linguistic.scoring import (
    fit_softmax,
    hashed_words,
    length_alone,
    majority_share,
    probe_task,
)
from studies.positions.probing_cases import made_text, parsed

TEXT = made_text(900)
LENGTHS = sentence_length_task(TEXT, bins=[(5, 8), (9, 14), (15, 28)])
SHIFTS = bigram_shift_task(TEXT)


def random_vectors(sentences):
    """Vectors that have nothing to do with the sentences but are always the same."""
    return np.array(
        [np.random.default_rng([len(w) for w in words]).normal(size=5) for words in sentences]
    )


def test_a_length_shows_the_length_and_no_more():
    fitted = probe_task(length_alone, LENGTHS)
    assert fitted.accuracy == (1.0, 1.0, 1.0) and fitted.validation == 1.0
    assert majority_share(LENGTHS) == pytest.approx(1 / 3)
    assert fitted.shuffled.low < 0.5 and fitted.shuffled.mean < 0.6
    shifts = probe_task(length_alone, SHIFTS)
    assert shifts.accuracy.low < 0.5 and shifts.accuracy.mean < 0.6


def test_words_without_order_do_not_show_the_order_of_clauses():
    parses = [
        parsed(
            f"Xa{a}{b}/NOUN/_/nsubj/2 sleep/VERB/_/root/0 and/CCONJ/_/cc/5 "
            f"yb{b}{a}/NOUN/_/nsubj/5 bark/VERB/_/conj/2 ./PUNCT/_/punct/2"
        )
        for a in "abcdefgh"
        for b in "abcdefgh"
    ]
    task = coordination_inversion_task(parses)
    score = probe_task(hashed_words, task)
    # Of each sentence both orders are there, and have one vector.
    assert score.accuracy.mean == 0.5 == score.validation


def test_seeds_reproduce_and_change_controls():
    first, again, other = (probe_task(random_vectors, LENGTHS, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert other.accuracy.mean == first.accuracy.mean and other.shuffled != first.shuffled


def test_groups_are_redrawn_together():
    """Sentences of one group are one piece of evidence: intervals are wider."""
    lone = tuple(Example((f"w{at}",), "xy"[at % 2], f"{at}") for at in range(120))
    together = tuple(
        Example(entry.words, entry.label, f"{at // 20}") for at, entry in enumerate(lone)
    )
    vectors = np.random.default_rng(0).normal(size=(120, 3))
    vectors[:60, 0] += 3 * (np.arange(60) % 2)

    def encoder(sentences):
        return vectors[[int(word[1:]) for (word,) in sentences]]

    alone, grouped = (
        probe_task(encoder, ProbingTask("T", ("x", "y"), lone, lone, test)).accuracy
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
