"""What reports are computed from, and what their sections say, before they are pages."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import exfam
from exfam.checks import ExfamError
from exfam.efa.baselines import Marginal
from exfam.efa.efa import EFA
from exfam.efa.latent_factor import LatentFactor
from exfam.efa.recommend import item_lifts
from exfam.efa.recommenders import LinearRecommender
from exfam.families import Ordinal
from exfam.groups import Groups
from exfam.report import Facts, Pairs, Picture, SideBySide, TableData
from exfam.report.evaluation import evaluate, evaluate_rival, value_predictions
from exfam.report.lifts import lifts_among, related_items
from exfam.report.material import gather_material
from exfam.report.rivals import fit_rivals
from exfam.report.sections.attention import attention_section
from exfam.report.sections.calibration import calibration_section
from exfam.report.sections.data import data_section
from exfam.report.sections.items import complements_section, map_section
from exfam.report.sections.model import model_section
from exfam.report.sections.scores import compare_rivals, score_section
from exfam.report.words import ItemNames, clean, figure, listing, percent, quantity
from exfam.scores.metrics import ranks
from report_cases import baskets, forgetful, model


def gathered(fitted, data=None, train=None, *, baselines=True, seed=0):
    return gather_material(fitted, data, train, baselines=baselines, seed=seed)


def names_of(groups):
    return set(groups.group_names.tolist())


def test_halves_are_disjoint_and_together_all_unless_training_data_are_given():
    material = gathered(model("marginal"), baskets())
    learn, compared = material.learn, material.scored[np.flatnonzero(material.compared)]
    assert len(material.scored) == len(material.data) == 60 and not material.given_train
    assert names_of(learn) | names_of(compared) == names_of(material.data)
    assert not names_of(learn) & names_of(compared)
    assert abs(len(learn) - len(compared)) <= 1
    assert names_of(gathered(model("marginal"), baskets(), seed=1).learn) != names_of(learn)
    material = gathered(model("marginal"), baskets(), baskets(seed=5, n=20))
    assert material.given_train and len(material.learn) == 20
    assert material.compared.all() and len(material.compared) == 60


def test_large_data_are_sampled_from_the_half_that_is_compared(monkeypatch):
    monkeypatch.setattr("exfam.report.material._affordable", lambda *_: 40)
    material = gathered(model("marginal"), baskets())
    assert 0 < material.scored.n_elements <= 40 < material.data.n_elements
    assert material.compared.all()
    assert not names_of(material.scored) & names_of(material.learn)
    assert len(material.learn) == 30


def test_data_without_a_target_and_models_without_a_fit_are_refused():
    groups = Groups(start=[0], stop=[0], item=[], values={"amount": []})
    with pytest.raises(ExfamError, match="`data` must hold at least one element to predict"):
        gathered(model("marginal"), groups)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        gathered(Marginal())


def test_lifts_among_items_are_those_of_the_whole_table():
    frame = baskets().assign(day=lambda f: np.arange(len(f)) % 7.0)
    frame["shop"] = frame["basket"].str[-5]
    with_attributes = EFA(
        group="basket", item="product", attributes="day", known="day", group_attributes="shop",
        embed_dim=4, n_heads=1, head_dim=4, max_epochs=2, progress=False,
    ).fit(frame)  # fmt: skip
    codes = np.array([5, 0, 17, 3])
    for fitted in (model("latent-factor"), with_attributes):
        whole = np.zeros((24, 24))
        for given, lift in item_lifts(fitted.members_, fitted.schema_):
            whole[given] = lift
        lift = lifts_among(fitted, codes)
        np.testing.assert_allclose(lift, whole[np.ix_(codes, codes)], atol=1e-5)
        assert np.abs(lift).max() > 1e-3


@pytest.mark.parametrize("kind", ["complements", "substitutes"])
def test_relations_among_all_items_are_the_estimators(kind):
    fitted = model("efa", parts="items")
    result = related_items(lifts_among(fitted, np.arange(24)), of=24, k=4)
    labels = fitted.vocabulary_["item"]
    n_same = 0
    for code, label in enumerate(labels):
        expected = getattr(fitted, kind)(label, k=4)
        kept = expected.strength > 1e-6
        related = getattr(result, kind)[code]
        strength = (result.lift if kind == "complements" else result.likeness)[code]
        np.testing.assert_allclose(strength[: kept.sum()], expected.strength[kept], atol=1e-4)
        n_same += labels[related].tolist()[: kept.sum()] == expected.items[kept].tolist()
    assert n_same >= 23


def test_scores_and_predictions_are_those_of_the_models_probabilities():
    fitted = model("efa")
    groups = gathered(fitted, baskets(seed=3)).scored
    result = evaluate(fitted, groups, calibration=True)
    probability = fitted.predict_proba(groups, of="item")
    np.testing.assert_allclose(result.rank, ranks(probability, groups.item))
    assert result.reliability.observed.sum() == groups.n_targets
    np.testing.assert_allclose(np.sort(result.top.confidence), np.sort(probability.max(axis=1)))
    amount = value_predictions(fitted, groups)["amount"]
    assert len(amount.rows) == groups.observed.sum() < groups.n_elements
    np.testing.assert_allclose(amount.value, groups.values["amount"][amount.rows])
    mean = np.asarray(fitted.predict(groups))[amount.rows]
    np.testing.assert_allclose(amount.distribution.mean(), mean, rtol=1e-5)


def test_baselines_are_those_of_the_parts_and_score_as_they_would_alone():
    fitted, learn = model("efa"), gathered(model("efa"), baskets()).learn
    rivals, left_out = fit_rivals(fitted, learn, seed=0)
    names = ["latent factor", "levels", "marginal by item", "marginal", "item-kNN", "EASE"]
    assert [rival.name for rival in rivals] == names and not left_out
    groups = gathered(fitted, baskets(seed=2)).scored
    for rival in rivals:
        result = evaluate_rival(rival, fitted, groups)
        if isinstance(rival.fitted, LinearRecommender):
            assert not result.nats and np.isfinite(result.rank).all()
            continue
        assert set(result.nats) <= {"item", "amount"} and result.nats
        parts = np.stack(list(result.nats.values()))
        score = np.nansum(parts) / (~np.isnan(parts)).any(axis=0).sum()
        assert score == pytest.approx(rival.fitted.score(groups), abs=1e-6)
    marginal = forgetful(Marginal(family="poisson", unknown="unk").fit(learn))
    assert rivals[3].fitted.score(groups) == pytest.approx(marginal.score(groups))


def test_elements_that_are_context_only_are_not_mentioned():
    fitted = model("efa")
    groups = gathered(fitted, baskets()).scored
    role = (np.arange(groups.n_rows) % 3 == 0).astype(np.int8)
    groups = groups.with_(role=role)
    target = role == 0
    rivals, _ = fit_rivals(fitted, groups, seed=0)
    result = [evaluate(fitted, groups, calibration=True)]
    result += [evaluate_rival(rival, fitted, groups) for rival in rivals]
    for shown in result:
        for numbers in [*shown.nats.values(), *shown.mean.values()]:
            assert np.isnan(numbers[~target]).all() and np.isfinite(numbers[target]).any()
        if shown.rank is not None:
            np.testing.assert_array_equal(np.isfinite(shown.rank), target)
    assert result[0].reliability.observed.sum() == target.sum()


def test_baselines_exclude_what_the_model_excludes():
    groups = gathered(model("marginal"), baskets()).data
    for support in ("none", "hard", "penalty"):
        fitted = LatentFactor(max_epochs=1, progress=False, support=support, parts="items")
        rivals, _ = fit_rivals(fitted.fit(groups), groups, seed=0)
        chosen = {rival.name: getattr(rival.fitted, "support_", None) for rival in rivals}
        assert chosen["latent factor"] == support
        assert chosen["marginal"] == ("hard" if support == "hard" else "none")


def test_baselines_that_cannot_be_fitted_say_why():
    groups = gathered(model("marginal"), baskets()).data
    ordinal = groups.with_(values={"amount": np.nan_to_num(groups.values["amount"]).clip(0, 2)})
    fitted = Marginal(family=Ordinal(3), parts="values", unknown="unk").fit(ordinal)
    _, left_out = fit_rivals(fitted, ordinal, seed=0)
    assert not left_out
    _, left_out = fit_rivals(
        Marginal(family=Ordinal(65), parts="values").fit(ordinal), ordinal, seed=0
    )
    assert left_out[0].startswith("levels: `dim` must be at least 1 for items, and for values")
    vocabulary = {"item": np.arange(200_000)}
    large = groups.with_(values={}, observed=None, vocabulary=vocabulary)
    rivals, left_out = fit_rivals(Marginal().fit(large), large, seed=0)
    assert [rival.name for rival in rivals] == ["marginal", "item-kNN"]
    assert left_out[0] == "latent factor: 200,000 items are too many for a fit within seconds."
    assert left_out[1].startswith("EASE: it inverts a table of all items by all items")


def test_words_are_clean_and_figures_aligned():
    assert clean("a\x00\nb") == "a b" and clean("") == clean("\n") == "(empty)"
    assert clean("\ud800").encode() == b"?"
    assert len(clean("x" * 500)) == 60
    assert figure(-1234.5678, 2) == "−1,234.57"
    assert figure(float("inf")) == "∞" and figure(float("-inf")) == "−∞"
    assert percent(float("nan")) == "–" and percent(1.0, 0) == "100 %"
    assert quantity(1, "group") == "1 group" and quantity(1200, "group") == "1,200 groups"
    assert listing(["a"]) == "a" and listing(["a", "b"]) == "a and b"
    assert ItemNames(np.array([10, 20])).all([1, 0]) == ["20", "10"]


def flat(parts):
    for part in parts:
        yield from flat(part.inside) if isinstance(part, SideBySide) else [part]


def tables(section):
    return [part for part in flat(section.parts) if isinstance(part, TableData)]


def pictures(section):
    return [part for part in flat(section.parts) if isinstance(part, Picture)]


def facts(section):
    (part,) = (part for part in section.parts if isinstance(part, Facts))
    return dict(part.entries)


def scores(fitted, data, train=None, **kwargs):
    material = gathered(fitted, data, train, **kwargs)
    evaluation = evaluate(fitted, material.scored)
    return score_section(material, evaluation, compare_rivals(material, evaluation))


def calibration(fitted, data):
    material = gathered(fitted, data, baselines=False)
    return calibration_section(material, evaluate(fitted, material.scored, calibration=True))


def test_scores_are_the_models_own():
    fitted, data = model("efa"), baskets(seed=1)
    parts, shown = fitted.score_parts(data), facts(scores(fitted, data, baselines=False))
    value = fitted.log_prob_parts(data)["amount"][data["amount"].notna()].mean()
    expected = {"element": fitted.score(data), "item": parts["items"], "value of “amount”": value}
    for name, nats in expected.items():
        assert shown[f"nats per {name}"].startswith(f"−{-nats:.3f} ± ")
    assert shown["predicted elements"] == str(len(data))


def test_tables_hold_the_model_and_its_rivals_best_first():
    section = scores(model("efa"), baskets(seed=1), baskets(seed=2))
    items, values = tables(section)
    common = {"this model", "latent factor", "marginal"}
    assert {row[0] for row in items.rows} == common | {"item-kNN", "EASE"}
    assert {row[0] for row in values.rows} == common | {"levels", "marginal by item"}
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
    row = next(row for row in tables(section)[0].rows if row[0] == "this model")
    assert row[1].startswith(f"−{-model('efa').score_parts(compared)['items']:.3f} ±")
    assert f"{compared.n_elements} targets" in tables(section)[0].caption


def test_a_baseline_that_is_ahead_is_named_first():
    random = np.random.default_rng(0)
    pairs = {"basket": np.repeat(np.arange(300), 2), "product": np.tile(["a", "b"], 300)}
    lone = {"basket": 300 + np.arange(600), "product": random.choice(["c", "d"], 600)}
    both = {name: np.concatenate([pairs[name], lone[name]]) for name in pairs}
    fitted = forgetful(Marginal(group="basket", item="product", support="none").fit(both))
    (table,) = tables(scores(fitted, both))
    assert table.caption.startswith("Ahead of this model in nats: latent factor, by 1.")
    assert "Use the best of them, or fit this model to more data" in table.caption
    assert table.rows[0][0] == "latent factor"


def test_without_halves_the_model_stands_alone():
    frame = baskets()
    alone = frame[frame.basket == frame.basket.iloc[0]]
    section = scores(model("efa"), alone)
    assert "one group cannot be split" in section.text[1] and not tables(section)
    section = scores(model("efa"), frame, baselines=False)
    assert "Without cheap baselines, as chosen." in section.text[1]


def test_calibration_has_a_part_for_items_and_for_each_value():
    section = calibration(model("efa"), baskets(n=200, seed=1))
    titles = [table.title for table in tables(section)]
    assert titles == ["Probabilities of items", "Intervals of “amount”"]
    assert "Whole numbers" in pictures(section)[-1].caption
    frame = baskets().assign(amount=np.random.default_rng(0).normal(size=len(baskets())))
    fitted = forgetful(Marginal(group="basket", value="amount").fit(frame))
    section = calibration(fitted, frame)
    assert "Whole numbers" not in pictures(section)[0].caption
    assert [row[0] for row in tables(section)[0].rows] == ["50 %", "80 %", "90 %"]


def test_whole_numbers_of_the_true_distribution_are_shown_as_calibrated():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"basket": np.repeat(np.arange(500), 4), "amount": random.poisson(1, 2000)}
    )
    fitted = forgetful(Marginal(group="basket", value="amount", family="poisson").fit(frame))
    section = calibration(fitted, frame)
    (table,), (picture,) = tables(section), pictures(section)
    for level, inside, chance in table.rows:
        low, high = (float(end) for end in chance.removesuffix(" %").split(" to "))
        middle = float(level.removesuffix(" %"))
        assert low < float(inside.removesuffix(" %")) < high
        assert (low + high) / 2 == pytest.approx(middle, abs=0.11)
        # Values that are divided vary less than those that are inside or not.
        assert high - middle < 196 * np.sqrt(middle / 100 * (1 - middle / 100) / 2000)
    caption = picture.caption
    assert "a bar has 5 %, 100 of 2,000 values" in caption and "Czado, Gneiting & Held" in caption
    assert int(re.search(r"Outside are (\d+) of 20 bars", caption)[1]) <= 3
    low, high = map(int, re.search(r"at its widest (\d+) to (\d+) values", caption).groups())
    assert 80 < low < 100 < high < 120 and low + high == 200
    # Of values far below those of the fit, bars and shares are beyond chance.
    other = forgetful(
        Marginal(group="basket", value="amount", family="poisson").fit(frame * [1, 5])
    )
    section = calibration(other, frame)
    assert "Outside are 0" not in pictures(section)[0].caption
    assert float(tables(section)[0].rows[0][1].removesuffix(" %")) < 40


def test_attention_is_shown_of_uneven_groups_by_layer_cut_to_ten_elements(monkeypatch):
    fitted, frame = model("efa"), baskets(seed=1)
    for gain in ("gain_", "value_gain_"):
        monkeypatch.setattr(fitted, gain, None)
    section = attention_section(gathered(fitted, frame, baselines=False))
    titles = [picture.title for picture in pictures(section)]
    assert len(titles) == 8 and titles[0].endswith("layer 1 of the item part")
    assert "Shown are the 2 of" in section.text[0]
    lone = frame.drop_duplicates("basket")
    section = attention_section(gathered(fitted, lone, baselines=False))
    assert section.text == ["Left out: no group has two elements or more."]
    long = frame.drop_duplicates("product").assign(basket=0)
    section = attention_section(gathered(fitted, long, baselines=False))
    assert "Shown is the one of 1 group" in section.text[0]
    assert "each cut to its first 10 elements." in section.text[0]


def test_parameters_that_differ_from_the_defaults_are_listed():
    (table,) = tables(model_section(gathered(model("latent-factor"))))
    changed = dict(table.rows)
    assert changed["batch_size"] == "16" and changed["family"] == "poisson"
    assert "learning_rate" not in changed


def test_data_are_counted():
    fitted, frame = model("marginal"), baskets()
    section = data_section(gathered(fitted, frame, baselines=False))
    result = facts(section)
    assert result["groups"] == "60" and result["elements"] == str(len(frame))
    assert result["values unobserved"] == f"{100 * frame.amount.isna().mean():.1f} %"
    (table,) = tables(section)
    counts = frame["product"].value_counts()
    assert [int(row[1]) for row in table.rows] == counts.iloc[:10].tolist()
    assert max(table.shares["elements"]) == 1.0
    assert len(pictures(section)) == 2


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
    (counted,) = tables(data_section(material))
    assert neighbors.rows[0][0] == related.rows[0][0] == counted.rows[0][0]
    assert all(isinstance(cell, Pairs) for cell in neighbors.rows[0][1:])
    strengths = [float(strength[1:]) for _, strength in related.rows[0][1].entries]
    assert strengths == sorted(strengths, reverse=True) and len(strengths) > 1


@pytest.mark.parametrize("parts", ["items", "both"])
@pytest.mark.filterwarnings("ignore:The data have .* never seen:exfam.ExfamWarning")
def test_items_that_are_all_unknown_have_no_scores(parts):
    fitted, frame = model("efa", parts=parts), baskets(n=8).assign(product="new")
    frame = frame.drop_duplicates(["basket", "product"])
    result = facts(scores(fitted, frame))
    assert "nats per item" not in result
    assert result["predicted elements"] == ("0" if parts == "items" else str(len(frame.dropna())))
    titles = {table.title for table in tables(calibration(fitted, frame))}
    assert "Probabilities of items" not in titles
    assert "Left out" in map_section(gathered(fitted, frame, baselines=False)).text[0]


def test_what_the_model_has_seen_is_not_compared():
    fitted = exfam.Marginal(group="basket", item="product", unknown="unk").fit(baskets())
    whole = scores(fitted, baskets())
    assert "60 of 60 groups are among those that the model was fitted on" in whole.text[1]
    assert "too few groups are new to the model" in whole.text[2] and not tables(whole)
    new = baskets(seed=1).assign(basket=lambda frame: "new " + frame.basket)
    mixed = scores(fitted, pd.concat([baskets(), new]), baskets(seed=2))
    assert "60 of 120 groups are among" in mixed.text[1] and tables(mixed)
    assert "compared on 60 groups of the data new to the model" in mixed.text[2]
    unseen = scores(fitted, new, baskets())
    assert "among those" not in " ".join(unseen.text) and tables(unseen)
