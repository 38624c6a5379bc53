"""Attention's parts: weights, null token, kernels, gamma and delta."""

import pytest
import torch

from exfam.attention import SCORE_KERNELS, Visibility
from exfam.conditionals import Static
from exfam.encodings import ENCODINGS
from networks import random_blocks, random_encoding, random_tokens


def layer(encoding="none", **choices):
    g = torch.Generator().manual_seed(0)
    return random_blocks(1, encoding=random_encoding(encoding, g), **choices)[0]


def hide(block, tokens=None, visibility=None):
    return Static().hide([block], tokens or random_tokens(), visibility or Visibility())


@pytest.mark.parametrize("null", [False, True])
def test_softmax_weights_are_a_distribution_or_nothing(null):
    tokens = random_tokens()
    weights = hide(layer(null=null), tokens).weights[0]
    total = weights.sum(-1)[:, 0][tokens.present]
    has_context = (tokens.present.sum(1, keepdim=True) > 1).expand_as(tokens.present)
    expected = torch.ones_like(total) if null else has_context[tokens.present].float()
    torch.testing.assert_close(total, expected)
    assert (weights >= 0).all()


def test_scores_grow_with_the_scale_and_linear_attention_with_them():
    tokens, block = random_tokens(), layer(kernel="linear", connection="none")
    attention, position = block.attention, tokens.position
    q, k = attention.queries(tokens.center, position), attention.keys(tokens.content, position)[0]
    with torch.no_grad():
        attention.output.bias.zero_()
        scores, once = attention.scores(q, k, position, position), hide(block, tokens).state
        attention.scale *= 2
        torch.testing.assert_close(attention.scores(q, k, position, position), 2 * scores)
        torch.testing.assert_close(hide(block, tokens).state, 2 * once)
    assert once.abs().max() > 0


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_mean_kernel_is_the_linear_one_divided_by_the_context(direction):
    tokens, visibility = random_tokens(), Visibility(direction)
    mean, plain = (
        hide(layer(kernel=kernel, null=True), tokens, visibility).weights[0]
        for kernel in ("mean", "linear")
    )
    n_visible = visibility.context(tokens.present).sum(-1)[:, None, :, None] + 1
    torch.testing.assert_close(mean * n_visible, plain)
    assert n_visible.unique().numel() > 3


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_gamma_and_delta_add_up_to_the_scores(name):
    tokens, attention = random_tokens(name), layer(name).attention
    gamma, delta = attention.terms(tokens.content, tokens.position)
    added = attention.encoding.embed(tokens.position)
    placed = tokens.content if added is None else tokens.content + added
    q, k = attention.queries(placed, tokens.position), attention.keys(placed, tokens.position)[0]
    scores = attention.scores(q, k, tokens.position, tokens.position)
    torch.testing.assert_close(gamma + delta, scores)
    assert (name == "none") == (delta.abs().max() < 1e-6)
    assert (name == "attenuated") == (gamma.abs().max() == 0)


def test_weights_that_replace_the_scores_are_shares_and_do_not_depend_on_tokens():
    one, two = (hide(layer("attenuated"), random_tokens(seed=seed)).weights[0] for seed in (1, 2))
    torch.testing.assert_close(one, two)
    with pytest.raises(ValueError, match="`kernel` must be 'softmax' for an encoding that replac"):
        hide(layer("attenuated", kernel="linear"))


def test_visibility_names_its_directions():
    with pytest.raises(ValueError, match="`direction` must be one of 'bidirectional', 'causal'"):
        Visibility("forward")


@pytest.mark.parametrize("kernel", sorted(SCORE_KERNELS))
def test_no_gradient_is_nan_with_an_empty_context(kernel):
    tokens = random_tokens(lengths=(1, 1))
    center = tokens.center.clone().requires_grad_()
    state = hide(layer(kernel=kernel), tokens._replace(center=center)).state
    (gradient,) = torch.autograd.grad(state.sum(), center)
    assert torch.isfinite(state).all() and torch.isfinite(gradient).all()
