"""Log-probabilities, gradients and ranks tile by tile: those of a dense softmax."""

from functools import partial

import numpy as np
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
from exfam.catalog.ranking import all_log_probs, best_items, item_rank
from exfam.scores.metrics import ranks

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
        tensors = out if isinstance(out, tuple | list) else [out]
        self.numbers = max([self.numbers, *(t.numel() for t in tensors if torch.is_tensor(t))])
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


@pytest.fixture(params=[(2**20, 512), (12, 4)], ids=str)
def ranking_tile(request, tile):
    tile(*request.param)


@pytest.mark.parametrize("size", [1, 3])
@every_support
def test_the_best_and_the_ranks_are_those_of_the_table(support, size, ranking_tile):
    choices, items = zip(*(make_choice(support=support, seed=s) for s in range(size)), strict=True)
    tables = [dense_log_probs(choice).exp().detach() for choice in choices]
    probability = torch.stack(tables).mean(0)
    expected, order = probability.sort(dim=1, descending=True, stable=True)
    for k in (1, 4, N_ITEMS):
        result = best_items(choices, k=k)
        torch.testing.assert_close(result.log_prob.exp(), expected[:, :k], rtol=1e-5, atol=1e-7)
        possible = expected[:, :k] > 0
        assert torch.equal(result.item[possible], order[:, :k][possible])
        assert (result.item.sort(dim=1).values.diff(dim=1) > 0).all(), "an item comes twice"
    by_table = ranks(probability.numpy(), items[0].numpy())
    assert np.ptp(by_table) > 3
    np.testing.assert_array_equal(item_rank(choices, items[0]), by_table)
    torch.testing.assert_close(all_log_probs(choices[0]).detach().exp(), tables[0])


@pytest.mark.parametrize("size", [1, 2])
def test_equals_share_ranks_and_come_by_code(size, ranking_tile):
    """Two items score 3, one 0 and one -0, and all others lower."""
    bias = torch.tensor([-1.0, 3.0, 0.0, 3.0, -0.0, -5.0])
    choices = [ItemChoice(LinearEta(torch.ones(2, 0), torch.ones(6, 0), bias, 6))] * size
    for code, rank in enumerate([5, 1.5, 3.5, 1.5, 3.5, 6]):
        assert item_rank(choices, torch.tensor([code, code])).tolist() == [rank, rank]
    swapped = [ItemChoice(choice.eta._replace(bias=bias[[0, 1, 4, 3, 2, 5]])) for choice in choices]
    for given in (choices, swapped):
        assert best_items(given, k=5).item.tolist() == [[1, 3, 2, 4, 0]] * 2


@every_support
def test_some_rows_are_those_of_all(support):
    choice, item = make_choice(support=support)
    table, rank = all_log_probs(choice), item_rank([choice], item)
    for rows in (slice(0, 4), slice(4, 5), slice(5, len(item))):
        part = choice.part(rows)
        torch.testing.assert_close(all_log_probs(part), table[rows])
        assert torch.equal(item_rank([part], item[rows]), rank[rows])


def test_nan_stays_nan_in_rankings():
    choice, item = make_choice()
    with torch.no_grad():
        choice.eta.state[2, 0] = torch.nan
    nats = best_items([choice], k=2).log_prob
    assert torch.isnan(nats).any(1).nonzero().flatten().tolist() == [2]
    assert torch.isnan(item_rank([choice], item)).nonzero().flatten().tolist() == [2]
