"""The networks of table rows against the same networks written out."""

import numpy as np
import pytest
import torch
from torch import nn

from exfam.checks import ExfamError
from exfam.experts import Sentences, forward
from exfam.tables.networks.batch import MASKED, CellBatch
from exfam.tables.networks.linear import look_up_between
from table_network_cases import alike_cells, mixed_cells, table_model

EXACT = {"rtol": 0.0, "atol": 1e-10}


def batch_of(model, cells):
    return model.rows(cells).pad(np.arange(len(cells)))


def first_tokens(model):
    return torch.tensor(model.network.tokens.plan.first)


@pytest.mark.parametrize("ordinal", [True, False])
@pytest.mark.parametrize("masked", [(), ("size", "price", "visits")])
def test_looked_up_scores_are_those_of_the_literal_network(masked, ordinal):
    model = table_model(masked_columns=masked, ordinal=(ordinal, True))
    cells = mixed_cells()
    assert (cells.fraction > 0).any(0).sum() == 2
    targets = [5, 0, 3]
    result = model(batch_of(model, cells), targets)
    code = torch.from_numpy(cells.code).long()
    behind = torch.zeros(code.shape, dtype=torch.bool)
    indices = [model.schema.index(name) for name in masked]
    behind[:, indices] = code[:, indices] < 0
    rows = Sentences(code, torch.from_numpy(cells.fraction), first_tokens(model), behind)
    for member in range(2):
        literal = forward(model.linear_attention(member), rows, targets)
        assert float(literal.std(0).max()) > 1e-2
        torch.testing.assert_close(result[member], literal, **EXACT)


@pytest.mark.parametrize("ordinal", [True, False])
def test_the_literal_network_may_share_its_categories(ordinal):
    model = table_model(alike=True, categories="shared", ordinal=(ordinal,) * 2)
    cells = alike_cells()
    result = model(batch_of(model, cells), [2, 1])
    rows = Sentences(torch.from_numpy(cells.code).long(), first=first_tokens(model))
    for member in range(2):
        literal = forward(model.linear_attention(member), rows, [2, 1])
        torch.testing.assert_close(result[member], literal, **EXACT)


def test_a_deep_network_has_no_exact_expert_view():
    with pytest.raises(ExfamError, match="`network` must be 'linear' for the expert view"):
        table_model(network="deep").linear_attention()


# The deep network, by torch's own encoder layers.


def joined(layers, name, member):
    return torch.cat([getattr(layer, name)[member].mT for layer in layers])


def encoder_layer(block, member, *, norm):
    """torch's layer with the weights of one member of a block."""
    embed, feed_forward = block.wide.weight.shape[1:]
    layer = nn.TransformerEncoderLayer(
        embed,
        block.heads[0],
        feed_forward,
        dropout=0.0,
        batch_first=True,
        norm_first=norm == "pre",
        dtype=torch.float64,
    )
    three = (block.query, block.key, block.value)
    state = {
        "self_attn.in_proj_weight": joined(three, "weight", member),
        "self_attn.in_proj_bias": joined(three, "bias", member)[:, 0],
    }
    for name, own in (
        ("self_attn.out_proj", block.out),
        ("linear1", block.wide),
        ("linear2", block.narrow),
    ):
        state |= {f"{name}.weight": own.weight[member].mT, f"{name}.bias": own.bias[member, 0]}
    for index, own in enumerate(block.norms):
        state |= {f"norm{index + 1}.weight": own.gain[member]}
        state |= {f"norm{index + 1}.bias": own.shift[member]}
    layer.load_state_dict(state)
    return layer


def of_all_cells(model, cells, member, target, *, norm):
    """Parameters of a target, every block computed for every cell."""
    network = model.network
    batch = batch_of(model, cells)
    code = batch.code.repeat(2, 1, 1)
    code[..., target] = MASKED
    # In training mode torch takes no short cuts that round otherwise.
    x = network._vectors(CellBatch(code, batch.fraction, batch.value))[member]
    for block in network.blocks:
        layer = encoder_layer(block, member, norm=norm).train()
        x = layer(x, src_key_padding_mask=code[0] == -1)
    if norm == "pre":
        gain, shift = network.last.gain[member], network.last.shift[member]
        x = nn.functional.layer_norm(x, x.shape[-1:], gain, shift)
    weight, bias = network.readout.columns()
    index = 0 if network.readout.shared else target
    return x[:, target] @ weight[member, index].mT + bias[member, index]


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_asking_the_last_block_for_the_target_alone_changes_nothing(norm, n_layers, alike):
    categories = "shared" if alike else "per-column"
    model = table_model(
        network="deep", norm=norm, n_layers=n_layers, alike=alike, categories=categories
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    cells = alike_cells(12) if alike else mixed_cells(12)
    targets = [3, 0]
    result = model(batch_of(model, cells), targets)
    for member in range(2):
        for index, target in enumerate(targets):
            whole = of_all_cells(model, cells, member, target, norm=norm)
            assert float(whole.detach().std(0).max()) > 1e-3
            torch.testing.assert_close(result[member, :, index], whole, **EXACT)


def test_an_unknown_norm_is_refused():
    with pytest.raises(ExfamError, match="`norm` must be"):
        table_model(network="deep", norm="batch")


def test_a_cell_between_two_tokens_is_between_their_vectors():
    model, cells = table_model(), mixed_cells(absent=0.0)
    attention = model.linear_attention(0)
    batch = batch_of(model, cells)
    price = attention.tokens[first_tokens(model)[3] + torch.arange(5)] + attention.positions[3]
    knots = model.schema.columns[3].knots
    at = np.clip(cells.value[:, 3], knots[0], knots[-1])
    expected = np.stack([np.interp(at, knots, one) for one in price.numpy().T], axis=1)
    tokens = model.network.tokens
    index = tokens.entry_index(batch.code).expand(2, -1, -1)
    got = look_up_between(tokens.entries(), index, batch.between)[0, :, 3]
    np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-6)
