"""What reports are computed from: samples, halves, lifts, baselines, words."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from exfam.checks import ExfamError
from exfam.efa.baselines import Marginal
from exfam.efa.efa import EFA
from exfam.efa.latent_factor import LatentFactor
from exfam.efa.recommend import item_lifts
from exfam.efa.recommenders import LinearRecommender
from exfam.families import Ordinal
from exfam.groups import Groups
from exfam.report.evaluation import evaluate, evaluate_rival, value_predictions
from exfam.report.lifts import lifts_among, related_items
from exfam.report.material import draw_groups, gather_material
from exfam.report.rivals import fit_rivals
from exfam.report.words import ItemNames, clean, figure, listing, percent, quantity
from exfam.scores.metrics import ranks
from report_cases import baskets, forgetful, model


def gathered(made, data=None, train=None, *, baselines=True, seed=0):
    return gather_material(made, data, train, baselines=baselines, seed=seed)


def names_of(groups):
    return set(groups.group_names.tolist())


def test_halves_are_disjoint_and_together_all():
    material = gathered(model("marginal"), baskets())
    learn, compared = material.learn, material.scored[np.flatnonzero(material.compared)]
    assert len(material.scored) == len(material.data) == 60
    assert names_of(learn) | names_of(compared) == names_of(material.data)
    assert not names_of(learn) & names_of(compared)
    assert abs(len(learn) - len(compared)) <= 1
    assert not material.given_train
    other = gathered(model("marginal"), baskets(), seed=1)
    assert names_of(other.learn) != names_of(learn)


def test_training_data_that_are_given_are_what_baselines_learn_from():
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


def test_groups_without_a_target_are_not_drawn():
    role = np.array([1, 1, 0, 1, 1, 0], dtype=np.int8)
    groups = Groups(start=[0, 2, 4, 6], stop=[2, 4, 6, 6], item=np.arange(6), role=role)
    assert draw_groups(groups, most_elements=99, seed=0).item.tolist() == [2, 3, 4, 5]


def test_one_group_is_not_split():
    one = baskets()[lambda frame: frame.basket == "<i>3</i>"]
    material = gathered(model("marginal"), one)
    assert material.learn is None and not material.compared.any()


def test_data_without_a_target_and_models_without_a_fit_are_refused():
    groups = Groups(start=[0], stop=[0], item=[], values={"amount": []})
    with pytest.raises(ExfamError, match="`data` must hold at least one element to predict"):
        gathered(model("marginal"), groups)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        gathered(Marginal())


def test_without_data_items_are_ordered_by_their_chance_without_a_context():
    made = model("marginal", parts="items")
    material = gathered(made)
    expected = made.members_[0].item_part.log_frequency.exp().numpy()
    np.testing.assert_allclose(material.frequency, expected, rtol=1e-5)
    assert (np.diff(material.frequency[material.most_frequent(8)]) <= 0).all()
    assert gathered(model("shrunk-offset")).frequency.min() == 1.0


@pytest.mark.parametrize("copies", [False, True])
def test_copies_and_members_cost_more(copies):
    from exfam.report.material import _affordable

    groups = model("marginal")._inputs(baskets()).groups
    long = groups.with_(start=groups.start[:1], stop=[groups.n_elements], group_names=None)
    conditional = {"conditional": "copies"} if copies else {}
    frame = {"g": [1, 1, 2], "x": ["a", "b", "a"]}
    efa = EFA(group="g", item="x", max_epochs=1, progress=False, ensemble=2, **conditional)
    assert (_affordable(efa.fit(frame), long) < 40_000) is copies


@pytest.mark.parametrize("kind", ["efa", "latent-factor"])
def test_lifts_among_items_are_those_of_the_whole_table(kind):
    made = model(kind)
    whole = np.zeros((24, 24))
    for given, lift in item_lifts(made.members_, made.schema_):
        whole[given] = lift
    codes = np.array([5, 0, 17, 3])
    lift = lifts_among(made, codes)
    np.testing.assert_allclose(lift, whole[np.ix_(codes, codes)], atol=1e-5)
    assert np.abs(lift).max() > 1e-3


def test_lifts_among_items_have_average_attributes():
    frame = baskets().assign(day=lambda f: np.arange(len(f)) % 7.0)
    frame["shop"] = frame["basket"].str[-5]
    made = EFA(
        group="basket", item="product", attributes="day", known="day", group_attributes="shop",
        embed_dim=4, n_heads=1, head_dim=4, max_epochs=2, progress=False,
    ).fit(frame)  # fmt: skip
    whole = np.zeros((24, 24))
    for given, lift in item_lifts(made.members_, made.schema_):
        whole[given] = lift
    codes = np.array([5, 0, 17])
    np.testing.assert_allclose(lifts_among(made, codes), whole[np.ix_(codes, codes)], atol=1e-5)


@pytest.mark.parametrize("kind", ["complements", "substitutes"])
def test_relations_among_all_items_are_the_estimators(kind):
    made = model("efa", parts="items")
    result = related_items(lifts_among(made, np.arange(24)), of=24, k=4)
    labels = made.vocabulary_["item"]
    found = 0
    for code, label in enumerate(labels):
        expected = getattr(made, kind)(label, k=4)
        kept = expected.strength > 1e-6
        places = getattr(result, kind)[code]
        strength = (result.lift if kind == "complements" else result.likeness)[code]
        np.testing.assert_allclose(strength[: kept.sum()], expected.strength[kept], atol=1e-4)
        found += labels[places].tolist()[: kept.sum()] == expected.items[kept].tolist()
    assert found >= 23


def test_what_is_reported_are_the_models_own_scores():
    made, frame = model("efa"), baskets(seed=3)
    material = gathered(made, frame)
    result = evaluate(made, material.scored, calibration=True)
    parts = made.score_parts(frame)
    n = material.scored.n_targets
    assert np.nansum(result.nats["item"]) / n == pytest.approx(parts["items"], abs=1e-6)
    assert np.nansum(result.nats["amount"]) / n == pytest.approx(parts["amount"], abs=1e-6)
    probability = made.predict_proba(material.scored, of="item")
    np.testing.assert_allclose(result.rank, ranks(probability, material.scored.item))
    assert result.reliability.observed.sum() == n
    np.testing.assert_allclose(np.sort(result.top.confidence), np.sort(probability.max(axis=1)))


def test_means_and_laws_are_of_observed_values():
    made = model("efa")
    groups = gathered(made, baskets()).scored
    result = value_predictions(made, groups)["amount"]
    assert len(result.rows) == groups.observed.sum() < groups.n_elements
    np.testing.assert_allclose(result.value.numpy(), groups.values["amount"][result.rows])
    predicted = np.asarray(made.predict(groups))
    np.testing.assert_allclose(
        result.distribution.mean().numpy(), predicted[result.rows], rtol=1e-5
    )


def test_baselines_are_those_of_the_parts_and_score_as_they_would_alone():
    made, learn = model("efa"), gathered(model("efa"), baskets()).learn
    rivals, left_out = fit_rivals(made, learn, seed=0)
    names = ["latent factor", "shrunk offset", "marginal by item", "marginal", "item-kNN", "EASE"]
    assert [rival.name for rival in rivals] == names and not left_out
    groups = gathered(made, baskets(seed=2)).scored
    for rival in rivals:
        result = evaluate_rival(rival, made, groups)
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
    made = model("efa")
    groups = gathered(made, baskets()).scored
    role = (np.arange(groups.n_rows) % 3 == 0).astype(np.int8)
    groups = groups.with_(role=role)
    target = role == 0
    rivals, _ = fit_rivals(made, groups, seed=0)
    result = [evaluate(made, groups, calibration=True)]
    result += [evaluate_rival(rival, made, groups) for rival in rivals]
    for each in result:
        for numbers in [*each.nats.values(), *each.mean.values()]:
            assert np.isnan(numbers[~target]).all() and np.isfinite(numbers[target]).any()
        if each.rank is not None:
            np.testing.assert_array_equal(np.isfinite(each.rank), target)
    assert result[0].reliability.observed.sum() == target.sum()


def test_elements_seen_from_other_groups_are_context_only():
    groups = gathered(model("efa"), baskets()).scored.with_(item=None)
    before = np.maximum(np.arange(len(groups)) - 1, 0)
    seen = groups.with_(
        context_start=groups.start[before][:, None], context_stop=groups.start[:, None]
    )
    made = Marginal(family="poisson", parts="values").fit(groups)
    material = gathered(made, seen[1:40])
    rows = value_predictions(made, material.scored)["amount"].rows
    assert len(rows) == groups[1:40].observed[groups[1:40].elements()].sum()
    result = evaluate(made, material.scored)
    assert np.nanmean(result.nats["amount"]) == pytest.approx(made.score(groups[1:40]))


def test_baselines_exclude_what_the_model_excludes():
    for parts, support in (("items", "none"), ("items", "hard"), ("items", "penalty")):
        made = LatentFactor(max_epochs=1, progress=False, support=support, parts=parts)
        groups = gathered(model("marginal"), baskets()).data
        rivals, _ = fit_rivals(made.fit(groups), groups, seed=0)
        chosen = {rival.name: getattr(rival.fitted, "support_", None) for rival in rivals}
        assert chosen["latent factor"] == support
        assert chosen["marginal"] == ("hard" if support == "hard" else "none")


def test_baselines_that_cannot_be_fitted_say_why():
    groups = gathered(model("marginal"), baskets()).data
    ordinal = groups.with_(values={"amount": np.nan_to_num(groups.values["amount"]).clip(0, 2)})
    made = Marginal(family=Ordinal(3), parts="values", unknown="unk").fit(ordinal)
    _, left_out = fit_rivals(made, ordinal, seed=0)
    assert left_out == [
        "shrunk offset: it needs a family that its mean determines, which ordinal is not."
    ]
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
    assert quantity(2, "entry", "entries") == "2 entries"
    assert listing(["a"]) == "a" and listing(["a", "b"]) == "a and b"
    names = ItemNames(np.array([10, 20]))
    assert len(names) == 2 and names.all([1, 0]) == ["20", "10"]
