"""What the sections of a report say, before it is a page."""

import numpy as np
import pandas as pd
import pytest

import exfam
from exfam.efa.baselines import Marginal
from exfam.report import Facts, Pairs, Picture, SideBySide, TableData
from exfam.report.evaluation import evaluate
from exfam.report.material import gather_material
from exfam.report.sections.attention import attention_section
from exfam.report.sections.calibration import calibration_section
from exfam.report.sections.data import data_section
from exfam.report.sections.items import complements_section, map_section
from exfam.report.sections.model import model_section
from exfam.report.sections.scores import score_section
from report_cases import baskets, forgetful, model


def gathered(made, data=None, train=None, *, baselines=True):
    return gather_material(made, data, train, baselines=baselines, seed=0)


def flat(parts):
    for part in parts:
        yield from flat(part.inside) if isinstance(part, SideBySide) else [part]


def tables(section):
    return [part for part in flat(section.parts) if isinstance(part, TableData)]


def pictures(section):
    return [part for part in flat(section.parts) if isinstance(part, Picture)]


def facts(section):
    return dict(
        entry for part in section.parts if isinstance(part, Facts) for entry in part.entries
    )


def scores(made, data, train=None, **kwargs):
    material = gathered(made, data, train, **kwargs)
    return score_section(material, evaluate(made, material.scored))


def calibration(made, data):
    material = gathered(made, data, baselines=False)
    return calibration_section(material, evaluate(made, material.scored, calibration=True))


def test_scores_are_the_models_own():
    made, data = model("efa"), baskets(seed=1)
    parts, shown = made.score_parts(data), facts(scores(made, data, baselines=False))
    assert shown["nats per element"].startswith(f"−{-made.score(data):.3f} ± ")
    assert shown["nats per item"].startswith(f"−{-parts['items']:.3f} ± ")
    observed = data["amount"].notna()
    value = made.log_prob_parts(data)["amount"][observed].mean()
    assert shown["nats per value of “amount”"].startswith(f"−{-value:.3f} ± ")
    assert shown["predicted elements"] == str(len(data))


def test_tables_hold_the_model_and_its_rivals_best_first():
    section = scores(model("efa"), baskets(seed=1), baskets(seed=2))
    items, values = tables(section)
    assert {row[0] for row in items.rows} == {
        "this model", "latent factor", "marginal", "item-kNN", "EASE",
    }  # fmt: skip
    assert {row[0] for row in values.rows} == {
        "this model", "latent factor", "shrunk offset", "marginal by item", "marginal",
    }  # fmt: skip
    for table in (items, values):
        (marked,) = table.marked
        assert table.rows[marked][0] == "this model"
        nats = [row[1] for row in table.rows if row[1] != "–"]
        means = [float(result.split(" ±")[0].replace("−", "-")) for result in nats]
        assert means == sorted(means, reverse=True) and len(set(means)) > 2
    assert len(pictures(section)) == 2
    assert "fitted on 60 groups given as training data" in section.text[1]


def test_baselines_and_model_are_compared_on_the_same_half():
    section = scores(model("efa"), baskets(seed=1))
    assert "the baselines were fitted on 30 groups of the data, one half" in section.text[1]
    assert "compared on 30 groups of the other half" in section.text[1]
    material = gathered(model("efa"), baskets(seed=1))
    compared = material.data[material.compared]
    made = model("efa")
    row = next(row for row in tables(section)[0].rows if row[0] == "this model")
    assert row[1].startswith(f"−{-made.score_parts(compared)['items']:.3f} ±")
    assert f"{compared.n_elements} targets" in tables(section)[0].caption


def test_a_baseline_that_is_ahead_is_named_first():
    random = np.random.default_rng(0)
    pairs = {"basket": np.repeat(np.arange(300), 2), "product": np.tile(["a", "b"], 300)}
    lone = {"basket": 300 + np.arange(600), "product": random.choice(["c", "d"], 600)}
    both = {name: np.concatenate([pairs[name], lone[name]]) for name in pairs}
    made = Marginal(group="basket", item="product", support="none")
    made = forgetful(made.fit(both))
    (table,) = tables(scores(made, both))
    assert table.caption.startswith("Ahead of this model in nats: latent factor, by 1.")
    assert "Use the best of them, or fit this model to more data" in table.caption
    assert table.rows[0][0] == "latent factor"
    assert "at 1: the item among the first 1 of the whole catalog" in table.caption


def test_a_value_thought_impossible_leaves_no_difference_to_draw():
    made, data = model("marginal"), baskets()
    material = gathered(made, data)
    result = evaluate(made, material.scored)
    result.nats["amount"][np.flatnonzero(~np.isnan(result.nats["amount"]))] = -np.inf
    section = score_section(material, result)
    assert [picture.title for picture in pictures(section)] == [
        "How far baselines are behind: items"
    ]
    assert tables(section)[1].rows[-1][1] == "−∞"


def test_without_halves_the_model_stands_alone():
    frame = baskets()
    one = frame[frame.basket == frame.basket.iloc[0]]
    section = scores(model("efa"), one)
    assert "one group cannot be split" in section.text[1] and not tables(section)
    section = scores(model("efa"), frame, baselines=False)
    assert "Without cheap baselines, as chosen." in section.text[1]


def test_what_is_left_out_of_the_baselines_is_reported():
    made = exfam.Marginal(
        group="basket", item="product", value="amount", family=exfam.Ordinal(9), unknown="unk"
    )
    section = scores(forgetful(made.fit(baskets())), baskets())
    assert "shrunk offset: it needs a family that its mean determines" in section.text[-1]


def test_calibration_has_a_part_for_items_and_for_each_value():
    section = calibration(model("efa"), baskets(n=200, seed=1))
    assert [table.title for table in tables(section)] == [
        "Probabilities of items",
        "Intervals of “amount”",
    ]
    assert "Whole numbers" in pictures(section)[-1].caption
    frame = baskets().assign(amount=np.random.default_rng(0).normal(size=len(baskets())))
    made = forgetful(Marginal(group="basket", value="amount").fit(frame))
    section = calibration(made, frame)
    assert "Whole numbers" not in pictures(section)[0].caption
    levels = np.array([row for row in tables(section)[0].rows])
    assert levels[:, 0].tolist() == ["50 %", "80 %", "90 %"]
    assert levels[:, 1].tolist() == ["50.0 %", "80.0 %", "90.0 %"]


def test_attention_is_shown_of_uneven_groups_by_layer():
    section = attention_section(gathered(model("efa"), baskets(seed=1), baselines=False))
    titles = [picture.title for picture in pictures(section)]
    assert len(titles) == 8 and titles[0].endswith("layer 1 of the item part")
    assert "Shown are the 2 of" in section.text[0]


def test_attention_needs_two_elements_and_cuts_long_groups():
    made, frame = model("efa", parts="items"), baskets()
    lone = frame.drop_duplicates("basket")
    section = attention_section(gathered(made, lone, baselines=False))
    assert section.text == ["Left out: no group has two elements or more."]
    products = frame["product"].unique()
    long = {"basket": np.zeros(len(products), dtype=int), "product": products}
    section = attention_section(gathered(made, long, baselines=False))
    assert "Shown is the one of 1 group" in section.text[0]
    assert "each cut to its first 10 elements." in section.text[0]


def test_parameters_that_differ_from_the_defaults_are_listed():
    (table,) = tables(model_section(gathered(model("latent-factor"))))
    changed = dict(table.rows)
    assert changed == {
        "batch_size": "16", "dim": "4", "family": "poisson", "group": "basket",
        "item": "product", "max_epochs": "3", "parts": "both", "progress": "False",
        "value": "amount",
    }  # fmt: skip
    groups = gathered(model("marginal")).model._inputs(baskets()).groups
    section = model_section(gathered(Marginal().fit(groups)))
    assert "All parameters have their default values." in section.text and not tables(section)


def test_data_are_counted():
    made, frame = model("marginal"), baskets()
    section = data_section(gathered(made, frame, baselines=False))
    result = facts(section)
    assert result["groups"] == "60" and result["elements"] == str(len(frame))
    assert result["values unobserved"] == f"{100 * frame.amount.isna().mean():.1f} %"
    (table,) = tables(section)
    counts = frame["product"].value_counts()
    assert [int(row[1]) for row in table.rows] == counts.iloc[:10].tolist()
    assert max(table.shares["elements"]) == 1.0
    assert [picture.title for picture in pictures(section)] == [
        "How long groups are",
        "Values of “amount”",
    ]


@pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
def test_unknown_ignored_and_context_elements_are_mentioned():
    frame = baskets()
    frame.loc[::5, "product"] = "new"
    frame = frame.drop_duplicates(["basket", "product"])
    material = gathered(model("marginal"), frame, baselines=False)
    assert "unknown items" in facts(data_section(material))
    ignoring = Marginal(group="basket", item="product", unknown="ignore").fit(baskets())
    left = frame["product"].eq("new").sum()
    section = data_section(gathered(ignoring, frame, baselines=False))
    assert section.text == [f"{left} elements of items that the model does not know are left out."]
    role = (np.arange(material.data.n_rows) % 3 == 0).astype(np.int8)
    some = data_section(gathered(model("marginal"), material.data.with_(role=role)))
    assert facts(some)["of them to be predicted"] == f"{(role == 0).sum()}"


def test_items_have_neighbors_and_relations_by_name():
    material = gathered(model("efa"), baskets(), baselines=False)
    (neighbors,) = tables(map_section(material))
    (related,) = tables(complements_section(material))
    assert neighbors.rows[0][0] == related.rows[0][0] == data_section(material).parts[1].inside[
        0
    ].rows[0][0]  # fmt: skip
    for table in (neighbors, related):
        cells = [cell for row in table.rows for cell in row[1:]]
        assert all(isinstance(cell, Pairs) for cell in cells)
        assert sum(len(cell.entries) for cell in cells) > 12
    strengths = [float(result[1:]) for cell in related.rows[0][1:2] for _, result in cell.entries]
    assert strengths == sorted(strengths, reverse=True)


@pytest.mark.parametrize("parts", ["items", "both"])
@pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
def test_items_that_are_all_unknown_have_no_scores(parts):
    made, frame = model("efa", parts=parts), baskets(n=8).assign(product="new")
    frame = frame.drop_duplicates(["basket", "product"])
    section = scores(made, frame)
    result = facts(section)
    assert "nats per item" not in result and "Items" not in {
        table.title for table in tables(section)
    }
    assert result["predicted elements"] == ("0" if parts == "items" else str(len(frame.dropna())))
    section = calibration(made, frame)
    assert "Probabilities of items" not in {table.title for table in tables(section)}
    assert "Left out" in map_section(gathered(made, frame, baselines=False)).text[0]


def test_values_without_items_say_what_is_missing():
    made = exfam.ShrunkOffset(group="basket", value="amount", family="poisson")
    made = forgetful(made.fit(baskets()))
    material = gathered(made, baskets())
    assert "ShrunkOffset has no vectors of items." in map_section(material).text[0]
    (table,) = tables(scores(made, baskets()))
    assert {row[0] for row in table.rows} == {"this model", "shrunk offset", "marginal"}


def test_what_the_model_has_seen_is_not_compared():
    made = exfam.Marginal(group="basket", item="product", unknown="unk").fit(baskets())
    whole = scores(made, baskets())
    assert "60 of 60 groups are among those that the model was fitted on" in whole.text[1]
    assert "too few groups are new to the model" in whole.text[2] and not tables(whole)
    first = baskets().drop_duplicates("basket")
    with pytest.warns(exfam.ExfamWarning, match="60 rows of items never seen"):
        grown = scores(made, pd.concat([baskets(), first.assign(product="a product of today")]))
    assert "60 of 60 groups are among those" in grown.text[1] and not tables(grown)
    new = baskets(seed=1).assign(basket=lambda frame: "new " + frame.basket)
    mixed = scores(made, pd.concat([baskets(), new]), baskets(seed=2))
    assert "60 of 120 groups are among" in mixed.text[1] and tables(mixed)
    assert "compared on 60 groups of the data new to the model" in mixed.text[2]
    unseen = scores(made, new, baskets())
    assert "among those" not in " ".join(unseen.text) and tables(unseen)
