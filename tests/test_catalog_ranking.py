"""The most probable items and ranks tile by tile: those of the whole table of probabilities."""

import numpy as np
import pytest
import torch

from catalog_cases import N_ITEMS, dense_log_probs, make_choice
from exfam.catalog import linear
from exfam.catalog.linear import LinearEta
from exfam.catalog.normalizer import ItemChoice
from exfam.catalog.ranking import all_log_probs, best_items, item_rank
from exfam.scores.metrics import ranks

SUPPORTS = ("none", "hard", "penalty")
TILES = [(2**20, 512), (12, 4)]


@pytest.fixture(params=TILES, ids=str)
def tile(request, monkeypatch):
    monkeypatch.setitem(linear.TILE, "cpu", request.param[0])
    monkeypatch.setitem(linear.TILE_ROWS, "cpu", request.param[1])


def ensemble(support, size):
    made = [make_choice(support=support, seed=seed) for seed in range(size)]
    return [choice for choice, _ in made], made[0][1]


def mean_probability(choices):
    return torch.stack([dense_log_probs(choice).exp().detach() for choice in choices]).mean(0)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("support", SUPPORTS)
def test_the_best_are_those_of_the_table(support, size, tile):
    choices, _ = ensemble(support, size)
    probability = mean_probability(choices)
    for k in (1, 4, N_ITEMS):
        result = best_items(choices, k=k)
        expected, order = probability.sort(dim=1, descending=True, stable=True)
        torch.testing.assert_close(result.log_prob.exp(), expected[:, :k], rtol=1e-5, atol=1e-7)
        possible = expected[:, :k] > 0
        assert torch.equal(result.item[possible], order[:, :k][possible])
        assert (result.item.sort(dim=1).values.diff(dim=1) > 0).all(), "an item comes twice"


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("support", SUPPORTS)
def test_ranks_are_those_of_the_table(support, size, tile):
    choices, item = ensemble(support, size)
    expected = ranks(mean_probability(choices).numpy(), item.numpy())
    assert np.ptp(expected) > 3
    np.testing.assert_array_equal(item_rank(choices, item), expected)


@pytest.mark.parametrize("size", [1, 2])
def test_equals_share_ranks_and_come_by_code(size, tile):
    """Two items score 3, one 0 and one -0, and all others lower."""
    bias = torch.tensor([-1.0, 3.0, 0.0, 3.0, -0.0, -5.0])
    choices = [ItemChoice(LinearEta(torch.ones(2, 0), torch.ones(6, 0), bias, 6))] * size
    for code, rank in enumerate([5, 1.5, 3.5, 1.5, 3.5, 6]):
        result = item_rank(choices, torch.tensor([code, code]))
        assert result.tolist() == [rank, rank]
    assert best_items(choices, k=5).item.tolist() == [[1, 3, 2, 4, 0]] * 2
    swapped = [ItemChoice(choice.eta._replace(bias=bias[[0, 1, 4, 3, 2, 5]])) for choice in choices]
    assert best_items(swapped, k=5).item.tolist() == [[1, 3, 2, 4, 0]] * 2


def test_all_log_probs_are_the_table(tile):
    for support in SUPPORTS:
        choice, _ = make_choice(support=support)
        result, table = all_log_probs(choice).detach(), dense_log_probs(choice).detach()
        torch.testing.assert_close(result.exp(), table.exp())


def test_some_rows_are_those_of_all():
    for support in SUPPORTS:
        choice, item = make_choice(support=support)
        table, rank = all_log_probs(choice), item_rank([choice], item)
        for rows in (slice(0, 4), slice(4, 5), slice(5, len(item))):
            part = choice.part(rows)
            torch.testing.assert_close(all_log_probs(part), table[rows])
            assert torch.equal(item_rank([part], item[rows]), rank[rows])


def test_nan_stays_nan():
    choice, item = make_choice()
    with torch.no_grad():
        choice.eta.state[2, 0] = torch.nan
    nats = best_items([choice], k=2).log_prob
    assert torch.isnan(nats).any(1).nonzero().flatten().tolist() == [2]
    assert torch.isnan(item_rank([choice], item)).nonzero().flatten().tolist() == [2]
