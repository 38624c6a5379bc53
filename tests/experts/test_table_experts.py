"""Experts of table models, and whether removing them does what they say."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from exfam.checks import DataError, ExfamError
from exfam.families import Bernoulli
from exfam.tables.answers.distributions import IndependentColumns
from exfam.tables.data import Cells, Column, TableSchema
from exfam.tables.experts.faithfulness import (
    deletion_insertion,
    faithfulness,
    permutation_importance,
)
from exfam.tables.experts.table_attention import (
    TableAttention,
    attention_of_table,
    expert_importance,
    removal_effects,
    summarize_experts,
)
from table_network_cases import CASES, MIXED, batch_of, mixed_cells, model_and_cells, table_model

EXACT = {"rtol": 0.0, "atol": 1e-10}
TARGETS = ["price", "color"]


def outputs(model, cells, targets=(3, 0)):
    return model(batch_of(model, cells), list(targets)).detach()


@pytest.mark.parametrize("member", [0, 1])
@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("linear")])
def test_experts_of_a_table_model_add_up_to_its_outputs(case, member):
    model, cells = model_and_cells(case)
    view, targets = attention_of_table(model, member=member), [3, 0]
    names = [model.schema.names[target] for target in targets]
    experts, explained = (read(cells, names) for read in (view.experts, view.explained))
    expected = outputs(model, cells)[member]
    assert float(expected.std(0).amax(-1).min()) > 1e-2
    torch.testing.assert_close(experts.logits, expected, **EXACT)
    there = experts.weights > 0
    scores = explained.scores.total.masked_fill(~there, -torch.inf).softmax(-1)
    torch.testing.assert_close(scores, experts.weights)
    contributions = explained.similarities.total * there[..., None]
    torch.testing.assert_close(contributions, experts.contributions)


@pytest.mark.parametrize("column", range(6))
def test_a_removal_effect_is_the_change_of_the_outputs_without_that_cell(column):
    model, cells = table_model(), mixed_cells()
    experts = attention_of_table(model).experts(cells, TARGETS)
    effects = removal_effects(experts, [3, 0])[:, :, column]
    expected, without = (outputs(model, shown)[0] for shown in (cells, cells.hide([column])))
    torch.testing.assert_close(effects, expected - without, **EXACT)
    assert float(effects.abs().max()) > 1e-2


def test_importance_is_the_divergence_of_the_distributions_with_and_without_a_cell():
    model, cells = table_model(), mixed_cells(12)
    result, expected = expert_importance(model, cells, "color"), np.zeros((12, 6))
    change = np.zeros((12, 6))
    for column in range(1, 6):
        etas = (model.eta(shown, [0])[0] for shown in (cells, cells.hide([column])))
        divergence = kl_divergence(*(Categorical(logits=eta) for eta in etas))
        expected[:, column] = divergence.mean(0).numpy()
        moved = outputs(model, cells, [3]) - outputs(model, cells.hide([column]), [3])
        change[:, column] = moved[:, :, 0, 0].abs().mean(0).numpy()
    np.testing.assert_allclose(result, expected, atol=1e-10)
    assert expected.max() > 1e-3 and not result[cells.code < 0].any()
    # Of a number, how far its first parameter moves.
    number = np.delete(expert_importance(model, cells, "price"), [0, 3], axis=1)
    np.testing.assert_allclose(number, np.delete(change, [0, 3], axis=1), atol=1e-10)


def test_a_summary_is_of_all_rows_however_they_are_cut(monkeypatch):
    view, cells = attention_of_table(table_model()), mixed_cells()
    whole = summarize_experts(view, cells, TARGETS)
    experts = view.experts(cells, TARGETS)
    parts = experts.parts.numpy()
    np.testing.assert_allclose(whole.weight, experts.weights.mean(0).numpy(), atol=1e-12)
    np.testing.assert_allclose(whole.size, np.linalg.norm(parts, axis=-1).mean(0))
    np.testing.assert_allclose(whole.spread, np.sqrt(parts.var(0).sum(-1)))
    effects = removal_effects(experts, [3, 0]).norm(dim=-1).mean(0).numpy()
    np.testing.assert_allclose(whole.effect, effects)
    monkeypatch.setattr("exfam.tables.answers.distributions._NUMBERS_AT_ONCE", 300)
    cut = summarize_experts(view, cells, TARGETS)
    for name in ("weight", "size", "spread", "effect"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-9)
    table = whole.to_dict()
    row = list(zip(table["target"], table["column"], strict=True)).index(("color", "new"))
    assert table["spread"][row] == whole.spread[1, 2]
    assert table["weight"][row] == pytest.approx(whole.weight[1, :, 2].mean())


def test_what_has_no_experts_is_refused():
    view, cells = attention_of_table(table_model()), mixed_cells()
    with pytest.raises(ExfamError, match="`cells` must have at least one row, got none"):
        summarize_experts(view, cells[:0], TARGETS)
    with pytest.raises(DataError, match="`name` must be a column of the table"):
        view.experts(cells, ["e"])
    with pytest.raises(DataError, match="`schema` must have one column for each of 6 positions"):
        TableAttention(view.attention, TableSchema(MIXED.columns[:2]))
    alone = IndependentColumns(TableSchema(()), families=(), marginals=())
    with pytest.raises(ExfamError, match="must be one linear attention layer .* got Indep"):
        attention_of_table(alone)
    with pytest.raises(ExfamError, match="`network` must be 'linear' for the expert view"):
        attention_of_table(table_model(network="deep"))


STRENGTH = np.array([0.5, 3.0, 0.0, 1.0])
COLUMNS = tuple(Column(name, "boolean", labels=np.array([False, True])) for name in "abcdy")


@dataclass(frozen=True)
class KnownTruth:
    """Log odds of column y: the sum of +-strength of the other cells that are there."""

    schema: TableSchema = TableSchema(COLUMNS)
    families: tuple[Bernoulli, ...] = (Bernoulli(),) * 5

    def eta(self, cells, targets):
        assert list(targets) == [4]
        return [torch.from_numpy(signs(cells) @ STRENGTH)[None, :, None]]


TRUTH = KnownTruth()


def signs(cells):
    return np.where(cells.code[:, :4] < 0, 0, 2 * cells.code[:, :4] - 1)


def drawn(n_rows=400, *, absent=0.0):
    """Rows whose y is drawn from the model."""
    random = np.random.default_rng(0)
    code = random.integers(0, 2, (n_rows, 5))
    odds = (2 * code[:, :4] - 1) @ STRENGTH
    code[:, 4] = random.random(n_rows) < 1 / (1 + np.exp(-odds))
    code[random.random(code.shape) < absent] = -1
    value = np.where(code < 0, np.nan, code)
    return Cells(code.astype(np.int32), np.zeros(code.shape, np.float32), value)


def by_column(importance, cells):
    return np.broadcast_to(np.append(importance, 99.0), cells.code.shape)


def curves(cells):
    return deletion_insertion(TRUTH, cells, "y", importance=by_column(STRENGTH, cells))


def nats_without(cells, *steps):
    """Mean log p(y) by hand, for each of the steps without its columns."""
    nats, cells = [], cells[cells.present[:, 4]]
    for columns in steps:
        strength = STRENGTH.copy()
        strength[list(columns)] = 0.0
        toward = (2 * cells.code[:, 4] - 1) * (signs(cells) @ strength)
        nats.append(-np.logaddexp(0.0, -toward).mean())
    return nats


def test_curves_are_the_scores_with_cells_taken_in_order():
    cells = drawn(absent=0.2)
    assert not cells.present[:, 4].all()
    result = curves(cells)
    for curve, ends in ((result.deleted, [(), range(4)]), (result.inserted, [range(4), ()])):
        np.testing.assert_allclose(curve[[0, -1]], nats_without(cells, *ends))
    steps = np.linspace(0.0, 1.0, 5)
    assert result.deletion_area == pytest.approx(np.trapezoid(result.deleted, steps))
    assert result.insertion_area == pytest.approx(np.trapezoid(result.inserted, steps))
    # A row that lacks a column goes on to its next one.
    whole, lacking = cells[(cells.code >= 0).all(1)], drawn().hide([1])
    deleted = nats_without(whole, (), (1,), (1, 3), (1, 3, 0), range(4))
    np.testing.assert_allclose(curves(whole).deleted, deleted)
    inserted = nats_without(whole, range(4), (0, 2, 3), (0, 2), (2,), ())
    np.testing.assert_allclose(curves(whole).inserted, inserted)
    gone = (1, 3, 0)
    deleted = nats_without(drawn(), (1,), (1, 3), gone, gone, gone)
    np.testing.assert_allclose(curves(lacking).deleted, deleted)


def test_the_true_order_beats_random_and_its_reverse():
    cells = drawn()
    importances = {"truth": by_column(STRENGTH, cells), "reverse": by_column(-STRENGTH, cells)}
    result = faithfulness(TRUTH, cells, "y", importances=importances, seed=0)
    area = {name: curve.deletion_area for name, curve in result.items()}
    assert area["truth"] == area["permutation"] < area["random"] < area["reverse"]
    area = {name: curve.insertion_area for name, curve in result.items()}
    assert area["truth"] == area["permutation"] > area["random"] > area["reverse"]


def test_rows_without_the_target_and_importances_that_do_not_fit_are_refused():
    cells = drawn(5)
    with pytest.raises(DataError, match="`cells` must have a row with a cell in column 'y'"):
        permutation_importance(TRUTH, cells.hide([4]), "y", seed=0)
    for importance, message in (
        (np.ones((5, 4)), r"`importance` must be one number for each of \(5, 5\)"),
        (np.full((5, 5), np.nan), "with 25 NaN"),
    ):
        with pytest.raises(ExfamError, match=message):
            deletion_insertion(TRUTH, cells, "y", importance=importance)
