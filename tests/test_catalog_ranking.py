"""The most probable items and ranks tile by tile: those of the whole table of probabilities."""

import numpy as np
import pytest
import torch

from catalog_cases import N_ITEMS, SUPPORTS, dense_log_probs, make_choice
from exfam.catalog import linear
from exfam.catalog.linear import LinearEta
from exfam.catalog.normalizer import ItemChoice
from exfam.catalog.ranking import all_log_probs, best_items, item_rank
from exfam.scores.metrics import ranks


@pytest.fixture(params=[(2**20, 512), (12, 4)], ids=str)
def tile(request, monkeypatch):
    monkeypatch.setitem(linear.TILE, "cpu", request.param[0])
    monkeypatch.setitem(linear.TILE_ROWS, "cpu", request.param[1])


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("support", SUPPORTS)
def test_the_best_and_the_ranks_are_those_of_the_table(support, size, tile):
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
def test_equals_share_ranks_and_come_by_code(size, tile):
    """Two items score 3, one 0 and one -0, and all others lower."""
    bias = torch.tensor([-1.0, 3.0, 0.0, 3.0, -0.0, -5.0])
    choices = [ItemChoice(LinearEta(torch.ones(2, 0), torch.ones(6, 0), bias, 6))] * size
    for code, rank in enumerate([5, 1.5, 3.5, 1.5, 3.5, 6]):
        assert item_rank(choices, torch.tensor([code, code])).tolist() == [rank, rank]
    swapped = [ItemChoice(choice.eta._replace(bias=bias[[0, 1, 4, 3, 2, 5]])) for choice in choices]
    for given in (choices, swapped):
        assert best_items(given, k=5).item.tolist() == [[1, 3, 2, 4, 0]] * 2


@pytest.mark.parametrize("support", SUPPORTS)
def test_some_rows_are_those_of_all(support):
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
