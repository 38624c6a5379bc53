"""Attention of fitted models between positions: averages of what `explain` and experts report."""

import numpy as np
import pytest
import torch

from estimator_cases import make, random_weights, ratings
from exfam.checks import ExfamError, ExfamWarning
from exfam.efa.explain import group_attention
from exfam.encodings import ALiBi, Attenuated
from exfam.positions import encoding_weights, own_weights, position_scores, renormalized
from exfam.tables.experts.table_attention import table_attention
from tables.table_estimator_cases import CLASSIFIER, JOINT, RESPONSES
from tables.table_estimator_cases import FRAME as TABLE
from tables.table_estimator_cases import make as make_table

FRAME = ratings(n_users=8)
LENGTH = 3
DIRECTIONS = pytest.mark.parametrize("direction", ["bidirectional", "causal"])
NETWORKS = pytest.mark.parametrize("network", ["linear", "deep"])


def fitted(direction="bidirectional", **options):
    options = {"order": "day", "max_epochs": 1, "n_layers": 2, "support": "none", **options}
    return random_weights(make("efa", direction=direction, **options).fit(FRAME))


def first_rows(frame, n):
    """Of users with so many rows, the first of them."""
    frame = frame.sort_values(["user", "day"])
    long = frame.groupby("user")["day"].transform("size") >= n
    return frame[long & (frame.groupby("user").cumcount() < n)]


@DIRECTIONS
@pytest.mark.parametrize("sees_mask", [False, True])
def test_it_is_the_mean_of_what_groups_explain(direction, sees_mask):
    model = fitted(direction, sees_mask=sees_mask)
    result = model.position_attention(FRAME, length=LENGTH, part="values")
    groups = [group.weights["values"] for group in model.explain(first_rows(FRAME, LENGTH))]
    mean = torch.from_numpy(np.mean(groups, axis=0)).double()
    assert result.n_averaged == len(groups) > 2 and result.direction == direction
    expected = renormalized(mean[..., :LENGTH])
    torch.testing.assert_close(result.weights, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(result.elsewhere, mean[..., LENGTH:].sum(-1), atol=1e-6, rtol=0)
    assert mean.shape[-1] == LENGTH + 1 + sees_mask and float(result.elsewhere.min()) > 0
    torch.testing.assert_close(result.mean, result.weights.mean((0, 1)))


@DIRECTIONS
def test_attention_by_position_alone_is_what_the_encoding_makes(direction):
    model = fitted(direction, encoding="attenuated", null_token=False)
    result = model.position_attention(FRAME, length=4, part="items")
    own = own_weights(Attenuated(), 4, direction=direction)
    torch.testing.assert_close(result.weights, own.expand_as(result.weights), atol=1e-6, rtol=0)
    torch.testing.assert_close(result.positional, own)
    local, own = result.scores().locality, result.positional_scores().locality
    assert float(local) == pytest.approx(float(own))
    shapes = {by: result.scores(by=by).symmetry.shape for by in ("model", "layer", "head")}
    assert shapes == {"model": (), "layer": (2,), "head": (2, 2)}
    head = position_scores(result.weights[1, 0])
    assert float(result.scores(by="head").locality[1, 0]) == float(head.locality)
    with pytest.raises(ExfamError, match="`by` must be one of 'model', 'layer', 'head'"):
        result.scores(by="group")


def test_what_an_encoding_makes_by_itself_leaves_out_the_diagonal():
    whole, own = encoding_weights(ALiBi(2), 5), own_weights(ALiBi(2), 5)
    assert float(own.diagonal(dim1=1, dim2=2).abs().max()) == 0
    torch.testing.assert_close(own.sum(-1), torch.ones(2, 5).double())
    torch.testing.assert_close(own[0, 0, 1] / own[0, 0, 2], whole[0, 0, 1] / whole[0, 0, 2])
    # Others are seen however little is left for them.
    steep = Attenuated(w=1000.0)
    assert encoding_weights(steep, 5).equal(torch.eye(5)[None].double())
    assert own_weights(steep, 5)[0, 1].tolist() == [0.5, 0.0, 0.5, 0.0, 0.0]
    causal = own_weights(steep, 3, direction="causal")[0]
    assert causal.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("encoding", ["learned", "relative", "rotary", "none"])
def test_the_contextual_term_does_not_know_the_order(encoding):
    """Without the encoding a group's context is a set: permuted groups pay permuted weights."""
    model = fitted(encoding=encoding)
    frame = first_rows(FRAME, 4)
    user = frame["user"].iloc[0]
    group = frame[frame["user"] == user]
    backward = group.assign(day=group["day"].to_numpy()[::-1])
    options = {"length": 4, "part": "values"}
    result, turned = (
        model.position_attention(rows, term="contextual", **options) for rows in (group, backward)
    )
    torch.testing.assert_close(turned.weights.flip(2, 3), result.weights, atol=1e-6, rtol=0)
    both = model.position_attention(group, **options)
    assert torch.equal(both.weights, result.weights) == (encoding == "none")
    torch.testing.assert_close(both.positional, result.positional)


@NETWORKS
@pytest.mark.parametrize("encoding", ["learned", "alibi"])
def test_a_tables_contextual_term_is_that_of_tokens_without_positions(network, encoding):
    model = fitted_table(network=network, encoding=encoding)
    result = model.position_attention(TABLE, term="contextual").weights
    tokens = model.model_.network.tokens
    if encoding == "learned":
        assert tokens.positions.abs().max() > 0
        with torch.no_grad():
            tokens.positions.zero_()
        torch.testing.assert_close(result, model.position_attention(TABLE).weights)
    else:
        plain = fitted_table(network=network, encoding="none")
        state = model.model_.state_dict()
        plain.model_.load_state_dict({n: state[n] for n in plain.model_.state_dict()})
        torch.testing.assert_close(result, plain.position_attention(TABLE).weights)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ({}, {"length": 6}, "`length` must be at most that of the longest group, 5"),
        ({}, {"part": None}, "`part` must be one of 'items', 'values', got None"),
        ({}, {"term": "positional"}, "`term` must be one of 'both', 'contextual', got 'posi"),
        ({"attention": "linear"}, {}, "`model` must have weights that are shares, got linear"),
        ({"encoding": "attenuated"}, {"term": "contextual"}, "`term` must be 'both' for an encodi"),
    ],
    ids=str,
)
def test_what_cannot_be_averaged_is_refused(kind, options, message):
    model = fitted(**kind)
    groups = model._inputs(FRAME).groups
    with pytest.raises(ExfamError, match=message):
        group_attention(model.members_[0], groups, **{"length": 3, "part": "items"} | options)


def fitted_table(kind=JOINT, **options):
    model = make_table(kind, max_epochs=1, ensemble=2, **options)
    return random_weights(model.fit(TABLE, RESPONSES[kind]), scale=0.2)


def test_a_tables_attention_is_the_mean_of_its_experts_weights():
    model = fitted_table(CLASSIFIER)
    result = model.position_attention(TABLE, member=1)
    expected = model.experts(TABLE, model.schema_.names, member=1).weights.mean(0)
    np.testing.assert_allclose(result.weights[0].transpose(0, 1), expected, atol=1e-5)
    assert result.n_averaged == len(TABLE) and not result.elsewhere.any()
    vectors = model.model_.network.tokens.positions[1].detach().double()
    own = (vectors @ vectors.T / vectors.shape[1] ** 0.5).softmax(-1)
    torch.testing.assert_close(result.positional[0], own)


@NETWORKS
def test_neither_absent_columns_nor_the_hidden_cells_own_value_are_attended_to(network):
    model = fitted_table(network=network)
    with pytest.warns(ExfamWarning, match="are missing"):
        result = model.position_attention(TABLE.assign(city=None)).weights
    city = list(TABLE).index("city")
    torch.testing.assert_close(result.sum(-1), torch.ones_like(result[..., 0]), atol=1e-5, rtol=0)
    others = torch.arange(TABLE.shape[1]) != city
    assert not result[..., others, city].any() and bool((result[..., city, city] > 0).all())
    column = list(TABLE).index("visits")
    result, moved = (
        model.position_attention(frame).weights[:, :, column]
        for frame in (TABLE, TABLE.assign(visits=TABLE["visits"] * 2))
    )
    torch.testing.assert_close(result, moved)


def test_models_of_other_data_are_refused():
    model = fitted_table()
    cells = model._cells(TABLE)
    with pytest.raises(ExfamError, match="`model` must be one of tables, got EFA"):
        table_attention(fitted(), cells)
    with pytest.raises(ExfamError, match=r"`member` must be in 0 \.\. 1, got 2"):
        table_attention(model, cells, member=2)
    with pytest.raises(ExfamError, match="`cells` must hold at least one row, got none"):
        table_attention(model, cells[:0])
    marginal = make("marginal").fit(FRAME)
    with pytest.raises(ExfamError, match="`model` must have attention to be looked into, got"):
        group_attention(marginal.members_[0], marginal._inputs(FRAME).groups, length=3)
