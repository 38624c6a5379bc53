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
VISIBILITIES = [
    Visibility(direction, sees_mask)
    for direction, sees_mask in itertools.product(["bidirectional", "causal"], [False, True])
]


def network(name, shape, **choices):
    encoding = random_encoding(name, torch.Generator().manual_seed(5))
    return random_blocks(encoding=encoding, **SHAPES[shape], **choices)


def choices_for(encoding):
    kernels = ["softmax"] if encoding == "attenuated" else sorted(SCORE_KERNELS)
    return [
        {"kernel": kernel, "null": null}
        for kernel, null in itertools.product(kernels, [True, False])
    ]


def assert_close_where_present(actual, expected, present):
    size = expected.state[present].abs().max()
    assert (actual.state - expected.state)[present].abs().max() / size < 1e-5
    rows = present[:, None, :, None]
    for used, reference in zip(actual.weights, expected.weights, strict=True):
        torch.testing.assert_close(used * rows, reference * rows, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_exact_forms_equal_copies(encoding, shape):
    tried = 0
    asked = list(itertools.product(choices_for(encoding), VISIBILITIES))
    if SHAPES[shape]["n_layers"] > 1:
        asked = asked[::3]  # in which each choice and each visibility occurs
    with torch.no_grad():
        for choices, visibility in asked:
            blocks, tokens = network(encoding, shape, **choices), random_tokens(encoding)
            expected = Copies().hide(blocks, tokens, visibility)
            for conditional in (Exact(), TwoStream()):
                if conditional.refusal(blocks, visibility) is None:
                    actual = conditional.hide(blocks, tokens, visibility)
                    assert_close_where_present(actual, expected, tokens.present)
                    tried += 1
    assert tried


@pytest.mark.parametrize("scale", [5.0, 30.0])
def test_exact_keeps_its_digits_where_one_key_dominates(scale):
    with torch.no_grad():
        blocks, tokens = network("none", "two linear layers"), random_tokens(scale=scale)
        expected = Copies().hide(blocks, tokens, Visibility())
        actual = Exact().hide(blocks, tokens, Visibility())
    assert expected.weights[0].max() > 0.999
    assert_close_where_present(actual, expected, tokens.present)


SERVED = [
    (name, visibility)
    for name, visibility in itertools.product(sorted(CONDITIONALS), VISIBILITIES)
    if name != "two_stream" or visibility.causal
]


@pytest.mark.parametrize(("name", "visibility"), SERVED, ids=str)
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_leak_law(name, visibility, encoding):
    """A center's state ignores its own content (causal: all later content), and sees the rest."""
    shape = "two linear layers"
    blocks, each = network(encoding, shape, null=True), range(5)
    tokens = random_tokens(encoding, lengths=(5, 5, 5, 5, 5, 4))
    conditional = CONDITIONALS[name]()
    # In the row of its own number, each place is changed.
    content = tokens.content.clone()
    content[each, each] += 1.0
    with torch.no_grad():
        before = conditional.hide(blocks, tokens, visibility).state
        after = conditional.hide(blocks, tokens._replace(content=content), visibility).state
    moved = (after - before).abs().amax(-1) > 1e-5
    for j in each:
        expected = torch.arange(5) > j if visibility.causal else torch.arange(5) != j
        assert moved[j].tolist() == expected.tolist()


@pytest.mark.parametrize("name", sorted(CONDITIONALS))
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_padding_and_company_change_nothing(name, encoding):
    visibility = Visibility("causal" if name == "two_stream" else "bidirectional")
    blocks = network(encoding, "two linear layers", null=True)
    tokens = random_tokens(encoding, lengths=(3, 7))
    alone = type(tokens)(*(part[:1, :3] for part in tokens))
    with torch.no_grad():
        together = CONDITIONALS[name]().hide(blocks, tokens, visibility).state[0, :3]
        by_itself = CONDITIONALS[name]().hide(blocks, alone, visibility).state[0]
    torch.testing.assert_close(together, by_itself, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["copies", "exact", "static"])
def test_order_does_not_matter_without_positions(name):
    blocks, tokens = network("none", "two linear layers"), random_tokens(lengths=(6,))
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    shuffled = tokens._replace(content=tokens.content[:, order], center=tokens.center[:, order])
    with torch.no_grad():
        before = CONDITIONALS[name]().hide(blocks, tokens, Visibility()).state
        after = CONDITIONALS[name]().hide(blocks, shuffled, Visibility()).state
    torch.testing.assert_close(after, before[:, order], atol=1e-5, rtol=1e-5)


def test_gradients_of_exact_equal_those_of_copies():
    blocks, tokens = network("relative", "two linear layers", null=True), random_tokens()
    parameters = [p for block in blocks for p in block.parameters()]
    direction = torch.randn(tokens.content.shape, generator=torch.Generator().manual_seed(9))

    def gradients(conditional):
        state = conditional.hide(blocks, tokens, Visibility()).state
        return torch.autograd.grad((state * direction)[tokens.present].sum(), parameters)

    for actual, expected in zip(gradients(Exact()), gradients(Copies()), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


def test_static_is_another_model_from_two_layers_on():
    blocks, tokens = network("none", "two linear layers"), random_tokens()
    with torch.no_grad():
        static = Static().hide(blocks, tokens, Visibility()).state
        copies = Copies().hide(blocks, tokens, Visibility()).state
    assert (static - copies)[tokens.present].abs().max() > 1e-2


class TestRefusals:
    def test_two_stream_is_causal(self):
        blocks = network("none", "two linear layers")
        with pytest.raises(ValueError, match="'two_stream' is for direction='causal'"):
            TwoStream().hide(blocks, random_tokens(), Visibility())

    def test_exact_needs_the_algebra(self):
        with pytest.raises(ValueError, match="one or two bidirectional layers, got 3"):
            Exact().check(network("none", "three layers with everything"), Visibility())
        blocks = network("none", "three layers with everything")[:2]
        with pytest.raises(ValueError, match="without layer norm or feed-forward"):
            Exact().check(blocks, Visibility())

    def test_auto_is_exact_where_that_is_cheap(self):
        linear, deep = (network("none", shape) for shape in list(SHAPES)[1::2])
        assert isinstance(choose_conditional("auto", blocks=linear, visibility=Visibility()), Exact)
        assert isinstance(choose_conditional("auto", blocks=deep, visibility=Visibility()), Static)
        with pytest.raises(ValueError, match="`conditional` must be one of 'auto', 'copies'"):
            choose_conditional("all", blocks=linear, visibility=Visibility())
