"""Every form of data reads alike, and duplicates are found in all of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exfam
from exfam.checks import DataError
from exfam.columns.parts import FrameColumns
from exfam.groups import Groups
from exfam.reading import sorting
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
    write_folder,
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


REPEATED = {
    "user": ["a", "b", "a", "b", "a", "a"],
    "time": [1, 1, 1, 1, 2, 1],
    "movie": ["x", "x", "x", "y", "x", "x"],
    "stars": [1.0, None, 1.0, None, 1.0, 1.0],
}
NAMED = {"group": "user", "order": "time", "item": "movie", "value": "stars"}


@pytest.fixture(params=[1 << 18, 2, 1], ids="batches of {}".format)
def small_batches(request, monkeypatch):
    """Runs of equal rows end anywhere in what DuckDB hands over."""
    monkeypatch.setattr(sorting, "ROWS_A_BATCH", request.param)


def test_two_equal_rows_are_named(small_batches, tmp_path):
    match = "`duplicates` must be 'drop' or 'keep' where rows are equal in all columns read, got ro"
    with pytest.raises(DataError, match=match):
        exfam.read(REPEATED, **NAMED, **FEW)
    match = r"got row 0 in .*part-2\.csv equal to row 0 in .*part-1\.csv in 'user'"
    with pytest.raises(DataError, match=match):
        exfam.read(write_folder(REPEATED, tmp_path / "a"), **NAMED, **FEW)


def test_missing_values_are_equal_and_other_columns_do_not_count(small_batches):
    rows = {"user": [1, 1], "stars": [None, None], "note": ["x", "y"]}
    with pytest.raises(DataError, match="got row 1 equal to row 0 in 'user', 'stars'"):
        exfam.read(rows, group="user", value="stars", **FEW)
    assert exfam.read(rows, group="user", value="stars", item="note", **FEW).n_elements == 2


def test_labels_that_a_vocabulary_lacks_are_no_duplicates(small_batches):
    rows = {"user": [1, 1, 1], "movie": ["x", "y", "z"]}
    given = {"group": "user", "item": "movie", "vocabulary": {"item": ["z"]}}
    assert exfam.read(rows, **given, unknown="unk", **FEW).item.tolist() == [-1, -1, 0]
    rows["movie"][1] = "x"
    groups = exfam.read(rows, **given, unknown="ignore", **FEW)
    assert groups.item.tolist() == [0] and groups.ignored.tolist() == [2]


def facts_of(rows, duplicates, **columns):
    options = ReadingOptions(duplicates=duplicates, threads=1)
    return read_with_facts(rows, FrameColumns(**columns), options=options)


@st.composite
def tables(draw):
    n = draw(st.integers(1, 30))
    few = st.integers(0, 2)
    columns = {
        name: draw(st.lists(few, min_size=n, max_size=n)) for name in ("user", "time", "movie")
    }
    stars = st.sampled_from([0.0, -0.0, 1.5, None])
    return columns | {"stars": draw(st.lists(stars, min_size=n, max_size=n))}


@given(
    table=tables(),
    order=st.sampled_from([None, "time"]),
    rows=st.integers(1, 9),
    longest=st.sampled_from([0, 1 << 21]),
)
@settings(max_examples=16)
def test_dropping_is_what_pandas_drops(table, order, rows, longest):
    """Also where equal rows of long groups are found by DuckDB."""
    frame = pd.DataFrame(table).astype({"stars": float})
    columns = {"group": "user", "order": order, "item": "movie", "value": "stars"}
    read = [name for name in ("user", order, "movie", "stars") if name]
    firsts = frame[~frame[read].duplicated()]
    expected = Groups.from_frame(firsts, **columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "ROWS_A_BATCH", rows)
        patch.setattr(sorting, "LONGEST_RUN", longest)
        dropped, facts = facts_of(frame, "drop", **columns)
        kept, _ = facts_of(frame, "keep", **columns)
    rows_of_frame = firsts.index.to_numpy()[expected.source_row]
    assert_identical(dropped, expected.with_(source_row=rows_of_frame))
    assert facts.duplicates == len(frame) - len(firsts)
    assert_identical(kept, Groups.from_frame(frame, **columns))


def test_a_source_that_changes_while_it_is_read(tmp_path, monkeypatch):
    path = write_csv(REPEATED, tmp_path / "a.csv")
    batches = sorting.Database.batches

    def without_the_last(self, query, *, rows):
        yield from list(batches(self, query, rows=1))[:-1]

    monkeypatch.setattr(sorting.Database, "batches", without_the_last)
    match = r"`source` must not change while it is read, got 5 rows after 6 in .*a\.csv"
    with pytest.raises(DataError, match=match):
        exfam.read(path, **NAMED, duplicates="keep", **FEW)


def test_group_attributes_vary_wherever_rows_are_cut(small_batches):
    rows = {"user": ["a", "b", "a", "a"], "age": [30, 41, 30, 31]}
    columns = {"group": "user", "group_attributes": "age", "duplicates": "keep"}
    with pytest.raises(DataError, match="a second value of 'age' in group 'a' at row 3"):
        exfam.read(rows, **columns, **FEW)
    groups = exfam.read(rows | {"age": [30, 41, 30, 30]}, **columns, **FEW)
    assert groups.group_attributes["age"].tolist() == [30, 41]
