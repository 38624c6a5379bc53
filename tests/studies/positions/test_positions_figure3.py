"""The experiment of sentences by attention to positions alone, on toy reviews."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from exfam.vectors import WordVectors
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.rows import Row
from exfam_studies.positions import figure3 as positions_figure3
from exfam_studies.positions.figure3 import gain_of_symmetry, trend_rows, w_for
from exfam_studies.positions.public_sentences import SentencePart, SentenceTask

WORDS = tuple("abcdefgh")


def part(n, seed):
    random = np.random.default_rng(seed)
    drawn = [random.integers(8, size=random.integers(2, 9)) for _ in range(n)]
    labels = np.array(["low" if codes.mean() < 3.5 else "high" for codes in drawn])
    return SentencePart(tuple(" ".join(WORDS[code] for code in codes) for codes in drawn), labels)


@pytest.fixture
def options(tmp_path, monkeypatch):
    """A smoke run over reviews of eight words, with vectors of a file and with those of a text."""

    def task(name, *, seed):
        parts = (part(n, 3 * seed + k) for k, n in enumerate((90, 30, 30)))
        return SentenceTask(name, *parts)

    monkeypatch.setattr(positions_figure3, "sentence_task", task)
    path = tmp_path / "eight.vec"
    drawn = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    WordVectors(WORDS, drawn).save(path, format="word2vec")
    return Options(fast=True, vectors=path, folder=tmp_path / "kept", out=tmp_path / "plots")


def test_w_is_worked_out_for_a_locality():
    # Figures of the reference: locality .162 and .3 at these w.
    assert w_for(0.162, s=1.0) == pytest.approx(0.008844, rel=1e-2)
    assert w_for(0.3, s=1.0) == pytest.approx(0.038105, rel=1e-3)
    result = positions_figure3._scores(w_for(0.2, s=0.1), 0.1)
    assert result["locality"] == pytest.approx(0.2, abs=1e-6) and result["symmetry"] < 0.75


def test_settings_baselines_and_trends_have_rows_and_are_kept(options, monkeypatch, capsys):
    wanted = replace(options, seeds=2, only=("mr-locality", "mr-symmetry"))
    rows = reproduce("positions-figure3", options=wanted)
    assert {row.task for row in rows} == set(wanted.only)
    own = [row for row in rows if row.task == "mr-locality"]
    scored = [row for row in own if row.metric == "accuracy"]
    assert all(row.n_seeds == 2 and row.validation is not None for row in scored)
    assert [row.model for row in scored].count("majority") == 1
    for padding in ("zeroed", "renormalized"):
        local = {
            row.model: row.settings["locality"]
            for row in scored
            if row.settings.get("padding") == padding
        }
        assert local["uniform"] < 0.03 and local["identity"] == 1.0 and "attenuated" in local
        trends = [row.metric for row in own if row.settings.get("padding") == padding]
        assert {"position-slope", "position-spearman"} < set(trends)
    even = [row for row in rows if row.metric == "minus-asymmetric"]
    assert {row.settings["locality"] for row in even} == {0.2, 0.3}
    assert len(list(options.out.glob("positions-figure3-*.png"))) == 2
    assert "position-slope" in capsys.readouterr().out
    classifier = positions_figure3.PositionalSentenceClassifier
    monkeypatch.setattr(classifier, "fit", lambda *_, **__: pytest.fail("fitted again"))
    plain = [replace(row, run=None, parameters={}) for row in rows]
    assert positions_figure3.run(wanted) == plain


def test_a_fit_that_is_cut_short_is_not_kept(options, monkeypatch):
    classifier = positions_figure3.PositionalSentenceClassifier
    monkeypatch.setattr(classifier, "fit", lambda self, *given, **named: self)
    monkeypatch.setattr(classifier, "history_", SimpleNamespace(interrupted=True))
    with pytest.raises(KeyboardInterrupt, match="a fit was cut short"):
        positions_figure3.run(replace(options, only=("mr-symmetry",)))
    assert not list((options.folder / "positions-figure3").glob("**/*.json"))


def test_trends_are_signed_and_of_their_span():
    x = np.array([0.1, 0.2, 0.3, 0.8])
    scores = np.stack([2 * x, np.array([0.1, 0.2, 0.3, 0.1])])
    row = Row(task="t", model="trend", metric="")
    spans = (-np.inf, 0.3), (0.7, 1.0)
    low, high = (trend_rows(row, "by", x, span, (scores, -scores)) for span in spans)
    rows = low + high
    result = {entry.metric: entry for entry in rows}
    assert len(rows) == 2 and result["position-slope"].settings["over"] == "0.1 to 0.3"
    assert result["position-slope"].value == pytest.approx(1.5)
    assert result["position-spearman"].value == pytest.approx(1.0)
    assert result["position-spearman"].validation == pytest.approx(-1.0)


def test_the_gain_of_symmetry_is_within_a_locality():
    held = np.array([0.1, 0.1, 0.1, 0.5, 0.5])
    even = np.array([True, False, False, False, True])
    scores = np.array([[0.9, 0.5, 0.7, 0.2, 0.1]])
    row = Row(task="t", model="trend", metric="")
    rows = gain_of_symmetry(row, held, even, (scores, scores))
    result = {row.settings["locality"]: row.value for row in rows}
    assert result == {0.1: pytest.approx(0.3), 0.5: pytest.approx(-0.1)}
