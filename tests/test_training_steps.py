import math

import numpy as np
import pytest
import torch
from torch import nn

from exfam.checks import ExfamError
from exfam.groups import CONTEXT, Groups
from exfam.training.optimizer import (
    TrainingSettings,
    choose_device,
    clip_gradients,
    parameter_groups,
)
from exfam.training.steps import TorchEngine, Weighted
from toy_fit import (
    ToyModel,
    counting,
    same_bits,
    squares,
    toy_fit,
    toy_groups,
    toy_settings,
)

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


@pytest.mark.parametrize("size", [{}, {"batch_tokens": 30}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_element_counts_alike_whatever_its_batch(weighted, size):
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
        settings=toy_settings(clip=None, learning_rate=1e-12, **size),
    )
    total, gradient = 0.0, torch.zeros_like(model.item.weight)
    n_steps = engine.begin_epoch(0)
    for index in range(n_steps):
        total += engine.step(index)[1]
        gradient += model.item.weight.grad / n_steps
    nats, _ = squares(model, groups.pad(np.arange(len(groups)), weight=weight))
    expected = torch.autograd.grad(nats / total, model.item.weight)[0]
    torch.testing.assert_close(gradient, expected)


def test_a_budget_of_elements_takes_the_place_of_a_number_of_groups():
    settings = toy_settings(batch_tokens=30, max_epochs=6)
    groups = toy_groups()
    engine = TorchEngine(
        ToyModel(), squares, train=Weighted(groups), validation=None, settings=settings
    )
    steps = []
    for epoch in range(settings.max_epochs):
        steps.append(engine.begin_epoch(epoch))
        padded = [len(index) * groups.lengths[index].max() for index in engine._batches]
        assert max(padded) <= 30
    assert len(set(steps)) > 1
    _, history = toy_fit(settings=settings)
    assert [row.steps for row in history.rows] == np.cumsum(steps).tolist()
    rates = history.to_dict()["learning_rate"]
    assert (np.diff(rates[1:]) < 0).all()
    assert rates[-1] < 0.01 * settings.learning_rate


def test_learning_rates_are_those_of_the_fraction_that_is_done_however_many_steps_epochs_have():
    settings = toy_settings(batch_tokens=30, max_epochs=6, warmup=0.2)
    engine = TorchEngine(
        ToyModel(), squares, train=Weighted(toy_groups()), validation=None, settings=settings
    )
    starts, ends, rates = [], [], []
    for epoch in range(settings.max_epochs):
        n_steps = engine.begin_epoch(epoch)
        for index in range(n_steps):
            engine.step(index)
            starts.append((epoch + index / n_steps) / settings.max_epochs)
            ends.append((epoch + (index + 1) / n_steps) / settings.max_epochs)
            rates.append(engine.learning_rate / settings.learning_rate)
    done, rates = np.array(starts), np.array(rates)
    falling = done >= 0.2
    expected = 0.5 * (1 + np.cos(np.pi * (done[falling] - 0.2) / 0.8))
    assert rates[falling] == pytest.approx(expected, abs=1e-6)
    rising = np.minimum(1.0, np.array(ends)[~falling] / 0.2)
    assert rates[~falling] == pytest.approx(rising, abs=0.01)


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


@pytest.mark.parametrize("rate", [1e25, 1e38])
def test_what_the_last_step_did_to_the_weights_is_seen(rate):
    settings = toy_settings(learning_rate=rate, max_epochs=1, batch_size=10_000, warmup=0.0)
    with pytest.raises(ExfamError, match=r"Training nats must be finite, got \w+ after the last"):
        toy_fit(validation=None, settings=settings)


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
        ({"batch_tokens": 0}, r"`batch_tokens` must be an integer >= 1, got 0"),
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


@pytest.mark.parametrize("name", ["nothing", "cuda:99", 2.5, math.nan, ["cpu"]])
def test_an_unknown_device_is_refused(name):
    message = f"`device` must be one that torch finds.*got {name!r}"
    with pytest.raises(ExfamError, match=message.replace("[", r"\[")):
        choose_device(name)


def test_auto_is_a_device():
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
