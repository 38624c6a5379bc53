"""Cells of table rows as experts: exact, summed up, and what removing one does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from exfam.checks import DataError, ExfamError
from exfam.families import Categorical as OurCategorical
from exfam.families import Gaussian
from exfam.tables.data.schema import TableSchema
from exfam.tables.experts.summary import expert_importance, removal_effects, summarize_experts
from exfam.tables.experts.table_attention import TableAttention
from exfam.tables.networks.assemble import build_masked_table
from exfam.tables.networks.independent import IndependentColumns
from exfam.tables.networks.table_network import TableSettings
from exfam_studies.experts.view import attention_as_experts
from expert_cases import SCHEMA, linear_table, random_cells

EXACT = {"rtol": 0.0, "atol": 1e-10}


@pytest.mark.parametrize("masked", [(), (1, 3)])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("member", [0, 1])
def test_experts_of_a_table_model_add_up_to_its_eta(member, shared, masked):
    model, cells = linear_table(shared=shared, masked_columns=masked), random_cells()
    experts = attention_as_experts(model, member=member).experts(cells, ["d", "a"])
    expected = torch.stack(model.eta(cells, [3, 0]), 2)[member]
    assert float(expected.std(0).min()) > 1e-2
    torch.testing.assert_close(experts.logits, expected, **EXACT)


def test_score_and_similarity_components_add_up_to_weights_and_contributions():
    view, cells = attention_as_experts(linear_table()), random_cells(absent=0.0)
    experts = view.experts(cells, ["d"])
    explained = view.explained(cells, ["d"])
    torch.testing.assert_close(explained.scores.total.softmax(-1), experts.weights)
    torch.testing.assert_close(explained.similarities.total, experts.contributions)


@pytest.mark.parametrize("column", range(4))
def test_a_removal_effect_is_the_change_of_the_logits_without_that_cell(column):
    model, cells = linear_table(n_members=1), random_cells()
    view = attention_as_experts(model)
    effects = removal_effects(view.experts(cells, ["d", "b"]), [3, 1])[:, :, column]
    expected = torch.stack(model.eta(cells, [3, 1]), 2)[0]
    without = torch.stack(model.eta(cells.hide([column]), [3, 1]), 2)[0]
    torch.testing.assert_close(effects, expected - without, **EXACT)
    assert float(effects.abs().max()) > 1e-2


def test_importance_is_the_divergence_of_the_distributions_with_and_without_a_cell():
    model, cells = linear_table(), random_cells(12)
    result = expert_importance(model, cells, "d")
    expected = np.zeros((12, 4))
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
    monkeypatch.setattr("exfam.tables.experts.table_attention._MAX_NUMBERS", 300)
    cut = summarize_experts(view, cells, ["d", "a"])
    for name in ("weight", "size", "spread", "effect"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-9)
    table = whole.to_dict()
    row = list(zip(table["target"], table["column"], strict=True)).index(("a", "c"))
    assert table["spread"][row] == whole.spread[1, 2]
    assert table["weight"][row] == pytest.approx(whole.weight[1, :, 2].mean())


def test_a_summary_of_no_rows_is_refused():
    view = attention_as_experts(linear_table())
    with pytest.raises(ExfamError, match="`cells` must have at least one row, got none"):
        summarize_experts(view, random_cells()[:0], ["d"])


def test_names_and_positions_that_are_not_the_network_s_are_refused():
    view = attention_as_experts(linear_table())
    with pytest.raises(DataError, match="`name` must be a column of the table"):
        view.experts(random_cells(), ["e"])
    with pytest.raises(DataError, match="`schema` must have one column for each of 4 positions"):
        TableAttention(view.attention, TableSchema(SCHEMA.columns[:2]))


def test_a_table_model_that_is_no_linear_attention_is_refused():
    model = IndependentColumns(TableSchema(()), families=(), marginals=())
    with pytest.raises(ExfamError, match="got IndependentColumns, a table model whose layer norm"):
        attention_as_experts(model)


def built(network, categories="per-column", **choices):
    """A model as estimators build it, in float64, with random weights."""
    settings = TableSettings(
        **{
            "network": network,
            "categories": categories,
            "ordinal": (False, False),
            "embed_dim": 6,
            "n_heads": 2,
            "head_dim": 3,
            "n_layers": 1,
            "feed_forward_dim": 6,
            "dropout": 0.0,
            "norm": "post",
            "masked_columns": (),
            **choices,
        }
    )
    generator = torch.Generator().manual_seed(0)
    families = [OurCategorical(4)] * 4
    model = build_masked_table(
        SCHEMA, settings, families=families, cells=random_cells(), generator=generator
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.3 * drawn)
    return model


@pytest.mark.parametrize(
    "choices",
    [{}, {"categories": "shared"}, {"masked_columns": ("b", "d")}],
    ids=str,
)
def test_experts_of_the_linear_network_that_is_fitted_add_up_to_its_eta(choices):
    model, cells = built("linear", **choices), random_cells()
    cells.fraction[:] = 0.0
    eta = torch.stack(model.eta(cells, [3, 0]), 2)
    assert float(eta.std(1).min()) > 1e-2
    for member in range(2):
        experts = attention_as_experts(model, member=member).experts(cells, ["d", "a"])
        torch.testing.assert_close(experts.logits, eta[member], **EXACT)


def test_the_deep_network_is_refused():
    with pytest.raises(ExfamError, match="layer norm"):
        attention_as_experts(built("deep"))
