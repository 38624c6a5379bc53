import datetime

import numpy as np
import pytest
import torch

from exfam.checks import DataError
from exfam.fields.data import (
    field_facts,
    has_history,
    only_observed,
    with_lags,
    with_places,
    with_times,
)
from exfam.groups import CONTEXT, Groups
from fields.field_frames import PLACES, cells, field_frame, read
from fields.test_lags import line, seen_times
from group_cases import seen

NEW = [[48.2, 16.37], [35.68, 139.69]]


def field(**changes):
    return read(field_frame(), **changes)


def test_every_group_gets_the_places_after_its_own_elements():
    groups = field()
    wide = with_places(groups, NEW)
    own = groups.stop - groups.start
    np.testing.assert_array_equal(wide.stop - wide.start, own + 2)
    for g in range(len(groups)):
        new = slice(wide.stop[g] - 2, wide.stop[g])
        assert wide.attributes["coordinates"][new].tolist() == NEW
        assert wide.item[new].tolist() == wide.source_row[new].tolist() == [-1, -1]
        assert not wide.observed[new].any() and np.isnan(wide.values["celsius"][new]).all()
        old = slice(wide.start[g], wide.stop[g] - 2)
        before = slice(groups.start[g], groups.stop[g])
        np.testing.assert_array_equal(wide.source_row[old], groups.source_row[before])
    assert wide.n_targets == groups.n_targets + 2 * len(groups)
    assert field_facts(wide).new_sites == tuple(sorted(map(tuple, NEW)))


@pytest.mark.parametrize("lags", [0, 1, 2])
@pytest.mark.parametrize("pick", [slice(None), [2, 0, 3], slice(3, 1, -1), slice(0, 0)])
def test_old_elements_and_earlier_maps_stay_what_they_were(lags, pick):
    groups = with_lags(field(), lags)[pick]
    wide = with_places(groups, NEW)
    narrow = wide.with_(stop=wide.stop - len(NEW))
    assert len(seen(narrow)) == len(seen(groups)) == len(groups)
    for ours, theirs in zip(seen(narrow), seen(groups), strict=True):
        assert str(ours) == str(theirs)
    np.testing.assert_array_equal(has_history(wide), has_history(groups))


def test_a_batch_has_the_places_last():
    wide = with_places(with_lags(line([0, 1, 2]), 1), [[9.0]])
    batch = wide.pad([1])
    assert batch.steps_back.tolist() == [[1, 1, 0, 0, 0]]
    assert batch.values["y"].tolist() == [[0, 1, 10, 11, 0]]
    assert batch.observed.tolist() == [[True, True, True, True, False]]
    assert batch.target.tolist() == [[False, False, True, True, True]]
    torch.testing.assert_close(
        batch.attributes["coordinates"], torch.tensor([[[0.0], [0.5], [0.0], [0.5], [9.0]]])
    )


def test_places_may_be_known_sites_that_are_not_there():
    known = [*PLACES, "Bern"]
    groups = field(sites=known)
    wide = with_places(groups, NEW, labels=["Bern", "Wien"])
    assert wide.item[wide.stop[0] - 2 : wide.stop[0]].tolist() == [4, -1]
    assert not wide.repeats_items()


def test_further_places_keep_the_roles_of_others():
    groups = field()
    groups = groups.with_(role=np.full(groups.n_rows, CONTEXT))
    assert with_places(groups, NEW).n_targets == 2 * len(groups)
    assert with_places(line([0]), [[3.0]]).observed.tolist() == [True, True, False]


def test_further_times_have_all_sites_and_no_values():
    groups = field()
    later = with_times(groups, ["2007-10-08", datetime.date(2007, 10, 6).isoformat()])
    assert later.group_names.astype(str).tolist()[4:] == ["2007-10-06", "2007-10-08"]
    assert cells(later[:4]) == cells(groups)
    assert set(cells(later[4:]).values()) == {None}
    sites = {(code, place) for _, code, place in cells(groups)}
    for g in (4, 5):
        assert {(code, place) for _, code, place in cells(later[g])} == sites
        assert later[g].n_targets == 4
    assert (later.source_row[later[4:].elements()] == -1).all()
    assert later.group_attributes["time"][4:].tolist() == [13792, 13794]


@pytest.mark.parametrize("times", [[13792], [13792.0], "2007-10-06", datetime.date(2007, 10, 6)])
def test_days_may_be_numbers_or_dates_and_one_or_many(times):
    assert with_times(field(), times).group_names[-1] == np.datetime64("2007-10-06")


def test_hours_after_days_are_named_to_the_hour():
    names = with_times(field(), ["2007-10-06T12:00"]).group_names
    assert names.dtype == np.dtype("datetime64[us]")
    assert names[-1] == np.datetime64("2007-10-06T12:00")


def test_new_sites_are_predicted_at_further_times_too():
    groups = field(sites=["Oslo"])
    later = with_times(groups, ["2007-10-06"])
    assert later.item[later[4].elements()].tolist() == [0, -1, -1, -1]
    places = later.attributes["coordinates"][later[4].elements()].tolist()
    assert {tuple(place) for place in places} == set(PLACES.values())


def test_lags_of_further_times_are_given_after_them():
    groups = with_lags(with_times(line([0, 1]), [2, 3]), 2)
    assert [[t for t in row] for row in seen_times(groups)[:3]] == [[None, None], [None, 0], [0, 1]]
    assert has_history(groups).tolist() == [False, False, True, True]
    assert groups.pad([2]).values["y"].tolist() == [[0, 1, 10, 11, 0, 0]]
    kept = with_times(with_lags(line([0, 1]), 1), [2])
    assert seen_times(kept) == [[None], [0], [None]]


def test_groups_without_names_or_rows_get_times_all_the_same():
    groups = line([0, 1]).with_(group_names=None, source_row=None)
    later = with_times(groups, [5])
    assert later.group_names is None and later.source_row is None
    assert later.group_attributes["time"].tolist() == [0, 1, 5]
    assert len(with_places(groups, [[1.0]])) == 2


def test_hidden_values_stay_in_the_columns():
    groups = field()
    keep = np.arange(groups.n_elements) % 2 == 0
    hidden = only_observed(groups, keep)
    np.testing.assert_array_equal(hidden.observed, groups.observed & keep)
    assert hidden.values["celsius"] is groups.values["celsius"]
    assert groups.observed.sum() == 8 > hidden.observed.sum() > 0
    part = only_observed(groups[1:2], np.zeros(3, dtype=bool))
    np.testing.assert_array_equal(
        part.observed[: groups.stop[0]], groups.observed[: groups.stop[0]]
    )
    assert not part.observed[groups.start[1] : groups.stop[1]].any()


@pytest.mark.parametrize(
    ("coordinates", "message"),
    [
        (
            [[1.0]],
            r"`coordinates` must have one row per place and 2 columns, .* got shape \(1, 1\)",
        ),
        ([1.0, 2.0], r"one row per place and 2 columns, as those of the groups, got shape \(2,\)"),
        ([], "one row per place and 2 columns"),
        ([[1.0, np.nan]], "`coordinates` must be finite, got nan in column 1 of row 0"),
        ([["north", 1]], "`coordinates` must be numbers, one row per place, got"),
    ],
)
def test_what_is_no_place_is_refused(coordinates, message):
    with pytest.raises(DataError, match=message):
        with_places(field(), coordinates)


def test_labels_are_of_other_sites():
    with pytest.raises(DataError, match="`labels` must have one label for each of 2 places, got 1"):
        with_places(field(), NEW, labels=["Wien"])
    with pytest.raises(DataError, match="that no group has, .* got 'Bonn', which group 1 has"):
        with_places(field()[1:], NEW, labels=["Wien", "Bonn"])
    with pytest.raises(DataError, match="each once, got 'Bern', twice"):
        with_places(field(sites=[*PLACES, "Bern"]), NEW, labels=["Bern", "Bern"])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "`times` must hold at least one time, got none"),
        (
            ["2007-10-05"],
            r"later than those of the groups, of which the last is 13791\.0, got 13791",
        ),
        (["soon"], r"Column 'times' must hold dates .* got 'soon' at row 0"),
        ([None], r"`times` must not be missing"),
    ],
)
def test_what_is_no_later_time_is_refused(times, message):
    with pytest.raises(DataError, match=message):
        with_times(field(), times)


def test_other_groups_cannot_be_widened():
    with pytest.raises(
        DataError, match="`times` must be numbers, as those of the groups are, got 2"
    ):
        with_times(line([0]), ["2007-10-06"])
    with pytest.raises(DataError, match="`groups` must have at least one element, got none"):
        with_times(field()[:0], [1])
    with pytest.raises(DataError, match="`groups` must be a field"):
        with_places(Groups(start=[0], stop=[1]), NEW)
    groups = field()
    groups = groups.with_(attributes={**groups.attributes, "height": np.zeros(groups.n_rows)})
    for widen in (lambda: with_places(groups, NEW), lambda: with_times(groups, [99_999])):
        with pytest.raises(DataError, match=r"no attributes besides .* got \['height'\]"):
            widen()


@pytest.mark.parametrize("keep", [[True], np.ones(15), np.ones((15, 1), dtype=bool)])
def test_what_to_keep_is_a_bool_an_element(keep):
    with pytest.raises(
        DataError, match="`keep` must hold a bool for each of 15 elements, got dtype"
    ):
        only_observed(field(), keep)
