"""The base of sequences seen on both sides: against a process whose conditionals are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import exfam
from efa_base import item_bases
from efa_base.item_bases import fit, outputs, rich_groups
from exfam import EFA
from exfam.efa.base.known import inner_base
from exfam.efa.base.neighbors import NeighborItems, backwards, lined_up
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.networks.based import present_elements
from exfam.groups import Groups

N_ITEMS, LENGTH = 6, 12
PAIRS = np.random.default_rng(0).dirichlet(np.full(N_ITEMS, 0.4), N_ITEMS)
START = np.full(N_ITEMS, 1 / N_ITEMS)


def chains(n_groups, *, seed):
    random = np.random.default_rng(seed)
    item = np.empty((n_groups, LENGTH), dtype=np.int64)
    chances = np.broadcast_to(START, (n_groups, N_ITEMS))
    for moment in range(LENGTH):
        item[:, moment] = (chances.cumsum(1) < random.random((n_groups, 1))).sum(1)
        chances = PAIRS[item[:, moment]]
    stop = np.arange(1, n_groups + 1) * LENGTH
    labels = {"item": np.arange(N_ITEMS)}
    return Groups(
        start=stop - LENGTH, stop=stop, item=item.ravel(), vocabulary=labels, ordered=True
    )


def truth(groups):
    """Mean log p(item | the one before, the one after)."""
    item = groups.item.reshape(-1, LENGTH)
    before = np.concatenate(
        [np.broadcast_to(START, (len(item), 1, N_ITEMS)), PAIRS[item[:, :-1]]], 1
    )
    after = np.concatenate([PAIRS.T[item[:, 1:]], np.ones((len(item), 1, N_ITEMS))], 1)
    chance = before * after
    chance /= chance.sum(-1, keepdims=True)
    return np.log(np.take_along_axis(chance, item[..., None], -1)).mean()


@pytest.fixture(scope="module")
def model():
    return EFA(attention="none", support="none").fit(chains(300, seed=1))


def test_it_is_near_the_process(model, tmp_path):
    new = chains(200, seed=2)
    base = model.members_[0].item_part.base
    assert isinstance(base, NeighborItems) and model.score(new) > truth(new) - 0.03
    alone = EFA(attention="none", support="none", encoding="none").fit(chains(300, seed=1))
    assert isinstance(alone.members_[0].item_part.base, RidgeItems)
    assert alone.score(new) < truth(new) - 0.3
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(exfam.load(tmp_path / "model").log_prob(new), model.log_prob(new))


def test_a_chain_read_backwards_has_the_same_probabilities(model):
    new = chains(30, seed=3)
    turned = EFA(attention="none", support="none").fit(backwards(chains(300, seed=1)))
    own = model.log_prob(new).reshape(-1, LENGTH)
    other = turned.log_prob(backwards(new)).reshape(-1, LENGTH)[:, ::-1]
    np.testing.assert_allclose(own, other, atol=0.05)
    np.testing.assert_array_equal(backwards(backwards(new)).item, new.item)


def test_what_comes_before_goes_by_position_and_then_by_item():
    groups = chains(30, seed=4)
    random = np.random.default_rng(0)
    day = np.repeat([np.arange(LENGTH) // 2], len(groups), axis=0).ravel().astype(float)
    groups = groups.with_(position=day, ordered=False)
    shuffled = np.concatenate([random.permutation(LENGTH) + first for first in groups.start])
    other = groups.with_(item=groups.item[shuffled], position=day[shuffled])
    line, same = lined_up(groups), lined_up(other)
    np.testing.assert_array_equal(line.item, same.item)
    np.testing.assert_array_equal(line.position, day)
    assert (np.diff(line.item.reshape(-1, 2)) >= 0).all()
    model = EFA(attention="none", support="none").fit(groups)
    again = EFA(attention="none", support="none").fit(other)
    assert isinstance(inner_base(model.members_[0].item_part.base), NeighborItems)
    # The same item twice at one position is in one order or the other.
    own, others = (
        np.sort(fitted.log_prob(given).reshape(-1, LENGTH))
        for fitted, given in ((model, groups), (again, other))
    )
    np.testing.assert_allclose(own, others, atol=1e-4)


@pytest.mark.parametrize("kind", ["neighbors", "known"])
def test_among_equal_positions_an_item_says_nothing_of_itself(kind):
    groups = rich_groups(ranges=True)
    groups = groups.with_(position=np.arange(groups.n_rows) // 3 * 1.0, ordered=False)
    base, batch = fit(kind, groups), groups.pad([6])
    expected = outputs(base, batch)
    for number, position in enumerate(present_elements(batch)[1]):
        item = batch.item.clone()
        item[0, position] = (item[0, position] + 4) % item_bases.N_ITEMS
        changed = outputs(base, replace(batch, item=item))
        torch.testing.assert_close(changed[number], expected[number])
        assert (changed - expected).abs().max() > 0.01


def test_groups_of_all_lengths_are_put_in_order():
    groups = rich_groups(ranges=True)
    line = lined_up(groups)
    assert line.context_start is None
    for own, other in zip(groups, line, strict=True):
        assert sorted(own.item) == sorted(other.item) and len(own.item) == len(other.item)
