"""Every conditional against masked copies, under every encoding, and the leak law."""

import itertools

import pytest
import torch

from exfam.attention import SCORE_KERNELS, Visibility
from exfam.conditionals import CONDITIONALS, Copies, Exact, Static, TwoStream, choose_conditional
from exfam.encodings import ENCODINGS
from networks import random_blocks, random_encoding, random_tokens

SHAPES = {
    "one layer with everything": {"n_layers": 1, "connection": "pre-norm", "feed_forward": True},
    "two linear layers": {"n_layers": 2, "connection": "residual"},
    "two layers without residual": {"n_layers": 2, "connection": "none"},
    "three layers with everything": {
        "n_layers": 3,
        "connection": "post-norm",
        "feed_forward": True,
    },
}
VISIBILITIES = list(
    itertools.starmap(Visibility, itertools.product(["bidirectional", "causal"], [False, True]))
)
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
        torch.testing.assert_close(used * rows, reference * rows, atol=1e-4, rtol=1e-4)


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


SERVED = [
    (name, visibility)
    for name, visibility in itertools.product(sorted(CONDITIONALS), VISIBILITIES)
    if name != "two_stream" or visibility.causal
]


@pytest.mark.parametrize(("name", "visibility"), SERVED, ids=str)
@every_encoding
def test_leak_law(name, visibility, encoding):
    """A center's state ignores its own content (causal: all later content), and sees the rest."""
    blocks, rows = network(encoding, null=True), range(5)
    tokens = random_tokens(encoding, lengths=(5, 5, 5, 5, 5, 4))
    # In the row of its own number, each position is changed.
    content = tokens.content.clone()
    content[rows, rows] += 1.0
    before, after = (
        hide(CONDITIONALS[name](), blocks, given, visibility).state
        for given in (tokens, tokens._replace(content=content))
    )
    moved = (after - before).abs().amax(-1) > 1e-5
    for j in rows:
        expected = torch.arange(5) > j if visibility.causal else torch.arange(5) != j
        assert moved[j].tolist() == expected.tolist()


@pytest.mark.parametrize("name", sorted(CONDITIONALS))
@every_encoding
def test_padding_and_company_change_nothing(name, encoding):
    visibility = Visibility("causal" if name == "two_stream" else "bidirectional")
    blocks = network(encoding, null=True)
    tokens = random_tokens(encoding, lengths=(3, 7))
    alone = type(tokens)(*(part[:1, :3] for part in tokens))
    together, by_itself = (
        hide(CONDITIONALS[name](), blocks, given, visibility).state[0, :3]
        for given in (tokens, alone)
    )
    torch.testing.assert_close(together, by_itself, atol=1e-5, rtol=1e-5)


def test_gradients_of_exact_equal_those_of_copies():
    blocks, tokens = network("relative", null=True), random_tokens()
    parameters = [p for block in blocks for p in block.parameters()]
    direction = torch.randn(tokens.content.shape, generator=torch.Generator().manual_seed(9))

    def gradients(conditional):
        state = conditional.hide(blocks, tokens, Visibility()).state
        return torch.autograd.grad((state * direction)[tokens.present].sum(), parameters)

    for actual, expected in zip(gradients(Exact()), gradients(Copies()), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


def test_static_is_another_model_from_two_layers_on():
    blocks, tokens = network(), random_tokens()
    static, copies = (hide(kind(), blocks, tokens).state for kind in (Static, Copies))
    assert (static - copies)[tokens.present].abs().max() > 1e-2


def test_networks_that_a_conditional_does_not_serve_are_refused():
    linear, deep = network(), network(shape="three layers with everything")
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
