"""Steps: settings, learning rates, clipping, which parameters decay; large tables; threads."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from device_waits import step_ahead
from estimator_cases import make, ratings
from exfam import embeddings
from exfam.checks import ExfamError
from exfam.embeddings import rows_of
from exfam.training import optimizer, torch_engine
from exfam.training.optimizer import (
    TrainingSettings,
    choose_device,
    clip_gradients,
    parameter_groups,
    processor_threads,
)
from toy_fit import squares, toy_engine, toy_fit, toy_settings


def test_a_budget_of_elements_stands_for_a_number_of_groups():
    settings = toy_settings(batch_tokens=30, max_epochs=6, warmup=0.2)
    engine, steps, starts, ends, rates = toy_engine(settings), [], [], [], []
    for epoch in range(6):
        steps.append(engine.begin_epoch(epoch))
        lengths = engine.train.lengths
        assert max(len(index) * lengths[index].max() for index in engine._batches) <= 30
        for index in range(steps[-1]):
            engine.step(index)
            starts.append((epoch + index / steps[-1]) / 6)
            ends.append((epoch + (index + 1) / steps[-1]) / 6)
            rates.append(engine.learning_rate / settings.learning_rate)
    assert len(set(steps)) > 1
    # Rates are those of the fraction that is done, however many steps epochs have.
    done, rates = np.array(starts), np.array(rates)
    falling = done >= 0.2
    expected = 0.5 * (1 + np.cos(np.pi * (done[falling] - 0.2) / 0.8))
    assert rates[falling] == pytest.approx(expected, abs=1e-6)
    assert rates[~falling] == pytest.approx(np.minimum(1, np.array(ends)[~falling] / 0.2), abs=0.01)
    _, history = toy_fit(settings=settings)
    assert [row.steps for row in history.rows] == np.cumsum(steps).tolist()


def test_learning_rates_rise_linearly_and_fall_as_a_cosine():
    settings = TrainingSettings(warmup=0.1)
    rates = [settings.rate_factor(step=step, n_steps=100) for step in range(101)]
    assert np.allclose(rates[:10], np.arange(1, 11) / 10)
    assert rates[100] == pytest.approx(0.0) and rates[55] == pytest.approx(0.5)
    constant = TrainingSettings(warmup=0.0, schedule="constant")
    assert {constant.rate_factor(step=step, n_steps=9) for step in range(9)} == {1.0}


@pytest.mark.parametrize("limit", [None, 0.5, 1e3])
def test_clipping_agrees_with_torch_for_small_gradients_and_large_ones(limit, large):
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(n, 2, generator=generator) for n in (3, 1, 40)]
    witness = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for parameter, gradient in zip(witness, gradients, strict=True):
        parameter.grad = gradient.clone()
    expected = float(nn.utils.clip_grad_norm_(witness, limit or math.inf))
    for prepare in (lambda: None, large):
        prepare()
        ours = [gradient.clone() for gradient in gradients]
        assert clip_gradients(ours, limit) == pytest.approx(expected, rel=1e-6)
        for parameter, gradient in zip(witness, ours, strict=True):
            torch.testing.assert_close(gradient, parameter.grad, atol=1e-6, rtol=1e-5)


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


class Own(nn.Linear):
    def parameter_groups(self, settings):
        return [{"params": [self.bias], "weight_decay": 0.5}]


def kinds(model):
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {
        names[parameter]: (group["weight_decay"], group["multiplier"])
        for group in parameter_groups(model, TrainingSettings(weight_decay=0.1))
        for parameter in group["params"]
    }


def test_who_decays_and_who_learns_faster():
    assert kinds(Marked()) == {
        "free": (0.0, 1.0),
        "quick": (0.0, 10.0),
        "plain.weight": (0.1, 1.0),
        "plain.bias": (0.0, 1.0),
    }
    assert kinds(Own(2, 2)) == {"bias": (0.5, 1.0)}
    with pytest.raises(ExfamError, match=r"`model` must have a trainable parameter, got Dropout"):
        kinds(nn.Dropout())


def test_a_multiplier_multiplies_the_step():
    def sums(model, batch):
        return model.quick + model.free.sum() * 1e-3, torch.tensor(1.0)

    model, once = Marked(), {"max_epochs": 1, "batch_size": 99, "warmup": 0.0}
    settings = toy_settings(**once, schedule="constant", learning_rate=0.01)
    toy_fit(model, objective=sums, settings=settings, validation=None)
    # AdamW's first step is the learning rate, whatever the gradient.
    assert model.quick.item() == pytest.approx(1 - 0.1, abs=1e-4)
    assert model.free[0, 0].item() == pytest.approx(1 - 0.01, abs=1e-4)


def test_settings_are_checked():
    with pytest.raises(ExfamError, match=r"`betas` must be a number in \[0, 1\)"):
        TrainingSettings(betas=(0.9, 1.0))


@pytest.mark.parametrize("name", ["nothing", "cuda:99", math.nan, "meta"])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(ExfamError, match=f"`device` must be one that torch finds.*got {name!r}"):
        choose_device(name)
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


# Large tables: gradients of a few rows cost no memory as large as the table, and are the same


@pytest.fixture
def large(monkeypatch):
    """All parameters are large ones."""

    def apply():
        for module in (embeddings, torch_engine, optimizer):
            monkeypatch.setattr(module, "LARGE_PARAMETER", 1)

    return apply


def table_and_index():
    table = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    return torch.nn.Parameter(table), torch.tensor([[5, 1, 5], [0, 1, 1]])


def weighted(rows):
    return (rows * torch.arange(float(rows.numel())).view_as(rows)).sum()


def test_rows_and_their_gradients_are_those_of_an_embedding(large):
    table, index = table_and_index()
    weighted(functional.embedding(index, table)).backward()
    expected, table.grad = table.grad, None
    large()
    for times in (1, 2, 3):
        rows = rows_of(table, index)
        assert torch.equal(rows, table[index])
        weighted(rows).backward()
        assert table.grad.layout == torch.strided
        torch.testing.assert_close(table.grad, times * expected)
    # Of tables that are computed too.
    table.grad = None
    weighted(rows_of(2 * table, index)).backward()
    torch.testing.assert_close(table.grad, 2 * expected)


@pytest.mark.parametrize("kind", ["efa", "latent-factor"])
def test_fits_are_the_same(kind, large):
    frame, members = ratings(least=2), []
    for prepare in (lambda: None, large):
        prepare()
        members += make(kind, validation_fraction=0.0, n_sampled_items=3).fit(frame).members_
    assert all(parameter.grad is not None for parameter in members[1].parameters())
    other = members[1].state_dict()
    for name, tensor in members[0].state_dict().items():
        torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-4)


def test_the_number_of_threads_is_put_back_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"), processor_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise RuntimeError("stop")
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match="`n` must be a number > 0, got 0"), processor_threads(0):
        pass


def without_weight(model, batch):
    """Squares of which some batches have none."""
    nats, weight = squares(model, batch)
    counts = (batch.element.amax() % 3 > 0).float()
    return nats * counts, weight * counts


@pytest.mark.parametrize("objective", [squares, without_weight])
@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("kind", ["adamw", "descent"])
def test_steps_that_wait_for_nothing_are_the_same_steps(kind, clip, objective, monkeypatch):
    rate = {"adamw": 1e-2, "descent": 0.05}[kind]
    settings = toy_settings(optimizer=kind, learning_rate=rate, clip=clip)
    usual, history = toy_fit(settings=settings, objective=objective)
    step_ahead(monkeypatch)
    ahead, other = toy_fit(settings=settings, objective=objective)
    for name, tensor in usual.state_dict().items():
        torch.testing.assert_close(ahead.state_dict()[name], tensor, rtol=1e-5, atol=1e-6)
    for one, two in zip(history.rows, other.rows, strict=True):
        assert two.train_nats == pytest.approx(one.train_nats, rel=1e-5)
        assert (two.steps, two.best) == (one.steps, one.best)


@pytest.mark.parametrize("kind", ["adamw", "descent"])
def test_a_step_that_is_not_finite_moves_nothing_though_nobody_waits_for_it(kind, monkeypatch):
    step_ahead(monkeypatch)
    engine = toy_engine(toy_settings(optimizer=kind), objective=broken)
    engine.begin_epoch(0)
    before = engine.weights()["item.weight"].copy()
    assert engine.step(0) == (0.0, 0.0)
    nats, weight = engine.outstanding()
    assert math.isnan(nats) and weight > 0 and engine.outstanding() == (0.0, 0.0)
    np.testing.assert_array_equal(engine.weights()["item.weight"], before)


def broken(model, batch):
    nats, weight = squares(model, batch)
    return nats * math.nan, weight
