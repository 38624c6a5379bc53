"""What holds for every network of table rows: no leak, and nothing else changes a prediction."""

import numpy as np
import pytest
import torch

from exfam.tables.data.cells import Cells
from exfam.tables.networks import masked_table_model as model_module
from exfam.tables.networks.objective import MaskedCells
from table_network_cases import (
    CASES,
    mixed_cells,
    model_and_cells,
    other_cells,
    table_model,
    with_cells,
)

EXACT = {"rtol": 0.0, "atol": 1e-10}


def all_eta(model, cells):
    return model.eta(cells, list(range(len(model.families))))


def assert_same(result, expected):
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("case", CASES)
def test_a_target_does_not_see_its_own_cell(case):
    model, cells = model_and_cells(case)
    result = all_eta(model, cells)
    for target, own in enumerate(result):
        assert float(own.std(1).max()) > 1e-3
        changes = [
            other_cells(cells, model.schema, target),
            with_cells(cells, target, value=77.0),
            with_cells(cells, target, fraction=0.4, code=0),
            cells.hide([target]),
        ]
        for changed in changes:
            torch.testing.assert_close(model.eta(changed, [target])[0], own, **EXACT)


@pytest.mark.parametrize("case", CASES)
def test_a_target_sees_every_other_cell_that_is_there(case):
    model, cells = model_and_cells(case)
    result = all_eta(model, cells)
    for column in range(len(result)):
        moved = all_eta(model, other_cells(cells, model.schema, column))
        there = torch.from_numpy(cells.code[:, column] >= 0)
        assert 0 < there.sum() < len(there)
        for target, (own, other) in enumerate(zip(result, moved, strict=True)):
            change = (own - other).abs().amax(-1)
            if target != column:
                assert float(change[:, there].min()) > 1e-6
            torch.testing.assert_close(own[:, ~there], other[:, ~there], **EXACT)


@pytest.mark.parametrize("case", CASES)
def test_what_absent_cells_hold_is_not_read(case):
    model, cells = model_and_cells(case)
    absent = cells.code < 0
    assert absent.any(0).all()
    filled = Cells(
        cells.code,
        np.where(absent, np.float32(0.6), cells.fraction),
        np.where(absent, 1.0, cells.value),
    )
    assert_same(all_eta(model, filled), all_eta(model, cells))


def test_masked_columns_show_where_a_cell_is_absent():
    cells = mixed_cells().hide([1])
    shown, not_there = (table_model(masked_columns=each) for each in (("size",), ()))
    result = zip(shown.eta(cells, [0, 1]), not_there.eta(cells, [0, 1]), strict=True)
    differ, same = ((a - b).abs().max() for a, b in result)
    # Its own column always holds a MASK token.
    assert differ > 1e-3 and same < 1e-10


@pytest.mark.parametrize("case", CASES)
def test_rows_are_predicted_alone_in_any_order_and_in_any_chunks(case, monkeypatch):
    model, cells = model_and_cells(case)
    result = all_eta(model, cells)
    order = np.random.default_rng(0).permutation(len(cells))
    assert_same(all_eta(model, cells[order]), [eta[:, order] for eta in result])
    assert_same(all_eta(model, cells[5:6]), [eta[:, 5:6] for eta in result])
    monkeypatch.setattr(model_module, "_NUMBERS_AT_ONCE", 5000)
    cuts = []
    forward = model.network.forward
    monkeypatch.setattr(
        model.network, "forward", lambda batch, targets: cuts.append(1) or forward(batch, targets)
    )
    assert_same(all_eta(model, cells), result)
    assert len(cuts) > 3


@pytest.mark.parametrize("case", CASES)
def test_targets_do_not_depend_on_other_targets(case):
    model, cells = model_and_cells(case)
    result = all_eta(model, cells)
    assert_same(model.eta(cells, [2, 0]), [result[2], result[0]])
    assert_same(model.eta(cells, [1, 1]), [result[1], result[1]])
    assert model.eta(cells, []) == []
    assert [eta.shape[1] for eta in model.eta(cells[:0], [0, 3])] == [0, 0]


@pytest.mark.parametrize("case", CASES)
def test_rows_with_nothing_in_them_have_a_distribution(case):
    model, cells = model_and_cells(case)
    empty = cells.hide(list(range(len(model.families))))
    for eta in all_eta(model, empty):
        assert eta.isfinite().all()
        torch.testing.assert_close(eta, eta[:, :1].expand_as(eta), **EXACT)


def alone(model, member, case):
    """One member of a stack by itself."""
    single = table_model(**{**CASES[case], "ordinal": ((True, False)[member],)})
    state = {name: tensor[member : member + 1] for name, tensor in model.state_dict().items()}
    single.load_state_dict(state)
    return single


@pytest.mark.parametrize("case", CASES)
def test_a_stack_is_its_members_each_by_itself(case):
    model, cells = model_and_cells(case)
    loss = MaskedCells(1, 0.3, (0.0,), "absent", n_targets=99)

    def gradients(some):
        some.train()
        batch = some.rows(cells).pad(np.arange(len(cells)))
        loss(some, batch)[0].backward()
        return {name: parameter.grad for name, parameter in some.named_parameters()}

    together = gradients(model)
    result = all_eta(model, cells)
    for member in range(2):
        single = alone(model, member, case)
        for name, gradient in gradients(single).items():
            torch.testing.assert_close(gradient[0], together[name][member], **EXACT)
        assert_same(all_eta(single, cells), [eta[member : member + 1] for eta in result])
    assert all((eta[0] - eta[1]).abs().max() > 1e-3 for eta in result)


def test_members_may_be_shown_different_rows():
    for case in ("linear", "deep"):
        model, cells = table_model(**CASES[case]), mixed_cells()
        one, two = model.rows(cells[:8]), model.rows(cells[8:16])
        batches = [rows.pad(np.arange(8)) for rows in (one, two)]
        code, fraction, value = (
            torch.cat([getattr(batch, name) for batch in batches])
            for name in ("code", "fraction", "value")
        )
        result = model(type(batches[0])(code, fraction, value), [0, 3])
        for member, batch in enumerate(batches):
            torch.testing.assert_close(result[member], model(batch, [0, 3])[member], **EXACT)
