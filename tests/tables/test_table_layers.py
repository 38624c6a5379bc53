"""The networks of table rows against the same networks written out."""

import numpy as np
import pytest
import torch
from torch import nn

from exfam.checks import ExfamError
from exfam.experts import Sentences, forward
from exfam.tables.networks.batch import MASKED, CellBatch
from exfam.tables.networks.linear import look_up_between
from exfam.tables.networks.parts import StackedLinear
from table_network_cases import SHARED, alike_cells, batch_of, mixed_cells, table_model

EXACT = {"rtol": 0.0, "atol": 1e-10}


def first_tokens(model):
    return torch.tensor(model.network.tokens.plan.first)


@pytest.mark.parametrize("ordinal", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"masked_columns": ("size", "price", "visits")}, SHARED], ids=str
)
def test_looked_up_scores_are_those_of_the_literal_network(options, ordinal):
    model = table_model(ordinal=(ordinal, True), **options)
    cells = alike_cells() if options is SHARED else mixed_cells()
    assert options is SHARED or (cells.fraction > 0).any(0).sum() == 2
    targets = [2, 0, 3]
    result = model(batch_of(model, cells), targets)
    code = torch.from_numpy(cells.code).long()
    behind = torch.zeros(code.shape, dtype=torch.bool)
    behind[:, model.masked_columns] = code[:, model.masked_columns] < 0
    rows = Sentences(code, torch.from_numpy(cells.fraction), first_tokens(model), behind)
    for member in range(2):
        literal = forward(model.linear_attention(member), rows, targets)
        assert float(literal.std(0).max()) > 1e-2
        torch.testing.assert_close(result[member], literal, **EXACT)


# The deep network, by torch's own encoder layers.


def joined(layers, name, member):
    return torch.cat([getattr(layer, name)[member].mT for layer in layers])


def encoder_layer(block, member, *, norm):
    """torch's layer with the weights of one member of a block."""
    embed, feed_forward = block.wide.weight.shape[1:]
    first = norm == "pre"
    layer = nn.TransformerEncoderLayer(
        embed, block.heads[0], feed_forward, 0.0, batch_first=True, norm_first=first
    ).double()
    three = (block.query, block.key, block.value)
    state = {
        "self_attn.in_proj_weight": joined(three, "weight", member),
        "self_attn.in_proj_bias": joined(three, "bias", member)[:, 0],
    }
    own = {"self_attn.out_proj": block.out, "linear1": block.wide, "linear2": block.narrow}
    for name, part in own.items():
        state |= {f"{name}.weight": part.weight[member].mT, f"{name}.bias": part.bias[member, 0]}
    for name, part in zip(("norm1", "norm2"), block.norms, strict=True):
        state |= {f"{name}.weight": part.gain[member], f"{name}.bias": part.shift[member]}
    layer.load_state_dict(state)
    # In training mode torch takes no short cuts that round otherwise.
    return layer.train()


def of_all_cells(model, cells, member, target, *, norm):
    """Parameters of a target, every block computed for every cell."""
    network, batch = model.network, batch_of(model, cells)
    code = batch.code.repeat(2, 1, 1)
    code[..., target] = MASKED
    x = network._vectors(CellBatch(code, batch.fraction, batch.value))[member]
    for block in network.blocks:
        x = encoder_layer(block, member, norm=norm)(x, src_key_padding_mask=code[0] == -1)
    if norm == "pre":
        gain, shift = network.last.gain[member], network.last.shift[member]
        x = nn.functional.layer_norm(x, x.shape[-1:], gain, shift)
    weight, bias = network.readout.columns()
    index = 0 if network.readout.shared else target
    return x[:, target] @ weight[member, index].mT + bias[member, index]


@pytest.mark.parametrize("options", [{}, SHARED], ids=str)
@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_block_for_the_target_alone_changes_nothing(norm, n_layers, options):
    model = table_model(network="deep", norm=norm, n_layers=n_layers, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    cells = alike_cells(12) if options else mixed_cells(12)
    targets = [3, 0]
    result = model(batch_of(model, cells), targets)
    for member in range(2):
        for index, target in enumerate(targets):
            whole = of_all_cells(model, cells, member, target, norm=norm)
            assert float(whole.detach().std(0).max()) > 1e-3
            torch.testing.assert_close(result[member, :, index], whole, **EXACT)


def test_columns_differ_row_by_row():
    model, cells = table_model(network="deep"), mixed_cells(12)
    batch, columns = batch_of(model, cells), torch.arange(12)[None] % 6
    result = model.network.of_copies(batch, columns)
    for column in range(6):
        own = model.network.of_copies(batch, torch.full_like(columns, column))
        here = columns[0] == column
        torch.testing.assert_close(result[:, here], own[:, here], **EXACT)
    with pytest.raises(ExfamError, match="`norm` must be"):
        table_model(network="deep", norm="batch")


def test_a_stacked_layer_is_a_linear_layer_for_each_member():
    layer = StackedLinear(3, 4, 5, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        layer.bias.normal_(generator=torch.Generator().manual_seed(1))
    x = torch.randn(3, 2, 6, 4, generator=torch.Generator().manual_seed(2)).double()
    for member, result in enumerate(layer(x)):
        own = nn.functional.linear(x[member], layer.weight[member].mT, layer.bias[member, 0])
        torch.testing.assert_close(result, own)


def test_a_cell_between_two_tokens_is_between_their_vectors():
    model, cells = table_model(), mixed_cells(absent=0.0)
    attention, batch = model.linear_attention(0), batch_of(model, cells)
    price = attention.tokens[first_tokens(model)[3] + torch.arange(5)] + attention.positions[3]
    knots = model.schema.columns[3].knots
    at = np.clip(cells.value[:, 3], knots[0], knots[-1])
    expected = np.stack([np.interp(at, knots, part) for part in price.numpy().T], axis=1)
    tokens = model.network.tokens
    index = tokens.entry_index(batch.code).expand(2, -1, -1)
    got = look_up_between(tokens.entries(), index, batch.between)[0, :, 3]
    np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-6)
