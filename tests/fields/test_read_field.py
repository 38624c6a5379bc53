"""Frames and files as fields; every complaint names the argument, what was found, and where."""

import datetime

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from exfam.checks import DataError, ExfamError
from exfam.fields.data import FieldFacts, check_field, only_observed, read_field
from exfam.fields.data.read import check_names
from exfam.groups import Groups
from fields.field_frames import (
    COLUMNS,
    DAYS,
    PLACES,
    assert_same_field,
    cells,
    field_frame,
    read,
    read_facts,
)

FIRST_DAY = 13787  # 2007-10-01 in days since 1970-01-01
ROW = 5


def test_a_field_holds_what_its_frame_holds():
    frame = field_frame()
    groups = read(frame)
    check_field(groups)
    labels = groups.vocabulary["item"].tolist()
    assert labels == sorted(PLACES)
    want = {}
    for row in frame.itertuples():
        day = FIRST_DAY + DAYS.index(row.day) + (row.day == DAYS[3])
        seen = row.celsius != -99 and not np.isnan(row.celsius)
        want[day, labels.index(row.city), (row.lat, row.lon)] = row.celsius if seen else None
    assert cells(groups) == want
    assert list(groups.values) == ["celsius"]
    assert groups.values["celsius"].dtype == groups.attributes["coordinates"].dtype == np.float64
    assert_array_equal(groups.position, groups.attributes["coordinates"])
    assert groups.group_names.astype(str).tolist() == DAYS
    # By time and then by site, and each element knows its row.
    for g in range(len(groups)):
        assert (np.diff(groups.item[groups.start[g] : groups.stop[g]]) > 0).all()
    assert frame.city[groups.source_row].tolist() == [labels[code] for code in groups.item]
    assert sorted(groups.source_row) == list(range(len(frame)))
    shuffled = frame.sample(frac=1, random_state=0)
    again = read(shuffled)
    assert_same_field(groups, again, but=["source_row"])
    assert shuffled.index[again.source_row].tolist() == groups.source_row.tolist()


def moments(times):
    n = len(times)
    frame = {"when": times, "site": ["a"] * n, "x": [0.0] * n, "y": np.arange(n)}
    return read_field(
        frame, time="when", site="site", coordinates="x", value="y", metric="euclidean"
    )


@pytest.mark.parametrize(
    ("times", "want"),
    [
        (["1970-01-02T06:00", "1970-01-02 18:00:00", "1970-01-03"], [1.25, 1.75, 2.0]),
        (["1970-01-02T00:00Z", "1970-01-02T01:00-02:00"], [1.0, 1.125]),
        (["1970-01-02T00:00:00.500000"], [1 + 0.5 / 86400]),
        ([3, -1, 2], [-1.0, 2.0, 3.0]),
        ([np.datetime64("1970-01-02T12", "ns")], [1.5]),
        ([datetime.date(1970, 1, 2)], [1.0]),
        (np.array([4, 2], dtype=np.uint64), [2.0, 4.0]),
    ],
)
def test_times_of_all_kinds_become_numbers(times, want):
    groups = moments(times)
    assert groups.group_attributes["time"].tolist() == pytest.approx(want, abs=1e-11)


def test_times_are_of_one_zone_exact_and_named_as_they_came():
    zoned = pd.to_datetime(["2007-10-01 23:30", "2007-10-02 00:30"]).tz_localize("America/New_York")
    plain = zoned.tz_convert("UTC").tz_localize(None)
    assert_same_field(moments(zoned), moments(plain))
    assert moments(zoned).group_names.astype(str)[0] == "2007-10-02T03:30:00.000000"
    assert len(moments(["2007-10-01T00:00:00.000001", "2007-10-01T00:00:00.000002"])) == 2
    assert moments([2007, 2009]).group_names.tolist() == [2007, 2009]


def test_facts_count_every_cell_once():
    facts = read_facts(field_frame())[1]
    assert facts == FieldFacts(
        n_rows=15,
        n_times=4,
        n_sites=4,
        n_observed=8,
        n_missing=5,
        n_sentinel=2,
        n_absent=1,
        times_without_values=(datetime.date(2007, 10, 3),),
        sites_without_values=("Nome",),
    )
    assert str(facts).splitlines()[1:3] == [
        "8 values observed, 5 missing, 2 declared missing",
        "times without values: 2007-10-03",
    ]


def test_several_numbers_may_stand_for_nothing():
    frame = field_frame()
    row = frame.index[frame.celsius > -50][0]
    frame.loc[row, "celsius"] = -999
    assert read_facts(frame, missing=(-99, -999))[1].n_sentinel == 3
    single = field_frame()
    single["celsius"] = single.celsius.replace(-99, -99.9).astype("float32")
    assert read_facts(single, missing=-99.9)[1].n_sentinel == 2


def test_known_sites_keep_their_codes_and_new_ones_come_last():
    frame = field_frame()
    known = np.array(["Rome", "Atlantis", "Bonn"], dtype=object)
    groups, facts = read_facts(frame, sites=known)
    assert facts.new_sites == ("Nome", "Oslo")
    assert_array_equal(groups.vocabulary["item"], known)
    city = frame.city[groups.source_row].to_numpy()
    assert city[: groups.stop[0]].tolist() == ["Rome", "Bonn", "Nome", "Oslo"]


def test_a_field_may_have_no_values_and_two_sites_at_one_place():
    frame = field_frame()
    groups, facts = read_facts(frame.assign(celsius=None), sites=sorted(PLACES))
    assert facts.n_observed == 0 and not groups.observed.any(), "to be predicted"
    frame.loc[frame.city == "Bonn", ["lat", "lon"]] = PLACES["Oslo"]
    assert read_facts(frame)[1].n_sites == 4


def test_hidden_values_stay_in_the_columns():
    groups = read(field_frame())
    keep = np.arange(groups.n_elements) % 2 == 0
    hidden = only_observed(groups, keep)
    assert_array_equal(hidden.observed, groups.observed & keep)
    assert hidden.values["celsius"] is groups.values["celsius"]
    with pytest.raises(DataError, match="`keep` must hold a bool for each of 15 elements, got"):
        only_observed(groups, np.ones(15))


def with_cell(column, value):
    frame = field_frame().astype({column: object})
    frame.at[ROW, column] = value
    return frame


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("day", None, r"`time` must not be missing, got nothing at row 5 of column 'day' \(1 of 1"),
        ("day", "2007-06-31", r"got '2007-06-31' at row 5 .* Mend these cells, or name the format"),
        ("city", None, r"`site` must not be missing, got nothing at row 5 of column 'city'"),
        ("lon", np.nan, r"got nothing at row 5 of column 'lon' \(1 of 15 rows\)\. Give its coord"),
        ("lat", np.inf, r"`coordinates` must be finite, got inf at row 5 of column 'lat'"),
        ("lat", 90.5, r"must be a latitude from -90 to 90 degrees, got 90\.5 at row 5 of column"),
        ("lon", -181.0, r"must be a longitude from -180 to 360 degrees, got -181\.0 at row 5"),
        ("celsius", np.inf, r"`value` must be finite, got inf at row 5 of column .* decl"),
        ("celsius", "warm", r"`value` must hold values of one plain type, got 'warm'"),
    ],
)
def test_a_broken_cell_is_named(column, value, message):
    with pytest.raises(DataError, match=message):
        read(with_cell(column, value))


def test_two_rows_of_one_time_and_site_are_both_named(tmp_path):
    frame = field_frame()
    frame = pd.concat([frame, frame[ROW : ROW + 1]], ignore_index=True)
    day, city = frame.day[ROW], frame.city[ROW]
    message = rf"one row for each .*, got {day} and '{city}' at row 15 again, after row 5"
    with pytest.raises(DataError, match=message):
        read(frame)
    frame[:8].to_csv(tmp_path / "a.csv", index=False)
    frame[8:].to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(DataError, match=r"at row 7 in .*b\.csv again, after row 5 in .*a\.csv"):
        read(tmp_path)


def test_a_site_that_moves_is_named_with_both_places():
    frame = field_frame()
    city = frame.city[ROW]
    rows = frame.index[frame.city == city]
    frame.loc[rows[-1], "lat"] += 1e-9
    message = rf"stay the same for a site, got \(.*\) for '{city}' at row {rows[-1]}, after .* at"
    with pytest.raises(DataError, match=rf"{message} row {rows[0]} \(1 of 15 rows\)"):
        read(frame)


FRAME = field_frame()
OTHERS = [
    (FRAME, {"coordinates": ["lon", "lat"]}, r"latitude .* got -165\.41 .*Latitude comes first"),
    (FRAME, {"time": "where"}, r"`time` must name a column .*'where'.*'day', "),
    (FRAME, {"coordinates": []}, "`coordinates` must name at least one column, got none"),
    (FRAME, {"coordinates": "lat"}, "`coordinates` must name two columns, latitude and"),
    (FRAME, {"value": "time"}, "`value` must not be named 'time', which a field"),
    (FRAME, {"metric": "taxi"}, "`metric` must be one of 'euclidean', 'haversine'"),
    (FRAME, {"sites": ["Oslo", "Oslo"]}, "`sites` must be labels, each once, got"),
    (FRAME, {"missing": np.nan}, "`missing` must be a number or a text, or several, such as -99"),
    (FRAME.assign(celsius="warm"), {}, "`value` must be numeric, got 'warm' at row 0 .* Convert"),
    (FRAME.assign(city=0.5), {}, "`site` must hold labels .*whole num.* got 0.5 at row 0"),
    (FRAME.assign(day=True), {}, "`time` must be times .* got True at row 0"),
    (FRAME[:0], {}, "`data` must have at least one row, got none"),
    (FRAME.assign(celsius=-99), {}, "`value` must be observed at least once, got none in"),
]


@pytest.mark.parametrize(("data", "changes", "message"), OTHERS)
def test_data_and_arguments_are_checked(data, changes, message):
    with pytest.raises(ExfamError, match=message):
        read(data, **changes)


@pytest.mark.parametrize("name", ["time", "coordinates"])
def test_names_of_columns_are_text(name):
    columns = {name: COLUMNS[name] for name in ("time", "site", "coordinates", "value")}
    with pytest.raises(DataError, match=f"`{name}` must be .* of .*column.*, text, got"):
        check_names(**columns | {name: ["x", 3]})


def test_other_groups_are_no_field():
    with pytest.raises(DataError, match="got none of coordinates, position, time, value. Make"):
        check_field(Groups(start=[0], stop=[2], item=[0, 1]))
