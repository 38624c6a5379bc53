"""The same rows in every form are the same Groups."""

import numpy as np
import pytest

import exfam
from exfam.columns.parts import FrameColumns
from exfam.groups import Groups
from exfam.reading.database import ReadingOptions
from exfam.reading.reader import read_with_facts
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
def test_every_form_reads_as_the_frame_does_with_codes_of_its_own_or_given(form, tmp_path):
    given = {"item": ["jaws", "007", "up"], "genre": ["sf", "kids"]}
    for options in ({}, *({"vocabulary": given, "unknown": how} for how in ("ignore", "unk"))):
        (to := tmp_path / options.get("unknown", "own")).mkdir()
        expected = Groups.from_frame(ROWS, **COLUMNS, **options)
        assert_identical(read(**form(ROWS, to), **options), expected)


def test_only_the_columns_named_are_read():
    nothing = {"order": None, "item": None, "value": None, "attributes": (), "position": None}
    groups = read(ROWS, **nothing, duplicates="keep")
    assert groups.columns == ("age",)
    assert groups.item is None and groups.position is None and groups.observed is None
    assert groups.lengths.tolist() == [3, 2, 1]


def test_rows_are_counted_over_all_files(tmp_path):
    source = FORMS["folder of csv"](ROWS, tmp_path)["source"]
    rows = np.sort(read(source).source_row)
    assert rows.tolist() == list(range(6))
    alone = read(source / "part-2.csv").source_row
    np.testing.assert_array_equal(np.sort(alone) + len(halves(ROWS)[0]["user"]), rows[2:])


def test_facts_count_what_reading_came_across():
    rows = {
        "user": ["a", "a", "b", "a", "b", "a"],
        "time": [1, 1, 1, 1, 1, 2],
        "movie": ["x", "y", "x", "x", "z", "y"],
        "stars": [1.0, None, 2.0, 1.0, None, 3.0],
    }
    given = {"vocabulary": {"item": ["x", "y"]}, "unknown": "ignore"}
    columns = FrameColumns("user", "time", "movie", "stars")
    options = ReadingOptions(duplicates="drop", threads=1)
    _, facts = read_with_facts(rows, columns, options=options, **given)
    assert (facts.rows, facts.groups, facts.items) == (6, 2, 2)
    # Row 3 repeats row 0, z is unknown; then of a's rows at time 1 two are left.
    assert (facts.duplicates, facts.unknown, facts.ties, facts.unobserved) == (1, 1, 1, 1)


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "it's a", "\u4e2d \u00e9"])
def test_a_name_is_no_pattern(name, tmp_path):
    (folder := tmp_path / "user=1").mkdir()
    writers = {".csv": write_csv, ".jsonl": write_json, ".parquet": write_parquet}
    for ending, writer in writers.items():
        for user in ("a1", "ab", name):
            writer({"user": [user], "movie": ["x"]}, folder / f"{user}{ending}")
        groups = exfam.read(folder / f"{name}{ending}", group="user", **FEW)
        assert groups.group_names.tolist() == [name]
