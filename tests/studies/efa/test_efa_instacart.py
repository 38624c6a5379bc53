"""A smoke run of the baskets' experiment: its figures mean nothing, the laws among them hold."""

import pytest

from exfam.efa.efa import EFA
from exfam.efa.latent_factor import LatentFactor
from exfam_studies.common.harness import Options
from exfam_studies.efa import instacart as efa_instacart
from exfam_studies.efa.instacart import TABLE_3, instacart_baskets, together

FAST = {"parts": "items", "direction": "causal", "max_epochs": 1, "progress": False}


@pytest.fixture(scope="module")
def rows(data_folder):
    return efa_instacart.run(Options(fast=True, seeds=1, only=["instacart-causal"]))


@pytest.fixture(scope="module")
def baskets(data_folder):
    return instacart_baskets().test[:40].compact()


def test_only_what_the_paper_ran_has_the_papers_figures(rows):
    printed = {row.model: (row.paper, dict(row.settings)) for row in rows if row.paper}
    where = {"support": "all", "split": "paper"}
    assert printed == {"efa-positions": (3.706, where), "latent-factor-notebook": (3.715, where)}


def test_table_3_counts_the_papers_items_among_ours(rows):
    reported = [row for row in rows if row.metric == "count-in-table-3"]
    assert len(reported) == 2 * 4 * 2
    assert {row.task for row in reported} == {"instacart-causal-together"}
    for row in reported:
        names = row.settings["together"].split(", ")
        printed = TABLE_3[row.model, "causal"][row.settings["item"]].split(", ")
        assert len(set(names)) == 3 and row.settings["item"] not in names
        assert row.value == len(set(names) & set(printed))


def test_the_papers_items_are_items_of_the_data(baskets):
    names_of_data = set(baskets.vocabulary["item"])
    for printed in TABLE_3.values():
        for item, names in printed.items():
            assert {item, *names.split(", ")} <= names_of_data and len(set(names.split(", "))) == 3


@pytest.mark.parametrize("kind", [EFA, LatentFactor])
def test_the_items_bought_together_have_the_largest_mutual_products(kind, baskets):
    model = kind(**FAST, support="none").fit(baskets)
    delta, beta = model.item_vectors_, model.item_context_vectors_
    names = model.vocabulary_["item"].tolist()
    for i in (0, 25, 62):
        mutual = [delta[i] @ beta[j] + delta[j] @ beta[i] for j in range(63)]
        chosen = [names.index(name) for name in together(model, names[i], rule="vectors")]
        others = set(range(63)) - {i, *chosen}
        assert len(others) == 59
        assert min(mutual[j] for j in chosen) >= max(mutual[j] for j in others)
        assert mutual[chosen[0]] >= mutual[chosen[1]] >= mutual[chosen[2]]


def test_by_lift_they_are_the_complements(baskets):
    model = LatentFactor(**FAST).fit(baskets)
    expected = model.complements("Banana", k=3).items.tolist()
    assert together(model, "Banana", rule="lift") == expected
    assert expected != together(model, "Banana", rule="vectors")
