"""Attention's parts: weights, null token, linear kernel, gamma and delta."""

import pytest
import torch

from exfam.attention import SCORE_KERNELS, Visibility
from exfam.conditionals import Static
from exfam.encodings import ENCODINGS, Attenuated
from networks import EMBED, HEADS, random_blocks, random_encoding, random_tokens


def layer(encoding="none", **choices):
    g = torch.Generator().manual_seed(0)
    return random_blocks(1, encoding=random_encoding(encoding, g), **choices)[0]


@pytest.mark.parametrize("null", [False, True])
def test_softmax_weights_are_a_distribution_or_nothing(null):
    tokens = random_tokens()
    weights = Static().hide([layer(null=null)], tokens, Visibility()).weights[0]
    total = weights.sum(-1)[:, 0][tokens.present]
    has_context = (tokens.present.sum(1, keepdim=True) > 1).expand_as(tokens.present)
    expected = torch.ones_like(total) if null else has_context[tokens.present].float()
    torch.testing.assert_close(total, expected)
    assert (weights >= 0).all()


def test_linear_kernel_is_linear_in_the_values():
    """Doubling the scores doubles the update: nothing is normalized."""
    tokens = random_tokens()
    block = layer(kernel="linear", connection="none")
    with torch.no_grad():
        block.attention.output.bias.zero_()
        once = Static().hide([block], tokens, Visibility()).state
        block.attention.scale *= 2
        twice = Static().hide([block], tokens, Visibility()).state
    torch.testing.assert_close(twice, 2 * once)
    assert once.abs().max() > 0


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_mean_kernel_is_the_linear_one_divided_by_the_context(direction):
    tokens = random_tokens()
    visibility = Visibility(direction)
    mean, plain = (
        Static().hide([layer(kernel=kernel, null=True)], tokens, visibility).weights[0]
        for kernel in ("mean", "linear")
    )
    n_visible = visibility.context(tokens.present).sum(-1)[:, None, :, None] + 1
    torch.testing.assert_close(mean * n_visible, plain)
    assert n_visible.unique().numel() > 3


def test_scale_divides_the_products():
    tokens = random_tokens()
    attention = layer().attention
    position = tokens.position
    q, k = attention.queries(tokens.center, position), attention.keys(tokens.content, position)[0]
    before = attention.scores(q, k, position, position)
    attention.scale = attention.scale / 3
    torch.testing.assert_close(attention.scores(q, k, position, position), before / 3)


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_gamma_and_delta_add_up_to_the_scores(name):
    tokens = random_tokens(name)
    attention = layer(name).attention
    gamma, delta = attention.terms(tokens.content, tokens.position)
    added = attention.encoding.embed(tokens.position)
    placed = tokens.content if added is None else tokens.content + added
    q, k = attention.queries(placed, tokens.position), attention.keys(placed, tokens.position)[0]
    scores = attention.scores(q, k, tokens.position, tokens.position)
    torch.testing.assert_close(gamma + delta, scores)
    assert (name == "none") == (delta.abs().max() < 1e-6)
    assert (name == "attenuated") == (gamma.abs().max() == 0)


def test_replacing_the_scores_needs_a_normalizing_kernel():
    block = layer("attenuated", kernel="linear")
    with pytest.raises(ValueError, match="`kernel` must be 'softmax' for an encoding that replac"):
        Static().hide([block], random_tokens(), Visibility())


def test_attenuated_weights_do_not_depend_on_tokens():
    block = layer("attenuated")
    assert isinstance(block.attention.encoding, Attenuated)
    one = Static().hide([block], random_tokens(seed=1), Visibility()).weights[0]
    two = Static().hide([block], random_tokens(seed=2), Visibility()).weights[0]
    torch.testing.assert_close(one, two)
    assert one.shape[1] == HEADS


def test_visibility_names_its_directions():
    with pytest.raises(ValueError, match="`direction` must be one of 'bidirectional', 'causal'"):
        Visibility("forward")


@pytest.mark.parametrize("kernel", sorted(SCORE_KERNELS))
def test_no_gradient_is_nan_with_an_empty_context(kernel):
    tokens = random_tokens(lengths=(1, 1))
    block = layer(kernel=kernel)
    center = tokens.center.clone().requires_grad_()
    state = Static().hide([block], tokens._replace(center=center), Visibility()).state
    (gradient,) = torch.autograd.grad(state.sum(), center)
    assert torch.isfinite(state).all() and torch.isfinite(gradient).all()
    assert state.shape[-1] == EMBED
