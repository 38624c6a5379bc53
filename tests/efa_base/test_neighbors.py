"""The base of sequences seen on both sides: against a process whose conditionals are known."""

import numpy as np
import pytest

import exfam
from exfam import EFA
from exfam.efa.base.neighbors import NeighborItems, backwards
from exfam.efa.base.ridge import RidgeItems
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
