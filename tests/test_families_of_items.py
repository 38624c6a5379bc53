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
VALUES = {"parts": "values"}


def of_values(kind, **parameters):
    return make(kind, **parameters, **({} if kind == "shrunk-offset" else VALUES))


def of_units(families):
    """The families as they were given, those of real numbers without their units."""
    return {code: getattr(family, "family", family) for code, family in families.items()}


@pytest.mark.parametrize("kind", KINDS)
class TestLabels:
    def test_they_choose_the_family_of_their_item(self, kind):
        fitted = of_values(kind, family=BY_LABEL).fit(FRAME)
        family = fitted.schema_.families["stars"]
        items = fitted.vocabulary_["item"].tolist()
        given = of_units(family.families)
        chosen = dict(zip(items, (given.get(code) for code in range(6)), strict=True))
        assert chosen == {**dict.fromkeys("acef"), "b": PLAIN, "d": SHIFTED}
        assert family.default == Poisson()
        assert fitted.get_params()["family"] is BY_LABEL
        median = fitted.predict(FRAME, quantiles=[0.5])[:, 0]
        real = (FRAME["movie"] == "b").to_numpy()
        np.testing.assert_array_equal(median[~real], median[~real].round())
        assert (median[real] != median[real].round()).all()

    def test_numbers_are_labels_and_not_codes(self, kind):
        numbers = dict(zip("abcdef", (30, 10, 20, 5, 1, 2), strict=True))
        frame = FRAME.assign(movie=FRAME["movie"].map(numbers))
        family = PerItem({5: SHIFTED, 10: PLAIN}, default=Poisson())
        other = PerItem({np.int64(10): PLAIN, np.int64(5): SHIFTED}, default=Poisson())
        fitted = of_values(kind, family=family).fit(frame)
        assert of_units(fitted.schema_.families["stars"].families) == {2: SHIFTED, 3: PLAIN}
        assert family_to_config(other)["families"][0][0] == 10
        assert of_values(kind, family=other).fit(frame).schema_.families == fitted.schema_.families

    def test_codes_are_the_labels_of_groups_without(self, kind):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        code = groups.vocabulary["item"].tolist().index("b")
        family = PerItem({code: PLAIN}, default=SHIFTED)
        fitted = of_values(kind, family=family).fit(groups.with_(vocabulary={}))
        chosen = fitted.schema_.families["stars"]
        assert of_units(chosen.families) == family.families and chosen.default == family.default
        with pytest.raises(ExfamError, match=f"`family` must name items of the data, got {code} "):
            of_values(kind, family=family).fit(groups)

    def test_other_codes_for_the_same_labels(self, kind):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        labels = groups.vocabulary["item"]
        turned = groups.with_(item=5 - groups.item, vocabulary={"item": labels[::-1]})
        one = of_values(kind, family=BY_LABEL).fit(groups)
        np.testing.assert_array_equal(one.log_prob(turned), one.log_prob(groups))
        other = of_values(kind, family=BY_LABEL).fit(turned)
        family = other.schema_.families["stars"]
        assert of_units(family.families) == {2: SHIFTED, 4: PLAIN}

    def test_an_item_that_is_not_there(self, kind):
        family = PerItem({"a": PLAIN, "z": SHIFTED}, default=PLAIN)
        match = "`family` must name items of the data, got 'z' in PerItem. .* such as 'a'"
        for given in (family, {"stars": family}):
            with pytest.raises(ExfamError, match=match):
                of_values(kind, family=given).fit(FRAME)

    def test_an_item_without_a_family(self, kind):
        family = PerItem(dict.fromkeys("abde", PLAIN))
        match = "`family` must name a family for every item, got none for 'c' \\(2 of 6 items\\)"
        with pytest.raises(ExfamError, match=match):
            of_values(kind, family=family).fit(FRAME)
        whole = of_values(kind, family=PerItem(dict.fromkeys("abcdef", PLAIN))).fit(FRAME)
        assert np.isfinite(whole.score(FRAME))

    def test_data_without_items(self, kind):
        # A latent factor model cannot do without items at all, and says so first.
        latent = kind == "latent-factor"
        match = "`item` must be given" + ("" if latent else " to PerItem, got None")
        with pytest.raises(ExfamError, match=match):
            of_values(kind, family=BY_LABEL, item=None).fit(FRAME)

    def test_saved_and_loaded(self, kind, tmp_path):
        frame = FRAME.assign(seen=1.0 + np.arange(len(FRAME)) % 3)
        families = {"stars": BY_LABEL, "seen": PerItem({"f": SHIFTED}, default=PLAIN)}
        fitted = of_values(kind, value=["stars", "seen"], family=families).fit(frame)
        fitted.save(tmp_path / "model")
        loaded = exfam.load(tmp_path / "model")
        assert loaded.get_params()["family"] == families
        assert loaded.schema_.families == fitted.schema_.families
        for name, nats in fitted.log_prob_parts(frame).items():
            np.testing.assert_array_equal(loaded.log_prob_parts(frame)[name], nats)
        assert np.isfinite(loaded.fit(frame).score(frame))


@pytest.mark.parametrize(
    "family",
    [
        PerItem({0: PLAIN, 7: SHIFTED}),
        PerItem({"0": PLAIN, "seven": SHIFTED}, default=PLAIN),
        PerItem({0: PLAIN, "0": SHIFTED}),
    ],
    ids=str,
)
def test_keys_come_back_from_json_as_they_were(family):
    back = family_from_config(json.loads(json.dumps(family_to_config(family))))
    assert back == family and hash(back) == hash(family)
    assert [type(key) for key in back.families] == [type(key) for key in family.families]
    assert list(back.families) == list(family.families)


def test_keys_of_a_json_object_are_codes():
    config = family_to_config(PLAIN)
    named = {"name": "per-item", "families": {"3": config}}
    assert family_from_config(named) == PerItem({3: PLAIN})


def test_labels_have_no_codes_of_their_own():
    match = "`families` must have item codes as keys, got 'd'. Leave labels to an estimator's fit"
    with pytest.raises(ExfamError, match=match):
        BY_LABEL.mean(torch.zeros(1, BY_LABEL.n_params), item=torch.tensor([0]))
