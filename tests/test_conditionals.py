"""Attention's weights and scores; every conditional against masked copies, and the leak law."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from exfam.attention import SCORE_KERNELS, Visibility
from exfam.conditionals import CONDITIONALS, Copies, Exact, Static, TwoStream, choose_conditional
from exfam.encodings import ENCODINGS
from networks import random_blocks, random_encoding, random_tokens

SHAPES = {
    "one layer": {"n_layers": 1, "connection": "pre-norm", "feed_forward": True},
    "two linear layers": {"n_layers": 2, "connection": "residual"},
    "two layers without residual": {"n_layers": 2, "connection": "none"},
    "three layers": {"n_layers": 3, "connection": "post-norm", "feed_forward": True},
}
VISIBILITIES = list(
    itertools.starmap(Visibility, itertools.product(["bidirectional", "causal"], [False, True]))
)
SERVED = [
    (name, visibility)
    for name, visibility in itertools.product(sorted(CONDITIONALS), VISIBILITIES)
    if name != "two_stream" or visibility.causal
]
every_encoding = pytest.mark.parametrize("encoding", sorted(ENCODINGS))


def network(name="none", shape="two linear layers", **choices):
    encoding = random_encoding(name, torch.Generator().manual_seed(5))
    return random_blocks(encoding=encoding, **SHAPES[shape], **choices)


@torch.no_grad()
def hide(conditional, blocks, tokens, visibility=None):
    return conditional.hide(blocks, tokens, visibility or Visibility())


def assert_close_where_present(actual, expected, present):
    size = expected.state[present].abs().max()
    assert (actual.state - expected.state)[present].abs().max() / size < 1e-5
    rows = present[:, None, :, None]
    for used, reference in zip(actual.weights, expected.weights, strict=True):
        assert_close(used * rows, reference * rows, atol=1e-4, rtol=1e-4)


def layer(encoding="none", **choices):
    g = torch.Generator().manual_seed(0)
    return random_blocks(1, encoding=random_encoding(encoding, g), **choices)


@every_encoding
def test_centers_that_are_one_vector_ask_what_each_alone_would(encoding):
    tokens, (block,) = random_tokens(), layer(encoding)
    one = tokens.center[:1, :1].expand_as(tokens.center)
    alike = block.queries(one, tokens.position)
    assert_close(alike, block.queries(one.contiguous(), tokens.position), rtol=1e-5, atol=1e-6)
    others = block.queries(tokens.center, tokens.position)
    assert not torch.equal(alike, others), "centers of the tokens differ"


@pytest.mark.parametrize("null", [False, True])
def test_softmax_weights_are_a_distribution_or_nothing(null):
    tokens = random_tokens()
    weights = hide(Static(), layer(null=null), tokens).weights[0]
    total = weights.sum(-1)[:, 0][tokens.present]
    has_context = (tokens.present.sum(1, keepdim=True) > 1).expand_as(tokens.present)
    assert_close(total, torch.ones_like(total) if null else has_context[tokens.present].float())
    assert (weights >= 0).all()


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_mean_kernel_is_the_linear_one_divided_by_the_context(direction):
    tokens, visibility = random_tokens(), Visibility(direction)
    mean, plain = (
        hide(Static(), layer(kernel=kernel, null=True), tokens, visibility).weights[0]
        for kernel in ("mean", "linear")
    )
    n_visible = visibility.context(tokens.present).sum(-1)[:, None, :, None] + 1
    assert_close(mean * n_visible, plain)
    assert n_visible.unique().numel() > 3


@every_encoding
def test_gamma_and_delta_add_up_to_the_scores(encoding):
    tokens, attention = random_tokens(encoding), layer(encoding)[0].attention
    gamma, delta = attention.terms(tokens.content, tokens.position)
    added = attention.encoding.embed(tokens.position)
    content = tokens.content if added is None else tokens.content + added
    q, k = attention.queries(content, tokens.position), attention.keys(content, tokens.position)[0]
    assert_close(gamma + delta, attention.scores(q, k, tokens.position, tokens.position))
    assert (encoding == "none") == (delta.abs().max() < 1e-6)
    assert (encoding == "attenuated") == (gamma.abs().max() == 0)


@pytest.mark.parametrize("kernel", sorted(SCORE_KERNELS))
def test_no_gradient_is_nan_with_an_empty_context(kernel):
    tokens = random_tokens(lengths=(1, 1))
    center = tokens.center.clone().requires_grad_()
    state = Static().hide(layer(kernel=kernel), tokens._replace(center=center), Visibility()).state
    (gradient,) = torch.autograd.grad(state.sum(), center)
    assert torch.isfinite(state).all() and torch.isfinite(gradient).all()


@pytest.mark.parametrize("shape", SHAPES)
@every_encoding
def test_exact_forms_equal_copies(encoding, shape):
    kernels = ["softmax"] if encoding == "attenuated" else sorted(SCORE_KERNELS)
    cases = list(itertools.product(kernels, [True, False], VISIBILITIES))
    if SHAPES[shape]["n_layers"] > 1:
        cases = cases[::3]  # in which each choice and each visibility occurs
    tried = 0
    for kernel, null, visibility in cases:
        blocks, tokens = network(encoding, shape, kernel=kernel, null=null), random_tokens(encoding)
        expected = hide(Copies(), blocks, tokens, visibility)
        for conditional in (Exact(), TwoStream()):
            if conditional.refusal(blocks, visibility) is None:
                actual = hide(conditional, blocks, tokens, visibility)
                assert_close_where_present(actual, expected, tokens.present)
                tried += 1
    assert tried


@pytest.mark.parametrize("scale", [5.0, 30.0])
def test_exact_keeps_its_digits_where_one_key_dominates(scale):
    blocks, tokens = network(), random_tokens(scale=scale)
    expected = hide(Copies(), blocks, tokens)
    assert expected.weights[0].max() > 0.999
    assert_close_where_present(hide(Exact(), blocks, tokens), expected, tokens.present)


@pytest.mark.parametrize("visibility", VISIBILITIES, ids=str)
@pytest.mark.parametrize("null", [False, True])
@every_encoding
def test_states_without_weights_equal_those_with_them(visibility, null, encoding):
    """Forward and gradients, padding and groups of one element (without any context) included."""
    blocks = network(encoding, "three layers", null=null)
    tokens = random_tokens(encoding, lengths=(1, 5, 3))
    conditional = choose_conditional("auto", blocks=blocks, visibility=visibility)
    parameters = [p for block in blocks for p in block.parameters()]
    direction = torch.randn(tokens.content.shape, generator=torch.Generator().manual_seed(9))

    def with_gradients(state):
        total = (state * direction)[tokens.present].sum()
        slopes = torch.autograd.grad(total, parameters, materialize_grads=True, allow_unused=True)
        return state[tokens.present], *slopes

    expected = conditional.hide(blocks, tokens, visibility).state
    actual = conditional.states(blocks, tokens, visibility, tokens.present)
    for number, reference in zip(with_gradients(actual), with_gradients(expected), strict=True):
        assert (number - reference).abs().max() <= 1e-5 * reference.abs().max().clamp_min(1.0)


@pytest.mark.parametrize(("name", "visibility"), SERVED, ids=str)
@every_encoding
def test_leak_law_and_padding(name, visibility, encoding):
    """A center's state ignores its own content (causal: all later content), and sees the rest."""
    blocks, rows, conditional = network(encoding, null=True), range(5), CONDITIONALS[name]()
    tokens = random_tokens(encoding, lengths=(5, 5, 5, 5, 5, 7))
    # In the row of its own number, each position is changed.
    content = tokens.content.clone()
    content[rows, rows] += 1.0
    before, after, alone = (
        hide(conditional, blocks, given, visibility).state[:5, :5]
        for given in (
            tokens,
            tokens._replace(content=content),
            type(tokens)(*(part[:1, :5] for part in tokens)),
        )
    )
    moved = (after - before).abs().amax(-1) > 1e-5
    for j in rows:
        expected = torch.arange(5) > j if visibility.causal else torch.arange(5) != j
        assert moved[j].tolist() == expected.tolist()
    assert_close(before[:1], alone, atol=1e-5, rtol=1e-5)


def test_gradients_of_exact_equal_those_of_copies():
    blocks, tokens = network("relative", null=True), random_tokens()
    parameters = [p for block in blocks for p in block.parameters()]
    direction = torch.randn(tokens.content.shape, generator=torch.Generator().manual_seed(9))

    def gradients(conditional):
        state = conditional.hide(blocks, tokens, Visibility()).state
        return torch.autograd.grad((state * direction)[tokens.present].sum(), parameters)

    for actual, expected in zip(gradients(Exact()), gradients(Copies()), strict=True):
        assert_close(actual, expected, rtol=1e-3, atol=1e-4)


def test_networks_that_a_conditional_does_not_serve_are_refused():
    linear, deep = network(), network(shape="three layers")
    with pytest.raises(ValueError, match="'two_stream' is for direction='causal'"):
        hide(TwoStream(), linear, random_tokens())
    with pytest.raises(ValueError, match="one or two bidirectional layers, got 3"):
        Exact().check(deep, Visibility())
    with pytest.raises(ValueError, match="without layer norm or feed-forward"):
        Exact().check(deep[:2], Visibility())
    for blocks, kind in ((linear, Exact), (deep, Static)):
        chosen = choose_conditional("auto", blocks=blocks, visibility=Visibility())
        assert isinstance(chosen, kind)
    with pytest.raises(ValueError, match="`conditional` must be one of 'auto', 'copies'"):
        choose_conditional("all", blocks=linear, visibility=Visibility())
    with pytest.raises(ValueError, match="`kernel` must be 'softmax' for an encoding that replac"):
        hide(Static(), layer("attenuated", kernel="linear"), random_tokens())
    with pytest.raises(ValueError, match="`direction` must be one of 'bidirectional', 'causal'"):
        Visibility("forward")
