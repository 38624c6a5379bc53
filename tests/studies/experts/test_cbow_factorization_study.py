"""The toy corpus, and what CBOW's vectors say of it."""

from collections import Counter

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.reading.text import prepare_text
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured
from exfam_studies.experts import cbow_factorization
from exfam_studies.experts.factorized import count_word_pairs
from exfam_studies.experts.toy_sentences import ADJECTIVES, SUBJECTS, toy_sentences


def test_toy_sentences_follow_the_papers_law():
    sentences = toy_sentences(12_000, seed=3)
    kinds = Counter("like" in each or 2 * (each[3] == "is") for each in sentences)
    assert all(abs(count / 12_000 - 1 / 3) < 0.02 for count in kinds.values()) and len(kinds) == 3
    liked = Counter(each[2] for each in sentences if each[0] == "I")
    share = np.array([liked[subject] for subject in SUBJECTS]) / liked.total()
    np.testing.assert_allclose(share, np.array([4, 5, 1, 1]) / 11, atol=0.03)
    of_one = Counter(each[2] for each in sentences if each[1] == "is" and each[0] == "sociology")
    share = np.array([of_one[adjective] for adjective in ADJECTIVES]) / of_one.total()
    np.testing.assert_allclose(share, np.array([1, 5, 2, 4]) / 12, atol=0.06)
    # Summed scores of mathematics and statistics: 10, 2, 9, 3 of 24.
    pair = {"mathematics", "statistics"}
    of_two = Counter(each[4] for each in sentences if each[3] == "is" and {*each[:3:2]} == pair)
    share = np.array([of_two[adjective] for adjective in ADJECTIVES]) / of_two.total()
    np.testing.assert_allclose(share, np.array([10, 2, 9, 3]) / 24, atol=0.1)


def test_toy_sentences_are_those_of_their_seed():
    assert toy_sentences(20, seed=1) == toy_sentences(20, seed=1) != toy_sentences(20, seed=2)
    with pytest.raises(ExfamError, match="`n_sentences` must be"):
        toy_sentences(0, seed=0)


def test_the_conditional_is_that_of_pairs_counted_by_hand():
    sentences = toy_sentences(60, seed=0)
    text = prepare_text(sentences, min_count=1)
    code, size = text.vocabulary.index, len(text.vocabulary)
    counts = np.zeros((size, size))
    for sentence in sentences:
        for i, center in enumerate(sentence):
            for j, context in enumerate(sentence):
                counts[code[center], code[context]] += i != j
    assert counts.std() > 1
    pairs = count_word_pairs(text, window=None)
    np.testing.assert_allclose(pairs.conditional, counts / counts.sum(axis=0))


def test_a_smoke_run_has_all_rows_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(cbow_factorization, "DIMS", (4, 30))
    options = Options(fast=True, seeds=2, folder=tmp_path)
    rows = cbow_factorization.run(options)
    assert [row.metric for row in rows] == ["nats"] + ["spearman", "pearson", "nats"] * 2
    assert {row.n_seeds for row in rows} == {2} and {row.paper for row in rows} == {None}
    assert all(row.cpu_seconds > 0 for row in rows[1:]) and rows[1].sd > 0
    monkeypatch.setattr(cbow_factorization, "_measure", lambda *_: pytest.fail("fitted again"))
    assert cbow_factorization.run(options) == rows


def test_the_papers_figures_stand_beside_full_runs(monkeypatch):
    figures = {"spearman": 0.7, "pearson": 0.6, "nats": 0.8}
    monkeypatch.setattr(cbow_factorization, "_measure", lambda *_: Measured(figures))
    monkeypatch.setattr(cbow_factorization, "DIMS", (300,))
    rows = {row.metric: row for row in cbow_factorization._rows(300, Options(seeds=1))}
    assert (rows["pearson"].value, rows["pearson"].paper) == (0.6, 0.70)


def test_figures_are_near_the_papers():
    """One corpus, the smallest dimension; all four over five corpora are in docs/results."""
    settings = cbow_factorization._settings(30, Options())
    figures = cbow_factorization._measure(settings, 10_000, 1).figures
    for metric, paper in cbow_factorization.PAPER.items():
        assert figures[metric] == pytest.approx(paper[30], abs=0.05)
    # Frequencies alone: 2.2.
    assert figures["nats"] < 0.82
