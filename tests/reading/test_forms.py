"""The same rows in every form are the same Groups."""

import numpy as np
import pytest

import exfam
from exfam.columns.parts import FrameColumns
from exfam.groups import Groups
from exfam.reading.database import ReadingOptions
from exfam.reading.reader import read_with_facts
from group_cases import FRAME
from reading.cases import (
    COLUMNS,
    FEW,
    FORMS,
    ROWS,
    assert_identical,
    halves,
    read,
    write_csv,
    write_json,
    write_parquet,
)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_reads_as_the_frame_does(form, tmp_path):
    assert_identical(read(**form(ROWS, tmp_path)), Groups.from_frame(ROWS, **COLUMNS))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_vocabulary_gives_the_codes_in_every_form(form, tmp_path):
    given = {"item": ["jaws", "007", "up"], "genre": ["sf", "kids"]}
    for unknown in ("ignore", "unk"):
        expected = Groups.from_frame(ROWS, **COLUMNS, vocabulary=given, unknown=unknown)
        (to := tmp_path / unknown).mkdir()
        groups = read(**form(ROWS, to), vocabulary=given, unknown=unknown)
        assert_identical(groups, expected)


@pytest.mark.parametrize("options", [{}, FEW, {"memory_limit": "100MB"}], ids=str)
def test_options_of_work_change_nothing(options):
    groups = exfam.read(FRAME, group="user", order="time", item="movie", **options)
    assert_identical(groups, Groups.from_frame(FRAME, group="user", order="time", item="movie"))


def test_only_the_columns_named_are_read():
    nothing = {"order": None, "item": None, "value": None, "attributes": (), "position": None}
    groups = read(ROWS, **nothing, duplicates="keep")
    assert groups.columns == ("age",)
    assert groups.item is None and groups.position is None and groups.observed is None
    assert groups.lengths.tolist() == [3, 2, 1]


def test_rows_are_counted_over_all_files(tmp_path):
    source = FORMS["folder of csv"](ROWS, tmp_path)["source"]
    groups = read(source)
    assert sorted(groups.source_row.tolist()) == list(range(6))
    parts = [len(part["user"]) for part in halves(ROWS)]
    assert parts == [2, 4]
    alone = read(source / "part-2.csv")
    np.testing.assert_array_equal(
        np.sort(alone.source_row + parts[0]), np.sort(groups.source_row[groups.source_row >= 2])
    )


def test_columns_go_where_allocate_says():
    arrays = {}

    def allocate(name, dtype, shape):
        arrays[name] = np.zeros(shape, dtype)
        return arrays[name]

    groups, _ = read_with_facts(
        FRAME,
        FrameColumns("user", "time", "movie", "stars", ["genre", "gap"], "age", ["time", "gap"]),
        options=ReadingOptions(threads=1),
        allocate=allocate,
    )
    names = ("item", "position", "observed", "source_row", "tied")
    expected = {name: getattr(groups, name) for name in names}
    expected |= {"values.stars": groups.values["stars"]}
    expected |= {f"attributes.{name}": groups.attributes[name] for name in ("genre", "gap")}
    assert arrays.keys() == expected.keys()
    for name, column in expected.items():
        assert np.shares_memory(column, arrays[name]), name
    assert groups.item.dtype == np.int32 and groups.source_row.dtype == np.int64


def test_facts_count_what_reading_came_across():
    rows = {
        "user": ["a", "a", "b", "a", "b", "a"],
        "time": [1, 1, 1, 1, 1, 2],
        "movie": ["x", "y", "x", "x", "z", "y"],
        "stars": [1.0, None, 2.0, 1.0, None, 3.0],
    }
    columns = FrameColumns("user", "time", "movie", "stars")
    _, facts = read_with_facts(
        rows,
        columns,
        options=ReadingOptions(duplicates="drop", threads=1),
        vocabulary={"item": ["x", "y"]},
        unknown="ignore",
    )
    assert (facts.rows, facts.groups, facts.items) == (6, 2, 2)
    # Row 3 repeats row 0, z is unknown; then of a's rows at time 1 two are left.
    assert (facts.duplicates, facts.unknown, facts.ties, facts.unobserved) == (1, 1, 1, 1)
    _, facts = read_with_facts(
        rows, FrameColumns("user"), options=ReadingOptions(duplicates="keep", threads=1)
    )
    assert (facts.items, facts.ties, facts.unknown) == (0, 0, 0)


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "it's a", "\u4e2d \u00e9"])
@pytest.mark.parametrize("writer", [write_csv, write_json, write_parquet])
def test_a_name_is_no_pattern(writer, name, tmp_path):
    folder = tmp_path / "user=1"
    folder.mkdir()
    ending = {write_csv: ".csv", write_json: ".jsonl", write_parquet: ".parquet"}[writer]
    for user in ("a1", "ab", name):
        writer({"user": [user], "movie": ["x"]}, folder / f"{user}{ending}")
    groups = exfam.read(folder / f"{name}{ending}", group="user", **FEW)
    assert groups.group_names.tolist() == [name]
