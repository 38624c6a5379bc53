"""A smoke run of the baskets' experiment: its figures mean nothing, the laws among them hold."""

from pathlib import Path

import numpy as np
import pytest
import torch

from exfam.efa.efa import EFA
from exfam.efa.latent_factor import LatentFactor
from exfam_studies.common.harness import Options
from exfam_studies.efa import instacart as efa_instacart
from exfam_studies.efa.instacart_splits import instacart_baskets
from exfam_studies.efa.instacart_views import TABLE_3, draw_views, head_vectors, together

FAST = {"parts": "items", "direction": "causal", "max_epochs": 1, "progress": False}


@pytest.fixture(scope="module")
def run(data_folder):
    """Rows of a smoke run, and what was handed over to be drawn."""
    drawn = []
    options = Options(fast=True, seeds=1, only=["instacart-causal"], out=Path("figures"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(efa_instacart, "draw_views", lambda *arguments: drawn.append(arguments))
        rows = efa_instacart.run(options)
    return rows, drawn


@pytest.fixture(scope="module")
def rows(run):
    return run[0]


@pytest.fixture(scope="module")
def baskets(data_folder):
    return instacart_baskets().test[:40].compact()


def test_models_and_recommenders_are_in_one_table(rows):
    ranked = {row.model for row in rows if row.metric == "ndcg@10"}
    assert ranked == {
        "marginal", "latent-factor-notebook", "latent-factor", "efa-positions", "efa-defaults",
        "popularity", "item-knn", "ease",
    }  # fmt: skip
    unseen = {row.model for row in rows if row.settings["split"] == "correct"}
    assert unseen == {"marginal", "latent-factor", "efa-positions", "efa-defaults"}
    assert {row.settings["support"] for row in rows} == {"all", "exclusion"}


def test_only_what_the_paper_ran_has_the_papers_figures(rows):
    printed = {row.model: (row.paper, dict(row.settings)) for row in rows if row.paper}
    where = {"support": "all", "split": "paper"}
    assert printed == {"efa-positions": (3.706, where), "latent-factor-notebook": (3.715, where)}


def test_table_3_counts_the_papers_items_among_ours(rows):
    found = [row for row in rows if row.metric == "count-in-table-3"]
    assert len(found) == 2 * 4 * 2
    assert {row.task for row in found} == {"instacart-causal-together"}
    for row in found:
        names = row.settings["together"].split(", ")
        printed = TABLE_3[row.model, "causal"][row.settings["item"]]
        assert len(set(names)) == 3 and row.settings["item"] not in names
        assert row.value == len(set(names) & set(printed))


def test_the_papers_items_are_items_of_the_data(baskets):
    known = set(baskets.vocabulary["item"])
    for printed in TABLE_3.values():
        for item, names in printed.items():
            assert {item, *names} <= known and len(set(names)) == 3


@pytest.mark.parametrize("kind", [EFA, LatentFactor])
def test_the_items_bought_together_have_the_largest_mutual_products(kind, baskets):
    model = kind(**FAST, support="none").fit(baskets)
    delta, beta = model.item_vectors_, model.item_context_vectors_
    names = model.vocabulary_["item"].tolist()
    for i in (0, 25, 62):
        mutual = [delta[i] @ beta[j] + delta[j] @ beta[i] for j in range(63)]
        chosen = [names.index(name) for name in together(model, names[i])]
        others = set(range(63)) - {i, *chosen}
        assert len(others) == 59
        assert min(mutual[j] for j in chosen) >= max(mutual[j] for j in others)
        assert mutual[chosen[0]] >= mutual[chosen[1]] >= mutual[chosen[2]]


def test_by_lift_they_are_the_complements(baskets):
    model = LatentFactor(**FAST).fit(baskets)
    expected = model.complements("Banana", k=3).items.tolist()
    assert together(model, "Banana", rule="lift") == expected
    assert expected != together(model, "Banana")


def test_vectors_of_the_heads_give_the_weights_of_the_first_layer(baskets):
    """Without positions, a softmax over an item's scores is what `explain` shows."""
    network = {"encoding": "none", "null_token": False, "connection": "residual"}
    model = EFA(**FAST, **network, sees_mask=True, n_heads=2, head_dim=4).fit(baskets)
    item_part = model.members_[0].item_part
    heads = head_vectors(model)
    assert [each["query"].shape for each in heads] == [(63, 4), (63, 4)]
    mask = item_part.tokens(baskets[:1].pad([0])).center[:, :1]
    first = item_part.blocks[0]
    with torch.inference_mode():
        query = first.queries(mask, torch.zeros(1, 1, dtype=torch.int64))[0, :, 0].numpy()
        own = first.keys(mask, torch.zeros(1, 1, dtype=torch.int64))[0][0, :, 0].numpy()
    (reported,) = model.explain(baskets[:1])
    items = baskets.item[baskets[:1].elements()]
    for head, vectors in enumerate(heads):
        keys = np.vstack([vectors["key"][items[:3]], own[head]])
        score = np.exp(keys @ query[head] / 2)
        shown = reported.weights["items"][0, head, 3]
        np.testing.assert_allclose(np.append(shown[:3], shown[-1]), score / score.sum(), rtol=1e-4)


def test_two_test_baskets_of_the_papers_causal_model_are_drawn(run):
    ((model, drawn, folder),) = run[1]
    assert isinstance(model, EFA) and model.direction == "causal" and model.support == "none"
    test = instacart_baskets().test
    assert drawn.group_names.tolist() == test.group_names[:2].tolist()
    assert folder == Path("figures")


def test_figures_are_pictures_one_a_basket_and_one_a_head(rows, baskets, tmp_path):
    model = EFA(**FAST, n_heads=1).fit(baskets)
    files = draw_views(model, baskets[:1], tmp_path / "new")
    assert [path.name for path in files] == [
        "efa-instacart-basket-1-attention.png", "efa-instacart-layer-1-head-1.png"
    ]  # fmt: skip
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in files)
    efa_instacart.plot(rows, tmp_path)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "efa-instacart-causal-nats.png", "efa-instacart-causal-ndcg@10.png"
    }  # fmt: skip


def test_without_names_there_is_no_table_3(baskets):
    unnamed = baskets.with_(vocabulary={"item": np.arange(63)})
    contender = efa_instacart.Contender(
        model="efa-positions",
        settings={"support": "all"},
        fit=EFA(**FAST).fit,
    )
    fit = efa_instacart.Fit(contender.fit(unnamed), 0.0, None)
    assert efa_instacart._views(None, contender, [fit], "instacart-causal") == []
