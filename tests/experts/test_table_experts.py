"""Cells of table rows as experts: exact, summed up, and what removing one does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from exfam.checks import DataError, ExfamError
from exfam.families import Gaussian
from exfam.tables.answers.distributions import IndependentColumns
from exfam.tables.data import TableSchema
from exfam.tables.experts.table_attention import (
    TableAttention,
    expert_importance,
    removal_effects,
    summarize_experts,
)
from exfam_studies.experts.view import attention_as_experts
from expert_cases import SCHEMA, linear_table, random_cells
from table_network_cases import alike_cells, table_model

EXACT = {"rtol": 0.0, "atol": 1e-10}
BY_LABEL = {"alike": True, "categories": "shared"}
MODELS = {
    "literal": lambda: (linear_table(), random_cells()),
    "literal, shared": lambda: (linear_table(shared=True), random_cells()),
    "literal, MASK": lambda: (linear_table(masked_columns=(1, 3)), random_cells()),
    "fitted": lambda: (table_model(alike=True), alike_cells()),
    "fitted, shared": lambda: (table_model(**BY_LABEL), alike_cells()),
    "fitted, MASK": lambda: (table_model(alike=True, masked_columns=("b", "d")), alike_cells()),
}


@pytest.mark.parametrize("member", [0, 1])
@pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)
def test_experts_of_a_table_model_add_up_to_its_eta(made, member):
    model, cells = made()
    view = attention_as_experts(model, member=member)
    experts, explained = (read(cells, ["d", "a"]) for read in (view.experts, view.explained))
    expected = torch.stack(model.eta(cells, [3, 0]), 2)[member]
    assert float(expected.std(0).min()) > 1e-2
    torch.testing.assert_close(experts.logits, expected, **EXACT)
    there = experts.weights > 0
    scores = explained.scores.total.masked_fill(~there, -torch.inf).softmax(-1)
    torch.testing.assert_close(scores, experts.weights)
    contributions = explained.similarities.total * there[..., None]
    torch.testing.assert_close(contributions, experts.contributions)


@pytest.mark.parametrize("column", range(4))
def test_a_removal_effect_is_the_change_of_the_logits_without_that_cell(column):
    model, cells = linear_table(n_members=1), random_cells()
    experts = attention_as_experts(model).experts(cells, ["d", "b"])
    effects = removal_effects(experts, [3, 1])[:, :, column]
    expected, without = (
        torch.stack(model.eta(shown, [3, 1]), 2)[0] for shown in (cells, cells.hide([column]))
    )
    torch.testing.assert_close(effects, expected - without, **EXACT)
    assert float(effects.abs().max()) > 1e-2


def test_importance_is_the_divergence_of_the_distributions_with_and_without_a_cell():
    model, cells = linear_table(), random_cells(12)
    result, expected = expert_importance(model, cells, "d"), np.zeros((12, 4))
    for member in range(2):
        distribution = Categorical(logits=model.eta(cells, [3])[0][member])
        for column in range(3):
            without = Categorical(logits=model.eta(cells.hide([column]), [3])[0][member])
            expected[:, column] += kl_divergence(distribution, without).numpy() / 2
    np.testing.assert_allclose(result, expected, atol=1e-10)
    assert expected.max() > 1e-3 and not result[cells.code < 0].any()


def test_importance_for_another_distribution_is_the_change_of_its_first_parameter():
    model, cells = linear_table(n_members=1), random_cells(12)
    model = replace(model, families=(*model.families[:3], Gaussian()))
    result = expert_importance(model, cells, "d")[:, 1]
    change = (model.eta(cells, [3])[0] - model.eta(cells.hide([1]), [3])[0])[0, :, 0]
    np.testing.assert_allclose(result, change.abs().numpy(), atol=1e-10)
    assert result.max() > 1e-3


def test_a_summary_is_of_all_rows_however_they_are_cut(monkeypatch):
    view, cells = attention_as_experts(linear_table()), random_cells()
    whole = summarize_experts(view, cells, ["d", "a"])
    experts = view.experts(cells, ["d", "a"])
    parts = experts.parts.numpy()
    np.testing.assert_allclose(whole.weight, experts.weights.mean(0).numpy(), atol=1e-12)
    np.testing.assert_allclose(whole.size, np.linalg.norm(parts, axis=-1).mean(0))
    np.testing.assert_allclose(whole.spread, np.sqrt(parts.var(0).sum(-1)))
    effects = removal_effects(experts, [3, 0]).norm(dim=-1).mean(0).numpy()
    np.testing.assert_allclose(whole.effect, effects)
    monkeypatch.setattr("exfam.tables.answers.distributions._NUMBERS_AT_ONCE", 300)
    cut = summarize_experts(view, cells, ["d", "a"])
    for name in ("weight", "size", "spread", "effect"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-9)
    table = whole.to_dict()
    row = list(zip(table["target"], table["column"], strict=True)).index(("a", "c"))
    assert table["spread"][row] == whole.spread[1, 2]
    assert table["weight"][row] == pytest.approx(whole.weight[1, :, 2].mean())


def test_what_has_no_experts_is_refused():
    view, cells = attention_as_experts(linear_table()), random_cells()
    with pytest.raises(ExfamError, match="`cells` must have at least one row, got none"):
        summarize_experts(view, cells[:0], ["d"])
    with pytest.raises(DataError, match="`name` must be a column of the table"):
        view.experts(cells, ["e"])
    with pytest.raises(DataError, match="`schema` must have one column for each of 4 positions"):
        TableAttention(view.attention, TableSchema(SCHEMA.columns[:2]))
    alone = IndependentColumns(TableSchema(()), families=(), marginals=())
    with pytest.raises(ExfamError, match="got IndependentColumns, a table model whose layer norm"):
        attention_as_experts(alone)
    with pytest.raises(ExfamError, match="`network` must be 'linear' for the expert view"):
        attention_as_experts(table_model(network="deep"))
