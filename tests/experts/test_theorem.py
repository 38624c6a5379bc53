"""Lemma 1 and theorem 2: linear attention is a mixture of experts, to 1e-10 in float64."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from exfam.checks import ExfamError
from exfam.experts import (
    AttentionLayer,
    LinearAttention,
    Sentences,
    as_experts,
    score_components,
    similarity_components,
)
from model_cases import generator
from shape_checks import unchecked

EXACT = {"rtol": 0.0, "atol": 1e-10}
N_POSITIONS, ROWS = 4, 30
TARGETS = [3, 0, 2]
EYE = torch.eye(6, dtype=torch.float64)


def sentences(kind="plain"):
    """Random rows: plain, with absent cells, or also with fractions, own tokens and MASK tokens."""
    g = generator(1)
    code = torch.randint(0, 4, (ROWS, N_POSITIONS), generator=g)
    whole = {"code": code}
    if kind in ("absent", "everything"):
        whole["code"] = code.masked_fill(torch.rand(code.shape, generator=g) < 0.4, -1)
        whole["code"][:2] = torch.tensor([[-1], [3]])  # a row without any cell, and a whole one
    if kind == "everything":
        fraction = torch.rand(code.shape, generator=g, dtype=torch.float64)
        whole["fraction"] = fraction * (whole["code"] < 3)
        whole["first"] = 4 * torch.arange(N_POSITIONS)
        whole["masked"] = torch.rand(code.shape, generator=g) < 0.3
    return Sentences(**whole)


KINDS = ("plain", "absent", "everything")
EVERY = pytest.mark.parametrize("kind", KINDS)


def network(*, n_heads=2, embed=6):
    """A network of random weights, with 16 tokens, heads of 2 and 4 outputs."""
    g, head, params = generator(), 2, 4

    def draw(*shape):
        return 0.6 * torch.randn(*shape, generator=g, dtype=torch.float64)

    layer = AttentionLayer(
        query=draw(n_heads, head, embed),
        key=draw(n_heads, head, embed),
        value=draw(n_heads, head, embed),
        query_bias=draw(n_heads, head),
        value_bias=draw(n_heads, head),
        out=draw(n_heads, embed, head),
        out_bias=draw(embed),
        hidden=draw(embed, embed),
        hidden_bias=draw(embed),
        scale=head**-0.5,
    )
    tokens, mask, positions = draw(16, embed), draw(embed), draw(N_POSITIONS, embed)
    readout, bias = draw(N_POSITIONS, params, embed), draw(N_POSITIONS, params)
    return LinearAttention(tokens, mask, positions, layer, readout, bias)


def spread(x):
    """How far apart rows are: what all rows satisfy alike would prove nothing."""
    return float(x.std(0).min())


def layer_of(layer):
    """torch's own attention with the weights of a layer, and a bias of keys that must not count."""
    n_heads, head, embed = layer.query.shape
    attention = torch.nn.MultiheadAttention(
        embed, n_heads, batch_first=True, dtype=torch.float64
    ).eval()
    key_bias = torch.randn(n_heads * head, generator=generator(9), dtype=torch.float64)
    parts = [layer.query, layer.key, layer.value]
    biases = [layer.query_bias.flatten(), key_bias, layer.value_bias.flatten()]
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([p.flatten(0, 1) for p in parts]))
        attention.in_proj_bias.copy_(torch.cat(biases))
        attention.out_proj.weight.copy_(layer.out.permute(1, 0, 2).flatten(1))
        attention.out_proj.bias.copy_(layer.out_bias)
    return attention


def cell(stack, rows, r, j, m):
    if j == m or (rows.masked is not None and rows.masked[r, j]):
        return stack.mask
    token = int(rows.code[r, j]) + (0 if rows.first is None else int(rows.first[j]))
    f = 0.0 if rows.fraction is None else float(rows.fraction[r, j])
    following = stack.tokens[token + 1] if f > 0 else 0.0
    return (1 - f) * stack.tokens[token] + f * following


def by_torch(stack, rows, r, m):
    """A row's logits from torch.nn.MultiheadAttention, absent cells cut out."""
    positions = [j for j in range(stack.n_positions) if rows.shown[r, j] or j == m]
    x = torch.stack([stack.positions[j] + cell(stack, rows, r, j, m) for j in positions])
    update, _ = layer_of(stack.layer)(x[None], x[None], x[None], need_weights=False)
    z = x + update[0]
    x = z + functional.linear(z, stack.layer.hidden, stack.layer.hidden_bias)
    state = x[positions.index(m)]
    return functional.linear(state, stack.readout[m], stack.readout_bias[m]).detach()


@EVERY
@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_the_mixture_of_experts_is_the_network(n_heads, kind):
    attention, rows = network(n_heads=n_heads, embed=2 * n_heads), sentences(kind)
    expected = torch.stack(
        [torch.stack([by_torch(attention, rows, r, m) for m in TARGETS]) for r in range(ROWS)]
    )
    experts = as_experts(attention, rows, TARGETS)
    assert spread(expected) > 1e-3
    torch.testing.assert_close(experts.logits, expected, **EXACT)
    by_hand = torch.einsum("rths,rthsp->rtp", experts.weights, experts.contributions)
    torch.testing.assert_close(by_hand, expected, **EXACT)
    # Weights are distributions over what stands in the row.
    ones = torch.ones(ROWS, 3, n_heads, dtype=torch.float64)
    torch.testing.assert_close(experts.weights.sum(-1), ones)
    for t, m in enumerate(TARGETS):
        stands = rows.shown.clone()
        stands[:, m] = True
        assert torch.equal(experts.weights[:, t, 0] > 0, stands)


def zeros(part, *names):
    return dataclasses.replace(
        part, **{name: torch.zeros_like(getattr(part, name)) for name in names}
    )


def test_score_components_depend_on_what_their_names_say():
    attention, rows = network(), sentences()
    scores = score_components(attention, rows, TARGETS)
    of_tokens = score_components(zeros(attention, "positions"), rows, TARGETS)
    torch.testing.assert_close(of_tokens.total, scores.token, **EXACT)
    torch.testing.assert_close(of_tokens.token, scores.token, **EXACT)
    blank = dataclasses.replace(
        zeros(attention, "tokens", "mask"), layer=zeros(attention.layer, "query_bias")
    )
    of_positions = score_components(blank, rows, TARGETS).total
    expected = scores.position_position.expand(ROWS, -1, -1, -1)
    torch.testing.assert_close(of_positions, expected, **EXACT)
    assert spread(scores.token_position[:, 0, :, 1:3]) > 1e-3
    assert float(scores.position.std()) > 1e-3


def test_similarity_components_are_lemma_1_s():
    attention, rows, m, j, r = network(n_heads=1), sentences(), TARGETS[0], 1, 5
    parts, layer = similarity_components(attention, rows, TARGETS), attention.layer
    to_logits = attention.readout[m] @ (EYE + layer.hidden)
    lov = to_logits @ layer.out[0] @ layer.value[0]
    for result, expected in (
        (parts.token[r, 0, 0, j], lov @ attention.tokens[rows.code[r, j]]),
        (parts.position[0, 0, j], lov @ attention.positions[j]),
        (parts.center_position[0], to_logits @ attention.positions[m]),
        (parts.total, as_experts(attention, rows, TARGETS).contributions),
    ):
        torch.testing.assert_close(result, expected, **EXACT)


def test_weights_that_do_not_fit_are_refused():
    """As outside of tests, where annotated shapes are not checked before the code's own checks."""
    attention = network()
    changes = [
        (attention, {"mask": torch.zeros(5).double()}, r"`mask` must have shape \(embed\), got"),
        (attention, {"mask": torch.zeros(6)}, "`mask` must have the dtype of all other weights"),
        (attention.layer, {"scale": 0.0}, "`scale` must be a number > 0"),
    ]
    for part, change, message in changes:
        with unchecked(), pytest.raises(ExfamError, match=message):
            dataclasses.replace(part, **change)
    wider = network(embed=8).layer
    with pytest.raises(ExfamError, match="`hidden` must have shape"):
        dataclasses.replace(attention, layer=wider)


CODE = torch.zeros(2, N_POSITIONS, dtype=torch.int64)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"first": CODE[0, :3]}, r"`first` must have shape \(4,\), as `code` says"),
        ({"code": CODE - 2}, "`code` must be -1 or more, got -2"),
        ({"fraction": torch.full(CODE.shape, torch.nan)}, r"`fraction` must be in \[0, 1\), got n"),
    ],
)
def test_rows_that_are_no_sentences_are_refused(given, message):
    with unchecked(), pytest.raises(ExfamError, match=message):
        Sentences(**{"code": CODE, **given})


HALF = torch.full(CODE.shape, 0.5)


@pytest.mark.parametrize(
    ("rows", "target", "message"),
    [
        (Sentences(CODE[:, 1:]), 0, "`sentences` must have 4 positions as the network, got 3"),
        (Sentences(CODE + 16), 0, "`code` must name one of the network's 16 tokens"),
        (Sentences(CODE), 4, r"`targets` must be in 0 .. 3, got 4"),
        (Sentences(CODE + 15, HALF), 0, "`code` must name one of the network's 16 tokens"),
    ],
)
def test_sentences_of_another_network_are_refused(rows, target, message):
    with pytest.raises(ExfamError, match=message):
        as_experts(network(), rows, [target])
