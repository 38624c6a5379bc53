"""What a model knows of its data: a schema kept as JSON, and which groups it was fitted on."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import exfam
from efa_cases import ATTRIBUTES, FAMILIES, rich_groups, rich_schema
from estimator_cases import make, ratings
from every_estimator import case_of
from exfam import Groups, ModelFileError
from exfam.checks import ExfamError, SupportError
from exfam.estimator.registry import kinds_of
from exfam.estimator.schema import Schema, check_in_support
from exfam.estimator.seen import Seen, SeenElements, seen_groups
from exfam.families import Gaussian, Ordinal, Poisson, location_and_scale
from exfam.groups.arrange import group_hashes, row_hashes
from model_cases import make_groups


def numeric(*values, **columns):
    groups = make_groups(values={"value": np.asarray(values, dtype=np.float64)}, lengths=(4,))
    return groups.with_(**columns)


def changed(groups, name, column, at, value):
    """The groups with one entry of a column of values or attributes replaced."""
    entries = getattr(groups, name)[column].copy()
    entries[at] = value
    return groups.with_(**{name: {**getattr(groups, name), column: entries}})


def test_it_comes_back_from_json_and_like_groups_pass():
    schema = rich_schema(rich_groups(), known=("genre",))
    assert Schema.from_config(json.loads(json.dumps(schema.to_config()))) == schema
    schema.check(rich_groups(lengths=(2, 7), seed=4))
    with pytest.raises(AttributeError, match="cannot assign to field 'n_items'"):
        schema.n_items = 3


class TestWhatIsTaken:
    def test_sizes_centers_and_spreads(self):
        groups = rich_groups()
        schema = rich_schema(groups, known=("gap",))
        by_name = {spec.name: spec for spec in schema.attributes}
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
        part = rich_schema(groups[[2]])
        own = groups.values["other"][groups[[2]].elements()]
        assert part.n_positions == 5
        assert part.values[1].family.center == location_and_scale(own)[0]

    def test_constant_columns_and_categories_with_labels(self):
        columns = {"gap": np.full(4, 7.0), "g": np.array([0, 4, -1, 2])}
        groups = numeric(2, 2, 2, 2, attributes=columns)
        schema = Schema.of(groups, families={"value": Gaussian()}, attributes=["gap", "g"])
        assert (schema.values[0].spread, schema.attributes[0].spread) == (1.0, (1.0,))
        assert schema.attributes[1].n == 5
        labeled = groups.with_(vocabulary={**groups.vocabulary, "g": np.arange(8)})
        assert Schema.of(labeled, families={}, attributes=["g"]).attributes[0].n == 8

    def test_positions_set_the_unit_of_distance_and_leave_room_for_a_next_step(self):
        groups = make_groups(lengths=(3, 3), position=np.array([0.0, 2, 4, 100, 102, 110]))
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
        (numeric(1, 2, 7, 0), Ordinal(5), re.escape(f"(1 of 4 rows). {Ordinal(5).hint}")),
        (numeric(1, 2, np.inf, 0), Gaussian(), "Choose another family, or drop such rows"),
        (numeric(1, 2.5, 5, 5), Ordinal(5, start=1), "got 2.5 at row 1 .*Code half steps as whole"),
    ],
)
def test_a_value_must_be_one_its_family_can_produce(groups, family, match):
    with pytest.raises(SupportError, match=match):
        check_in_support(groups, {"value": family})


def test_what_groups_do_not_have_is_refused():
    with pytest.raises(ExfamError, match="`value` column 'stars' must be in the groups, which "):
        Schema.of(make_groups(), families={"stars": Gaussian()})
    unobserved = numeric(1, 2, 0, 3, observed=np.zeros(4, dtype=bool))
    with pytest.raises(ExfamError, match="`value` must have at least one observed value, got n"):
        Schema.of(unobserved, families={"value": Gaussian()})
    with pytest.raises(ExfamError, match="`mood` must be an attribute of the groups, which hav"):
        rich_schema(rich_groups(), attributes=["mood"])
    with pytest.raises(ExfamError, match="`known` must be among `attributes`, got 'gap'"):
        rich_schema(rich_groups(), attributes=["genre"], known=["gap"])


def like(name, other):
    groups = rich_groups()
    return groups.with_(attributes={**groups.attributes, name: groups.attributes[other]})


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        (rich_groups().with_(item=None), "`item` must be given, as it was in training, got gro"),
        (changed(rich_groups(), "attributes", "genre", 0, 4), "`genre` must be a code below 4, as"),
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


FRAME = ratings(least=2)
STORED = Path(__file__).parent / "stored" / "v1"


@pytest.mark.parametrize("kind", kinds_of("groups"))
class TestGroups:
    def test_groups_of_the_fit_are_seen_those_held_out_too(self, kind, tmp_path):
        share = {} if kind == "marginal" else {"validation_fraction": 0.25}
        make(kind, **share).fit(FRAME).save(tmp_path / "model")
        loaded, new = exfam.load(tmp_path / "model"), FRAME.assign(user=FRAME.user + " again")
        assert (loaded.seen_in_fit(FRAME).seen == 1).all()
        overlap = loaded.seen_in_fit(new)
        assert (overlap.seen == 0).all() and overlap.is_chance and overlap.words("groups") == ""
        both = loaded.seen_in_fit(pd.concat([FRAME, new]))
        assert both.n_seen == FRAME.user.nunique() and not both.is_chance
        assert "are among those that the model was fitted on" in both.words("groups")

    def test_models_of_older_versions_do_not_know(self, kind):
        if not (STORED / kind).is_dir():
            return  # of a class that the first version did not have
        frame = json.loads((STORED / "log_prob.json").read_text())["frame"]
        overlap = exfam.load(STORED / kind).seen_in_fit(frame)
        assert np.isnan(overlap.seen).all() and overlap.is_chance and not overlap.n_checked


@pytest.mark.parametrize("kind", [*kinds_of("fields"), *kinds_of("tables")])
def test_maps_and_rows_of_the_fit_are_seen(kind):
    case = case_of(kind)
    seen = case.fit().seen_in_fit(*case.given)
    assert seen.n_seen > 0.9 * len(seen.seen) and not seen.is_chance


def test_the_hash_of_a_group_is_of_its_content_alone():
    groups, again = (
        Groups.from_frame(frame, group="user", item="movie", value="stars")
        for frame in (FRAME, FRAME.sample(frac=1, random_state=0))
    )
    by_name, shuffled = (
        dict(zip(given.group_names, group_hashes(given), strict=True)) for given in (groups, again)
    )
    assert by_name == shuffled and len(set(by_name.values())) == len(groups)
    for change in (
        {"values": {"stars": groups.values["stars"] + 1.0}},
        {"group_names": groups.group_names[::-1]},
        {"item": (groups.item + 1) % groups.n_items},
        {"observed": np.zeros(groups.n_elements, dtype=bool)},
    ):
        assert (group_hashes(groups.with_(**change)) != group_hashes(groups)).all(), change


def test_hashes_are_the_same_on_every_machine():
    groups = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 2, 0], values={"y": [0.5, 1, 2, 3]})
    assert group_hashes(groups).tolist() == [12395291479128868979, 331968418427827920]
    zeros = row_hashes(np.array([[0.0, np.nan], [-0.0, -np.nan], [np.nan, 0.0]]))
    assert zeros[0] == zeros[1] != zeros[2]


def test_rows_equal_by_chance_are_no_sign_of_the_fit():
    random = np.random.default_rng(0)

    def rows(n):
        return row_hashes(random.integers(0, 40, (n, 2)).astype(float))

    seen = Seen.of([rows(1000)])
    new = seen.among(rows(500))
    assert new.n_seen > 50 and new.is_chance
    assert "no more than by chance" in new.words("rows")
    half = Seen.of([kept := rows(1000)]).among(np.concatenate([kept[:250], rows(250)]))
    assert not half.is_chance


def test_of_many_a_sample_is_kept_the_same_in_all_data():
    hashes = row_hashes(np.arange(5000.0)[:, None])
    seen = Seen.of([hashes[:4000]], most=500)
    assert 100 < len(seen.hashes) <= 500 and seen.bits > 0
    result = seen.among(hashes)
    checked = ~np.isnan(result.seen)
    assert (result.seen[checked] == (np.arange(5000)[checked] < 4000)).all()
    assert 0.7 < result.n_seen / result.n_checked < 0.9
    assert "(of 5,000, a sample)" in result.words("rows")


@pytest.mark.parametrize(
    ("config", "hashes", "message"),
    [
        ({"n": -2, "twice": 0, "bits": 0}, [1], "a count 'n' in a saved model, got -2"),
        ({"n": 2, "twice": 0, "bits": 64}, [1], "a count 'bits' in a saved model, got 64"),
        ([], [1], "a count 'n' in a saved model, got None"),
        ({"n": 2, "twice": 0, "bits": 0}, [1.5], "hashes of 64 bits in a saved model, got float64"),
        ({"n": 2, "twice": 0, "bits": 0, "element_bits": 0}, [1], "`seen_elements` must have"),
    ],
)
def test_what_no_model_has_saved_is_refused(config, hashes, message):
    with pytest.raises(ModelFileError, match=re.escape(message)):
        Seen.from_config(config, {"seen": np.array(hashes)})


def baskets(labels, *, seed=0, n_items=30, least=4):
    """Groups of common items: a few are in most of them."""
    random, rows = np.random.default_rng(seed), []
    share = 1 / np.arange(1, n_items + 1)
    for label in labels:
        size = random.integers(least, 9)
        items = random.choice(n_items, size, replace=False, p=share / share.sum())
        rows += [(label, f"i{item}") for item in items]
    return pd.DataFrame(rows, columns=["user", "movie"])


class TestChangedGroups:
    ROWS = baskets(range(200))

    def overlap(self, frame, fitted=ROWS):
        of_fit, given = (exfam.read(rows, group="user", item="movie") for rows in (fitted, frame))
        return SeenElements.of([of_fit]).among(given)

    def test_those_that_grew_or_lost_rows_are_seen(self):
        more = pd.DataFrame({"user": range(200), "movie": "new"})
        grown = self.overlap(pd.concat([self.ROWS, more]))
        assert (grown.seen == 1).all() and not grown.is_chance
        fewer = self.overlap(self.ROWS[self.ROWS.duplicated("user")])
        assert (fewer.seen == 1).all() and not fewer.is_chance

    def test_those_of_mostly_other_elements_and_new_ones_of_common_items_are_not(self):
        movies = [f"n{k}" for k in range(10)] * 200
        other = pd.DataFrame({"user": np.repeat(range(200), 10), "movie": movies})
        assert not self.overlap(pd.concat([self.ROWS, other])).n_seen
        assert not self.overlap(baskets(range(200, 400), seed=1)).n_seen

    def test_new_groups_under_the_same_numbers_are_seen_by_chance(self):
        overlap = self.overlap(baskets(range(200), seed=1))
        assert overlap.n_seen > 20 and overlap.is_chance

    def test_the_same_groups_of_few_items_are_no_chance(self):
        few = baskets(range(12), n_items=9, least=8)
        assert self.overlap(few, few).is_chance
        overlap = make("marginal", value=None).fit(few).seen_in_fit(few)
        assert overlap.n_seen == 12 and overlap.expected == 0 and not overlap.is_chance

    def test_groups_without_labels_are_compared_as_wholes(self):
        seen = seen_groups([Groups(start=[0], stop=[2], item=[0, 1])])
        assert seen.elements is None and list(seen.arrays()) == ["seen"]
