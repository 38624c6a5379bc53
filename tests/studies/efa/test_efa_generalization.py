"""Excess loss by the number of groups: what is simulated, fitted and reported."""

from dataclasses import replace

import numpy as np
import pytest

from exfam_studies.common.harness import Options, reproduce
from exfam_studies.efa import efa_generalization as experiment
from exfam_studies.efa.generalization import parameter_norm


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(experiment, "FAST_STEPS", 6)
    monkeypatch.setattr(experiment, "FAST_GROUPS", (4, 8))


def test_a_smoke_run_has_all_rows_and_is_kept(tmp_path, monkeypatch):
    options = Options(fast=True, seeds=2, folder=tmp_path, out=tmp_path)
    rows = reproduce("efa-generalization", options=options)
    of_size = ["excess-loss", "change-of-sampled-loss", "change-of-training-loss"]
    of_size += ["excess-loss", "excess-loss", "rate-term"]
    assert [row.metric for row in rows] == 2 * of_size + ["slope-rate-term", "slope-excess"]
    slope = rows[-1]
    assert slope.settings["low"] < slope.value < slope.settings["high"]
    assert rows[0].n_seeds == 2 and rows[0].cpu_seconds > 0 and rows[0].value > 0
    assert rows[5].value / rows[11].value == pytest.approx(2**0.5)
    monkeypatch.setattr(experiment, "_measure", lambda *_: pytest.fail("fitted again"))
    assert experiment.run(options) == [replace(row, run=None) for row in rows]


def test_fits_have_less_training_loss_than_where_they_start_and_keep_the_norm():
    train = experiment.simulated_maps(30, seed=2)
    batch = train.pad(np.arange(30))
    starts = experiment._starts(experiment._known(), seed=0)
    before = [float(experiment._loss(start, batch).detach()) for start in starts]
    fitted = experiment.least_loss_fit(starts, train, n_steps=20, norm_bound=6.0)
    assert float(experiment._loss(fitted, batch).detach()) < min(before)
    assert float(parameter_norm(fitted).detach()) <= 6.0 + 1e-9
    assert [float(experiment._loss(start, batch).detach()) for start in starts] == before
