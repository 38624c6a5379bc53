"""Every complaint about a field says which argument, what was found, where, and what to do."""

import numpy as np
import pandas as pd
import pytest

from exfam.checks import DataError, ExfamError
from exfam.fields.data import check_field, field_facts
from exfam.groups import Groups
from fields.field_frames import field_frame, read

ROW = 5


def changed(column, value, row=ROW):
    frame = field_frame().astype({column: object})
    frame.at[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "day",
            None,
            r"`time` must not be missing, got nothing at row 5 of column 'day' \(1 of 15",
        ),
        ("day", "1.10.2007", r"Column 'day' must hold dates .*, got '1\.10\.2007' at row 5"),
        ("day", "2007-06-31", r"got '2007-06-31' at row 5 .* Mend these cells, or name the format"),
        ("day", "monday", r"Column 'day' must hold dates .* got 'monday' at row 5"),
        ("city", None, r"`site` must not be missing, got nothing at row 5 of column 'city'"),
        (
            "lat",
            None,
            r"`coordinates` must not be missing, got nothing at row 5 of column 'lat' .*",
        ),
        ("lon", np.nan, r"got nothing at row 5 of column 'lon' \(1 of 15 rows\)\. Give its coord"),
        ("lat", np.inf, r"`coordinates` must be finite, got inf at row 5 of column 'lat'"),
        (
            "lat",
            90.5,
            r"must be a latitude from -90 to 90 degrees, got 90\.5 at row 5 of column 'l",
        ),
        ("lon", -181.0, r"must be a longitude from -180 to 360 degrees, got -181\.0 at row 5"),
        (
            "celsius",
            np.inf,
            r"`value` must be finite, got inf at row 5 of column 'celsius' .* decl",
        ),
        ("celsius", -np.inf, r"`value` must be finite, got -inf at row 5"),
        ("celsius", "warm", r"`value` must hold values of one plain type, got 'warm'"),
    ],
)
def test_a_broken_cell_is_named(column, value, message):
    with pytest.raises(DataError, match=message):
        read(changed(column, value))


def test_a_broken_cell_of_a_file_is_named_with_its_file(tmp_path):
    frame = changed("lat", 95.0)
    frame[:3].to_csv(tmp_path / "a.csv", index=False)
    frame[3:].to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(
        DataError, match=r"got 95\.0 at row 2 of column 'lat' in .*b\.csv \(1 of 15"
    ):
        read(tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_broken_files_of_all_kinds_name_the_row(kind, tmp_path):
    frame, path = changed("day", "monday"), tmp_path / f"a.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    with pytest.raises(DataError, match=rf"must hold dates .*'monday' at row 5 .*a\.{kind}"):
        read(path)


def test_text_among_the_values_of_a_file_is_named(tmp_path):
    changed("celsius", "warm").to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match=r"`value` must be numeric, got 'warm' at row 5 .*a\.csv"):
        read(tmp_path / "a.csv")


def test_two_rows_of_one_time_and_site_are_both_named(tmp_path):
    frame = field_frame()
    frame = pd.concat([frame, frame[ROW : ROW + 1]], ignore_index=True)
    day, city = frame.day[ROW], frame.city[ROW]
    message = rf"one row for each .*, got {day} and '{city}' at row 15 again, after row 5"
    with pytest.raises(DataError, match=message):
        read(frame)
    with pytest.raises(DataError, match=message):  # whether a model knows the site or not
        read(frame, sites=["Atlantis"])
    frame[:8].to_csv(tmp_path / "a.csv", index=False)
    frame[8:].to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(DataError, match=r"at row 7 in .*b\.csv again, after row 5 in .*a\.csv"):
        read(tmp_path)


def test_the_same_moment_written_twice_is_a_repeat():
    frame = field_frame()
    frame = pd.concat([frame, frame[ROW : ROW + 1]], ignore_index=True)
    frame.loc[15, "day"] = frame.day[ROW] + "T02:00+02:00"
    with pytest.raises(DataError, match="must have one row for each time and site"):
        read(frame)


def test_a_site_that_moves_is_named_with_both_places():
    frame = field_frame()
    city = frame.city[ROW]
    rows = frame.index[frame.city == city]
    frame.loc[rows[-1], "lat"] += 1e-9
    message = rf"stay the same for a site, got \(.*\) for '{city}' at row {rows[-1]}, after .* at"
    with pytest.raises(DataError, match=rf"{message} row {rows[0]} \(1 of 15 rows\)"):
        read(frame)
    with pytest.raises(DataError, match=message):
        read(frame, sites=["Atlantis"])


def test_swapped_columns_are_seen_where_they_can_be():
    with pytest.raises(DataError, match=r"latitude .* got -165\.41 .*Latitude comes first"):
        read(field_frame(), coordinates=["lon", "lat"])


@pytest.mark.parametrize("argument", ["time", "site", "value"])
def test_a_column_that_is_not_there_is_named_with_those_that_are(argument):
    with pytest.raises(DataError, match=rf"`{argument}` must name a column .*'where'.*'day', "):
        read(field_frame(), **{argument: "where"})


def test_a_coordinate_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match="`coordinates` must name a column .* got 'height'"):
        read(field_frame(), coordinates=["lat", "height"])
    field_frame().to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="`coordinates` must name a column .* got 'height'"):
        read(tmp_path / "a.csv", coordinates=["lat", "height"])
    with pytest.raises(DataError, match="`coordinates` must name at least one column, got none"):
        read(field_frame(), coordinates=[])


def test_columns_of_other_kinds_are_refused():
    frame = field_frame()
    with pytest.raises(DataError, match="`value` must be numeric, got 'warm' at row 0 .* Convert"):
        read(frame.assign(celsius="warm"))
    with pytest.raises(DataError, match="`coordinates` must be numeric, got 'north' at row 0"):
        read(frame.assign(lat="north"))
    with pytest.raises(DataError, match="`site` must hold labels .*whole num.* got 0.5 at row 0"):
        read(frame.assign(city=0.5))
    with pytest.raises(DataError, match="`site` must hold labels .* Convert the column first"):
        read(frame.assign(city=pd.to_datetime(frame.day)))
    with pytest.raises(DataError, match="`time` must be times .* got True at row 0"):
        read(frame.assign(day=True))
    with pytest.raises(DataError, match="`time` must be times .* got .* Convert the column first"):
        read(frame.assign(day=pd.Timedelta("1h")))
    with pytest.raises(DataError, match="`time` must be finite, got inf at row 0 of column 'day'"):
        read(frame.assign(day=np.inf))


def test_data_without_rows_or_values_are_refused(tmp_path):
    with pytest.raises(DataError, match="`data` must have at least one row, got none"):
        read(field_frame()[:0])
    (tmp_path / "a.csv").write_text("day,city,lat,lon,celsius\n")
    with pytest.raises(DataError, match=r"at least one row, got none in .*a\.csv"):
        read(tmp_path / "a.csv")
    for nothing in (np.nan, None, -99):
        frame = field_frame().assign(celsius=nothing)
        with pytest.raises(DataError, match="`value` must be observed at least once, got none in"):
            read(frame)


def test_columns_must_be_of_one_length():
    frame = {name: column.tolist() for name, column in field_frame().items()}
    frame["lat"].pop()
    with pytest.raises(DataError, match="`coordinates` must have as many rows .* 15, got 14"):
        read(frame)


def test_what_is_no_data_is_refused():
    with pytest.raises(DataError, match="`frame` must be a pandas or polars frame"):
        read(7)
    with pytest.raises(DataError, match="`source` must name a file"):
        read("no such file.csv")


def test_arguments_are_checked():
    frame = field_frame()
    with pytest.raises(ExfamError, match="`metric` must be one of 'euclidean', 'haversine'"):
        read(frame, metric="manhattan")
    with pytest.raises(DataError, match="`coordinates` must name two columns, latitude and"):
        read(frame, coordinates="lat")
    with pytest.raises(DataError, match="`value` must not be named 'time', which a field"):
        read(frame.rename(columns={"celsius": "time"}), value="time")
    for sites in (["Oslo", "Oslo"], [["Oslo"]], "Oslo"):
        with pytest.raises(DataError, match="`sites` must be labels, each once, got"):
            read(frame, sites=sites)
    for missing in ("none", np.nan, [[1]], None):
        with pytest.raises(DataError, match="`missing` must be a number or several, such as -99"):
            read(frame, missing=missing)


def test_other_groups_are_no_field():
    baskets = Groups(start=[0], stop=[2], item=[0, 1])
    with pytest.raises(DataError, match="got none of coordinates, position, time, value. Make"):
        check_field(baskets)
    with pytest.raises(DataError, match="`groups` must be a field"):
        field_facts(baskets)
