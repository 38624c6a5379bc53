"""Values typed beside items: what follows for other values and items is the library's."""

import numpy as np
import pandas as pd
import pytest

from exfam import ExfamError
from exfam.explorer.views.items import ItemsView
from explorer.explored import items_model, ratings, ratings_model

MODELS = [
    {}, {"attention": "softmax"}, {"direction": "causal"}, {"family": "ordinal(n=5, start=1)"},
]  # fmt: skip
TYPED = {"items": [0, 1, 2], "values": [1.0, None, 4.0]}


@pytest.fixture(scope="module", params=MODELS, ids=str)
def view(request):
    return ItemsView(ratings_model(**request.param), ratings(whole="family" in request.param))


def frame(*further):
    names, values = ["a", "b", "c", *further], [1.0, None, 4.0, *[None] * len(further)]
    return pd.DataFrame({"user": 0, "movie": names, "stars": values})


def close(wanted):
    return pytest.approx(wanted, abs=1e-6)


def test_further_items_have_the_values_and_probabilities_that_the_model_predicts(view):
    bars = view.next(TYPED)["items"]
    found = view.model.recommend(frame(), k=6)
    wanted = dict(zip(found.items[0].tolist(), found.probabilities[0].tolist(), strict=True))
    for bar in bars:
        assert bar["probability"] == close(wanted[bar["name"]])
        quantiles = view.model.predict(frame(bar["name"]), quantiles=[0.05, 0.95])[-1]
        assert [bar["value"]["low"], bar["value"]["high"]] == close(quantiles)
        assert bar["value"]["center"] == close(view.model.predict(frame(bar["name"]))[-1])
    without = view.next({"items": TYPED["items"]})["items"]
    assert [bar["value"] for bar in without] != [bar["value"] for bar in bars]
    typed_before = view.next({"items": [0], "before": [0], "before_values": [1.0]})["items"]
    before = view.next({"items": [0], "values": [1.0]})["items"]
    shown = {bar["code"]: bar["before"] for bar in typed_before}
    assert shown == {bar["code"]: close(bar["probability"]) for bar in before}


def test_a_chosen_item_has_the_distribution_of_its_value(view):
    own = view.value({**TYPED, "item": 4})
    assert own["name"] == "e" and own["nats"] is None
    assert own["center"] == close(view.model.predict(frame("e"))[-1])
    if "labels" in own:
        wanted = view.model.predict_proba(frame("e"), of="stars")[-1]
        assert [bar["label"] for bar in own["labels"]] == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert [bar["probability"] for bar in own["labels"]] == close(wanted)
    else:
        mass = np.trapezoid(own["density"], own["points"])
        assert 0.97 < mass < 1.0 and own["points"][0] < own["low"] < own["high"]


def test_an_element_has_the_distribution_that_the_others_give(view):
    for k in (0, 1, 2):
        own = view.value({**TYPED, "element": k})
        assert own["center"] == close(view.model.predict(frame())[k])
        nats = view.model.log_prob_parts(frame())["stars"][k]
        assert own["nats"] == (None if np.isnan(nats) else close(nats))
        assert (own["tail"] is None) == (k == 1)


def test_reasons_and_raises_go_by_the_values_as_well(view):
    why = view.why({**TYPED, "item": 4}) if view.start()["explains"] else None
    raised = view.raising({**TYPED, "item": 4})
    wanted = view.model.recommend(frame(), k=6)
    at = wanted.items[0].tolist().index("e")
    assert raised["probability"] == close(wanted.probabilities[0][at])
    assert why is None or why["probability"] == close(wanted.probabilities[0][at])


def test_groups_bring_their_values_and_the_model_says_what_they_are(view):
    is_whole = "ordinal" in str(view.model.family)
    data = ratings(whole=is_whole)
    found = view.group({"index": 7})
    assert [one["name"] for one in found["items"]] == data[data["user"] == 7]["movie"].tolist()
    assert found["values"] == close(data[data["user"] == 7]["stars"].tolist())
    start = view.start()
    assert start["is_sequence"] == (view.model.direction == "causal")
    few = [1.0, 2.0, 3.0, 4.0, 5.0] if is_whole else []
    assert start["value"] == {"column": "stars", "labels": few}


def test_counts_have_probabilities_of_whole_numbers():
    own = ItemsView(ratings_model(family="poisson")).value({"items": [0], "item": 3})
    assert own["points"] == [round(point) for point in own["points"]]
    assert 0.97 < sum(own["density"]) <= 1.0


def test_values_of_another_kind_are_refused(view):
    with pytest.raises(ExfamError, match="`values` must be a list of 2 numbers or None, got"):
        view.next({"items": [0, 1], "values": [1.0, "2"]})
    with pytest.raises(ExfamError, match="`element` must be a whole number"):
        view.value({"items": [0], "element": 1})
    if "ordinal" in str(view.model.family):
        with pytest.raises(ExfamError, match="must be"):
            view.next({"items": [0], "values": [9.0]})
    without = ItemsView(items_model())
    assert without.start()["value"] is None and "value" not in without.next({})["items"][0]
    with pytest.raises(ExfamError, match="`item` must be of a model with one column of values"):
        without.value({"items": [0], "item": 1})
