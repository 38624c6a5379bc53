import io
import shutil
import signal
import threading

import numpy as np
import pyarrow as pa
import pytest
import torch
from rich.console import Console
from torch import nn

from exfam.checks import ExfamError
from exfam.groups import Groups
from exfam.training.history import Epoch, EpochProgress, History
from exfam.training.protocol import Engine, Run
from exfam.training.steps import TorchEngine, Weighted
from toy_fit import (
    N_SAMPLED,
    ToyModel,
    counting,
    run_python,
    same_bits,
    squares,
    told,
    toy_fit,
    toy_groups,
    toy_settings,
)


def press_ctrl_c(model, batch):
    signal.raise_signal(signal.SIGINT)
    return squares(model, batch)


# Seeds


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    model, history = toy_fit()
    again, history_again = toy_fit()
    other, _ = toy_fit(settings=toy_settings(seed=4))
    assert same_bits(model, again)
    assert told(history) == told(history_again)
    assert not same_bits(model, other)


def test_dropout_alone_depends_on_the_seed():
    one_batch = {"batch_size": 1000, "max_epochs": 9}
    fits = [
        toy_fit(ToyModel(dropout=dropout), settings=toy_settings(seed=seed, **one_batch))[0]
        for dropout in (0.5, 0.0)
        for seed in (0, 1)
    ]
    assert not torch.allclose(fits[0].item.weight, fits[1].item.weight)
    torch.testing.assert_close(fits[2].item.weight, fits[3].item.weight)


def test_every_epoch_has_its_own_order():
    engine = TorchEngine(
        ToyModel(),
        squares,
        train=Weighted(toy_groups()),
        validation=None,
        settings=toy_settings(),
    )
    orders = []
    for epoch in (0, 1, 0):
        engine.begin_epoch(epoch)
        orders.append(np.concatenate(engine._batches).tolist())
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(40))


def test_global_random_states_are_left_alone():
    model = ToyModel()
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    toy_fit(model)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()


# Best epoch and early stopping


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
    return toy_fit(
        model,
        objective=one_number,
        train=constant(1.0),
        validation=validation,
        settings=settings,
    )


def test_the_best_validation_epoch_is_kept():
    model, history = fit_one_number(constant(0.3), patience=1000)
    validation = history.to_dict()["validation_nats"]
    kept = (model.weight.item() - 0.3) ** 2
    assert history.best.validation_nats == min(validation) < validation[-1]
    assert kept == pytest.approx(min(validation), abs=1e-6)
    assert history.stopped == "max_epochs"
    assert not model.training


def test_patience_ends_the_fit():
    model, history = fit_one_number(constant(0.3), patience=3)
    assert history.stopped == "patience"
    assert len(history) == history.best.epoch + 3 < 80
    assert same_bits(model, fit_one_number(constant(0.3), patience=1000)[0])


def test_without_validation_the_last_weights_are_kept():
    model, history = fit_one_number(None)
    assert history.best is None
    assert len(history) == 80
    assert model.weight.item() == pytest.approx(1.0, abs=0.05)


def test_validation_does_not_move_the_weights():
    settings = toy_settings(patience=1000, max_epochs=3)
    seen, unseen = [], []

    def remember(into):
        def objective(model, batch):
            if model.training:
                into.append(model.item.weight.detach().clone())
            return squares(model, batch)

        return objective

    toy_fit(objective=remember(seen), settings=settings)
    toy_fit(objective=remember(unseen), settings=settings, validation=None)
    assert torch.equal(torch.stack(seen), torch.stack(unseen))


def test_validation_nats_are_those_of_all_groups_at_once():
    settings = toy_settings(max_epochs=1, batch_size=1)
    model, history = toy_fit(settings=settings)
    held_out = toy_groups(seed=1, n_groups=15)
    with torch.no_grad():
        nats, weight = squares(model, held_out.pad(np.arange(15)))
    assert history.rows[0].validation_nats == pytest.approx(float(nats / weight), rel=1e-6)


# Ctrl-C


def test_ctrl_c_keeps_the_best_so_far():
    settings = toy_settings(max_epochs=4)
    epochs = []

    def remember(model, batch):
        if not model.training:
            epochs.append({k: v.clone() for k, v in model.state_dict().items()})
        return squares(model, batch)

    before = signal.getsignal(signal.SIGINT)
    model, history = toy_fit(
        objective=counting(remember, at=13, act=press_ctrl_c), settings=settings
    )
    assert history.interrupted
    assert history.stopped == "interrupted"
    assert len(history) == 2
    del epochs[:N_SAMPLED]
    kept = epochs[len(epochs) // 2 * (history.best.epoch - 1)]
    assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_finishes_the_step_at_hand_and_takes_no_other():
    objective = counting(at=3, act=press_ctrl_c)
    _, history = toy_fit(objective=objective, validation=None)
    assert history.interrupted
    assert len(history) == 0
    assert sum(objective.calls) == 3


def test_ctrl_c_in_validation_leaves_the_epoch_out():
    def press_in_validation(model, batch):
        is_validation = not model.training and any(objective.calls)
        return press_ctrl_c(model, batch) if is_validation else squares(model, batch)

    objective = counting(press_in_validation)
    _, history = toy_fit(objective=objective)
    assert history.interrupted
    assert len(history) == 0


def test_a_second_ctrl_c_raises():
    def twice(model, batch):
        signal.raise_signal(signal.SIGINT)
        return press_ctrl_c(model, batch)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="second Ctrl-C"):
        toy_fit(objective=counting(at=7, act=twice))
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_is_no_signal_ends_the_fit_as_well():
    def interrupt(model, batch):
        raise KeyboardInterrupt

    model, history = toy_fit(objective=counting(at=7, act=interrupt))
    assert history.interrupted
    assert len(history) == 1


def test_outside_the_main_thread_a_fit_takes_no_signals():
    results = []
    thread = threading.Thread(target=lambda: results.append(toy_fit()))
    thread.start()
    thread.join()
    assert same_bits(results[0][0], toy_fit()[0])


# History and progress


def test_history_as_columns():
    _, history = toy_fit()
    columns, table = history.to_dict(), history.to_arrow()
    assert table.to_pydict() == columns
    assert columns["epoch"] == [1, 2, 3, 4]
    assert (np.diff([0.0, *columns["cpu_seconds"]]) > 0).all()
    assert history.steps == 20
    assert history.cpu_seconds == columns["cpu_seconds"][-1]
    assert History.from_config(history.to_config()) == history


def test_an_empty_history_has_the_same_columns():
    _, history = toy_fit()
    empty = History((), "interrupted")
    assert empty.to_arrow().schema.names == history.to_arrow().schema.names
    assert empty.to_arrow().schema.field("validation_nats").type == pa.float64()
    assert (empty.steps, empty.cpu_seconds, empty.best) == (0, 0.0, None)


def test_progress_is_silent_without_a_terminal(capfd):
    toy_fit(progress=True)
    assert capfd.readouterr() == ("", "")


def drawn(rows, *, shown=True, terminal=True):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=100)
    with EpochProgress(shown=shown, max_epochs=9, console=console) as progress:
        progress.draw(rows)
        progress.say("a line")
    return screen.getvalue()


def test_progress_shows_epoch_validation_and_best():
    rows = [Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True), Epoch(2, 16, 3.7, 3.85, 3e-3, 0.4, False)]
    text = drawn(rows)
    assert "epoch 2/9  validation 3.8500 nats (best 3.8000)" in text
    assert "a line" in text
    assert drawn(rows, shown=False) == drawn(rows, terminal=False) == ""


def test_progress_ends_with_the_last_epoch_however_quick():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with EpochProgress(shown=True, max_epochs=2, console=console) as progress:
        for n in (0, 1, 2):
            progress.draw([Epoch(each, 8, 3.9, None, 3e-3, 0.2, False) for each in (1, 2)][:n])
    assert "epoch 2/2" in screen.getvalue()


def test_progress_shows_training_nats_without_validation():
    assert "train 3.9000 nats" in drawn([Epoch(1, 8, 3.9, None, 3e-3, 0.2, False)])


# The protocol without torch


def test_a_result_far_worse_than_the_start_is_an_error(tmp_path):
    settings = toy_settings(learning_rate=1e3, warmup=0.0)
    message = r"must not rise, got .*e\+\d+ after the last step where there were .*`learning_rate`"
    for validation in (None, toy_groups(seed=1)):
        for _ in range(2):  # a checkpoint does not hide it
            with pytest.raises(ExfamError, match=message):
                toy_fit(settings=settings, validation=validation, checkpoint=tmp_path / "fit")
        shutil.rmtree(tmp_path / "fit", ignore_errors=True)


def test_outliers_and_hard_validation_data_are_no_divergence():
    value = toy_groups().values["value"]
    outlier = np.where(np.arange(len(value)) == len(value) - 1, 1e9, value)
    for options in ({"train": outlier}, {"validation": value + 1e6}, {"validation": outlier}):
        groups = {k: toy_groups().with_(values={"value": v}) for k, v in options.items()}
        assert len(toy_fit(**groups)[1]) == 4


class Halving:
    """An engine of one number that every step halves."""

    def __init__(self):
        self.number = self.best = 1.0
        self.learning_rate = 0.5

    def begin_epoch(self, epoch):
        return 2

    def step(self, index):
        self.number *= 0.5
        return self.number, 1.0

    def validation(self):
        return iter([(self.number + 0.1, 1.0), (0.0, 1.0)])

    def keep_best(self):
        self.best = self.number

    def use_best(self):
        self.number = self.best

    def sample_nats(self):
        return self.number

    def state(self):
        return {"number": np.array(self.number)}

    def load_state(self, state):
        self.number = float(state["number"])


def test_any_engine_runs():
    engine = Halving()
    progress = EpochProgress(shown=False, max_epochs=3)
    history = Run(engine, max_epochs=3, patience=3, progress=progress).train()
    assert engine.number == 2.0**-6
    assert history.to_dict()["train_nats"] == [0.375, 0.09375, 0.0234375]
    assert history.rows[-1].validation_nats == (2.0**-6 + 0.1) / 2


def test_the_protocol_needs_no_torch():
    code = "import sys, exfam.training.protocol; print('torch' in sys.modules)"
    assert run_python(code) == "False"


def test_the_torch_engine_is_an_engine():
    engine = TorchEngine(
        ToyModel(),
        squares,
        train=Weighted(toy_groups()),
        validation=None,
        settings=toy_settings(),
    )
    assert isinstance(engine, Engine)
    assert engine.validation() is None
