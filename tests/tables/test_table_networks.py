"""What holds for every network of table rows: no leak, and nothing else changes a prediction."""

import numpy as np
import pytest
import torch

from exfam.encodings import ENCODINGS
from exfam.tables.data import Cells
from exfam.tables.networks import masked_table_model as model_module
from exfam.tables.networks.batch import CellBatch
from exfam.tables.networks.masked_table_model import MaskedCells
from table_network_cases import (
    CASES,
    alike_cells,
    batch_of,
    mixed_cells,
    model_and_cells,
    other_cells,
    table_model,
    with_cells,
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
        changes = [
            other_cells(cells, model.schema, target),
            with_cells(cells, target, value=77.0),
            with_cells(cells, target, fraction=0.4, code=0),
            cells.hide([target]),
        ]
        for changed in changes:
            torch.testing.assert_close(model.eta(changed, [target])[0], own, **EXACT)


ENCODED = [(network, encoding) for network in ("linear", "deep") for encoding in sorted(ENCODINGS)]


@pytest.mark.parametrize(
    "options",
    [*CASES.values(), *({"network": n, "encoding": e} for n, e in ENCODED)],
    ids=str,
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


def test_a_target_sees_where_between_two_tokens_a_number_lies():
    model, cells = table_model(), mixed_cells(absent=0.0)
    low, high = (with_cells(cells, 3, code=1, fraction=at) for at in (0.2, 0.7))
    for target in (0, 4):
        change = model.eta(low, [target])[0] - model.eta(high, [target])[0]
        assert float(change.abs().amax(-1).min()) > 1e-6


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


def test_masked_columns_show_where_a_cell_is_absent():
    cells = mixed_cells().hide([1])
    shown, not_there = (table_model(masked_columns=names) for names in (("size",), ()))
    result = zip(shown.eta(cells, [0, 1]), not_there.eta(cells, [0, 1]), strict=True)
    differ, same = ((a - b).abs().max() for a, b in result)
    # Its own column always holds a MASK token.
    assert differ > 1e-3 and same < 1e-10


@EVERY
def test_rows_and_targets_are_predicted_alone_in_any_order_and_in_any_chunks(case, monkeypatch):
    model, cells = model_and_cells(case)
    result = all_eta(model, cells)
    order = np.random.default_rng(0).permutation(len(cells))
    assert_same(all_eta(model, cells[order]), [eta[:, order] for eta in result])
    assert_same(all_eta(model, cells[5:6]), [eta[:, 5:6] for eta in result])
    assert_same(model.eta(cells, [2, 0]), [result[2], result[0]])
    assert_same(model.eta(cells, [1, 1]), [result[1], result[1]])
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


def test_dropout_is_off_in_prediction_and_on_in_training():
    model, cells = table_model(network="deep", dropout=0.5), mixed_cells()
    assert_same(all_eta(model, cells), all_eta(table_model(network="deep"), cells))
    batch = batch_of(model.train(), cells)
    assert (model(batch, [0]) - model(batch, [0])).abs().max() > 1e-3


@pytest.mark.parametrize("case", ["linear", "deep"])
def test_members_may_be_shown_different_rows(case):
    model, cells = model_and_cells(case)
    batches = [batch_of(model, cells[rows]) for rows in (slice(8), slice(8, 16))]
    parts = (
        torch.cat([getattr(batch, name) for batch in batches])
        for name in ("code", "fraction", "value")
    )
    result = model(CellBatch(*parts), [0, 3])
    for member, batch in enumerate(batches):
        torch.testing.assert_close(result[member], model(batch, [0, 3])[member], **EXACT)


def test_shared_categories_are_one_space():
    model, apart = table_model(alike=True, categories="shared"), table_model(alike=True)
    assert (model.network.tokens.free.shape[1], apart.network.tokens.free.shape[1]) == (4, 16)
    assert model.network.readout.raw.shape[1] == 1
    cells = alike_cells()
    assert all_eta(model, cells)[0].shape == all_eta(apart, cells)[0].shape
