"""Networks of table rows under every encoding: no leak, and the same networks written out."""

import numpy as np
import pytest
import torch
from torch import nn

from exfam.checks import ExfamError
from exfam.encodings import ENCODINGS
from exfam.tables.data import Cells
from exfam.tables.networks import masked_table_model as model_module
from exfam.tables.networks.batch import MASKED, CellBatch, cell_batch
from exfam.tables.networks.masked_table_model import MaskedCells
from table_network_cases import (
    CASES,
    SHARED,
    alike_cells,
    batch_of,
    mixed_cells,
    model_and_cells,
    other_cells,
    table_model,
    with_cells,
)
from tables.table_estimator_cases import (
    CLASSIFIER,
    FRAME,
    JOINT,
    REGRESSOR,
    RESPONSES,
    class_of,
    fit,
)

EXACT = {"rtol": 0.0, "atol": 1e-10}
EVERY = pytest.mark.parametrize("case", CASES)


def all_eta(model, cells):
    return model.eta(cells, list(range(len(model.families))))


def assert_same(result, expected):
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@EVERY
def test_a_target_does_not_see_its_own_cell(case):
    model, cells = model_and_cells(case)
    for target, own in enumerate(all_eta(model, cells)):
        assert float(own.std(1).max()) > 1e-3
        other = with_cells(cells, target, value=77.0, fraction=0.4, code=0)
        for changed in (other, cells.hide([target])):
            torch.testing.assert_close(model.eta(changed, [target])[0], own, **EXACT)


ENCODED = [(network, encoding) for network in ("linear", "deep") for encoding in sorted(ENCODINGS)]


@pytest.mark.parametrize(
    "options", [*CASES.values(), *({"network": n, "encoding": e} for n, e in ENCODED)], ids=str
)
def test_a_target_sees_every_other_cell_that_is_there(options):
    model = table_model(**options)
    cells = alike_cells() if options.get("alike") else mixed_cells()
    result = all_eta(model, cells)
    for column in range(len(result)):
        moved = all_eta(model, other_cells(cells, model.schema, column))
        there = torch.from_numpy(cells.code[:, column] >= 0)
        assert 0 < there.sum() < len(there)
        for target, (own, other) in enumerate(zip(result, moved, strict=True)):
            change = (own - other).abs().amax(-1)
            if target != column:
                assert float(change[:, there].min()) > (1e-7 if "encoding" in options else 1e-6)
            else:
                assert float(change.max()) < 1e-9
            torch.testing.assert_close(own[:, ~there], other[:, ~there], **EXACT)


@EVERY
def test_what_absent_cells_hold_is_not_read(case):
    model, cells = model_and_cells(case)
    absent = cells.code < 0
    assert absent.any(0).all()
    fraction = np.where(absent, np.float32(0.6), cells.fraction)
    filled = Cells(cells.code, fraction, np.where(absent, 1.0, cells.value))
    assert_same(all_eta(model, filled), all_eta(model, cells))
    for eta in all_eta(model, cells.hide(list(range(len(model.families))))):
        assert eta.isfinite().all()
        torch.testing.assert_close(eta, eta[:, :1].expand_as(eta), **EXACT)


@EVERY
def test_rows_and_targets_are_predicted_alone_in_any_order_and_in_any_chunks(case, monkeypatch):
    model, cells = model_and_cells(case)
    result = all_eta(model, cells)
    order = np.random.default_rng(0).permutation(len(cells))
    assert_same(all_eta(model, cells[order]), [eta[:, order] for eta in result])
    assert_same(model.eta(cells, [2, 0, 0]), [result[2], result[0], result[0]])
    assert model.eta(cells, []) == []
    assert [eta.shape[1] for eta in model.eta(cells[:0], [0, 3])] == [0, 0]
    monkeypatch.setattr(model_module, "_NUMBERS_AT_ONCE", 5000)
    assert len(list(model.chunks(cells, len(result)))) > 3
    assert_same(all_eta(model, cells), result)


@EVERY
def test_a_stack_is_its_members_each_by_itself(case):
    model, cells = model_and_cells(case)
    loss = MaskedCells(1, 0.3, (0.0,), "absent", n_targets=99)

    def gradients(some):
        some.train()
        loss(some, batch_of(some, cells))[0].backward()
        return {name: parameter.grad for name, parameter in some.named_parameters()}

    together, result = gradients(model), all_eta(model, cells)
    for member in range(2):
        single = table_model(**{**CASES[case], "ordinal": ((True, False)[member],)})
        state = {name: tensor[member : member + 1] for name, tensor in model.state_dict().items()}
        single.load_state_dict(state)
        for name, gradient in gradients(single).items():
            torch.testing.assert_close(gradient[0], together[name][member], **EXACT)
        assert_same(all_eta(single, cells), [eta[member : member + 1] for eta in result])
    assert all((eta[0] - eta[1]).abs().max() > 1e-3 for eta in result)


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


EVERY_ENCODING = pytest.mark.parametrize("encoding", sorted(ENCODINGS))


@EVERY_ENCODING
@pytest.mark.parametrize(
    ("kind", "network"), [(CLASSIFIER, "linear"), (REGRESSOR, "linear"), (JOINT, "deep")]
)
def test_every_table_estimator_takes_every_encoding(kind, network, encoding, tmp_path):
    model = fit(kind, network=network, encoding=encoding)
    result = model.pseudo_log_likelihood(FRAME)
    assert np.isfinite(result).all() and result.std() > 0
    model.save(tmp_path / "model")
    loaded = class_of(kind).load(tmp_path / "model")
    assert loaded.settings_.encoding == encoding
    np.testing.assert_array_equal(loaded.pseudo_log_likelihood(FRAME), result)
    if kind == CLASSIFIER:
        rows = FRAME.assign(**{model.response_: RESPONSES[kind]})
        assert set(model.shift_report(rows[:40], rows[40:]).weights) >= set(FRAME)
    if encoding in ("learned", "sinusoidal"):
        assert np.allclose(np.diag(model.column_similarities().cosine), 1.0)
    else:
        with pytest.raises(ExfamError, match="`encoding` must give columns vectors to compare"):
            model.column_similarities()


def _scores(encoding, q, k):
    """Of the target at position m with all columns: q, k of (heads, columns, head_dim)."""
    index = torch.arange(q.shape[1])[None]
    fixed = encoding.log_weights(index, index)
    if fixed is not None:
        return fixed[0].to(q.dtype).expand(len(q), -1, -1)
    turned_q, turned_k = (encoding.rotate(x[None], index) for x in (q, k))
    product = turned_q @ turned_k.mT * q.shape[-1] ** -0.5
    bias = encoding.bias(turned_q, index, index)
    return (product if bias is None else product + bias)[0]


@EVERY_ENCODING
def test_the_linear_network_is_attention_with_the_encodings_hooks(encoding):
    """One masked copy for each target, written out for one member and row."""
    model, cells = table_model(encoding=encoding), mixed_cells(absent=0.0)
    network, row, member = model.network, 3, 1
    rows = model.rows(cells).pad(np.arange(len(cells)))
    batch = cell_batch(cells.code, cells.fraction, rows.value[0].numpy())
    n = cells.code.shape[1]
    entries = network.tokens.entries()[member]
    low = network.tokens.entry_index(batch.code)[0, row]
    share = batch.between[0, row][:, None].double()
    standing = torch.lerp(entries[low], entries[low + (share[:, 0] > 0)], share)
    result = network(batch, list(range(n)))[member, row]
    weight, bias = network.readout.columns()
    for target in range(n):
        x = standing.clone()
        x[target] = network.tokens.blanks()[member, target]
        q, k, v = (
            (x @ part[member]).unflatten(-1, (network.n_heads, network.head_dim)).transpose(0, 1)
            for part in (network.query, network.key, network.value)
        )
        if network.places is None:
            scores = q @ k.mT * network.head_dim**-0.5
        else:
            scores = _scores(network.places.members[member], q, k)
        pooled = (scores.softmax(-1) @ v)[:, target].flatten()
        hidden = x[target] + pooled @ network.out[member]
        hidden = hidden + hidden @ network.hidden[member]
        expected = weight[member, target] @ hidden + bias[member, target]
        torch.testing.assert_close(result[target], expected)


@EVERY_ENCODING
def test_experts_are_exact_or_refused(encoding):
    model = table_model(encoding=encoding)
    if encoding in ("learned", "none", "sinusoidal"):
        positions = model.linear_attention(1).positions
        torch.testing.assert_close(positions, model.network.tokens.positions[1].double())
        return
    with pytest.raises(ExfamError, match="`encoding` must be 'learned', 'sinusoidal' or 'none'"):
        model.linear_attention(1)


def test_the_weights_of_experts_are_those_of_attention():
    model = fit(CLASSIFIER, ensemble=2)
    weights = [model.experts(FRAME, [model.response_], member=m).weights[:, 0] for m in range(2)]
    result = model.model_.expert_weights(model._cells(FRAME), model.schema_.index(model.response_))
    np.testing.assert_allclose(result, np.stack(weights).mean((0, 2)), atol=1e-5)
