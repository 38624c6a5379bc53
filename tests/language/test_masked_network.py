"""Laws of the masked language model's network, for every encoding."""

import pytest
import torch
from torch.testing import assert_close

from exfam.checks import ExfamError
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
