"""A family for every item: by the labels that users see, whatever codes the model gives them."""

import json

import numpy as np
import pytest
import torch

import exfam
from estimator_cases import COLUMNS, KINDS, make, ratings
from exfam import ExfamError, Groups
from exfam.families import Gaussian, PerItem, Poisson, family_from_config, family_to_config

FRAME = ratings(least=2)
SHIFTED, PLAIN = Poisson(shift=1), Gaussian()
BY_LABEL = PerItem({"d": SHIFTED, "b": PLAIN}, default=Poisson())


def of_values(kind, **parameters):
    return make(kind, **parameters, parts="values")


def by_code(fitted):
    """The families of a fit as they were given, those of real numbers without their units."""
    families = fitted.schema_.families["stars"].families
    return {code: getattr(family, "family", family) for code, family in families.items()}


@pytest.mark.parametrize("kind", KINDS)
class TestLabels:
    def test_they_choose_the_family_of_their_item(self, kind, tmp_path):
        frame = FRAME.assign(seen=1.0 + np.arange(len(FRAME)) % 3)
        families = {"stars": BY_LABEL, "seen": PerItem({"f": SHIFTED}, default=PLAIN)}
        fitted = of_values(kind, value=["stars", "seen"], family=families).fit(frame)
        items = fitted.vocabulary_["item"].tolist()
        assert {items[code]: own for code, own in by_code(fitted).items()} == BY_LABEL.families
        assert fitted.schema_.families["stars"].default == Poisson()
        median = fitted.predict(frame, quantiles=[0.5])["stars"][:, 0]
        real = (frame["movie"] == "b").to_numpy()
        assert ((median != median.round()) == real).all()
        fitted.save(tmp_path / "model")
        loaded = exfam.load(tmp_path / "model")
        assert loaded.get_params()["family"] == families
        assert loaded.schema_.families == fitted.schema_.families
        for name, nats in fitted.log_prob_parts(frame).items():
            np.testing.assert_array_equal(loaded.log_prob_parts(frame)[name], nats)

    def test_numbers_are_labels_and_not_codes(self, kind):
        numbers = dict(zip("abcdef", (30, 10, 20, 5, 1, 2), strict=True))
        frame = FRAME.assign(movie=FRAME["movie"].map(numbers))
        family = PerItem({np.int64(10): PLAIN, 5: SHIFTED}, default=Poisson())
        assert by_code(of_values(kind, family=family).fit(frame)) == {2: SHIFTED, 3: PLAIN}

    def test_codes_are_the_labels_of_groups_without(self, kind):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        labels = groups.vocabulary["item"]
        code = labels.tolist().index("b")
        family = PerItem({code: PLAIN}, default=SHIFTED)
        fitted = of_values(kind, family=family).fit(groups.with_(vocabulary={}))
        assert by_code(fitted) == family.families
        with pytest.raises(ExfamError, match=f"`family` must name items of the data, got {code} "):
            of_values(kind, family=family).fit(groups)
        # Other codes for the same labels.
        turned = groups.with_(item=5 - groups.item, vocabulary={"item": labels[::-1]})
        fitted = of_values(kind, family=BY_LABEL).fit(groups)
        np.testing.assert_array_equal(fitted.log_prob(turned), fitted.log_prob(groups))
        other = of_values(kind, family=BY_LABEL).fit(turned)
        assert by_code(other) == {2: SHIFTED, 4: PLAIN}

    def test_items_and_families_that_do_not_fit(self, kind):
        absent = PerItem({"a": PLAIN, "z": SHIFTED}, default=PLAIN)
        lacking = "`family` must name a family for every item, got none for 'c' \\(2 of 6 items\\)"
        # A latent factor model cannot do without items at all, and says so first.
        none = "`item` must be given" + ("" if kind == "latent-factor" else " to PerItem, got None")
        unknown = "`family` must name items of the data, got 'z' in PerItem. .* such as 'a'"
        for family, message, more in (
            ({"stars": absent}, unknown, {}),
            (PerItem(dict.fromkeys("abde", PLAIN)), lacking, {}),
            (BY_LABEL, none, {"item": None}),
        ):
            with pytest.raises(ExfamError, match=message):
                of_values(kind, family=family, **more).fit(FRAME)


@pytest.mark.parametrize(
    "family",
    [PerItem({"0": PLAIN, "seven": SHIFTED}, default=PLAIN), PerItem({0: PLAIN, "0": SHIFTED})],
    ids=str,
)
def test_keys_come_back_from_json_as_they_were(family):
    back = family_from_config(json.loads(json.dumps(family_to_config(family))))
    assert back == family and hash(back) == hash(family)
    assert [type(key) for key in back.families] == [type(key) for key in family.families]


def test_keys_of_a_json_object_are_codes_and_labels_have_none():
    named = {"name": "per-item", "families": {"3": family_to_config(PLAIN)}}
    assert family_from_config(named) == PerItem({3: PLAIN})
    match = "`families` must have item codes as keys, got 'd'. Leave labels to an estimator's fit"
    with pytest.raises(ExfamError, match=match):
        BY_LABEL.mean(torch.zeros(1, BY_LABEL.n_params), item=torch.tensor([0]))
