"""Lemma 1 and theorem 2: linear attention is a mixture of experts, to 1e-10 in float64."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from exfam.checks import ExfamError
from exfam.experts import (
    LinearAttention,
    Sentences,
    as_experts,
    center_weights,
    forward,
    path_experts,
    random_network,
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


def network(**sizes):
    return random_network(generator(), n_positions=N_POSITIONS, n_tokens=16, **sizes)


def spread(x):
    """How far apart rows are: what all rows satisfy alike would prove nothing."""
    return float(x.std(0).min())


@EVERY
@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_the_mixture_of_experts_is_the_network(n_heads, kind):
    attention, rows = network(n_heads=n_heads), sentences(kind)
    expected = forward(attention, rows, TARGETS)
    experts = as_experts(attention, rows, TARGETS)
    assert spread(expected) > 1e-2
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
    for layer in stack.layers:
        update, _ = layer_of(layer)(x[None], x[None], x[None], need_weights=False)
        z = x + update[0]
        x = z + functional.linear(z, layer.hidden, layer.hidden_bias)
    state = x[positions.index(m)]
    return functional.linear(state, stack.readout[m], stack.readout_bias[m]).detach()


@pytest.mark.parametrize("kind", ["plain", "everything"])
@pytest.mark.parametrize("n_heads", [1, 3])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_networks_own_computation_is_that_of_torch(n_layers, n_heads, kind):
    stack = network(n_layers=n_layers, n_heads=n_heads, embed=2 * n_heads)
    rows = sentences(kind)
    expected = torch.stack(
        [torch.stack([by_torch(stack, rows, r, m) for m in TARGETS]) for r in range(ROWS)]
    )
    assert spread(expected) > 1e-3
    torch.testing.assert_close(forward(stack, rows, TARGETS), expected, **EXACT)


@EVERY
@pytest.mark.parametrize(("n_layers", "n_heads"), [(1, 2), (2, 1), (2, 3), (3, 2)])
def test_the_paths_of_several_layers_add_up_to_the_network(n_layers, n_heads, kind):
    stack, rows = network(n_layers=n_layers, n_heads=n_heads), sentences(kind)
    experts, expected = (f(stack, rows, TARGETS) for f in (path_experts, forward))
    assert spread(expected) > 1e-2
    assert len(experts.parts) == 2**n_layers
    assert all(float(part.abs().max()) > 1e-3 for part in experts.parts.values())
    torch.testing.assert_close(experts.logits, expected, **EXACT)
    for t, m in enumerate(TARGETS):
        others = torch.arange(N_POSITIONS) != m
        # The direct path is the target's own, and absent cells add nothing.
        assert float(experts.parts[()][:, t, others].abs().max()) == 0.0
        assert not experts.total[:, t][~rows.shown & others].any()
    if n_layers == 1:
        own = as_experts(stack, rows, TARGETS).weights
        torch.testing.assert_close(experts.weights[0][:, 0, :, 3], own[:, 0], **EXACT)


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
        zeros(attention, "tokens", "mask"), layers=(zeros(attention.layer, "query_bias"),)
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


def test_weights_of_a_center_word_are_what_a_network_that_asks_with_it_would_give():
    attention, rows, m = network(), sentences("absent"), 0
    centers, layer = torch.tensor([[5, 2, 7, 5]]), attention.layer
    weights = center_weights(attention, rows, [m], centers=centers)
    x = torch.stack([attention.tokens[rows.code[:, j].clamp(min=0)] for j in range(N_POSITIONS)], 1)
    x[:, m] = attention.mask
    x = x + attention.positions
    shown = rows.shown.clone()
    shown[:, m] = True
    for index, token in enumerate(centers[0]):
        call = attention.tokens[token] + attention.positions[m]
        for h in range(2):
            query = layer.query[h] @ call + layer.query_bias[h]
            scores = layer.scale * (x @ layer.key[h].T) @ query
            expected = scores.masked_fill(~shown, -torch.inf).softmax(-1)
            torch.testing.assert_close(weights[:, 0, h, :, index], expected, **EXACT)
    assert float((weights[..., 0] - weights[..., 1]).abs().max()) > 1e-3


def test_weights_that_do_not_fit_are_refused():
    """As outside of tests, where annotated shapes are not checked before the code's own checks."""
    attention = network()
    changes = [
        (attention, {"mask": torch.zeros(5).double()}, r"`mask` must have shape \(embed\), got"),
        (attention, {"mask": torch.zeros(6)}, "`mask` must have the dtype of all other weights"),
        (attention, {"layers": ()}, "`layers` must hold at least one layer"),
        (attention.layer, {"scale": 0.0}, "`scale` must be a number > 0"),
    ]
    for part, change, message in changes:
        with unchecked(), pytest.raises(ExfamError, match=message):
            dataclasses.replace(part, **change)
    wider = network(embed=8).layers
    with pytest.raises(ExfamError, match="`hidden` must have shape"):
        LinearAttention(**{**vars(attention), "layers": wider})
    with pytest.raises(ExfamError, match="`network` must be of one layer, got 2"):
        as_experts(network(n_layers=2), sentences(), TARGETS)


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


@pytest.mark.parametrize("compute", [forward, as_experts, path_experts])
@pytest.mark.parametrize(
    ("rows", "target", "message"),
    [
        (Sentences(CODE[:, 1:]), 0, "`sentences` must have 4 positions as the network, got 3"),
        (Sentences(CODE + 16), 0, "`code` must name one of the network's 16 tokens"),
        (Sentences(CODE), 4, r"`targets` must be in 0 .. 3, got 4"),
        (Sentences(CODE + 15, HALF), 0, "`code` must name one of the network's 16 tokens"),
    ],
)
def test_sentences_of_another_network_are_refused(compute, rows, target, message):
    with pytest.raises(ExfamError, match=message):
        compute(network(), rows, [target])
