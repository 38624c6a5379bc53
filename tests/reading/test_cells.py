"""What the cells of a CSV file, and the values of others, are taken for."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exfam
from exfam.checks import DataError, UnknownItemError
from exfam.groups import Groups
from reading.cases import FEW, assert_identical, write_csv, write_json, write_parquet


def column(path, cells, **options):
    """A CSV file with these cells beside a column of groups; more columns by name."""
    path.write_text("g,x\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    return exfam.read(path, group="g", **options, **FEW)


LABELS = {
    "leading zeros": (["007", "7", "08"], ["007", "08", "7"]),
    "whole numbers": (["10", "9", "-3"], [-3, 9, 10]),
    "beyond 2**53": (["9007199254740993", "9007199254740992"], [2**53, 2**53 + 1]),
    "the largest": ([str(2**63 - 1), str(-(2**63))], [-(2**63), 2**63 - 1]),
    "too many bits": ([str(2**63), "1"], ["1", str(2**63)]),
    "signs": (["+7", "7"], ["+7", "7"]),
    "decimal points": (["1.0", "2.5"], ["1.0", "2.5"]),
    "exponents": (["1e5", "2"], ["1e5", "2"]),
    "underscores": (["1_000", "2"], ["1_000", "2"]),
    "one that is text": (["1", "2", "x"], ["1", "2", "x"]),
    "spaces": ([" 7", "7"], [" 7", "7"]),
    "words for nothing": (["NA", "null", "nan"], ["NA", "nan", "null"]),
    "dates": (["2024-01-02", "2024-01-01"], ["2024-01-01", "2024-01-02"]),
    "truth": (["True", "False"], [False, True]),
    "lower truth": (["true", "false"], [False, True]),
    "truth among others": (["true", "yes"], ["true", "yes"]),
    "quoted": (['"a,b"', '"say ""hi"""'], ["a,b", 'say "hi"']),
    "many scripts": (["\u00e9", "\u4e2d", "\U0001f600"], ["\u00e9", "\u4e2d", "\U0001f600"]),
}


@pytest.mark.parametrize("cells, labels", LABELS.values(), ids=LABELS.keys())
def test_labels_survive_a_csv_file(cells, labels, tmp_path):
    groups = column(tmp_path / "a.csv", cells, item="x")
    assert groups.vocabulary["item"].tolist() == labels
    assert [type(label) for label in groups.vocabulary["item"].tolist()] == [
        type(label) for label in labels
    ]
    of_text = {str(label): k for k, label in enumerate(labels)}
    if isinstance(labels[0], str) and '"' not in cells[0]:
        assert groups.item.tolist() == [of_text[cell] for cell in cells]


def test_a_vocabulary_says_what_labels_are(tmp_path):
    path = tmp_path / "a.csv"
    text = {"vocabulary": {"item": np.array(["7", "8", "x"], dtype=object)}}
    assert column(path, ["7", "8"], item="x", **text).item.tolist() == [0, 1]
    whole = {"vocabulary": {"item": np.array([8, 7])}}
    assert column(path, ["7", "8"], item="x", **whole).item.tolist() == [1, 0]
    # A frame with gaps once made floats of them.
    assert column(path, ["7.0", "8.0"], item="x", **whole).item.tolist() == [1, 0]
    # One that is no number does not make text of the others.
    groups = column(path, ["8", "up", "7", "007"], item="x", **whole, unknown="unk")
    assert groups.item.tolist() == [0, -1, 1, -1]
    with pytest.raises(UnknownItemError, match="got '007' at row 0"):
        column(path, ["007", "8"], item="x", **whole)
    truth = {"vocabulary": {"x": [True, False]}}
    assert column(path, ["true", "false"], attributes="x", **truth).attributes["x"].tolist() == [
        0,
        1,
    ]
    codes = {"vocabulary": {"x": ["1", "2"]}}
    assert column(path, ["2", "1"], attributes="x", **codes).attributes["x"].tolist() == [1, 0]


VALUES = {
    "whole": (["1", "-2"], [1, -2], np.int64),
    "real": (["1", "2.5", ".5", "1e-3"], [1, 2.5, 0.5, 1e-3], np.float64),
    "gaps": (["1", "", "NA", "NaN", "null", '""'], [1, *[np.nan] * 5], np.float64),
    "only gaps": (["", "NA"], [np.nan, np.nan], np.float64),
    "spaces and zeros": ([" 7", "007", "+7"], [7, 7, 7], np.float64),
    "truth": (["true", "false"], [1, 0], np.int64),
    "all digits": (["0.1", "0.30000000000000004"], [0.1, 0.1 + 0.2], np.float64),
}


@pytest.mark.parametrize("cells, values, dtype", VALUES.values(), ids=VALUES.keys())
def test_values_of_a_csv_file_are_numbers_or_missing(cells, values, dtype, tmp_path):
    groups = column(tmp_path / "a.csv", cells, value="x")
    assert groups.values["x"].dtype == dtype
    np.testing.assert_array_equal(groups.values["x"], values)
    if np.isnan(values).any():
        np.testing.assert_array_equal(groups.observed, ~np.isnan(values))


def test_attributes_are_numbers_or_labels(tmp_path):
    path = tmp_path / "a.csv"
    assert column(path, ["1", "2.5"], attributes="x").attributes["x"].tolist() == [1, 2.5]
    assert column(path, ["1", "2"], attributes="x").attributes["x"].dtype == np.float64
    zips = column(path, ["02134", "10001"], attributes="x")
    assert zips.vocabulary["x"].tolist() == ["02134", "10001"]
    assert column(path, ["1", "3+"], attributes="x").vocabulary["x"].tolist() == ["1", "3+"]
    assert column(path, ["True", "False"], attributes="x").vocabulary["x"].tolist() == [False, True]
    with pytest.raises(DataError, match="`attributes` must not be missing, got nothing at row 1"):
        column(path, ["1", "NA"], attributes="x")


ORDERS = {
    "numbers": (["10", "9", "-1.5"], [2, 1, 0]),
    "beyond 2**53": (["9007199254740993", "9007199254740992", "9"], [2, 1, 0]),
    "days": (["2024-10-02", "2024-09-30", "2023-12-31"], [2, 1, 0]),
    "moments": (["2024-01-01T10:00:00", "2024-01-01T09:59:59", "2024-01-01"], [2, 1, 0]),
    "names": (["t10", "t9", "t8"], [2, 1, 0]),
    "ties": (["7", "7.0", "1e0"], [2, 0, 1]),
}


@pytest.mark.parametrize("cells, rows", ORDERS.values(), ids=ORDERS.keys())
def test_orders_sort_as_what_they_are(cells, rows, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("g,x,k\n" + "".join(f"one,{cell},{k}\n" for k, cell in enumerate(cells)))
    groups = exfam.read(path, group="g", order="x", item="k", **FEW)
    assert groups.source_row.tolist() == rows


def test_a_column_may_play_several_parts(tmp_path):
    rows = {"g": [1, 1, 2], "x": [3, 1, 2]}
    columns = {"group": "g", "order": "x", "item": "x", "value": "x", "position": "x"}
    expected = Groups.from_frame(rows, **columns)
    for writer, name in ((write_csv, "a.csv"), (write_json, "a.jsonl"), (write_parquet, "a.pq")):
        assert_identical(exfam.read(writer(rows, tmp_path / name), **columns, **FEW), expected)


def test_names_may_be_anything_that_a_header_can_hold(tmp_path):
    rows = {'the "user"\'s, id': ["a", "b"], "row": [3, 4], "select": ["x", "y"], "": [1, 2]}
    rows |= {"file_row_number": [9, 8]}
    columns = {"group": 'the "user"\'s, id', "item": "select", "value": ["row", "file_row_number"]}
    expected = Groups.from_frame(rows, **columns)
    for writer, name in ((write_csv, "a.csv"), (write_json, "a.jsonl"), (write_parquet, "a.pq")):
        assert_identical(exfam.read(writer(rows, tmp_path / name), **columns, **FEW), expected)


def test_cells_may_hold_line_ends(tmp_path):
    rows = {"g": ["a\nb", "c", "a\nb"], "x": [1, 2, 3]}
    groups = exfam.read(write_csv(rows, tmp_path / "a.csv"), group="g", value="x", **FEW)
    assert groups.group_names.tolist() == ["a\nb", "c"]
    assert groups.source_row.tolist() == [0, 2, 1]


def test_nan_is_missing_wherever_it_comes_from(tmp_path):
    rows = {"g": [1, 1], "y": [2.5, math.nan], "x": pa.array([3.0, math.nan], pa.float32())}
    path = write_parquet(rows, tmp_path / "a.parquet")
    for source in (path, f"FROM '{path}'", rows):
        groups = exfam.read(source, group="g", value="y", **FEW)
        assert groups.observed.tolist() == [True, False]
        for part in ("item", "order", "attributes", "position"):
            match = f"`{part}` must not be missing, got nothing at row 1 of column 'x'"
            with pytest.raises(DataError, match=match):
                exfam.read(source, group="g", **{part: "x"}, **FEW)


TIMES = {
    "date": pa.array([2, 1, 3], pa.date32()),
    "seconds": pa.array([2, 1, 3], pa.timestamp("s")),
    "nanoseconds": pa.array([2, 1, 3], pa.timestamp("ns")),
    "zone": pa.array([2, 1, 3], pa.timestamp("us", "Europe/Paris")),
    "span": pa.array([2, 1, 3], pa.duration("ms")),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
def test_times_in_parquet_are_times(times, tmp_path):
    pq.write_table(pa.table({"g": [1, 1, 1], "t": times}), path := tmp_path / "a.parquet")
    columns = {"group": "g", "order": "t", "position": "t"}
    # As pyarrow reads the file: Parquet has no seconds.
    assert_identical(
        exfam.read(path, **columns, **FEW), Groups.from_frame(pq.read_table(path), **columns)
    )
    by_time = {"group": "t", "value": "g"}
    groups = Groups.from_frame(pq.read_table(path), **by_time)
    assert_identical(exfam.read(path, **by_time, **FEW), groups)
