"""Earlier maps as context, and further places and times."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_array_equal

from exfam.checks import DataError, ExfamError
from exfam.fields.data import has_history, only_observed, read_field, with_lags
from exfam.fields.data.facts import time_step
from exfam.fields.data.further import with_places, with_times
from fields.field_frames import PLACES, cells, field_frame, read
from group_cases import seen

NEW = np.array([[48.2, 16.37], [35.68, 139.69]])


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
        times.append([value[0] / 10 if len(value) else None for value in values])
    return times


def test_maps_see_those_before_them_the_oldest_first():
    plain = line([0, 1, 2, 4])
    groups = with_lags(plain, 2)
    assert seen_times(groups) == [[None, None], [None, 0], [0, 1], [2, None]]
    assert has_history(groups).tolist() == [False, False, True, False]
    assert groups.values["y"] is plain.values["y"], "nothing is copied"
    later = only_observed(groups, [False] * 2 + [True] * 6)[1:].pad([0])
    assert later.observed.tolist() == [[False, False, True, True]], "hidden from later maps too"


times = st.lists(st.integers(-30, 30), min_size=1, max_size=12, unique=True)


@settings(max_examples=40)
@given(times, st.integers(1, 4), st.integers(1, 3))
def test_every_range_is_the_map_that_many_steps_before_or_nothing(times, lags, step):
    groups = with_lags(line(times), lags, step=step)
    for time, of_time in zip(sorted(times), seen_times(groups), strict=True):
        wanted = [time - step * back for back in range(lags, 0, -1)]
        assert of_time == [moment if moment in times else None for moment in wanted]
    assert (groups.context_stop - groups.context_start).max(initial=0) <= 2


def test_the_step_is_the_most_frequent_gap_and_the_smallest_of_equals():
    assert time_step(np.array([0.0, 1, 2, 367, 368])) == 1
    assert time_step(np.array([0.0, 3, 6, 7])) == 3
    assert time_step(np.array([5.0, 0, 2])) == 2
    assert time_step(np.array([4.0])) is None
    assert time_step(np.arange(1000) * 0.1 + 13787) == pytest.approx(0.1)
    tenths = with_lags(line(13787 + np.cumsum(np.full(30, 0.1))), 1)
    assert has_history(tenths).tolist() == [False] + [True] * 29, "sums need not be exact"


def test_lags_of_few_maps_in_any_order():
    assert has_history(with_lags(line([3, 4])[:0], 2)).tolist() == []
    assert with_lags(with_lags(line([0, 1]), 1), 0).context_start is None
    groups = line([0, 1, 2, 4])
    assert seen_times(with_lags(groups[[2, 0, 3, 1]], 1)) == [[1], [None], [None], [0]]
    assert seen_times(with_lags(groups[1:], 1)) == [[None], [1], [None]]
    silent = read(field_frame())  # a map without values is history
    assert has_history(with_lags(silent, 1)).tolist() == [False, True, True, False]


def test_broken_lags_are_refused():
    with pytest.raises(ExfamError, match="`lags` must be a whole number from 0 to 10,000, got"):
        with_lags(line([0, 1]), 1.0)
    twice = line([0, 1])[[1, 0, 1]]
    with pytest.raises(DataError, match=r"one map of each time, got time 1\.0 at group 2 again"):
        with_lags(twice, 1)


@pytest.mark.parametrize("lags", [0, 1, 2])
@pytest.mark.parametrize("pick", [slice(None), [2, 0, 3], slice(3, 1, -1), slice(0, 0)])
def test_further_places_follow_what_stays_as_it_was(lags, pick):
    groups = with_lags(read(field_frame()), lags)[pick]
    wide = with_places(groups, NEW)
    for g in range(len(groups)):
        new = slice(wide.stop[g] - 2, wide.stop[g])
        assert wide.attributes["coordinates"][new].tolist() == NEW.tolist()
        assert wide.item[new].tolist() == wide.source_row[new].tolist() == [-1, -1]
        assert not wide.observed[new].any() and np.isnan(wide.values["celsius"][new]).all()
    narrow = wide.with_(stop=wide.stop - len(NEW))
    for ours, theirs in zip(seen(narrow), seen(groups), strict=True):
        assert str(ours) == str(theirs)
    assert_array_equal(has_history(wide), has_history(groups))
    assert wide.n_targets == groups.n_targets + 2 * len(groups)


@pytest.mark.parametrize("sites", [None, ["Oslo"]])
def test_further_times_have_all_sites_and_no_values(sites):
    groups = read(field_frame(), sites=sites)
    later = with_times(groups, np.array([13792.0, 13794.5]))
    assert later.group_names[4:].tolist() == [
        np.datetime64(f"2007-10-{text}", "us").item() for text in ("06", "08T12")
    ]
    assert cells(later[:4]) == cells(groups)
    assert set(cells(later[4:]).values()) == {None}
    places = {(code, place) for _, code, place in cells(groups)}
    for g in (4, 5):
        assert {(code, place) for _, code, place in cells(later[g])} == places
        assert later[g].n_targets == 4
    assert {place for _, place in places} == set(PLACES.values())
    assert (later.source_row[later[4:].elements()] == -1).all()


def test_further_times_of_fields_without_names_have_none():
    bare = line([0, 1]).with_(group_names=None, source_row=None)
    later = with_times(bare, np.array([5.0]))
    assert later.group_names is None and later.source_row is None


def test_what_cannot_be_widened_is_refused():
    groups = read(field_frame())
    more = groups.with_(attributes={**groups.attributes, "height": np.zeros(groups.n_rows)})
    with pytest.raises(DataError, match=r"no attributes besides .* got \['height'\]"):
        with_places(more, NEW)
    with pytest.raises(DataError, match="`groups` must have at least one element, got none"):
        with_times(groups[:0], np.array([1.0]))
