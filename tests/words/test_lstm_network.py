"""The LSTM network and its exact nats."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from exfam.catalog.linear import LinearEta
from exfam.language.networks import summed_nats as summed
from exfam.language.networks.lstm_network import CarriedNats, cut
from exfam.language.networks.summed_nats import summed_nats
from exfam.training.optimizer import TrainingSettings
from exfam.training.torch_engine import TorchEngine
from words.lstm_cases import network, tokens

TIES = [None, "tied", "reflection"]
close = torch.testing.assert_close


def nats_and_gradients(parts, compute):
    state, vectors, biases = (part.clone().requires_grad_() for part in parts)
    (compute(state, vectors, biases) * 0.25).backward()
    return [compute(state, vectors, biases), state.grad, vectors.grad, biases.grad]


def drawn_parts(n_rows, dim, n_vectors, n_biases):
    generator = torch.Generator().manual_seed(0)
    shapes = ([n_rows, dim], [n_vectors, dim], [n_biases])
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("at_once", [2**23, 10])
def test_summed_nats_and_their_gradients_are_those_of_cross_entropy(monkeypatch, at_once):
    monkeypatch.setattr(summed, "_OUTPUTS", at_once)
    monkeypatch.setattr(summed, "_ROWS", 2)
    item = tokens(9, n_words=5)
    ours, expected = (
        nats_and_gradients([3 * part for part in drawn_parts(9, 4, 6, 5)], compute)
        for compute in (
            lambda state, vectors, bias: summed_nats(LinearEta(state, vectors, bias, 5), item),
            lambda state, vectors, bias: functional.cross_entropy(
                state @ vectors[:5].T + bias, item, reduction="sum"
            ),
        )
    )
    close(ours, expected)
    assert ours[2][5].abs().sum() == 0 and ours[2][:5].abs().min() > 0
    state, vectors, _ = drawn_parts(9, 4, 5, 5)
    without = summed_nats(LinearEta(state, vectors, None, 5), item)
    close(without, functional.cross_entropy(state @ vectors.T, item, reduction="sum"))


def test_rounded_factors_change_nats_and_gradients_by_their_rounding():
    parts = [part.float() for part in drawn_parts(90, 40, 61, 60)]
    item = tokens(90, n_words=60)
    results = [
        nats_and_gradients(
            parts, lambda *given, f=factors: summed_nats(LinearEta(*given, 60), item, factors=f)
        )
        for factors in (None, torch.bfloat16)
    ]
    for exact, rounded in zip(*results, strict=True):
        assert rounded.dtype == torch.float32
        error = (rounded - exact).norm() / exact.norm()
        assert 1e-6 < error < 0.01


def test_a_token_moves_what_comes_after_it_and_nothing_else():
    model = network()
    given, targets = tokens(8, 2), tokens(8, 2, seed=1)
    other = given.clone()
    other[4, 0] = (other[4, 0] + 1) % 7
    first, second = (
        model.log_prob(each, targets, model.initial_state(2))[0] for each in (given, other)
    )
    moved = (first - second).abs() > 0
    assert not moved[:4].any() and not moved[:, 1].any() and moved[4:, 0].all()


def test_a_text_read_in_parts_is_the_text_read_at_once():
    model = network(n_layers=3)
    given, targets, state = tokens(9, 2), tokens(9, 2, seed=1), model.initial_state(2)
    whole, after = model.log_prob(given, targets, state)
    nats = summed_nats(model.linear(model(given, state)[0]), targets.flatten())
    close(nats, -whole.sum())
    results = []
    for rows in (slice(0, 4), slice(4, 5), slice(5, 9)):
        part, state = model.log_prob(given[rows], targets[rows], state)
        results.append(part)
    close(torch.cat(results), whole)
    close(state, after)


def test_outputs_are_products_with_the_vectors_that_the_tie_means():
    states = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(5))
    signs = torch.tensor([1.0, 1, 1, -1, -1, -1])
    for tie, factor in (("tied", 1.0), ("reflection", signs)):
        model = network(tie=tie)
        expected = states.flatten(0, 1) @ (model.words.vectors() * factor).T + model.bias
        close(model.linear(states).dense(), expected)
    model = network()
    assert not torch.equal(model.output.vectors(), model.words.vectors())
    free, tied, reflected = (
        sum(parameter.numel() for parameter in network(tie=tie).parameters()) for tie in TIES
    )
    assert tied == reflected == free - (7 + 1) * 6


def test_a_step_is_one_of_torchs_gradient_descent():
    train = np.asarray(tokens(200))
    settings = TrainingSettings(
        optimizer="descent", learning_rate=3.0, batch_tokens=20, max_epochs=1, clip=0.05
    )
    model, witness = network(dropout=0.0, tie="tied"), network(dropout=0.0, tie="tied")
    streams = cut(train, 4, start=0, whole=False)
    engine = TorchEngine(model, CarriedNats(), train=streams, validation=None, settings=settings)
    optimizer = torch.optim.SGD(witness.parameters(), lr=3.0)
    engine.begin_epoch(0)
    state = witness.initial_state(4)
    for index in range(3):
        rows = slice(5 * index, 5 * index + 5)
        states, state = witness(streams.inputs[rows], tuple(part.detach() for part in state))
        eta = witness.linear(states).dense()
        loss = functional.cross_entropy(eta, streams.targets[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        assert torch.nn.utils.clip_grad_norm_(witness.parameters(), 0.05) > 0.05
        optimizer.step()
        nats, weight = engine.step(index)
        assert weight == 20 and nats / weight == pytest.approx(loss.item(), rel=1e-5)
    close(list(model.parameters()), list(witness.parameters()))
