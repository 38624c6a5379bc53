"""Pieces of text, their batches, and what is minimized on them."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from exfam.language.networks.token_pieces import MaskedTokens, TokenPieces
from exfam.layers import lend_generator
from language.masked_cases import network


def pieces(n=40, *, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(2, 12, size=random.integers(3, 9)) for _ in range(n)]


def source(**changes):
    return TokenPieces(pieces(), **{"share": 0.3, "n_special": 5, **changes})


@pytest.mark.parametrize("sizes", [{"batch_size": 7}, {"max_tokens": 30}])
def test_an_epoch_has_every_piece_once_in_an_order_of_chance(sizes):
    sizes = {"batch_size": None, "max_tokens": None, **sizes}
    epochs = [
        list(source().epoch_batches(generator=np.random.default_rng(seed), **sizes))
        for seed in (0, 0, 1)
    ]
    for batches in epochs:
        assert sorted(np.concatenate(batches).tolist()) == list(range(40))
    results = [np.concatenate(batches).tolist() for batches in epochs]
    assert results[0] == results[1] != results[2]


def test_the_total_is_of_ordinary_tokens_or_of_those_chosen_or_of_targets():
    n_ordinary = sum(int((piece >= 5).sum()) for piece in pieces())
    assert source().total(0, 40) == pytest.approx(0.3 * n_ordinary)
    assert source().total(0, 10) + source().total(10, 40) == pytest.approx(source().total(0, 40))
    chosen = [np.arange(len(piece)) == 1 for piece in pieces()]
    assert source(chosen=chosen).total(0, 40) == 40
    targets = source(target=np.arange(40))
    assert targets.total(3, 9) == 6 and targets.pad(np.array([3, 1])).target.tolist() == [3, 1]
    assert targets.fingerprint()["targets"].startswith("0,1,2")


def test_chosen_tokens_are_predicted_from_the_others():
    model = network()
    chosen = [np.arange(len(piece)) == 1 for piece in pieces()]
    batch = source(chosen=chosen).pad(np.array([0, 3, 5]))
    nats, weight = MaskedTokens(0.3, 5)(model, batch)
    shown = batch.tokens.masked_fill(batch.chosen, model.mask)
    dense = model.linear(model(shown, batch.present).states[-1][batch.chosen]).dense()
    direct = torch.nn.functional.cross_entropy(dense, batch.tokens[batch.chosen], reduction="sum")
    assert weight == 3
    assert_close(nats, direct)


def test_training_takes_its_share_of_ordinary_tokens_and_shows_four_fifths_masked():
    tokens = torch.randint(0, 12, (200, 50), generator=torch.Generator().manual_seed(0))
    model = network()
    with lend_generator(torch.Generator().manual_seed(0), model):
        chosen, shown = MaskedTokens(0.3, 5)._drawn(tokens, model)
    ordinary = tokens >= 5
    assert not chosen[~ordinary].any() and torch.equal(shown[~chosen], tokens[~chosen])
    assert chosen[ordinary].float().mean() == pytest.approx(0.3, abs=0.02)
    seen = shown[chosen]
    assert (seen == 4).float().mean() == pytest.approx(0.8, abs=0.02)
    # A tenth stays, and some of the tokens of chance are the same again.
    assert (seen == tokens[chosen]).float().mean() == pytest.approx(0.1 + 0.1 / 7, abs=0.02)
    assert (seen >= 4).all()


def test_fingerprints_of_other_pieces_differ():
    other = [*pieces()[:-1], pieces()[-1] + 1]
    results = [
        each.fingerprint()["pieces"]
        for each in (source(), source(), source(share=0.2), TokenPieces(other, 0.3, 5))
    ]
    assert results[0] == results[1] and len(set(results)) == 3
