"""Tables under every encoding: columns, counted from 0, are positions."""

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.encodings import ENCODINGS
from exfam.tables.networks.batch import cell_batch
from table_network_cases import mixed_cells, table_model
from tables.table_estimator_cases import (
    CLASSIFIER,
    FRAME,
    JOINT,
    REGRESSOR,
    RESPONSES,
    class_of,
    fit,
)

EVERY = pytest.mark.parametrize("encoding", sorted(ENCODINGS))


@EVERY
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


@EVERY
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


@EVERY
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
