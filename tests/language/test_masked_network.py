"""The network of masked tokens, and the pieces of text that it is trained on."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.language.networks.token_pieces import MaskedTokens, TokenPieces
from exfam.layers import lend_generator
from language.masked_cases import NAMES, network, sentences

EVERYWHERE = pytest.mark.parametrize("encoding", NAMES)


def everything(tokens):
    return torch.ones_like(tokens, dtype=torch.bool)


@EVERYWHERE
def test_padding_changes_nothing_and_attention_sums_to_one(encoding):
    model, tokens = network(encoding), sentences()
    wide = torch.nn.functional.pad(tokens, (0, 3), value=7)
    present = torch.nn.functional.pad(everything(tokens), (0, 3), value=False)
    alone, beside = model(tokens, everything(tokens)), model(wide, present)
    for before, after in zip(alone.states, beside.states, strict=True):
        assert_close(after[:, :6], before, atol=1e-5, rtol=1e-5)
    for term in ("both", "contextual", "positional"):
        result = model(tokens, everything(tokens), term=term)
        assert len(result.weights) == 2 and len(result.states) == 3
        for weights in result.weights:
            assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


@EVERYWHERE
def test_attention_by_content_alone_does_not_know_the_order(encoding):
    if encoding == "attenuated":
        pytest.skip("its weights are of positions alone: without them there are none")
    model, tokens = network(encoding), sentences()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    result, mixed = (
        model(x, everything(tokens), term="contextual").states[-1]
        for x in (tokens, tokens[:, order])
    )
    assert_close(mixed, result[:, order], atol=1e-5, rtol=1e-5)


@EVERYWHERE
def test_attention_by_position_alone_does_not_know_the_words(encoding):
    model = network(encoding)
    first, second = sentences(1), sentences(1, seed=9)
    assert not torch.equal(first, second)
    result, other = (
        model(given, everything(given), term="positional").weights for given in (first, second)
    )
    for one, two in zip(result, other, strict=True):
        assert_close(one, two)


@pytest.mark.parametrize("encoding", ["alibi", "relative", "tupe", "attenuated-table"])
def test_both_terms_together_are_the_scores(encoding):
    model, tokens = network(encoding), sentences()
    assert model.separable
    attention = model.layers[0].attention
    position = torch.arange(6).expand(3, 6)
    x = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(3))
    gamma, delta = attention.terms(x, position)
    q, k = attention.queries(x, position), attention.keys(x, position)[0]
    assert_close(gamma + delta, attention.scores(q, k, position, position))
    assert delta.std() > 0.01
    result = model(tokens, everything(tokens), term="positional").weights[0]
    assert_close(result[0], delta[0].softmax(-1))


def test_positions_matter_unless_there_are_none():
    tokens = sentences(1)
    mixed = tokens.flip(1)
    for encoding in NAMES:
        model = network(encoding)
        result, other = (model(x, everything(x)).states[-1] for x in (tokens, mixed))
        same = torch.allclose(other, result.flip(1), atol=1e-4)
        symmetric = encoding in ("alibi", "attenuated", "attenuated-bias", "distance", "none")
        assert same == symmetric, encoding


def test_outputs_are_products_with_the_words_own_vectors():
    model = network()
    eta = model.linear(torch.ones(2, 8))
    assert eta.vectors.data_ptr() == model.words.table.weight.data_ptr()
    assert eta.dense().shape == (2, 12)
    with pytest.raises(ExfamError, match="`term` must be one of"):
        model(sentences(), everything(sentences()), term="gamma")


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
