"""Lemma 1 and theorem 2: linear attention is a mixture of experts, to 1e-10 in float64."""

import dataclasses

import pytest
import torch

from exfam.checks import ExfamError
from exfam.experts import (
    LinearAttentionStack,
    Sentences,
    as_experts,
    center_weights,
    forward,
    path_experts,
    random_network,
    random_stack,
    score_components,
    similarity_components,
)
from shape_checks import unchecked

EXACT = {"rtol": 0.0, "atol": 1e-10}
N_POSITIONS, ROWS = 4, 30
TARGETS = [3, 0, 2]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def sentences(kind="plain", *, seed=1):
    """Random rows: plain, with absent cells, with fractions, with own tokens, with MASK tokens."""
    g = generator(seed)
    code = torch.randint(0, 4, (ROWS, N_POSITIONS), generator=g)
    whole = {"code": code}
    if kind in ("absent", "everything"):
        whole["code"] = code.masked_fill(torch.rand(code.shape, generator=g) < 0.4, -1)
        whole["code"][:2] = torch.tensor([[-1], [3]])  # a row without any cell, and a whole one
    if kind in ("fractions", "everything"):
        fraction = torch.rand(code.shape, generator=g, dtype=torch.float64)
        whole["fraction"] = fraction * (whole["code"] < 3)
    if kind in ("own tokens", "everything"):
        whole["first"] = 4 * torch.arange(N_POSITIONS)
    if kind in ("masks", "everything"):
        whole["masked"] = torch.rand(code.shape, generator=g) < 0.3
    return Sentences(**whole)


KINDS = ("plain", "absent", "fractions", "own tokens", "masks", "everything")


def network(n_heads=2, **sizes):
    return random_network(
        generator(), n_heads=n_heads, n_positions=N_POSITIONS, n_tokens=16, **sizes
    )


def spread(x):
    """How far apart rows are: a law that all rows meet alike would prove nothing."""
    return float(x.std(0).min())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_the_mixture_of_experts_is_the_network(n_heads, kind):
    expected = forward(network(n_heads), sentences(kind), TARGETS)
    experts = as_experts(network(n_heads), sentences(kind), TARGETS)
    assert spread(expected) > 1e-2
    torch.testing.assert_close(experts.logits, expected, **EXACT)
    by_hand = torch.einsum("rths,rthsp->rtp", experts.weights, experts.contributions)
    torch.testing.assert_close(by_hand, expected, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_distributions_over_what_stands_in_the_row(kind):
    rows = sentences(kind)
    weights = as_experts(network(), rows, TARGETS).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(ROWS, 3, 2, dtype=torch.float64))
    for t, m in enumerate(TARGETS):
        stands = rows.shown.clone()
        stands[:, m] = True
        assert torch.equal(weights[:, t, 0] > 0, stands)


def layer_of(stack, number):
    """torch's own attention with the weights of a layer, and a bias of keys that must not count."""
    layer = stack.layers[number]
    n_heads, head, embed = layer.query.shape
    attention = torch.nn.MultiheadAttention(
        embed, n_heads, batch_first=True, dtype=torch.float64
    ).eval()
    with torch.no_grad():
        parts = [layer.query, layer.key, layer.value]
        attention.in_proj_weight.copy_(torch.cat([p.flatten(0, 1) for p in parts]))
        key_bias = torch.randn(n_heads * head, generator=generator(9), dtype=torch.float64)
        biases = [layer.query_bias.flatten(), key_bias, layer.value_bias.flatten()]
        attention.in_proj_bias.copy_(torch.cat(biases))
        attention.out_proj.weight.copy_(layer.out.permute(1, 0, 2).flatten(1))
        attention.out_proj.bias.copy_(layer.out_bias)
    return attention


def by_torch(stack, rows, targets):
    """The logits from torch.nn.MultiheadAttention, one row at a time, absent cells cut out."""
    logits = torch.zeros(ROWS, len(targets), stack.readout.shape[1], dtype=torch.float64)
    for r in range(ROWS):
        for t, m in enumerate(targets):
            places = [j for j in range(stack.n_positions) if rows.shown[r, j] or j == m]
            x = torch.stack([stack.positions[j] + cell(stack, rows, r, j, m) for j in places])
            for number, layer in enumerate(stack.layers):
                update, _ = layer_of(stack, number)(x[None], x[None], x[None], need_weights=False)
                z = x + update[0]
                x = z + torch.nn.functional.linear(z, layer.hidden, layer.hidden_bias)
            state = x[places.index(m)]
            logits[r, t] = torch.nn.functional.linear(
                state, stack.readout[m], stack.readout_bias[m]
            )
    return logits.detach()


def cell(stack, rows, r, j, m):
    if j == m or (rows.masked is not None and rows.masked[r, j]):
        return stack.mask
    token = int(rows.code[r, j]) + (0 if rows.first is None else int(rows.first[j]))
    f = 0.0 if rows.fraction is None else float(rows.fraction[r, j])
    following = stack.tokens[token + 1] if f > 0 else 0.0
    return (1 - f) * stack.tokens[token] + f * following


@pytest.mark.parametrize("kind", ["plain", "everything"])
@pytest.mark.parametrize("n_heads", [1, 3])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_networks_own_computation_is_that_of_torch(n_layers, n_heads, kind):
    stack = random_stack(
        generator(),
        n_layers=n_layers,
        n_heads=n_heads,
        n_positions=N_POSITIONS,
        n_tokens=16,
        embed=2 * n_heads,
    )
    expected = by_torch(stack, sentences(kind), TARGETS)
    assert spread(expected) > 1e-3
    torch.testing.assert_close(forward(stack, sentences(kind), TARGETS), expected, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_layers", "n_heads"), [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)])
def test_the_paths_of_several_layers_add_up_to_the_network(n_layers, n_heads, kind):
    stack = random_stack(
        generator(), n_layers=n_layers, n_heads=n_heads, n_positions=N_POSITIONS, n_tokens=16
    )
    experts = path_experts(stack, sentences(kind), TARGETS)
    expected = forward(stack, sentences(kind), TARGETS)
    assert spread(expected) > 1e-2
    assert len(experts.parts) == 2**n_layers
    assert all(float(part.abs().max()) > 1e-3 for part in experts.parts.values())
    torch.testing.assert_close(experts.logits, expected, **EXACT)


def test_the_direct_path_is_the_target_s_own_and_absent_cells_add_nothing():
    rows = sentences("absent")
    stack = random_stack(generator(), n_layers=2, n_positions=N_POSITIONS, n_tokens=16)
    experts = path_experts(stack, rows, TARGETS)
    for t, m in enumerate(TARGETS):
        others = torch.arange(N_POSITIONS) != m
        assert float(experts.parts[()][:, t, others].abs().max()) == 0.0
        absent = (rows.code < 0) & others
        assert float(experts.total[:, t][absent].abs().max()) == 0.0


def test_two_layers_are_a_mixture_of_mixtures():
    """Parts through both layers, of two heads: sum_i A2_mi W'' B2 U2 B1 sum_j A1_ij U1 x_j."""
    stack = random_stack(generator(), n_layers=2, n_positions=N_POSITIONS, n_tokens=16)
    rows = sentences("absent")
    experts = path_experts(stack, rows, TARGETS)
    one, two = stack.layers
    eye = torch.eye(6, dtype=torch.float64)
    r, t = 4, 1
    m = TARGETS[t]
    x = torch.stack([stack.positions[j] + cell(stack, rows, r, j, m) for j in range(N_POSITIONS)])
    expected = torch.zeros(N_POSITIONS, 4, dtype=torch.float64)
    for g in range(2):
        for h in range(2):
            u1, u2 = one.out[h] @ one.value[h], two.out[g] @ two.value[g]
            a1, a2 = experts.weights[0][r, t, h], experts.weights[1][r, t, g, m]
            to_logits = stack.readout[m] @ (eye + two.hidden) @ u2 @ (eye + one.hidden) @ u1
            expected += (a2 @ a1)[:, None] * (x @ to_logits.T)
    torch.testing.assert_close(experts.parts[1, 2][r, t], expected, **EXACT)


def test_a_stack_of_one_layer_has_the_parts_of_the_mixture():
    attention, rows = network(), sentences("everything")
    paths, experts = path_experts(attention, rows, TARGETS), as_experts(attention, rows, TARGETS)
    torch.testing.assert_close(paths.weights[0][:, 0, :, 3], experts.weights[:, 0], **EXACT)
    torch.testing.assert_close(paths.logits, experts.logits, **EXACT)


def test_score_components_depend_on_what_their_names_say():
    attention, rows = network(), sentences()
    scores = score_components(attention, rows, TARGETS)
    nowhere = dataclasses.replace(attention, positions=torch.zeros_like(attention.positions))
    of_tokens = score_components(nowhere, rows, TARGETS)
    torch.testing.assert_close(of_tokens.total, scores.token, **EXACT)
    torch.testing.assert_close(of_tokens.token, scores.token, **EXACT)
    blank = dataclasses.replace(
        attention,
        tokens=torch.zeros_like(attention.tokens),
        mask=torch.zeros_like(attention.mask),
        query_bias=torch.zeros_like(attention.query_bias),
    )
    of_places = score_components(blank, rows, TARGETS).total
    torch.testing.assert_close(
        of_places, scores.position_position.expand(ROWS, -1, -1, -1), **EXACT
    )
    assert (
        spread(scores.token_position[:, 0, :, 1:3]) > 1e-3 and float(scores.position.std()) > 1e-3
    )


def test_similarity_components_are_lemma_1_s():
    attention, rows = network(n_heads=1), sentences()
    parts = similarity_components(attention, rows, TARGETS)
    m, place, r = TARGETS[0], 1, 5
    to_logits = attention.readout[m] @ (torch.eye(6, dtype=torch.float64) + attention.hidden)
    lov = to_logits @ attention.out[0] @ attention.value[0]
    token = attention.tokens[rows.code[r, place]]
    torch.testing.assert_close(parts.token[r, 0, 0, place], lov @ token, **EXACT)
    expected = lov @ attention.positions[place]
    torch.testing.assert_close(parts.position[0, 0, place], expected, **EXACT)
    expected = to_logits @ attention.positions[m]
    torch.testing.assert_close(parts.center_position[0], expected, **EXACT)
    contributions = as_experts(attention, rows, TARGETS).contributions
    torch.testing.assert_close(parts.total, contributions, **EXACT)


def test_weights_of_a_center_word_are_what_a_network_that_asks_with_it_would_give():
    attention, rows, m = network(), sentences("absent"), 0
    centers = torch.tensor([[5, 2, 7, 5]])
    weights = center_weights(attention, rows, [m], centers=centers)
    x = torch.stack([attention.tokens[rows.code[:, j].clamp(min=0)] for j in range(N_POSITIONS)], 1)
    x[:, m] = attention.mask
    x = x + attention.positions
    shown = rows.shown.clone()
    shown[:, m] = True
    for place, token in enumerate(centers[0]):
        call = attention.tokens[token] + attention.positions[m]
        for h in range(2):
            query = attention.query[h] @ call + attention.query_bias[h]
            scores = attention.scale * (x @ attention.key[h].T) @ query
            expected = scores.masked_fill(~shown, -torch.inf).softmax(-1)
            torch.testing.assert_close(weights[:, 0, h, :, place], expected, **EXACT)
    assert float((weights[..., 0] - weights[..., 1]).abs().max()) > 1e-3
    same = dataclasses.replace(attention, tokens=attention.mask.expand_as(attention.tokens))
    given = center_weights(same, rows, [m], centers=centers)
    torch.testing.assert_close(given[..., 2], as_experts(same, rows, [m]).weights, **EXACT)


def test_the_target_s_own_cell_is_never_seen():
    rows = sentences()
    other = rows.code.clone()
    other[:, 3] = (other[:, 3] + 1) % 4
    seen = as_experts(network(), rows, [3, 0]).logits
    moved = as_experts(network(), Sentences(other), [3, 0]).logits
    torch.testing.assert_close(moved[:, 0], seen[:, 0], **EXACT)
    assert float((moved[:, 1] - seen[:, 1]).abs().min()) > 1e-6


@pytest.fixture
def unchecked_shapes():
    """As outside of tests, where annotated shapes are not checked before the code's own checks."""
    with unchecked():
        yield


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mask": torch.zeros(5, dtype=torch.float64)}, r"`mask` must have shape \(embed\), got"),
        ({"mask": torch.zeros(6)}, "`mask` must have the dtype of all other weights"),
        ({"scale": 0.0}, "`scale` must be a number > 0"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ExfamError, match=message):
        dataclasses.replace(network(), **change)
    layer = network().stack.layers[0]
    if "scale" in change:
        with pytest.raises(ExfamError, match=message):
            dataclasses.replace(layer, **change)


def test_a_stack_without_layers_is_refused():
    stack = network().stack
    with pytest.raises(ExfamError, match="`layers` must hold at least one layer"):
        dataclasses.replace(stack, layers=())
    wider = random_stack(generator(), n_layers=1, embed=8).layers
    with pytest.raises(ExfamError, match="`hidden` must have shape"):
        LinearAttentionStack(**{**vars(stack), "layers": wider})


@pytest.mark.usefixtures("unchecked_shapes")
def test_rows_that_are_no_sentences_are_refused():
    code = torch.zeros(2, N_POSITIONS, dtype=torch.int64)
    with pytest.raises(ExfamError, match=r"`first` must have shape \(4,\), as `code` says"):
        Sentences(code, first=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ExfamError, match="`code` must be -1 or more, got -2"):
        Sentences(code - 2)
    with pytest.raises(ExfamError, match=r"`fraction` must be in \[0, 1\), got nan"):
        Sentences(code, fraction=torch.full(code.shape, torch.nan))


@pytest.mark.parametrize("compute", [forward, as_experts, path_experts])
def test_sentences_of_another_network_are_refused(compute):
    code = torch.zeros(2, N_POSITIONS, dtype=torch.int64)
    with pytest.raises(ExfamError, match="`sentences` must have 4 positions as the network, got 3"):
        compute(network(), Sentences(code[:, 1:]), [0])
    with pytest.raises(ExfamError, match="`code` must name one of the network's 16 tokens"):
        compute(network(), Sentences(code + 16), [0])
    with pytest.raises(ExfamError, match=r"`targets` must be in 0 .. 3, got 4"):
        compute(network(), Sentences(code), [4])
    on_the_last = Sentences(code + 15, fraction=torch.full(code.shape, 0.5))
    with pytest.raises(ExfamError, match="`code` must name one of the network's 16 tokens"):
        compute(network(), on_the_last, [0])
