"""Columns by name: none twice, none with the item part's name; what else a fit refuses."""

from dataclasses import replace

import numpy as np
import pytest

from estimator_cases import COLUMNS, KINDS, WITH_ITEMS, make, ratings
from exfam import ExfamError, Groups
from exfam.families import Binomial, Poisson

FRAME = ratings(least=2)
VALUES = {"parts": "values"}


class TestNamesOfParts:
    @pytest.mark.parametrize("name", ["item", "items"])
    @pytest.mark.parametrize("kind", WITH_ITEMS)
    def test_no_value_column_has_the_name_of_the_item_part(self, kind, name):
        frame = FRAME.rename(columns={"stars": name})
        match = f"`value` must not have the item part's name, got column '{name}'. Rename"
        with pytest.raises(ExfamError, match=match):
            make(kind, value=name).fit(frame)
        groups = Groups.from_frame(FRAME, **COLUMNS)
        with pytest.raises(ExfamError, match=match if name == "items" else "of their own"):
            make(kind).fit(groups.with_(values={name: groups.values["stars"]}))

    @pytest.mark.parametrize("kind", KINDS)
    def test_values_alone_may_have_it(self, kind):
        frame = FRAME.rename(columns={"stars": "items"})
        estimator = make(kind, value="items", **({} if kind == "shrunk-offset" else VALUES))
        assert list(estimator.fit(frame).score_parts(frame)) == ["items"]

    @pytest.mark.parametrize("name", ["item", "items"])
    @pytest.mark.parametrize("argument", ["attributes", "group_attributes"])
    def test_no_attribute_has_the_name_of_the_item_part(self, argument, name):
        frame = FRAME.assign(**{name: FRAME["age"]})
        match = f"`{argument}` must not have the item part's name, got column '{name}'"
        with pytest.raises(ExfamError, match=match):
            make("efa", **{argument: [name]}).fit(frame)

    def test_a_score_does_not_depend_on_names(self):
        groups = Groups.from_frame(FRAME, **COLUMNS)
        estimator = make("marginal").fit(groups)
        score, nats = estimator.score(groups), estimator.log_prob(groups)
        (member,), (spec,) = estimator.members_, estimator.schema_.values
        # As a model saved when such names were still allowed.
        estimator.schema_ = replace(estimator.schema_, values=(replace(spec, column="items"),))
        member.families = {"items": spec.family}
        member.log_units = {"items": member.log_units["stars"]}
        renamed = groups.with_(values={"items": groups.values["stars"]})
        assert estimator.score(renamed) == pytest.approx(score, rel=1e-12)
        np.testing.assert_array_equal(estimator.log_prob(renamed), nats)


class TestNamesTwice:
    @pytest.mark.parametrize("kind", KINDS)
    def test_values(self, kind):
        match = "`value` must name every column once, got 'stars' 2 times"
        with pytest.raises(ExfamError, match=match):
            make(kind, value=["stars", "stars"]).fit(FRAME)

    @pytest.mark.parametrize("name", ["attributes", "group_attributes"])
    def test_attributes(self, name):
        with pytest.raises(ExfamError, match=f"`{name}` must name every column once, got 'age' 2"):
            make("efa", **{name: ["age", "age"]}).fit(FRAME)


class TestWhatIsRefused:
    @pytest.mark.parametrize("given", [{"interval": 0.8}, {"quantiles": [0.1]}], ids=str)
    @pytest.mark.parametrize("kind", WITH_ITEMS)
    def test_items_have_no_quantiles(self, kind, given):
        estimator = make(kind, value=None).fit(FRAME)
        (name,) = given
        match = f"`{name}` needs a model with values, got one of items only"
        with pytest.raises(ExfamError, match=match):
            estimator.predict(FRAME, **given)

    @pytest.mark.parametrize("family", [Poisson, Binomial])
    @pytest.mark.parametrize("kind", KINDS)
    def test_families_are_instances(self, kind, family):
        match = f"got the class {family.__name__}. Pass an instance, {family.__name__}\\("
        for given in (family, {"stars": family}):
            with pytest.raises(ExfamError, match=match):
                make(kind, family=given).fit(FRAME)
