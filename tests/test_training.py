import io
import math
import signal
import threading

import numpy as np
import pyarrow as pa
import pytest
import torch
from rich.console import Console
from torch import nn

from exfam.checks import ExfamError
from exfam.groups import CONTEXT, Groups
from exfam.training.history import Epoch, History
from exfam.training.optimizer import TrainingSettings, clip_gradients, parameter_groups
from exfam.training.progress import EpochProgress
from exfam.training.protocol import Engine, Run
from exfam.training.steps import TorchEngine, Weighted, choose_device
from toy_fit import (
    ToyModel,
    run_python,
    same_bits,
    squares,
    told,
    toy_fit,
    toy_groups,
    toy_settings,
)


def counting(objective=squares, *, at=None, act=None):
    """The objective, calling `act` at its call number `at` (from 1) of those in training mode."""
    calls = []

    def counted(model, batch):
        calls.append(model.training)
        if sum(calls) == at and model.training:
            return act(model, batch)
        return objective(model, batch)

    counted.calls = calls
    return counted


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


# Weights


def test_weights_decide_between_values():
    groups = Groups(start=[0, 1], stop=[1, 2], values={"value": [0.0, 1.0]})

    def weighted(model, batch):
        distance = model.weight[0, 0] - batch.values["value"]
        return (distance**2 * batch.weight).sum(), batch.weight.sum()

    model = nn.Embedding.from_pretrained(torch.zeros(1, 1), freeze=False)
    settings = toy_settings(learning_rate=0.05, max_epochs=200)
    train = Weighted(groups, np.array([1.0, 3.0]))
    toy_fit(model, objective=weighted, train=train, settings=settings, validation=None)
    assert model.weight.item() == pytest.approx(0.75, abs=0.01)


def test_a_batch_without_weight_takes_no_step():
    groups = toy_groups(n_groups=2)
    weight = np.zeros(groups.n_elements)
    weight[groups[1].elements()] = 1.0
    half = toy_settings(batch_size=1, max_epochs=1, warmup=0.0, schedule="constant")
    model, _ = toy_fit(train=Weighted(groups, weight), settings=half, validation=None)
    alone = ToyModel()
    assert not same_bits(model, alone)
    moved = model.item.weight != alone.item.weight
    assert set(moved.any(-1).nonzero()[:, 0].tolist()) <= set(groups.item[groups[1].elements()])


@pytest.mark.parametrize("weighted", [False, True])
def test_every_element_counts_alike_whatever_its_batch(weighted):
    groups = toy_groups()
    role = (np.arange(groups.n_elements) % 3 == 0).astype(np.int8) * CONTEXT
    weight = np.linspace(0.0, 1.0, groups.n_elements) if weighted else None
    groups = groups.with_(role=role)
    model = ToyModel(dropout=0.0)
    engine = TorchEngine(
        model,
        squares,
        train=Weighted(groups, weight),
        validation=None,
        settings=toy_settings(clip=None, learning_rate=1e-12),
    )
    total, gradient = 0.0, torch.zeros_like(model.item.weight)
    n_steps = engine.begin_epoch(0)
    for index in range(n_steps):
        total += engine.step(index)[1]
        gradient += model.item.weight.grad / n_steps
    nats, _ = squares(model, groups.pad(np.arange(len(groups)), weight=weight))
    expected = torch.autograd.grad(nats / total, model.item.weight)[0]
    torch.testing.assert_close(gradient, expected)


def test_training_data_without_weight_are_refused():
    groups = toy_groups()
    weight = np.zeros(groups.n_elements)
    with pytest.raises(ExfamError, match=r"`train` must have a target of positive weight"):
        toy_fit(train=Weighted(groups, weight), validation=None)


def test_validation_data_without_weight_are_refused():
    groups = toy_groups()
    blind = groups.with_(role=np.full(groups.n_elements, CONTEXT, dtype=np.int8))
    with pytest.raises(ExfamError, match=r"`validation` must have a target of positive weight"):
        toy_fit(validation=blind)


# Numbers that are not finite


def not_finite(model, batch):
    nats, weight = squares(model, batch)
    return nats * math.nan, weight


def test_nats_that_are_not_finite_stop_the_fit_with_the_best_weights():
    two_epochs, _ = toy_fit(settings=toy_settings(max_epochs=2, schedule="constant", warmup=0.0))
    model = ToyModel()
    settings = toy_settings(max_epochs=4, schedule="constant", warmup=0.0)
    with pytest.raises(
        ExfamError,
        match=r"Training nats must be finite, got nan at epoch 3, step 2\. Use a lower "
        r"`learning_rate`\. The model has its best weights so far, those of epoch 2\.",
    ):
        toy_fit(model, objective=counting(at=12, act=not_finite), settings=settings)
    assert same_bits(model, two_epochs)


def test_the_first_step_may_fail_and_leaves_the_weights():
    model = ToyModel()
    with pytest.raises(ExfamError, match=r"got nan at epoch 1, step 1\. .*`learning_rate`\.$"):
        toy_fit(model, objective=not_finite)
    assert same_bits(model, ToyModel())


def test_a_gradient_that_is_not_finite_does_not_reach_the_weights():
    def steep(model, batch):
        nats, weight = squares(model, batch)
        return nats + torch.sqrt(model.out.bias.sum() * 0.0), weight

    model = ToyModel()
    with pytest.raises(ExfamError, match="Training nats must be finite, got nan at epoch 1"):
        toy_fit(model, objective=steep)
    assert same_bits(model, ToyModel())


def test_infinite_validation_is_named():
    def impossible(model, batch):
        nats, weight = squares(model, batch)
        return nats if model.training else nats + math.inf, weight

    with pytest.raises(ExfamError, match=r"Validation nats must be finite, got inf after epoch 1"):
        toy_fit(objective=impossible)


# Optimizer


def test_learning_rates_rise_linearly_and_fall_as_a_cosine():
    settings = TrainingSettings(warmup=0.1)
    rates = [settings.rate_factor(step=step, n_steps=100) for step in range(101)]
    assert np.allclose(rates[:10], np.arange(1, 11) / 10)
    assert rates[100] == pytest.approx(0.0)
    assert rates[55] == pytest.approx(0.5)
    assert (np.diff(rates[10:]) <= 0).all()
    constant_rates = TrainingSettings(warmup=0.0, schedule="constant")
    assert {constant_rates.rate_factor(step=step, n_steps=9) for step in range(9)} == {1.0}


def test_history_tells_the_learning_rate_of_each_epochs_last_step():
    _, history = toy_fit(settings=toy_settings(max_epochs=3, learning_rate=0.01))
    settings = toy_settings(learning_rate=0.01)
    expected = [0.01 * settings.rate_factor(step=step, n_steps=15) for step in (4, 9, 14)]
    assert [row.learning_rate for row in history.rows] == pytest.approx(expected)
    assert [row.steps for row in history.rows] == [5, 10, 15]


def test_clipping_agrees_with_torch():
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(3, 2)
    for parameter in layer.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    ours = [parameter.grad.clone() for parameter in layer.parameters()]
    norm = clip_gradients(ours, 0.5)
    assert norm == pytest.approx(float(nn.utils.clip_grad_norm_(layer.parameters(), 0.5)))
    for parameter, gradient in zip(layer.parameters(), ours, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("limit", [None, 10.0])
def test_small_gradients_are_not_clipped(limit):
    gradient = torch.tensor([3.0, 4.0])
    clip_gradients([gradient], limit)
    assert gradient.tolist() == [3.0, 4.0]


class Marked(nn.Module):
    no_decay_parameters = ("free",)
    learning_rate_multipliers = {"quick": 10.0}

    def __init__(self):
        super().__init__()
        self.free = nn.Parameter(torch.ones(2, 2))
        self.quick = nn.Parameter(torch.tensor(1.0))
        self.frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)
        self.plain = nn.Linear(2, 2)
        self.tied = self.plain


def kinds(model, settings):
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {
        names[parameter]: (group["weight_decay"], group["multiplier"])
        for group in parameter_groups(model, settings)
        for parameter in group["params"]
    }


def test_who_decays_and_who_learns_faster():
    assert kinds(Marked(), TrainingSettings(weight_decay=0.1)) == {
        "free": (0.0, 1.0),
        "quick": (0.0, 10.0),
        "plain.weight": (0.1, 1.0),
        "plain.bias": (0.0, 1.0),
    }


def test_a_model_may_group_its_parameters_itself():
    class Own(nn.Linear):
        def parameter_groups(self, settings):
            return [{"params": [self.bias], "weight_decay": 0.5}]

    assert kinds(Own(2, 2), TrainingSettings()) == {"bias": (0.5, 1.0)}


def test_a_multiplier_multiplies_the_step():
    def sums(model, batch):
        return model.quick + model.free.sum() * 1e-3, torch.tensor(1.0)

    model = Marked()
    one_step = toy_settings(
        max_epochs=1, batch_size=99, warmup=0.0, schedule="constant", learning_rate=0.01
    )
    toy_fit(model, objective=sums, settings=one_step, validation=None)
    # AdamW's first step is the learning rate, whatever the gradient.
    assert model.quick.item() == pytest.approx(1 - 0.1, abs=1e-4)
    assert model.free[0, 0].item() == pytest.approx(1 - 0.01, abs=1e-4)


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ExfamError, match=r"`model` must have a trainable parameter, got Dropout"):
        parameter_groups(nn.Dropout(), TrainingSettings())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.0}, r"`learning_rate` must be a number > 0, got 0\.0"),
        ({"weight_decay": -1.0}, r"`weight_decay` must be a number >= 0"),
        ({"batch_size": 0}, r"`batch_size` must be an integer >= 1, got 0"),
        ({"max_epochs": 0}, r"`max_epochs` must be an integer >= 1"),
        ({"patience": True}, r"`patience` must be an integer >= 1"),
        ({"seed": -1}, r"`seed` must be an integer >= 0"),
        ({"betas": (0.9, 1.0)}, r"`betas` must be a number in \[0, 1\)"),
        ({"warmup": 1.0}, r"`warmup` must be a number in \[0, 1\)"),
        ({"clip": 0.0}, r"`clip` must be a number > 0"),
        ({"schedule": "step"}, r"`schedule` must be one of 'constant', 'cosine', got 'step'"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ExfamError, match=message):
        TrainingSettings(**changes)


@pytest.mark.parametrize("name", ["nothing", "cuda:99"])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(ExfamError, match=f"`device` must be one that torch finds.*'{name}'"):
        choose_device(name)


def test_auto_is_a_device():
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


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
        return squares(model, batch) if model.training else press_ctrl_c(model, batch)

    _, history = toy_fit(objective=press_in_validation)
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
