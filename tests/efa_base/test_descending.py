"""The descending schedule: decay, then rate, go down where validation stalls; it outlives a cut."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.training.batching import Weighted
from exfam.training.checkpoints import Checkpoint
from exfam.training.optimizer import Descent
from toy_fit import counting, same_bits, toy_engine, toy_fit, toy_groups, toy_settings

SETTINGS = toy_settings(
    schedule="descending", max_epochs=30, patience=14, learning_rate=0.3, weight_decay=0.02
)


GAINED, STALLED, LOST = 1.0, -0.005, -0.02


def levels(gains):
    """Decay and rate after validations that gain so much, where they change."""
    descent, seen = Descent(), []
    for gain in gains:
        if descent.after(gain=gain):
            seen.append((round(descent.decay, 3), round(descent.rate, 3)))
    return seen


def test_decay_goes_down_first_and_then_the_rate():
    stage, useless = [GAINED] + [STALLED] * 3, [STALLED] * 3
    assert levels([STALLED, GAINED] * 20) == []
    # Each level of decay helps: all of them, then rates at the least.
    helped = [(10, 1), (2, 1), (0.4, 1), (0.4, 0.333), (0.4, 0.111)]
    assert levels(stage * 5) == helped
    # The third does not: back to the one before it.
    assert levels(stage * 2 + useless * 2) == [(10, 1), (2, 1), (10, 0.333), (10, 0.111)]
    # The first less strong one does not help.
    assert levels(useless * 3) == [(10, 1), (50, 0.333), (50, 0.111)]


def test_one_clear_loss_ends_a_later_stage_that_has_not_helped():
    assert levels([LOST] * 2) == []
    assert levels([LOST] * 5) == [(10, 1), (50, 0.333), (50, 0.111)]
    assert levels([STALLED] * 3 + [STALLED, LOST]) == [(10, 1), (50, 0.333)]
    assert levels([STALLED] * 3 + [GAINED, LOST, LOST]) == [(10, 1)]


def test_a_fit_is_over_after_the_last_rate(monkeypatch):
    descent = Descent()
    for _ in range(3 * (2 + Descent.N_RATES)):
        assert not descent.is_over
        descent.after(gain=STALLED)
    assert descent.is_over
    for n_rates, n_epochs in ((1, 10), (2, 13)):
        monkeypatch.setattr(Descent, "N_RATES", n_rates)
        # Nothing is ever better than the first epoch: three at either decay and at each rate.
        settings = replace(SETTINGS, learning_rate=1e-9, weight_decay=0.0, patience=30)
        _, history = toy_fit(settings=settings)
        assert (len(history), history.stopped) == (n_epochs, "patience")


def test_the_largest_decay_is_that_of_matrices_alone_and_rates_rise_and_fall_with_steps():
    engine = toy_engine(SETTINGS)
    decays = [group["weight_decay"] for group in engine.optimizer.param_groups]
    assert sorted(decays) == [0.0, 50 * SETTINGS.weight_decay]
    for epoch, share in ((0, 1 / 50), (10, 1.0), (15, 1.0), (20, 2 / 3), (29, 1 / 15)):
        engine.begin_epoch(epoch)
        engine.step(0)
        assert engine.learning_rate == pytest.approx(0.3 * share)


def test_a_stage_that_ends_goes_back_to_the_best_weights():
    engine = toy_engine(SETTINGS, validation=Weighted(toy_groups(seed=1)))
    best = engine.model.state_dict()["out.weight"].clone()
    for epoch in range(5):
        n_steps = engine.begin_epoch(epoch)
        if epoch == 4:
            break
        list(engine.validation())
        if epoch == 0:
            engine.keep_best()
        with torch.no_grad():
            engine.model.out.weight.add_(9.0)
    assert torch.equal(engine.model.state_dict()["out.weight"], best)
    decays = [group["weight_decay"] for group in engine.optimizer.param_groups]
    assert n_steps == 5 and max(decays) == pytest.approx(10 * SETTINGS.weight_decay)


def lights_out(model, batch):
    raise OSError("the lights went out")


@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.875])
def test_a_fit_that_is_cut_goes_on_to_the_same_bits(tmp_path, share, uninterrupted):
    expected, n_steps = uninterrupted
    failing = counting(at=int(share * n_steps), act=lights_out)
    checkpoint = Checkpoint(tmp_path, seconds=0.0)
    with pytest.raises(OSError, match="lights"):
        toy_fit(objective=failing, settings=SETTINGS, checkpoint=checkpoint)
    result, history = toy_fit(settings=SETTINGS, checkpoint=tmp_path)
    assert same_bits(result, expected[0])
    assert history.to_dict()["validation_nats"] == expected[1].to_dict()["validation_nats"]


@pytest.fixture(scope="module")
def uninterrupted():
    objective = counting()
    fit = toy_fit(objective=objective, settings=SETTINGS)
    rates = np.array(fit[1].to_dict()["learning_rate"])
    # Of the last of each epoch's 5 steps.
    step = 5 * np.arange(1, 1 + len(rates)) - 1
    stage = rates / (0.3 * np.minimum(np.minimum((step + 1) / 50, 1), 2 - step / 75))
    assert set(np.round(stage, 3)) == {1, 0.333, 0.111, 0.037}, "all rates"
    other = toy_fit(settings=replace(SETTINGS, weight_decay=0.0))
    assert not same_bits(fit[0], other[0])
    return fit, sum(objective.calls)
