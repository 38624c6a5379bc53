"""Answers about items are the model's own."""

import numpy as np
import pandas as pd
import pytest

from exfam import EASE, EFA, ExfamError, ItemKNN, LatentFactor, Popularity
from exfam.explorer.views.items import ItemsView
from explorer.explored import baskets, items_model, ratings

MODELS = [
    {}, {"attention": "softmax"}, {"direction": "causal"},
    {"attention": "softmax", "direction": "causal"},
]  # fmt: skip


@pytest.fixture(params=MODELS, ids=str)
def view(request):
    return ItemsView(items_model(**request.param), baskets())


def recommended(view, codes, k=8):
    """Probability by item of what the model recommends to these items."""
    frame = pd.DataFrame({"basket": 0, "item": view.labels[codes]})
    if not codes:
        frame = pd.DataFrame({"basket": [0], "item": ["none of ours"]})
        view.model.unknown = "ignore"
    found = view.model.recommend(frame, k=k)
    return dict(zip(found.items[0].tolist(), found.probabilities[0].tolist(), strict=True))


def test_where_items_have_positions_the_further_one_may_be_in_any_gap():
    model = items_model(attention="softmax", base="none", order="rows")
    view = ItemsView(model, baskets())
    assert model._has_positions and not view.start()["explains"]
    bars = view.next({"items": [0, 1]})["items"]
    now = recommended(view, [0, 1])
    assert {bar["name"]: bar["probability"] for bar in bars} == pytest.approx(
        {name: p for name, p in now.items() if p > 0}, abs=1e-6
    )
    raised = view.raising({"items": [0], "item": 1})
    assert raised["probability"] == pytest.approx(recommended(view, [0])["b"], abs=1e-6)


@pytest.mark.parametrize(("items", "before"), [([0], [0]), ([1, 2], [1]), ([3, 6, 2], [3, 6])])
def test_bars_are_what_the_model_recommends_now_and_before(view, items, before):
    bars = view.next({"items": items, "before": before, "k": 5, "also": [7]})["items"]
    now, then = recommended(view, items), recommended(view, before)
    assert [bar["name"] for bar in bars[:5]] == list(now)[:5]
    assert {bar["code"] for bar in bars} >= {7} and len(bars) in (5, 6)
    for bar in bars:
        assert bar["probability"] == pytest.approx(now[bar["name"]], abs=1e-6)
        assert bar["before"] == pytest.approx(then[bar["name"]], abs=1e-6)


def test_reasons_add_up_to_the_score_and_are_the_models(view):
    why = view.why({"items": [0, 1], "item": 2})
    assert sum(entry["contribution"] for entry in why["entries"]) == pytest.approx(why["score"])
    assert {"a", "b"} <= {entry["name"] for entry in why["entries"]}
    assert why["probability"] == pytest.approx(recommended(view, [0, 1])["c"], abs=1e-6)
    own = view.model.explain_item({"basket": [0, 0], "item": ["a", "b"]}, item="c")
    assert why["correction"] == pytest.approx(own.correction[0], abs=1e-6)


def test_what_is_added_raises_the_item_and_nothing_tried_does_more(view):
    raised = view.raising({"items": [0], "item": 1})
    now = recommended(view, [0])["b"]
    assert raised["probability"] == pytest.approx(now, abs=1e-6)
    with_one = {c: recommended(view, [0, c]).get("b", 0.0) for c in range(2, 8)}
    for one in raised["items"]:
        assert one["probability"] == pytest.approx(with_one[one["code"]], abs=1e-6)
        assert one["probability"] > now
    if raised["items"]:
        assert raised["items"][0]["probability"] == max(
            one["probability"] for one in raised["items"]
        )


def test_related_items_are_the_models(view):
    related = view.related({"item": 0})
    for kind in ("complements", "substitutes"):
        own = getattr(view.model, kind)("a", k=8)
        strong = own.items[own.strength > 0].tolist()
        assert [one["name"] for one in related[kind]] == strong


def test_items_are_found_by_any_part_of_their_names_and_those_that_begin_with_it_come_first():
    names = ["tea", "green tea", "milk", "Tea cake", "butter", "steak"]
    frame = pd.DataFrame({"basket": [0] * 6 + [1] * 2, "item": [*names, "green tea", "milk"]})
    view = ItemsView(EFA(group="basket", item="item", attention="none", progress=False).fit(frame))
    answer = view.search({"text": " TEA"})
    found = [one["name"] for one in answer["items"]]
    assert set(found[:2]) == {"tea", "Tea cake"} and set(found[2:]) == {"green tea", "steak"}
    assert answer["n_found"] == 4 and view.search({"text": "x"})["items"] == []
    assert view.search({"text": ""})["items"] == view.start()["items"]
    codes = [one["code"] for one in answer["items"]]
    assert view.search({"codes": codes})["items"] == answer["items"]


def test_groups_of_data_are_found_by_name_and_give_their_items():
    data = baskets()
    view = ItemsView(items_model(), data)
    (found,) = view.group({"text": "59"})["groups"]
    items = view.group({"index": found["index"]})["items"]
    assert [one["name"] for one in items] == data[data["basket"] == 59]["item"].tolist()
    assert view.start()["n_groups"] == 60
    without = ItemsView(items_model())
    with pytest.raises(ExfamError, match="`index` must be of a group of data, got none"):
        without.group({"index": 0})


def test_probabilities_that_are_kept_are_bounded_and_right_again(view):
    first = view.next({"items": [1, 4]})
    for code in range(8):
        for other in set(range(8)) - {code}:
            view.next({"items": [code, other]})
    assert len(view._kept) <= 32 and view.next({"items": [1, 4]}) == first


def test_models_without_a_base_recommend_and_say_that_they_cannot_explain():
    view = ItemsView(Popularity(group="basket", item="item").fit(baskets()))
    assert not view.start()["explains"] and len(view.next({"items": [0]})["items"]) == 7
    with pytest.raises(ExfamError, match="`item` cannot be explained exactly: this model has no"):
        view.why({"items": [0], "item": 1})


@pytest.mark.parametrize("ranker", [ItemKNN, EASE, LatentFactor])
def test_other_models_of_items_are_explored_as_well(ranker):
    more = {"max_epochs": 1, "progress": False} if ranker is LatentFactor else {}
    view = ItemsView(ranker(group="basket", item="item", **more).fit(baskets()))
    bars = view.next({"items": [0, 1], "k": 3})["items"]
    now = recommended(view, [0, 1])
    assert [bar["probability"] for bar in bars] == pytest.approx([now[bar["name"]] for bar in bars])
    assert view.raising({"items": [0], "item": 1})["probability"] > 0
    if view.start()["explains"]:
        why = view.why({"items": [0, 1], "item": 2})
        assert sum(entry["contribution"] for entry in why["entries"]) == pytest.approx(why["score"])


def test_models_of_several_values_alone_are_refused():
    frame = ratings().assign(days=lambda frame: frame["stars"][::-1].to_numpy())
    columns = {"group": "user", "item": "movie", "value": ["stars", "days"]}
    network = {"base": "none", "max_epochs": 1, "ensemble": 1, "embed_dim": 4}
    model = EFA(**columns, parts="values", progress=False, **network).fit(frame)
    with pytest.raises(ExfamError, match="`model` must predict items, or one column of values"):
        ItemsView(model)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"items": ["a"]}, "`items` must be a list of codes, 0 .. 7, got"),
        ({"items": [8]}, "`items` must be a list of codes, 0 .. 7, got"),
        ({"items": [True]}, "`items` must be a list of codes, 0 .. 7, got"),
        ({"items": "12"}, "`items` must be a list of codes, 0 .. 7, got"),
        ({"items": [1] * 2001}, "`items` must have at most 2,000 elements, got 2,001"),
        ({"k": 0}, "`k` must be a whole number, 1 .. 100, got 0"),
        ({"k": True}, "`k` must be a whole number, 1 .. 100, got True"),
    ],
)
def test_questions_of_other_shapes_are_refused(question, message):
    with pytest.raises(ExfamError, match=message.replace("..", r"\.\.")):
        ItemsView(items_model()).next(question)
    with pytest.raises(ExfamError, match="`text` must be a text, got 3"):
        ItemsView(items_model()).search({"text": 3})


def test_numbers_that_json_has_no_name_for_are_none():
    from exfam.explorer.questions import number_or_none

    assert [number_or_none(x) for x in (1, np.inf, np.nan)] == [1.0, None, None]
