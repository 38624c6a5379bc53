"""The experiment of dependencies that attention heads find."""

from functools import partial

import pytest

from exfam.checks import ExfamError
from exfam.scores.metrics import paired_bootstrap
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.positions import dependencies, positions_dependencies
from exfam_studies.positions.dependencies import offset_hits
from exfam_studies.positions.parses import PARTS, english_parses
from studies.positions.probing_cases import parse


@pytest.fixture
def treebank(monkeypatch):
    """Subjects before their verb at dev; at test half of them are further away."""
    near = parse([1, -1], ["nsubj", "root"])
    far = parse([2, 2, -1], ["nsubj", "rare", "root"])
    parts = {"dev": [near] * 30, "test": [near] * 15 + [far] * 15}
    monkeypatch.setattr(positions_dependencies, "english_parses", parts.__getitem__)


def test_predictors_are_chosen_at_dev_and_scored_at_test(treebank, tmp_path, capsys):
    rows = positions_dependencies.run(Options(only=["offset"]))
    result = {(row.task, row.metric): row for row in rows}
    nsubj = result["relation-nsubj", "accuracy"]
    assert nsubj.value == 0.5 and nsubj.validation == 1.0
    assert nsubj.settings["predictor"] == "offset +1 to-head"
    assert nsubj.settings["dependencies"] == 30
    assert 0.3 < nsubj.settings["low"] < 0.5 < nsubj.settings["high"] < 0.7
    assert result["relation-root", "accuracy"].value == 1.0
    # Seen in the test part alone: nothing was chosen for it.
    assert ("relation-rare", "accuracy") not in result
    assert result["all", "accuracy"].value == result["all", "accuracy-mean"].value == 0.75


def test_an_encoder_is_scored_like_offsets_and_noted_where_absent(monkeypatch, treebank):
    monkeypatch.setattr(positions_dependencies, "packaged_encoder", lambda: None)
    (row,) = positions_dependencies.run(Options(only=["minilm"]))
    assert row.note == "not installed" and row.value is None
    monkeypatch.setattr(positions_dependencies, "packaged_encoder", lambda: "encoder")
    monkeypatch.setattr(dependencies, "attention_hits", lambda encoder, parses: offset_hits(parses))
    rows = positions_dependencies.run(Options(only=["offset", "minilm"]))
    of = {
        model: [(row.task, row.metric, row.value) for row in rows if row.model == model]
        for model in ("offset", "minilm")
    }
    assert of["offset"] == of["minilm"] and len(of["offset"]) > 4


def test_the_published_treebank_is_scored(data_folder, monkeypatch):
    if not (data_folder / "parses").is_dir():
        pytest.skip("the folder has no parses")
    with pytest.raises(ExfamError, match="`part` must be one of 'dev', 'test', got 'train'"):
        english_parses("train")
    assert [len(english_parses(part)) for part in PARTS] == [2001, 2077]
    # Intervals cost most of the time, and are not looked at.
    monkeypatch.setattr(dependencies, "paired_bootstrap", partial(paired_bootstrap, n=20))
    rows = reproduce("positions-dependencies", options=Options(only=["offset"]))
    result = {(row.task, row.metric): row.value for row in rows}
    assert result["all", "accuracy"] == pytest.approx(0.466, abs=0.001)
    assert result["short", "accuracy"] > result["long", "accuracy"]
