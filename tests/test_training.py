"""Fits: seeds, the best epoch, Ctrl-C, histories, progress, weights, what is not finite."""

import io
import math
import signal
import threading

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from exfam.checks import ExfamError
from exfam.groups import CONTEXT, Groups
from exfam.training.batching import Weighted
from exfam.training.history import Epoch, History
from exfam.training.progress import EpochProgress
from exfam.training.protocol import Engine
from toy_fit import (
    N_SAMPLED,
    ToyModel,
    counting,
    same_bits,
    squares,
    toy_engine,
    toy_fit,
    toy_groups,
    toy_settings,
    without_times,
)


def press_ctrl_c(model, batch):
    signal.raise_signal(signal.SIGINT)
    return squares(model, batch)


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    model = ToyModel()
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    _, history = toy_fit(model)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()
    again, history_again = toy_fit()
    other, _ = toy_fit(settings=toy_settings(seed=4))
    assert same_bits(model, again) and not same_bits(model, other)
    assert without_times(history) == without_times(history_again)


def test_every_epoch_has_its_own_order():
    engine, orders = toy_engine(), []
    assert isinstance(engine, Engine) and engine.validation() is None
    for epoch in (0, 1, 0):
        engine.begin_epoch(epoch)
        orders.append(np.concatenate(engine._batches).tolist())
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(40))


def one_number(model, batch):
    """Distance of a single parameter from the values: validation has another optimum."""
    distance = model.weight[0, 0] - batch.values["value"]
    return (distance**2)[batch.present].sum(), batch.present.sum()


def constant(value):
    return Groups(start=[0], stop=[2], values={"value": [value, value]})


def fit_one_number(validation, **changes):
    """Training pulls the number to 1; a validation on the way there is best earlier."""
    model = nn.Embedding.from_pretrained(torch.zeros(1, 1), freeze=False)
    settings = toy_settings(max_epochs=80, learning_rate=0.05, schedule="constant", **changes)
    data = {"train": constant(1.0), "validation": validation}
    return toy_fit(model, objective=one_number, settings=settings, **data)


def test_the_best_validation_epoch_is_kept_and_patience_ends_the_fit():
    model, history = fit_one_number(constant(0.3), patience=1000)
    validation = history.to_dict()["validation_nats"]
    assert history.best.validation_nats == min(validation) < validation[-1]
    assert (model.weight.item() - 0.3) ** 2 == pytest.approx(min(validation), abs=1e-6)
    assert history.stopped == "max_epochs" and not model.training
    short, history = fit_one_number(constant(0.3), patience=3)
    assert history.stopped == "patience" and same_bits(short, model)
    assert len(history) == history.best.epoch + 3 < 80


def test_without_validation_the_last_weights_are_kept():
    model, history = fit_one_number(None)
    assert history.best is None and len(history) == 80
    assert model.weight.item() == pytest.approx(1.0, abs=0.05)


def test_ctrl_c_keeps_the_best_so_far():
    epochs = []

    def remember(model, batch):
        if not model.training:
            epochs.append({k: v.clone() for k, v in model.state_dict().items()})
        return squares(model, batch)

    model, history = toy_fit(objective=counting(remember, at=13, act=press_ctrl_c))
    assert history.interrupted and history.stopped == "interrupted" and len(history) == 2
    del epochs[:N_SAMPLED]
    kept = epochs[len(epochs) // 2 * (history.best.epoch - 1)]
    assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())


def test_ctrl_c_finishes_the_step_at_hand_and_takes_no_other():
    objective = counting(at=3, act=press_ctrl_c)
    _, history = toy_fit(objective=objective, validation=None)
    assert history.interrupted and len(history) == 0 and sum(objective.calls) == 3


def test_a_second_ctrl_c_raises_and_an_interrupt_that_is_no_signal_ends_the_fit():
    def twice(model, batch):
        signal.raise_signal(signal.SIGINT)
        return press_ctrl_c(model, batch)

    def interrupt(model, batch):
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="second Ctrl-C"):
        toy_fit(objective=counting(at=7, act=twice))
    assert signal.getsignal(signal.SIGINT) is before
    _, history = toy_fit(objective=counting(at=7, act=interrupt))
    assert history.interrupted and len(history) == 1


def test_outside_the_main_thread_a_fit_takes_no_signals():
    results = []
    thread = threading.Thread(target=lambda: results.append(toy_fit()))
    thread.start()
    thread.join()
    assert same_bits(results[0][0], toy_fit()[0])


def test_history_as_columns():
    _, history = toy_fit()
    columns = history.to_dict()
    assert columns["epoch"] == [1, 2, 3, 4]
    assert (np.diff([0.0, *columns["cpu_seconds"]]) > 0).all()
    assert history.steps == 20 and history.cpu_seconds == columns["cpu_seconds"][-1]
    assert History.from_config(history.to_config()) == history
    empty = History((), "interrupted")
    assert (empty.steps, empty.cpu_seconds, empty.best) == (0, 0.0, None)


def drawn(*drawings, shown=True, terminal=True):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=100)
    with EpochProgress(shown=shown, max_epochs=9, console=console) as progress:
        for rows in drawings:
            progress.draw(rows)
        progress.say("a line")
    return screen.getvalue()


def test_progress_shows_epoch_validation_and_best_on_a_terminal(capfd):
    rows = [Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True), Epoch(2, 16, 3.7, 3.85, 3e-3, 0.4, False)]
    # It ends with the last epoch, however quick.
    text = drawn([], rows[:1], rows)
    assert "epoch 2/9  validation 3.8500 nats (best 3.8000)" in text and "a line" in text
    assert drawn(rows, shown=False) == drawn(rows, terminal=False) == ""
    assert "train 3.9000 nats" in drawn([Epoch(1, 8, 3.9, None, 3e-3, 0.2, False)])
    toy_fit(progress=True)
    assert capfd.readouterr() == ("", "")


def test_a_batch_without_weight_takes_no_step():
    groups = toy_groups(n_groups=2)
    weight = np.zeros(groups.n_elements)
    weight[groups[1].elements()] = 1.0
    half = toy_settings(batch_size=1, max_epochs=1, warmup=0.0, schedule="constant")
    model, _ = toy_fit(train=Weighted(groups, weight), settings=half, validation=None)
    moved = model.item.weight != ToyModel().item.weight
    rows = set(moved.any(-1).nonzero()[:, 0].tolist())
    assert rows and rows <= set(groups.item[groups[1].elements()])


@pytest.mark.parametrize("size", [{}, {"batch_tokens": 30}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_element_counts_alike_whatever_its_batch(weighted, size):
    groups = toy_groups()
    role = (np.arange(groups.n_elements) % 3 == 0).astype(np.int8) * CONTEXT
    weight = np.linspace(0.0, 1.0, groups.n_elements) if weighted else None
    groups = groups.with_(role=role)
    settings = toy_settings(clip=None, learning_rate=1e-12, **size)
    engine = toy_engine(settings, train=Weighted(groups, weight), model=ToyModel(dropout=0.0))
    item, total = engine.model.item.weight, 0.0
    gradient = torch.zeros_like(item)
    n_steps = engine.begin_epoch(0)
    for index in range(n_steps):
        total += engine.step(index)[1]
        gradient += item.grad / n_steps
    nats, _ = squares(engine.model, groups.pad(np.arange(len(groups)), weight=weight))
    torch.testing.assert_close(gradient, torch.autograd.grad(nats / total, item)[0])


def test_data_without_weight_are_refused():
    groups = toy_groups()
    nothing = Weighted(groups, np.zeros(groups.n_elements))
    blind = groups.with_(role=np.full(groups.n_elements, CONTEXT, dtype=np.int8))
    for name, part in (("train", nothing), ("validation", blind)):
        with pytest.raises(ExfamError, match=f"`{name}` must have a target of positive weight"):
            toy_fit(**{name: part})


def not_finite(model, batch):
    nats, weight = squares(model, batch)
    return nats * math.nan, weight


def steep(model, batch):
    nats, weight = squares(model, batch)
    return nats + torch.sqrt(model.out.bias.sum() * 0.0), weight


def test_nats_that_are_not_finite_stop_the_fit_with_the_best_weights():
    two_epochs, _ = toy_fit(settings=toy_settings(max_epochs=2, schedule="constant", warmup=0.0))
    model, settings = ToyModel(), toy_settings(schedule="constant", warmup=0.0)
    match = (
        r"Training nats must be finite, got nan at epoch 3, step 2\. Use a lower "
        r"`learning_rate`\. The model has its best weights so far, those of epoch 2\."
    )
    with pytest.raises(ExfamError, match=match):
        toy_fit(model, objective=counting(at=12, act=not_finite), settings=settings)
    assert same_bits(model, two_epochs)


@pytest.mark.parametrize("objective", [not_finite, steep])
def test_neither_nats_nor_gradients_that_are_not_finite_reach_the_weights(objective):
    model = ToyModel()
    with pytest.raises(ExfamError, match=r"got nan at epoch 1, step 1\. .*`learning_rate`\.$"):
        toy_fit(model, objective=objective)
    assert same_bits(model, ToyModel())


def test_what_the_last_step_did_to_the_weights_is_seen():
    settings = toy_settings(learning_rate=1e38, max_epochs=1, batch_size=10_000, warmup=0.0)
    with pytest.raises(ExfamError, match=r"Training nats must be finite, got \w+ after the last"):
        toy_fit(validation=None, settings=settings)


def test_infinite_validation_is_named():
    def impossible(model, batch):
        nats, weight = squares(model, batch)
        return nats if model.training else nats + math.inf, weight

    with pytest.raises(ExfamError, match=r"Validation nats must be finite, got inf after epoch 1"):
        toy_fit(objective=impossible)


def test_a_result_far_worse_than_the_start_is_an_error(tmp_path):
    settings = toy_settings(learning_rate=1e3, warmup=0.0)
    message = r"must not rise, got .*e\+\d+ after the last step where there were .*`learning_rate`"
    for _ in range(2):  # a checkpoint does not hide it
        with pytest.raises(ExfamError, match=message):
            toy_fit(settings=settings, checkpoint=tmp_path)


def test_outliers_and_hard_validation_data_are_no_divergence():
    value = toy_groups().values["value"]
    outlier = np.where(np.arange(len(value)) == len(value) - 1, 1e9, value)
    for options in ({"train": outlier}, {"validation": value + 1e6}, {"validation": outlier}):
        groups = {k: toy_groups().with_(values={"value": v}) for k, v in options.items()}
        assert len(toy_fit(**groups)[1]) == 4
