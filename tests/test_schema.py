"""What a model knows of its data: taken from groups, kept as JSON, checked at predict time."""

import json
import re

import numpy as np
import pytest

from efa_cases import ATTRIBUTES, FAMILIES, rich_groups, rich_schema
from exfam.checks import ExfamError, SupportError
from exfam.estimator.schema import Schema, check_in_support
from exfam.families import Binomial, Gaussian, Ordinal, PerItem, Poisson, location_and_scale
from model_cases import make_groups

BY_ITEM = PerItem({code: Poisson(shift=1) if code < 4 else Binomial(3) for code in range(9)})


def numeric(*values, **columns):
    groups = make_groups(values={"value": np.asarray(values, dtype=np.float64)}, lengths=(4,))
    return groups.with_(**columns)


def changed(groups, name, column, at, value):
    """The groups with one entry of a column of values or attributes replaced."""
    entries = getattr(groups, name)[column].copy()
    entries[at] = value
    return groups.with_(**{name: {**getattr(groups, name), column: entries}})


@pytest.mark.parametrize(
    "schema",
    [
        rich_schema(rich_groups(), known=("genre",)),
        Schema.of(make_groups(values={"value": np.ones(18)}), families={"value": BY_ITEM}),
    ],
    ids=["rich", "by item"],
)
def test_it_comes_back_from_json_and_like_groups_pass(schema):
    assert Schema.from_config(json.loads(json.dumps(schema.to_config()))) == schema
    if schema.attributes:
        schema.check(rich_groups(lengths=(2, 7), seed=4))
    with pytest.raises(AttributeError, match="cannot assign to field 'n_items'"):
        schema.n_items = 3


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
        groups = numeric(1.0, 3.0, 100.0, np.nan, observed=np.array([True, True, False, False]))
        spec = Schema.of(groups, families={"value": Gaussian()}).values[0]
        assert (spec.family.center, spec.family.scale) == location_and_scale(np.array([1.0, 3.0]))
        groups = rich_groups()
        whole, part = rich_schema(groups), rich_schema(groups[[2]])
        own = groups.values["other"][groups[[2]].elements()]
        assert part.n_positions == 5
        assert part.values[1].family.center == location_and_scale(own)[0]
        assert part.values[1].family.center != whole.values[1].family.center

    def test_constant_columns_and_categories_without_labels(self):
        groups = numeric(
            2, 2, 2, 2, attributes={"gap": np.full(4, 7.0), "g": np.array([0, 4, -1, 2])}
        )
        schema = Schema.of(groups, families={"value": Gaussian()}, attributes=["gap", "g"])
        assert (schema.values[0].spread, schema.attributes[0].spread) == (1.0, (1.0,))
        assert schema.attributes[1].n == 5
        labeled = groups.with_(vocabulary={**groups.vocabulary, "g": np.arange(8)})
        assert Schema.of(labeled, families={}, attributes=["g"]).attributes[0].n == 8

    def test_positions_set_the_unit_of_distance_and_leave_room_for_a_next_step(self):
        time = np.array([0.0, 2.0, 4.0, 100.0, 102.0, 110.0])
        groups = make_groups(lengths=(3, 3), position=time)
        assert Schema.of(groups, families={}).position_scale == 2.0
        still = groups.with_(position=np.zeros(6))
        assert Schema.of(still, families={}).position_scale == 1.0
        steps = groups.with_(position=np.array([0, 4, 7, 1, 2, 3]))
        assert Schema.of(steps, families={}).n_positions == 8 + (7 - 4)


@pytest.mark.parametrize(
    ("groups", "family", "match"),
    [
        (
            numeric(1, 2, 0, 3, source_row=np.array([7, 5, 3, 1])),
            Poisson(shift=1),
            r"`value` must be .* got 0 at row 3 \(1 of 4 rows\)",
        ),
        (numeric(1, 2, 0, 3), Poisson(shift=1), "got 0 at row 2"),
        (numeric(1, 2, 7, 0), Ordinal(5), re.escape(f"(1 of 4 rows). {Ordinal(5).hint}")),
        (numeric(1, 2, 7, 0), Binomial(2), re.escape(f"(1 of 4 rows). {Binomial(2).hint}")),
        (numeric(1, 2, np.inf, 0), Gaussian(), "Choose another family, or drop such rows"),
        (numeric(1, 2.5, 5, 5), Ordinal(5, start=1), "got 2.5 at row 1 .*Code half steps as whole"),
    ],
)
def test_a_value_must_be_one_its_family_can_produce(groups, family, match):
    with pytest.raises(SupportError, match=match):
        check_in_support(groups, {"value": family})
    with pytest.raises(SupportError, match=match):
        Schema.of(groups, families={"value": family})


@pytest.mark.parametrize(
    ("of", "match"),
    [
        (
            lambda: Schema.of(make_groups(), families={"stars": Gaussian()}),
            "`value` column 'stars' must be in the groups, which ",
        ),
        (
            lambda: Schema.of(
                numeric(1, 2, 0, 3, observed=np.zeros(4, dtype=bool)),
                families={"value": Gaussian()},
            ),
            "`value` must have at least one observed value, got n",
        ),
        (
            lambda: rich_schema(rich_groups(), attributes=["mood"]),
            "`mood` must be an attribute of the groups, which hav",
        ),
        (
            lambda: rich_schema(rich_groups(), attributes=["genre"], known=["gap"]),
            "`known` must be among `attributes`, got 'gap'",
        ),
        (
            lambda: rich_schema(changed(rich_groups(), "attributes", "gap", [3, 4], np.nan)),
            r"`gap` must be finite, got \[nan\] at element 3 \(2 ",
        ),
    ],
)
def test_what_groups_do_not_have_is_refused(of, match):
    with pytest.raises(ExfamError, match=match):
        of()


def like(name, other):
    groups = rich_groups()
    return groups.with_(attributes={**groups.attributes, name: groups.attributes[other]})


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        (rich_groups().with_(item=None), "`item` must be given, as it was in training, got gro"),
        (
            changed(rich_groups(), "attributes", "genre", 0, 4),
            "`genre` must be a code below 4, as in training, got 4",
        ),
        (
            like("genre", "gap"),
            r"`genre` must be categories, as in training, got 1 number\(s\) eac",
        ),
        (like("gap", "genre"), r"`gap` must be 1 number\(s\) each, as in training, got categories"),
        (like("place", "gap"), r"`place` must be 2 number\(s\) each, as in training, got 1 number"),
        (changed(rich_groups(), "values", "value", 2, 4), "`value` must be .* got 4 at row 2"),
        (changed(rich_groups(), "attributes", "gap", 0, np.inf), "`gap` must be finite"),
    ],
)
def test_groups_unlike_those_of_training_are_refused(groups, match):
    schema = rich_schema(rich_groups())
    with pytest.raises(ExfamError, match=match):
        schema.check(groups)


def test_unknown_categories_and_elements_outside_a_view_pass():
    schema = rich_schema(rich_groups())
    schema.check(changed(rich_groups(), "attributes", "genre", 0, -1))
    schema.check(changed(rich_groups(), "attributes", "gap", 0, np.inf)[1:])
