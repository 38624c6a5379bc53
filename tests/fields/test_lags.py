import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from exfam.checks import DataError, ExfamError
from exfam.fields.data import has_history, only_observed, read_field, with_lags
from exfam.fields.data.lags import time_step
from exfam.groups import Groups
from fields.field_frames import cells, field_frame, read


def line(times, *, n_sites=2):
    """A field at these times, whose values show time and site: 10 * time + site."""
    rows = [(time, site) for time in times for site in range(n_sites)]
    time, site = (np.array(column) for column in zip(*rows, strict=True))
    frame = {"t": time, "site": site, "x": site / 2, "y": 10.0 * time + site}
    return read_field(frame, time="t", site="site", coordinates="x", value="y", metric="euclidean")


def seen_times(groups):
    """For every group, the time of the map in each of its ranges; None where it is empty."""
    times = []
    for starts, stops in zip(groups.context_start, groups.context_stop, strict=True):
        values = [groups.values["y"][start:stop] for start, stop in zip(starts, stops, strict=True)]
        times.append([None if not len(each) else each[0] / 10 for each in values])
    return times


def test_maps_see_those_before_them_the_oldest_first():
    groups = with_lags(line([0, 1, 2, 4]), 2)
    assert seen_times(groups) == [[None, None], [None, 0], [0, 1], [2, None]]
    assert has_history(groups).tolist() == [False, False, True, False]


def test_nothing_is_copied():
    groups = line([0, 1, 2])
    lagged = with_lags(groups, 1)
    assert lagged.n_rows == groups.n_rows
    assert lagged.values["y"] is groups.values["y"]
    assert cells(lagged) == cells(groups)


times = st.lists(st.integers(-30, 30), min_size=1, max_size=12, unique=True)


@settings(max_examples=40)
@given(times, st.integers(1, 4), st.integers(1, 3))
def test_every_range_is_the_map_that_many_steps_before_or_nothing(times, lags, step):
    groups = with_lags(line(times), lags, step=step)
    held = set(times)
    for time, seen in zip(sorted(times), seen_times(groups), strict=True):
        wanted = [time - step * back for back in range(lags, 0, -1)]
        assert seen == [each if each in held else None for each in wanted]
    assert (groups.context_stop - groups.context_start).max(initial=0) <= 2


def test_a_batch_counts_the_steps_back():
    groups = with_lags(line([0, 1, 2]), 2)
    batch = groups.pad([2, 1])
    assert batch.steps_back.tolist() == [[2, 2, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]]
    assert batch.values["y"][0].tolist() == [0, 1, 10, 11, 20, 21]
    np.testing.assert_array_equal(batch.target, (batch.steps_back == 0) & batch.present)


@pytest.mark.parametrize("scale", [1, 0.1, 7, 1 / 86400, 1e6])
@pytest.mark.parametrize("start", [0, 13787])
def test_sums_of_steps_need_not_be_exact(scale, start):
    groups = with_lags(line(start + np.cumsum(np.full(30, scale))), 1)
    assert has_history(groups).tolist() == [False] + [True] * 29


def test_the_step_is_the_most_frequent_gap_and_the_smallest_of_equals():
    assert time_step(np.array([0.0, 1, 2, 367, 368])) == 1
    assert time_step(np.array([0.0, 3, 6, 7])) == 3
    assert time_step(np.array([5.0, 0, 2])) == 2
    assert time_step(np.array([4.0])) is None
    assert time_step(np.arange(1000) * 0.1 + 13787) == pytest.approx(0.1)


def test_one_map_or_none_has_no_history():
    one = with_lags(line([3]), 2)
    assert seen_times(one) == [[None, None]]
    assert has_history(with_lags(line([3, 4])[:0], 2)).tolist() == []


def test_no_lags_take_those_away_that_were():
    groups = with_lags(with_lags(line([0, 1]), 1), 0)
    assert groups.context_start is None
    assert has_history(groups).all()


def test_lags_stay_when_groups_are_picked_and_put_together():
    groups = with_lags(line([0, 1, 2, 3]), 1)
    picked = groups[[3, 1]]
    assert seen_times(picked) == [[2], [0]]
    assert seen_times(picked.compact()) == [[2], [0]]
    assert seen_times(Groups.concatenate([groups[2:], groups[:2]])) == [[1], [2], [None], [0]]
    assert seen_times(Groups.from_arrow(groups.to_arrow())) == seen_times(groups)
    for part in groups.split((0.5, 0.5), seed=1):
        times = part.group_attributes["time"].tolist()
        assert seen_times(part) == [[time - 1 if time else None] for time in times]
    assert sum((seen_times(part) for part in groups.chunks(3)), []) == seen_times(groups)


def test_groups_in_any_order_see_the_same():
    groups = line([0, 1, 2, 4])
    assert seen_times(with_lags(groups[[2, 0, 3, 1]], 1)) == [[1], [None], [None], [0]]


def test_only_maps_among_the_groups_are_seen():
    assert seen_times(with_lags(line([0, 1, 2])[1:], 1)) == [[None], [1]]


def test_a_map_without_values_is_history():
    groups = read(field_frame())
    assert has_history(with_lags(groups, 1)).tolist() == [False, True, True, False]
    assert has_history(with_lags(groups, 1, step=2)).tolist() == [False, False, True, True]


def test_hidden_values_are_hidden_from_later_maps_too():
    groups = with_lags(line([0, 1]), 1)
    later = only_observed(groups, [False, True, True, True])[1:].pad([0])
    assert later.observed.tolist() == [[False, True, True, True]]
    assert later.values["y"].tolist() == [[0, 1, 10, 11]]


@pytest.mark.parametrize("lags", [-1, 1.0, True, "1", None, 10**18])
def test_lags_are_whole_numbers(lags):
    with pytest.raises(ExfamError, match="`lags` must be a whole number from 0 to 10,000, got"):
        with_lags(line([0, 1]), lags)


def test_broken_lags_are_refused():
    with pytest.raises(ExfamError, match="`step` must be a number > 0, got 0"):
        with_lags(line([0, 1]), 1, step=0)
    with pytest.raises(DataError, match="`groups` must be a field"):
        with_lags(Groups(start=[0], stop=[1]), 1)
    twice = line([0, 1])[[1, 0, 1]]
    with pytest.raises(DataError, match=r"one map of each time, got time 1\.0 at group 2 again"):
        with_lags(twice, 1)
