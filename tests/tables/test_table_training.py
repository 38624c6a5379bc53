"""Fits of table models: resumed, stopped, validated, and refused."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.checks import CheckpointError, ExfamError
from exfam.tables.data import Cells
from exfam.tables.estimator.choice import model_settings, objective_of, schedule, train_model
from exfam.tables.estimator.plan import Recipe
from exfam.tables.networks.masked_table_model import MaskedCells
from exfam.training.checkpoints import Checkpoint
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from table_network_cases import (
    alike_cells,
    alike_plan,
    batch_of,
    mixed_cells,
    parameters,
    table_model,
)
from toy_fit import N_SAMPLED, same_bits, without_times

RECIPES = [Recipe(True, 0.5), Recipe(False, 0.0)]
SETTINGS = TrainingSettings(batch_size=16, max_epochs=3, seed=3, learning_rate=1e-2)
LOSS = MaskedCells(3, 0.5, (0.5, 0.0), "mask", n_targets=4)


class PowerCut(Exception):
    pass


def counted(*, at=None, act=None):
    """The objective, and something done at its call number `at`."""
    calls = []

    def objective(model, batch):
        calls.append(model.training)
        if len(calls) == at:
            act()
        return LOSS(model, batch)

    objective.calls = calls
    return objective


def cut():
    raise PowerCut("the lights went out")


def table_fit(*, objective=LOSS, network="deep", settings=SETTINGS, n=60, **options):
    """A fit with random masking, dropout, drawn targets, validation and weights."""
    model = table_model(network=network, dropout=0.2, moved=0.0)
    rows = {
        "train": model.rows(mixed_cells(n), np.linspace(0.5, 2.0, n)),
        "validation": model.rows(mixed_cells(20, seed=7)),
    }
    history = fit(model, objective=objective, settings=settings, **{**rows, **options})
    return model, history


@pytest.fixture(scope="module")
def uninterrupted():
    objective = counted()
    model, history = table_fit(objective=objective)
    return model, history, len(objective.calls)


@pytest.mark.parametrize("at", [1, 6, 10, 11, 13, 18])
def test_a_fit_cut_anywhere_resumes_to_the_same_bits(tmp_path, uninterrupted, at):
    model, history, n_calls = uninterrupted
    assert at < n_calls
    checkpoint = Checkpoint(tmp_path, seconds=0.0)
    with pytest.raises(PowerCut, match="lights"):
        table_fit(objective=counted(at=at, act=cut), checkpoint=checkpoint)
    resumed, again = table_fit(checkpoint=checkpoint)
    assert same_bits(resumed, model) and without_times(again) == without_times(history)


def test_a_fit_stopped_by_ctrl_c_goes_on(tmp_path, uninterrupted):
    model, history, n_calls = uninterrupted
    press = counted(at=8 + N_SAMPLED, act=lambda: signal.raise_signal(signal.SIGINT))
    _, stopped = table_fit(objective=press, checkpoint=tmp_path)
    assert stopped.interrupted
    rest = counted()
    resumed, again = table_fit(objective=rest, checkpoint=tmp_path)
    assert len(press.calls) + len(rest.calls) == n_calls
    assert same_bits(resumed, model) and without_times(again) == without_times(history)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 61}, "cells of train is '"),
        ({"validation": None}, "cells of validation is '.* there and absent here"),
        ({"network": "linear"}, "shape of .*there and .*here"),
    ],
)
def test_a_checkpoint_of_another_table_is_refused(tmp_path, options, message):
    checkpoint = Checkpoint(tmp_path, seconds=0.0)
    with pytest.raises(PowerCut, match="lights"):
        table_fit(objective=counted(at=4 + N_SAMPLED, act=cut), checkpoint=checkpoint)
    with pytest.raises(CheckpointError, match=f"`checkpoint` must belong to this fit.*{message}"):
        table_fit(checkpoint=tmp_path, **options)


def test_the_weights_of_the_best_epoch_are_kept():
    settings = replace(SETTINGS, learning_rate=0.3, max_epochs=25, patience=4, warmup=0.0)
    model, history = table_fit(network="linear", settings=settings)
    assert history.stopped == "patience" and len(history) - history.best.epoch == 4
    with torch.no_grad():
        nats, weight = LOSS(model, batch_of(model, mixed_cells(20, seed=7)))
    assert float(nats / weight) == pytest.approx(history.best.validation_nats, rel=1e-6)


@pytest.mark.parametrize("network", ["linear", "deep"])
def test_a_fit_learns_what_one_column_says_of_another(network):
    code = np.random.default_rng(0).integers(0, 4, (200, 4)).astype(np.int32)
    code[:, 3] = 3 - code[:, 0]
    cells = Cells(code, np.zeros(code.shape, np.float32), code.astype(float))
    plan = alike_plan(cells[:160], validation=cells[160:])
    given = parameters(network=network, max_epochs=20, learning_rate=2e-2)
    fitted = train_model(given, plan, [Recipe(True, 0.0)], progress=False)
    assert fitted.history.rows[0].validation_nats > 0.7
    assert fitted.history.best.validation_nats < 0.1
    assert not fitted.model.training


def test_a_checkpoint_is_of_all_parameters_but_those_that_change_nothing(tmp_path):
    plan = alike_plan(checkpoint=tmp_path)
    first, again = (
        train_model(parameters(progress=shown), plan, RECIPES[:1], progress=False).model
        for shown in (False, True)
    )
    assert same_bits(first, again)
    with pytest.raises(CheckpointError, match=r"response_share is None there and 0\.5 here"):
        train_model(parameters(response_share=0.5), plan, RECIPES[:1], progress=False)
    with pytest.raises(ExfamError, match="`train` must have a target of positive weight"):
        nothing = alike_plan(alike_cells(20).hide([0, 1, 2, 3]))
        train_model(parameters(), nothing, RECIPES, progress=False)


@pytest.mark.parametrize(
    ("unlabeled", "response", "expected"),
    [("mask", "d", ("d",)), ("absent", "d", ()), ("mask", None, ())],
)
def test_networks_and_objectives_are_what_recipes_and_parameters_say(unlabeled, response, expected):
    settings = model_settings(parameters(unlabeled=unlabeled), RECIPES, response=response)
    assert settings.masked_columns == expected
    assert settings.ordinal == (True, False)
    loss = objective_of(parameters(response_share=np.float64(0.5)), alike_plan(), RECIPES)
    assert loss == MaskedCells(3, 0.5, (0.5, 0.0), "absent", n_targets=8)


OPEN = {"batch_size": "auto", "max_epochs": "auto"}


@pytest.mark.parametrize("n_rows", [1, 50, 500, 2000, 100_000, 3_000_000])
def test_a_schedule_takes_enough_steps_and_shows_enough_rows(n_rows):
    settings = schedule(parameters(**OPEN), n_rows)
    size = settings.batch_size
    assert 64 <= size <= 1024 and size & (size - 1) == 0
    assert size in (64, 256, 1024) or n_rows / 96 <= size <= n_rows / 4
    steps = settings.max_epochs * -(-n_rows // size)
    # Rounded to whole epochs, at least one.
    assert steps >= min(160, 3.5 * n_rows**0.5) * 0.7
    assert settings.max_epochs * max(n_rows, size) >= 15_000 * 0.7
    assert settings.max_epochs == 1 or steps <= 2 * max(160, 3.5 * n_rows**0.5, 15_000 / 64)


@pytest.mark.parametrize(("n_rows", "steps"), [(2000, 470), (8000, 939), (1_000_000, 3500)])
def test_a_longer_training_has_more_steps_of_the_first_rows(n_rows, steps):
    short, long = (schedule(parameters(**OPEN), n_rows, length=length) for length in (1, 3))
    assert replace(long, max_epochs=short.max_epochs) == short
    assert long.max_epochs * n_rows / long.batch_size == pytest.approx(steps, rel=0.15)
    given = schedule(parameters(batch_size=np.int64(48), max_epochs=7), n_rows)
    assert (given.batch_size, given.max_epochs, given.clip) == (48, 7, None)
