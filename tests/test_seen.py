"""Models know which groups, maps and rows they were fitted on."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import exfam
from estimator_cases import make, ratings
from exfam import Groups, ModelFileError
from exfam.estimator.registry import kinds_of
from exfam.estimator.seen import Seen, SeenElements, seen_groups
from exfam.groups.arrange import group_hashes, row_hashes
from fields import field_cases
from tables import table_estimator_cases as table_cases

FRAME = ratings(least=2)
STORED = Path(__file__).parent / "stored" / "v1"


def new_ratings():
    return FRAME.assign(user=FRAME.user + " again")


@pytest.mark.parametrize("kind", kinds_of("groups"))
class TestGroups:
    def test_groups_of_the_fit_are_seen_those_held_out_too(self, kind, tmp_path):
        share = {} if kind == "marginal" else {"validation_fraction": 0.25}
        estimator = make(kind, **share).fit(FRAME)
        estimator.save(tmp_path / "model")
        for each in (estimator, exfam.load(tmp_path / "model")):
            assert (each.seen_in_fit(FRAME).seen == 1).all()
            new = each.seen_in_fit(new_ratings())
            assert (new.seen == 0).all() and new.is_chance and new.words("groups") == ""
            both = each.seen_in_fit(pd.concat([FRAME, new_ratings()]))
            assert both.n_seen == FRAME.user.nunique() and not both.is_chance
            assert "are among those that the model was fitted on" in both.words("groups")

    def test_models_of_older_versions_do_not_know(self, kind):
        frame = json.loads((STORED / "log_prob.json").read_text())["frame"]
        overlap = exfam.load(STORED / kind).seen_in_fit(frame)
        assert np.isnan(overlap.seen).all() and overlap.is_chance and not overlap.n_checked


@pytest.mark.parametrize("kind", field_cases.KINDS)
def test_maps_of_the_fit_are_seen(kind, tmp_path):
    estimator = field_cases.fitted(kind, noise=False)
    estimator.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert (loaded.seen_in_fit(field_cases.FULL).seen == 1).all()
    warmer = field_cases.FULL.assign(**{estimator.value: field_cases.FULL[estimator.value] + 1.0})
    assert (loaded.seen_in_fit(warmer).seen == 0).all()


@pytest.mark.parametrize("kind", table_cases.KINDS)
def test_rows_of_the_fit_are_seen(kind, tmp_path):
    estimator = table_cases.fitted(kind)
    estimator.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    whole = table_cases.whole(kind)
    given = whole if isinstance(whole, tuple) else (whole,)
    seen = loaded.seen_in_fit(*given)
    assert seen.n_seen > 0.9 * len(seen.seen) and not seen.is_chance


def test_the_hash_of_a_group_is_of_its_content_alone():
    groups = Groups.from_frame(FRAME, group="user", item="movie", value="stars")
    shuffled = FRAME.sample(frac=1, random_state=0)
    again = Groups.from_frame(shuffled, group="user", item="movie", value="stars")
    by_name = dict(zip(groups.group_names.tolist(), group_hashes(groups).tolist(), strict=True))
    assert by_name == dict(
        zip(again.group_names.tolist(), group_hashes(again).tolist(), strict=True)
    )
    assert len(set(by_name.values())) == len(groups)
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


def test_hashes_spread_over_all_bits():
    hashes = row_hashes(np.arange(20_000.0)[:, None])
    assert len(set(hashes.tolist())) == 20_000
    ones = [(hashes >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(64)]
    np.testing.assert_allclose(ones, 0.5, atol=0.02)


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
    known = ~np.isnan(result.seen)
    assert (result.seen[known] == (np.arange(5000)[known] < 4000)).all()
    assert 0.7 < result.n_seen / result.n_checked < 0.9
    assert "(of 5,000, a sample)" in result.words("rows")


@pytest.mark.parametrize(
    ("config", "hashes", "message"),
    [
        ({"n": 2, "twice": 0}, [1], "a count 'bits' in a saved model, got None"),
        ({"n": -2, "twice": 0, "bits": 0}, [1], "a count 'n' in a saved model, got -2"),
        ({"n": 2, "twice": 0, "bits": 64}, [1], "a count 'bits' in a saved model, got 64"),
        ({"n": 2, "twice": 0, "bits": 0, "element_bits": 64}, [1], "a count 'element_bits'"),
        ([], [1], "a count 'n' in a saved model, got None"),
        ({"n": 2, "twice": 0, "bits": 0}, [1.5], "hashes of 64 bits in a saved model, got float64"),
        ({"n": 2, "twice": 0, "bits": 0, "element_bits": 0}, [1], "`seen_elements` must have"),
    ],
)
def test_what_no_model_has_saved_is_refused(config, hashes, message):
    with pytest.raises(ModelFileError, match=re.escape(message)):
        Seen.from_config(config, {"seen": np.array(hashes)})


def baskets(n, *, labels, seed=0, n_items=30, least=4):
    """Groups of common items: a few are in most of them."""
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_items + 1)
    rows = [
        (label, f"i{item}")
        for label in labels
        for item in random.choice(
            n_items, random.integers(least, 9), replace=False, p=share / share.sum()
        )
    ]
    frame = pd.DataFrame(rows, columns=["user", "movie"])
    return Groups.from_frame(frame, group="user", item="movie"), frame


def of_frame(frame):
    return Groups.from_frame(frame, group="user", item="movie")


class TestChangedGroups:
    FITTED, ROWS = baskets(200, labels=range(200))

    def overlap(self, groups, *, most=2**18):
        return SeenElements.of([self.FITTED], most=most).among(groups)

    def test_those_that_grew_or_lost_rows_are_seen(self):
        more = pd.DataFrame({"user": range(200), "movie": "new"})
        grown = self.overlap(of_frame(pd.concat([self.ROWS, more])))
        assert (grown.seen == 1).all() and not grown.is_chance
        fewer = self.overlap(of_frame(self.ROWS[self.ROWS.duplicated("user")]))
        assert (fewer.seen == 1).all() and not fewer.is_chance

    def test_those_of_mostly_other_elements_are_not(self):
        new = pd.DataFrame(
            [(user, f"n{k}") for user in range(200) for k in range(10)], columns=["user", "movie"]
        )
        assert not self.overlap(of_frame(pd.concat([self.ROWS, new]))).n_seen

    def test_new_groups_of_common_items_are_not(self):
        new, _ = baskets(200, labels=range(200, 400), seed=1)
        assert not self.overlap(new).n_seen

    def test_new_groups_under_the_same_numbers_are_seen_by_chance(self):
        new, _ = baskets(200, labels=range(200), seed=1)
        found = self.overlap(new)
        assert found.n_seen > 20 and found.is_chance

    def test_the_same_groups_of_few_items_are_no_chance(self):
        few, _ = baskets(12, labels=range(12), n_items=9, least=8)
        model = make("marginal", value=None, group="user").fit(few)
        assert SeenElements.of([few]).among(few).is_chance
        found = model.seen_in_fit(few)
        assert found.n_seen == 12 and found.expected == 0 and not found.is_chance

    def test_of_many_whole_groups_are_kept(self):
        kept = SeenElements.of([self.FITTED], most=300)
        assert kept.bits > 0 and len(kept.hashes) <= 300
        found = kept.among(self.FITTED)
        known = ~np.isnan(found.seen)
        assert 10 < known.sum() < 100 and (found.seen[known] == 1).all()
        new, _ = baskets(200, labels=range(200, 400), seed=1)
        assert np.isnan(kept.among(new).seen).any() and not kept.among(new).n_seen

    def test_groups_without_labels_are_compared_as_wholes(self):
        groups = self.FITTED.with_(group_names=None)
        seen = seen_groups([groups])
        assert seen.elements is None and list(seen.arrays()) == ["seen"]
