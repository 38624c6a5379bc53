"""Exact log-probabilities tile by tile: those of a dense softmax, and so are their gradients."""

from functools import partial

import pytest
import torch
from torch.overrides import TorchFunctionMode

from catalog_cases import (
    N_ITEMS,
    SUPPORTS,
    dense_log_probs,
    generator,
    make_choice,
    tensors,
    with_tensors,
)
from exfam.catalog import linear
from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import OnePerRow
from exfam.catalog.normalizer import ItemChoice, log_normalizer, log_prob_of

every_support = pytest.mark.parametrize("support", SUPPORTS)
close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


@pytest.fixture
def tile(monkeypatch):
    """Sets the size of tiles."""

    def set_tile(numbers, rows):
        monkeypatch.setitem(linear.TILE, "cpu", numbers)
        monkeypatch.setitem(linear.TILE_ROWS, "cpu", rows)

    return set_tile


def gradients(nats, choice):
    """Of a sum in which every row has a weight of its own."""
    weight = torch.randn(len(nats), generator=generator(1), dtype=torch.float64)
    return torch.autograd.grad((weight.to(nats.dtype) * nats).sum(), tensors(choice))


@pytest.mark.parametrize("causal", [False, True])
@every_support
def test_is_the_dense_softmax_however_it_is_tiled(support, causal, tile):
    choice, own = make_choice(support=support, causal=causal)
    expected = dense_log_probs(choice)[torch.arange(len(own)), own]
    sums = gradients(expected, choice)
    assert all(total.abs().max() > 0 for total in sums) and expected.std() > 0.1
    for numbers, rows in [(2**20, 512), (1, 1), (7, 3), (30, 1), (30, 30), (64, 4)]:
        tile(numbers, rows)
        result = log_prob_of(choice, own)
        close(result, expected)
        close(gradients(result, choice), sums)


@every_support
def test_bfloat16_sums_in_single_precision(support):
    """Inputs are rounded, sums are not: far closer to exact than a softmax in bfloat16."""
    choice, own = make_choice(support=support, dtype=torch.bfloat16)
    exact = with_tensors(choice, *(t.detach().double().requires_grad_() for t in tensors(choice)))
    result, expected = log_prob_of(choice, own), dense_log_probs(exact)[torch.arange(len(own)), own]
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.double(), expected, rtol=2**-8, atol=1e-3)
    for mine, true in zip(gradients(result, choice), gradients(expected, exact), strict=True):
        assert mine.dtype == torch.bfloat16
        # The weights of the rows are rounded too.
        torch.testing.assert_close(mine.double(), true, rtol=2**-7, atol=2**-7)


@every_support
@pytest.mark.parametrize("item", [True, False])
def test_gradients_are_those_of_differences(support, item, tile):
    choice, own = make_choice(support=support, dtype=torch.float64)
    tile(20, 5)

    def result(*given):
        changed = with_tensors(choice, *given)
        return log_prob_of(changed, own) if item else log_normalizer(changed)

    assert torch.autograd.gradcheck(result, tensors(choice), fast_mode=True)


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e15])
@every_support
def test_extreme_outputs_stay_finite(support, scale, tile):
    tile(20, 5)
    choice, own = make_choice(support=support, scale=scale)
    result = log_prob_of(choice, own)
    assert torch.isfinite(result).all() and result.min() < -scale
    assert all(torch.isfinite(g).all() for g in gradients(result, choice))


def test_log_probabilities_are_never_positive(tile):
    tile(16, 4)
    state = torch.linspace(-30, 30, 401)[:, None]
    choice = ItemChoice(LinearEta(state, torch.tensor([[1.0], [-1.0], [0.3]]), None, 3))
    result = torch.stack([log_prob_of(choice, torch.full((401,), code)) for code in range(3)])
    assert result.max() <= 0 and result.max() > -1e-6
    torch.testing.assert_close(result.exp().sum(0), torch.ones(401))


@pytest.mark.parametrize("item", [True, False])
def test_no_rows_no_bias_and_nothing_to_choose_from_but_one(item):
    state = torch.ones(0, 2, requires_grad=True)
    eta = LinearEta(state, torch.ones(4, 2), None, 3)
    call = partial(log_prob_of, item=torch.ones(0).long()) if item else log_normalizer
    nothing = call(ItemChoice(eta))
    assert nothing.shape == (0,)
    nothing.sum().backward()
    assert state.grad.shape == (0, 2)
    only = ItemChoice(eta._replace(state=torch.ones(2, 2), n_items=1))
    torch.testing.assert_close(log_prob_of(only, torch.zeros(2).long()), torch.zeros(2))


def test_rows_that_exclude_all_but_one_item_are_sure(tile):
    tile(6, 2)
    choice, _ = make_choice()
    left = torch.arange(len(choice.eta.state)) % N_ITEMS
    others = (OnePerRow(torch.where(left == code, -1, code)) for code in range(N_ITEMS))
    sure = ItemChoice(choice.eta, excluded=tuple(others))
    result = log_prob_of(sure, left)
    torch.testing.assert_close(result, torch.zeros(len(left)))
    assert all(g.abs().max() < 1e-6 for g in gradients(result, sure))


def test_nan_stays_nan_and_frozen_vectors_have_no_gradient():
    choice, own = make_choice()
    frozen = ItemChoice(choice.eta._replace(vectors=choice.eta.vectors.detach()))
    log_prob_of(frozen, own).sum().backward()
    assert frozen.eta.vectors.grad is None and choice.eta.state.grad is not None
    with torch.no_grad():
        choice.eta.state[2, 0] = torch.nan
    result = log_prob_of(choice, own)
    assert torch.isnan(result).nonzero().flatten().tolist() == [2]


class Largest(TorchFunctionMode):
    """The most numbers in any tensor that is made."""

    numbers = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = out if isinstance(out, tuple | list) else [out]
        self.numbers = max([self.numbers, *(t.numel() for t in made if torch.is_tensor(t))])
        return out


def test_no_tensor_is_larger_than_a_tile(tile):
    tile(1024, 32)
    state, vectors = (torch.randn(n, 2, generator=generator()) for n in (64, 400))
    choice, item = ItemChoice(LinearEta(state, vectors, None, 400)), torch.zeros(64).long()
    with Largest() as largest:
        log_prob_of(choice, item)
    assert largest.numbers == 1024
    with Largest() as largest:
        dense_log_probs(choice)
    assert largest.numbers == 64 * 400
