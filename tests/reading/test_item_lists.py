"""Items in lists, lists of baskets and counts of items stand wherever a frame of items does."""

import numpy as np
import pytest

from exfam import EFA, DataError, ExfamError, LatentFactor
from exfam.efa.baskets import is_baskets, read_baskets

BASKETS = [
    ["milk", "bread"], ["tea", "milk", "jam"], ["beer", "chips"], ["bread", "jam"],
    ["beer", "chips", "milk"], ["tea", "jam"], ["bread", "milk", "jam"], ["chips", "tea"],
] * 4  # fmt: skip


def frame_of(baskets):
    rows = [(k, item) for k, basket in enumerate(baskets) for item in basket]
    return {"basket": [k for k, _ in rows], "item": [item for _, item in rows]}


def small(**parameters):
    return EFA(attention="none", progress=False, validation_fraction=0.2, **parameters)


@pytest.fixture(scope="module")
def model():
    return small().fit(BASKETS)


def test_baskets_are_the_groups_of_their_frame(model):
    named = small(group="basket", item="item").fit(frame_of(BASKETS))
    np.testing.assert_array_equal(
        model.log_prob(BASKETS[:5]), named.log_prob(frame_of(BASKETS[:5]))
    )
    np.testing.assert_array_equal(named.log_prob(BASKETS[:5]), model.log_prob(BASKETS[:5]))


@pytest.mark.parametrize(
    "one",
    [
        ("milk", "bread"),
        {"bread", "milk"},
        np.array(["milk", "bread"]),
        {"milk": 1, "bread": 1, "tea": 0},
        [["milk", "bread"]],
        [{"milk": 1, "bread": 1.0}],
    ],
)
def test_one_basket_is_the_same_however_it_is_written(model, one):
    expected, got = (model.recommend(basket, k=2) for basket in (["milk", "bread"], one))
    np.testing.assert_array_equal(got.items, expected.items)
    np.testing.assert_allclose(got.probabilities, expected.probabilities, rtol=1e-6)


def test_an_empty_basket_has_the_most_frequent_items_recommended(model):
    answer = model.recommend([["milk"], []], k=3)
    assert answer.items.shape == (2, 3)
    np.testing.assert_array_equal(model.recommend([], k=3).items[0], answer.items[1])


def test_counts_are_repeats_unless_a_column_of_values_is_named():
    repeated = read_baskets([{"milk": 2, "bread": 1}, ["tea"]])
    assert repeated.lengths.tolist() == [3, 1]
    valued = read_baskets({"milk": 2, "bread": 1}, value="count")
    assert valued.values["count"].tolist() == [2, 1] and len(valued.item) == 2


def test_counts_are_values_of_a_model_of_values():
    baskets = [dict.fromkeys(basket, k % 3 + 1) for k, basket in enumerate(BASKETS)]
    model = LatentFactor(
        group="basket", item="item", value="count", family="poisson", parts="values", progress=False
    )
    frame = frame_of(BASKETS) | {"count": [n for basket in baskets for n in basket.values()]}
    model.fit(frame)
    np.testing.assert_allclose(model.predict(baskets), model.predict(frame))


def test_lists_are_in_order_for_a_causal_model():
    model = small(direction="causal").fit(BASKETS)
    forth, back = (model.log_prob(basket) for basket in (["tea", "jam"], ["jam", "tea"]))
    assert not np.allclose(forth[::-1], back)


def test_items_never_seen_are_unknown_as_in_frames(model):
    model.unknown = "error"
    with pytest.raises(DataError, match="got 'gin' at row 1"):
        model.recommend(["milk", "gin"])
    model.unknown = "ignore"
    with pytest.warns(match="never seen"):
        got = model.recommend(["milk", "gin"], k=2)
    np.testing.assert_array_equal(got.items, model.recommend(["milk"], k=2).items)
    model.unknown = "unk"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([["milk"], "bread"], "list of items or a list of baskets, got both"),
        (["milk", {"tea": 1}], "list of items or a list of baskets, got both"),
        ({"milk": 1.5}, "counts, whole numbers from 0, got 1.5 for 'milk' in basket 0"),
        ([{"milk": 1}, {"tea": "two"}], "got 'two' for 'tea' in basket 1"),
        (["milk", None], "`item` must not be missing"),
        (["milk", 3], "one plain type"),
    ],
)
def test_what_is_no_basket_is_refused(model, data, message):
    with pytest.raises(DataError, match=message):
        model.recommend(data)


def test_repeats_are_refused_where_a_model_knows_none(model):
    with pytest.raises(ExfamError, match="must not repeat in a group"):
        model.recommend({"milk": 2})


def test_tables_are_no_baskets():
    assert not is_baskets({"basket": [1], "item": ["milk"]})
    assert not is_baskets(np.zeros((2, 2)))
    assert not is_baskets("ratings.csv")
    assert not is_baskets({})
