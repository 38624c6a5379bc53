"""What a model knows of its data: taken from groups, kept as JSON, checked at predict time."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from efa_cases import ATTRIBUTES, FAMILIES, rich_groups, rich_schema, small_model
from exfam.checks import SupportError
from exfam.estimator.schema import Schema, check_in_support
from exfam.families import Binomial, Gaussian, Ordinal, PerItem, Poisson, location_and_scale
from exfam.groups import Groups
from model_cases import make_groups


def numeric(**values):
    return make_groups(
        values={"value": np.asarray(values["value"], dtype=np.float64)}, lengths=(4,)
    )


class TestRoundTrip:
    def test_through_json(self):
        schema = rich_schema(rich_groups(), known=("genre",))
        assert Schema.from_config(json.loads(json.dumps(schema.to_config()))) == schema

    def test_with_families_that_hold_families(self):
        family = PerItem({code: Poisson(shift=1) if code < 4 else Binomial(3) for code in range(9)})
        groups = make_groups(values={"value": np.ones(18)})
        schema = Schema.of(groups, families={"value": family})
        assert Schema.from_config(json.loads(json.dumps(schema.to_config()))) == schema

    def test_builds_the_same_shapes(self):
        schema = rich_schema(rich_groups(), known=("genre",))
        again = Schema.from_config(json.loads(json.dumps(schema.to_config())))
        one, two = small_model(schema), small_model(again, seed=1)
        shapes = [{n: t.shape for n, t in m.state_dict().items()} for m in (one, two)]
        assert shapes[0] == shapes[1]
        two.load_state_dict(one.state_dict())
        batch = rich_groups().pad([0, 1, 2])
        torch.testing.assert_close(two.log_prob(batch).total(), one.log_prob(batch).total())


class TestWhatIsTaken:
    def test_sizes_centers_and_spreads(self):
        groups = rich_groups()
        schema = rich_schema(groups, known=("gap",))
        by_name = {spec.name: spec for spec in schema.attributes}
        assert list(by_name) == list(ATTRIBUTES)
        assert by_name["genre"].n == 4 and by_name["genre"].center == ()
        gap = groups.attributes["gap"]
        assert by_name["gap"].center == pytest.approx((gap.mean(),))
        assert by_name["gap"].spread == pytest.approx((gap.std(),))
        assert len(by_name["place"].center) == 2
        assert [by_name[n].of_group for n in ATTRIBUTES] == [False, False, False, True, True]
        assert [by_name[n].known for n in ATTRIBUTES] == [False, True, False, False, False]
        assert (schema.n_items, schema.n_positions, schema.position_scale) == (9, 6, 1.0)
        assert list(schema.families) == list(FAMILIES)

    def test_only_observed_values_of_own_elements_count(self):
        groups = numeric(value=[1.0, 3.0, 100.0, np.nan])
        groups = groups.with_(observed=np.array([True, True, False, False]))
        spec = Schema.of(groups, families={"value": Gaussian()}).values[0]
        assert (spec.family.center, spec.family.scale) == location_and_scale(np.array([1.0, 3.0]))

    def test_a_view_is_described_by_its_own_groups(self):
        groups = rich_groups()
        whole, part = rich_schema(groups), rich_schema(groups[[2]])
        assert part.n_positions == 5
        own = groups.values["other"][groups[[2]].elements()]
        assert part.values[1].family.center == location_and_scale(own)[0]
        assert part.values[1].family.center != whole.values[1].family.center

    def test_a_constant_column_has_spread_one(self):
        groups = numeric(value=[2.0] * 4).with_(attributes={"gap": np.full(4, 7.0)})
        schema = Schema.of(groups, families={"value": Gaussian()}, attributes=["gap"])
        assert (schema.values[0].spread, schema.attributes[0].spread) == (1.0, (1.0,))

    def test_categories_without_labels_are_counted(self):
        groups = numeric(value=[1.0] * 4).with_(attributes={"genre": np.array([0, 4, -1, 2])})
        assert Schema.of(groups, families={}, attributes=["genre"]).attributes[0].n == 5
        labels = {**groups.vocabulary, "genre": np.arange(8)}
        labeled = groups.with_(vocabulary=labels)
        assert Schema.of(labeled, families={}, attributes=["genre"]).attributes[0].n == 8

    def test_positions_set_the_unit_of_distance(self):
        time = np.array([0.0, 2.0, 4.0, 100.0, 102.0, 110.0])
        groups = make_groups(lengths=(3, 3), position=time)
        assert Schema.of(groups, families={}).position_scale == 2.0
        still = groups.with_(position=np.zeros(6))
        assert Schema.of(still, families={}).position_scale == 1.0

    def test_integer_positions_are_counted_from_zero_and_leave_room_for_a_next_step(self):
        groups = make_groups(lengths=(3, 3), position=np.array([0, 4, 7, 1, 2, 3]))
        assert Schema.of(groups, families={}).n_positions == 8 + (7 - 4)


class TestRefusals:
    def test_a_value_column_must_exist(self):
        with pytest.raises(
            ValueError, match="`value` column 'stars' must be in the groups, which "
        ):
            Schema.of(make_groups(), families={"stars": Gaussian()})

    def test_a_value_must_be_one_its_family_can_produce(self):
        groups = numeric(value=[1, 2, 0, 3]).with_(source_row=np.array([7, 5, 3, 1]))
        with pytest.raises(
            SupportError, match=r"`value` must be .* got 0 at row 3 \(1 of 4 rows\)"
        ):
            Schema.of(groups, families={"value": Poisson(shift=1)})
        with pytest.raises(SupportError, match="got 0 at row 2"):
            check_in_support(groups.with_(source_row=None), {"value": Poisson(shift=1)})

    def test_what_to_do_is_what_the_family_says(self):
        for family in (Ordinal(5), Binomial(2)):
            with pytest.raises(SupportError, match=re.escape(f"(1 of 4 rows). {family.hint}")):
                check_in_support(numeric(value=[1, 2, 7, 0]), {"value": family})
        with pytest.raises(SupportError, match="Choose another family, or drop such rows"):
            check_in_support(numeric(value=[1, 2, np.inf, 0]), {"value": Gaussian()})

    def test_some_value_must_be_observed(self):
        groups = numeric(value=[1, 2, 0, 3]).with_(observed=np.zeros(4, dtype=bool))
        with pytest.raises(
            ValueError, match="`value` must have at least one observed value, got n"
        ):
            Schema.of(groups, families={"value": Gaussian()})

    def test_an_attribute_must_exist(self):
        with pytest.raises(
            ValueError, match="`mood` must be an attribute of the groups, which hav"
        ):
            rich_schema(rich_groups(), attributes=["mood"])

    def test_known_attributes_are_attributes(self):
        with pytest.raises(ValueError, match="`known` must be among `attributes`, got 'gap'"):
            rich_schema(rich_groups(), attributes=["genre"], known=["gap"])

    def test_numbers_must_be_finite(self):
        groups = rich_groups()
        gap = groups.attributes["gap"].copy()
        gap[[3, 4]] = np.nan
        with pytest.raises(
            ValueError, match=r"`gap` must be finite, got \[nan\] at element 3 \(2 "
        ):
            rich_schema(groups.with_(attributes={"gap": gap}), attributes=["gap"])


class TestCheck:
    """Groups at predict time against the schema of the training groups."""

    def test_like_groups_pass(self):
        schema = rich_schema(rich_groups())
        schema.check(rich_groups(lengths=(2, 7), seed=4))

    def test_items_must_be_there(self):
        schema = rich_schema(rich_groups())
        with pytest.raises(
            ValueError, match="`item` must be given, as it was in training, got gro"
        ):
            schema.check(rich_groups().with_(item=None))

    def test_a_category_must_have_been_known(self):
        groups = rich_groups()
        schema = rich_schema(groups)
        genre = groups.attributes["genre"].copy()
        genre[0] = 4
        wrong = groups.with_(attributes={**groups.attributes, "genre": genre})
        with pytest.raises(
            ValueError, match="`genre` must be a code below 4, as in training, got 4"
        ):
            schema.check(wrong)
        genre[0] = -1
        schema.check(groups.with_(attributes={**groups.attributes, "genre": genre}))

    @pytest.mark.parametrize(
        ("name", "like", "message"),
        [
            ("genre", "gap", r"`genre` must be categories, as in training, got 1 number\(s\) each"),
            ("gap", "genre", r"`gap` must be 1 number\(s\) each, as in training, got categories"),
            ("place", "gap", r"`place` must be 2 number\(s\) each, as in training, got 1 number"),
        ],
    )
    def test_an_attribute_keeps_its_kind(self, name, like, message):
        groups = rich_groups()
        schema = rich_schema(groups)
        changed = {**groups.attributes, name: groups.attributes[like]}
        with pytest.raises(ValueError, match=message):
            schema.check(groups.with_(attributes=changed))

    def test_only_own_elements_of_a_view_are_checked(self):
        groups = rich_groups()
        schema = rich_schema(groups)
        gap = groups.attributes["gap"].copy()
        gap[0] = np.inf
        wrong = groups.with_(attributes={**groups.attributes, "gap": gap})
        schema.check(wrong[1:])
        with pytest.raises(ValueError, match="`gap` must be finite"):
            schema.check(wrong)

    def test_values_are_checked_too(self):
        groups = rich_groups()
        schema = rich_schema(groups)
        value = groups.values["value"].copy()
        value[2] = 4
        with pytest.raises(SupportError, match="`value` must be .* got 4 at row 2"):
            schema.check(groups.with_(values={**groups.values, "value": value}))


def test_a_schema_is_immutable():
    schema = rich_schema(rich_groups())
    assert replace(schema, n_items=3).n_items == 3
    with pytest.raises(AttributeError, match="cannot assign to field 'n_items'"):
        schema.n_items = 3


def test_half_steps_are_not_advised_to_start_elsewhere():
    groups = Groups(start=[0], stop=[3], values={"stars": [1.0, 2.5, 5.0]})
    match = "`stars` must be an integer from 1 to 5, got 2.5 at row 1 .*Code half steps as whole"
    with pytest.raises(SupportError, match=match):
        check_in_support(groups, {"stars": Ordinal(5, start=1)})
