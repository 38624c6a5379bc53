import datetime

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

from exfam.fields.data import FieldFacts, check_field, field_facts, read_field_with_facts
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
from reading.cases import write_csv, write_folder, write_json, write_parquet

FIRST_DAY = 13787  # 2007-10-01 in days since 1970-01-01


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
    np.testing.assert_array_equal(groups.position, groups.attributes["coordinates"])
    assert groups.group_names.astype(str).tolist() == DAYS


def test_elements_come_by_time_and_then_by_site_and_know_their_row():
    frame = field_frame()
    groups = read(frame)
    assert (np.diff(groups.group_attributes["time"]) > 0).all()
    for g in range(len(groups)):
        assert (np.diff(groups.item[groups.start[g] : groups.stop[g]]) > 0).all()
    city = groups.vocabulary["item"][groups.item]
    assert frame.city[groups.source_row].tolist() == city.tolist()
    assert sorted(groups.source_row) == list(range(len(frame)))


def test_a_batch_shows_nothing_that_is_not_observed():
    groups = read(field_frame())
    batch = groups.pad(np.arange(len(groups)))
    assert batch.values["celsius"][~batch.observed].abs().max() == 0
    assert batch.attributes["coordinates"].shape == (4, 4, 2)
    assert batch.group_attributes["time"].shape == (4, 1)
    assert batch.observed.sum() == 8 and batch.target.sum() == 15


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_rows_changes_nothing(seed):
    frame = field_frame()
    shuffled = frame.sample(frac=1, random_state=seed)
    assert shuffled.index.tolist() != frame.index.tolist()
    ours, theirs = read(frame), read(shuffled)
    assert_same_field(ours, theirs, but=["source_row"])
    assert shuffled.index[theirs.source_row].tolist() == ours.source_row.tolist()


def with_timestamps(frame):
    return frame.assign(day=pd.to_datetime(frame.day).dt.tz_localize("UTC"))


# Other forms of files are those of `exfam.read`.
FORMS = {
    "polars": lambda frame, _: polars.from_pandas(frame),
    "mapping": lambda frame, _: {name: frame[name].tolist() for name in frame},
    "categories": lambda frame, _: frame.assign(city=frame.city.astype("category")),
    "dates": lambda frame, _: frame.assign(day=pd.to_datetime(frame.day).dt.date),
    "timestamps": lambda frame, _: frame.assign(day=pd.to_datetime(frame.day)),
    "folder": lambda frame, folder: write_folder(frame.to_dict("list"), folder / "maps"),
    "json lines": lambda frame, folder: write_json(frame, folder / "a.jsonl"),
    "timestamps in parquet": lambda frame, folder: write_parquet(
        with_timestamps(frame).to_dict("list"), folder / "a.parquet"
    ),
    "query": lambda frame, folder: f"FROM read_csv('{write_csv(frame, folder / 'a.csv')}')",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_data_gives_the_same_field(form, tmp_path):
    frame = field_frame()
    want, facts = read_facts(frame)
    groups, found = read_facts(FORMS[form](frame, tmp_path))
    assert_same_field(want, groups)
    assert facts == found


def moments(times, **changes):
    n = len(times)
    frame = {"when": times, "site": ["a"] * n, "x": [0.0] * n, "y": np.arange(n)}
    columns = dict(time="when", site="site", coordinates="x", value="y", metric="euclidean")
    return read_field_with_facts(frame, **columns | changes)[0]


@pytest.mark.parametrize(
    ("times", "want"),
    [
        (["1970-01-02T06:00", "1970-01-02 18:00:00", "1970-01-03"], [1.25, 1.75, 2.0]),
        (["1970-01-02T00:00Z", "1970-01-02T01:00-02:00"], [1.0, 1.125]),
        (["1970-01-02T00:00:00.500000"], [1 + 0.5 / 86400]),
        (["1969-12-31"], [-1.0]),
        ([3, -1, 2], [-1.0, 2.0, 3.0]),
        ([0.5, 0.25], [0.25, 0.5]),
        ([np.datetime64("1970-01-02T12", "ns")], [1.5]),
        ([datetime.date(1970, 1, 2)], [1.0]),
        (np.array([4, 2], dtype=np.uint64), [2.0, 4.0]),
    ],
)
def test_times_of_all_kinds_become_numbers(times, want):
    groups = moments(times)
    assert groups.group_attributes["time"].tolist() == pytest.approx(want, abs=1e-11)
    assert len(groups.group_names) == len(want)


def test_a_zone_is_brought_to_universal_time():
    zoned = pd.to_datetime(["2007-10-01 23:30", "2007-10-02 00:30"]).tz_localize("America/New_York")
    plain = zoned.tz_convert("UTC").tz_localize(None)
    assert_same_field(moments(zoned), moments(plain))
    assert moments(zoned).group_names.astype(str)[0] == "2007-10-02T03:30:00.000000"


def test_nearby_moments_are_two_times():
    assert len(moments(["2007-10-01T00:00:00.000001", "2007-10-01T00:00:00.000002"])) == 2


def test_names_are_dates_and_numbers_as_they_are():
    assert moments(["2007-10-01"]).group_names.dtype == np.dtype("datetime64[D]")
    assert moments(["2007-10-01T12:00"]).group_names.dtype == np.dtype("datetime64[us]")
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
    assert facts.n_observed + facts.n_missing + facts.n_sentinel == facts.n_rows
    assert facts.n_rows + facts.n_absent == facts.n_times * facts.n_sites


def test_facts_read_as_sentences():
    text = str(read_facts(field_frame())[1])
    assert text.splitlines() == [
        "4 times x 4 sites: 15 rows, 1 absent",
        "8 values observed, 5 missing, 2 declared missing",
        "times without values: 2007-10-03",
        "sites without values: Nome",
    ]
    many = FieldFacts(n_rows=7, n_times=7, n_sites=1, n_observed=0, new_sites=tuple("abcdefg"))
    assert str(many).endswith("new sites: a, b, c, d, e and 2 more")


def test_groups_know_the_facts_but_for_what_was_declared():
    groups, facts = read_facts(field_frame())
    found = field_facts(groups)
    assert found.n_missing == facts.n_missing + facts.n_sentinel
    assert found.sites_without_values == facts.sites_without_values
    assert found.n_absent == facts.n_absent
    part = field_facts(groups[:2])
    assert (part.n_rows, part.n_times, part.n_observed) == (7, 2, 5)


def test_several_numbers_may_stand_for_nothing():
    frame = field_frame()
    row = frame.index[frame.celsius > -50][0]
    frame.loc[row, "celsius"] = -999
    assert read_facts(frame, missing=(-99, -999))[1].n_sentinel == 3
    assert read_facts(frame, missing=-99)[1].n_sentinel == 2
    frame.loc[row, "celsius"] = np.inf
    assert read_facts(frame, missing=(-99, np.inf))[1].n_sentinel == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_for_nothing_is_found_in_its_column_s_precision(dtype):
    frame = field_frame()
    frame["celsius"] = frame.celsius.replace(-99, -99.9).astype(dtype)
    assert read_facts(frame, missing=-99.9)[1].n_sentinel == 2


@pytest.mark.parametrize("dtype", ["int8", "bool", "Int64", "decimal"])
def test_values_of_all_kinds_of_numbers_are_floats(dtype):
    values = np.arange(15) % 2
    column = pa.array(values).cast(pa.decimal128(21, 1)) if dtype == "decimal" else values
    frame = {name: field_frame()[name] for name in ("day", "city", "lat", "lon")}
    frame["celsius"] = column if dtype == "decimal" else pd.Series(values).astype(dtype)
    groups = read(frame)
    assert groups.observed is None
    assert groups.values["celsius"].dtype == np.float64
    np.testing.assert_array_equal(groups.values["celsius"], values[groups.source_row])


def test_known_sites_keep_their_codes_and_new_ones_come_last():
    frame = field_frame()
    known = np.array(["Rome", "Atlantis", "Bonn"], dtype=object)
    groups, facts = read_facts(frame, sites=known)
    assert facts.new_sites == ("Nome", "Oslo")
    assert facts.sites_without_values == ("Nome",)
    assert facts.n_sites == 4
    np.testing.assert_array_equal(groups.vocabulary["item"], known)
    city = frame.city[groups.source_row].to_numpy()
    np.testing.assert_array_equal(groups.item == -1, np.isin(city, ["Nome", "Oslo"]))
    assert city[: groups.stop[0]].tolist() == ["Rome", "Bonn", "Nome", "Oslo"]
    places = dict.fromkeys(map(tuple, groups.position[groups.item == -1].tolist()))
    assert list(places) == [PLACES["Nome"], PLACES["Oslo"]]
    assert field_facts(groups).n_sites == 4
    assert set(field_facts(groups).new_sites) == {PLACES["Nome"], PLACES["Oslo"]}


def test_known_sites_are_found_in_files_by_their_kind(tmp_path):
    frame = field_frame()
    frame["city"] = [f"0{list(PLACES).index(city)}" for city in frame.city]
    for known, n_new in ((np.array([0, 1]), 4), (np.array(["00", "01"]), 2)):
        assert (
            len(read_facts(write_csv(frame, tmp_path / "a.csv"), sites=known)[1].new_sites) == n_new
        )


def test_a_field_to_be_predicted_may_be_without_values():
    frame = field_frame().assign(celsius=None)
    groups, facts = read_facts(frame, sites=sorted(PLACES))
    assert facts.n_observed == 0
    assert not groups.observed.any()


def test_two_sites_may_be_at_one_place():
    frame = field_frame()
    frame.loc[frame.city == "Bonn", ["lat", "lon"]] = PLACES["Oslo"]
    assert read_facts(frame)[1].n_sites == 4


def test_plain_space_has_any_number_of_coordinates():
    frame = field_frame().assign(height=lambda rows: rows.lat * 100)
    groups = read(frame, coordinates=("lat", "lon", "height"), metric="euclidean")
    assert groups.attributes["coordinates"].shape == (15, 3)


def test_fields_survive_what_groups_go_through():
    groups = read(field_frame())
    whole = Groups.concatenate([groups[:1], groups[1:]])
    assert cells(whole) == cells(groups) == cells(Groups.from_arrow(groups.to_arrow()))
    assert sum(len(part) for part in groups.chunks(5)) == 4
    parts = groups.split((0.5, 0.5), seed=0)
    assert {**cells(parts[0]), **cells(parts[1])} == cells(groups)
    assert len(groups.to_frame()) == 15


def test_forty_seven_cities_with_their_eleven_gaps(data_folder):
    path = data_folder / "temperature" / "us_city_temperature_october_47.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not among the public data sets")
    frame = pd.read_csv(path)
    frame["day"] = [f"{r.year}-{r.month:02}-{r.day:02}" for r in frame.itertuples()]
    frame["city"] = frame.city + ", " + frame.state
    columns = COLUMNS | {"value": "temperature_f"}
    groups, facts = read_field_with_facts(frame, **columns)
    assert (facts.n_rows, facts.n_times, facts.n_sites) == (18_941, 403, 47)
    assert (facts.n_sentinel, facts.n_missing, facts.n_absent) == (11, 0, 0)
    gaps = groups.vocabulary["item"][groups.item[~groups.observed]]
    cities, counts = np.unique(gaps.astype(str), return_counts=True)
    assert dict(zip([city.split(",")[0] for city in cities], counts.tolist(), strict=True)) == {
        "Bridgeport": 4,
        "Phoenix": 5,
        "Rapid City": 2,
    }
    assert np.nanmin(groups.values["temperature_f"]) > -20
    query = (
        "SELECT city || ', ' || state AS city, make_date(year, month, day) AS day, lat, lon, "
        f"temperature_f FROM read_csv('{path}')"
    )
    assert_same_field(groups, read_field_with_facts(query, **columns)[0])
