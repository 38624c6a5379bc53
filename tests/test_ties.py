"""Elements of equal `order` share a position: no order of rows has a say in what they score."""

import warnings

import numpy as np
import pytest

import exfam
from estimator_cases import COLUMNS, make, random_weights, ratings
from exfam import ExfamWarning, Groups
from exfam.efa.blanks import insert_blank
from exfam.estimator.schema import Schema

# Two ratings a day.
FRAME = ratings(least=2).assign(day=lambda frame: frame["day"] // 2)
ORDERED = COLUMNS | {"order": "day"}


def shuffled(frame=FRAME):
    return frame.sample(frac=1, random_state=1)


def fit(**parameters):
    return random_weights(make("efa", order="day", **parameters).fit(FRAME), scale=0.3)


def positions(groups):
    return [groups.pad([g]).position[0].tolist() for g in range(len(groups))]


def run_groups():
    return Groups(
        start=[0, 4, 6],
        stop=[4, 6, 7],
        item=[0, 1, 2, 3, 0, 1, 2],
        ordered=True,
        tied=[False, True, False, False, False, True, False],
    )


class TestShuffledRows:
    @pytest.mark.parametrize("encoding", ["auto", "relative", "rotary", "sinusoidal", "learned"])
    def test_scores_stay(self, encoding):
        estimator = fit(encoding=encoding)
        assert estimator.encoding_ == ("relative" if encoding == "auto" else encoding)
        assert estimator.score(shuffled()) == pytest.approx(estimator.score(FRAME), abs=1e-6)

    def test_scores_of_files_are_those_of_frames(self, tmp_path):
        estimator = fit()
        shuffled().to_csv(tmp_path / "ratings.csv", index=False)
        exfam.prepare(tmp_path / "ratings.csv", tmp_path / "prepared", **ORDERED)
        for source in ("ratings.csv", "prepared"):
            score = estimator.score(tmp_path / source)
            assert score == pytest.approx(estimator.score(FRAME), abs=1e-6)

    def test_recommendations_stay(self):
        estimator = fit(value=None)
        one, two = estimator.recommend(FRAME, k=3), estimator.recommend(shuffled(), k=3)
        rows = [two.groups.tolist().index(group) for group in one.groups]
        np.testing.assert_allclose(two.probabilities[rows], one.probabilities, atol=1e-5)

    def test_the_order_of_days_still_counts(self):
        estimator = fit()
        backwards = FRAME.assign(day=-FRAME["day"])
        assert abs(estimator.score(backwards) - estimator.score(FRAME)) > 1e-3

    def test_groups_of_one_day_each_are_sets(self):
        frame = FRAME.assign(day=FRAME["user"].str.len())
        assert make("efa", order="day").fit(frame).encoding_ == "none"
        assert make("efa", order="day").fit(FRAME).encoding_ == "relative"


class TestPositions:
    def test_tied_elements_share_one(self):
        assert positions(run_groups()) == [[0, 0, 1, 2], [0, 0], [0]]

    def test_a_view_counts_from_its_first_element(self):
        groups = run_groups()
        assert positions(groups.with_(start=[1, 5, 6])) == [[0, 1, 2], [0], [0]]

    def test_context_ranges_are_tied_to_none_of_the_group(self):
        groups = run_groups()[:1].with_(
            start=[3], stop=[4], context_start=[[0, 0]], context_stop=[[2, 1]]
        )
        assert positions(groups) == [[0, 0, 1, 2]]
        assert positions(groups.compact()) == positions(groups)

    def test_those_that_are_given_are_kept(self):
        groups = run_groups().with_(position=np.arange(7))
        assert positions(groups) == [[0, 1, 2, 3], [4, 5], [6]]

    def test_rows_in_order_have_no_ties(self):
        frame = FRAME.sort_values(["user", "day"])
        assert Groups.from_frame(frame, **COLUMNS, order="rows").tied is None
        one = make("efa", order="rows").fit(frame)
        groups = Groups.from_frame(frame, **ORDERED)
        assert groups.tied is not None
        assert one.score(groups) == pytest.approx(one.score(frame), abs=1e-9)


class TestGroups:
    def test_frames_and_files_have_the_same_ties(self, tmp_path):
        groups = Groups.from_frame(FRAME, **ORDERED)
        again = exfam.read(FRAME, **ORDERED)
        by_name = dict(zip(groups.group_names, positions(groups), strict=True))
        assert dict(zip(again.group_names, positions(again), strict=True)) == by_name
        days = FRAME.groupby("user")["day"].nunique()
        assert {name: max(each) + 1 for name, each in by_name.items()} == days.to_dict()

    def test_several_columns_are_tied_together_alone(self):
        frame = {"user": ["a"] * 3, "day": [1, 1, 1], "hour": [2, 3, 3], "movie": [0, 1, 2]}
        groups = Groups.from_frame(frame, group="user", item="movie", order=["day", "hour"])
        assert groups.tied.tolist() == [False, False, True]

    def test_ties_are_kept_in_arrow_and_side_by_side(self):
        groups = run_groups()
        assert Groups.from_arrow(groups.to_arrow()).tied.tolist() == groups.tied.tolist()
        both = Groups.concatenate([groups.with_(tied=None), groups])
        assert positions(both) == [[0, 1, 2, 3], [0, 1], [0], *positions(groups)]

    def test_elements_left_out_untie_no_others(self):
        frame = FRAME[FRAME["movie"] != FRAME["movie"].iloc[0]]
        estimator = make("efa", order="day", unknown="ignore").fit(frame)
        groups = Groups.from_frame(FRAME, **ORDERED)
        with pytest.warns(ExfamWarning, match="unknown"):
            score = estimator.score(groups)
        assert score == pytest.approx(estimator.score(frame), abs=1e-6)


class TestBlanks:
    @pytest.mark.parametrize(
        ("at", "expected"),
        [
            ([0, 0, 0], [[0, 0, 0, 1, 2], [0, 0, 0], [0, 1]]),
            ([1, 1, 1], [[0, 0, 0, 1, 2], [0, 0, 0], [0, 1]]),
            ([2, 2, 1], [[0, 0, 1, 2, 3], [0, 0, 0], [0, 1]]),
            ([4, 2, 1], [[0, 0, 1, 2, 3], [0, 0, 0], [0, 1]]),
        ],
    )
    def test_a_blank_goes_on_as_the_elements_beside_it(self, at, expected):
        groups = run_groups()
        schema = Schema.of(groups, families={})
        assert positions(insert_blank(groups, schema, at=np.array(at))) == expected


class TestCausal:
    def test_ties_are_counted_in_a_warning_with_the_remedy(self):
        n = int(FRAME.duplicated(["user", "day"], keep=False).sum())
        match = f"^{n} of {len(FRAME)} rows are tied in `order`.*finer order, or pass order='rows'"
        with pytest.warns(ExfamWarning, match=match) as met:
            estimator = make("efa", order="day", direction="causal").fit(FRAME)
        assert len(met) == 1
        with pytest.warns(ExfamWarning, match=match) as met:
            estimator.score(FRAME)
        assert len(met) == 1

    def test_other_orders_have_none(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            make("efa", order="rows", direction="causal").fit(FRAME).score(FRAME)
            finer = FRAME.assign(day=np.arange(len(FRAME)))
            make("efa", order="day", direction="causal").fit(finer).score(finer)
