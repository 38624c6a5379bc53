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
    "decimal points": (["1.0", "2.5"], ["1.0", "2.5"]),
    "spaces": ([" 7", "7"], [" 7", "7"]),
    "words for nothing": (['"NA"', '"null"', '"nan"'], ["NA", "nan", "null"]),
    "dates": (["2024-01-02", "2024-01-01"], ["2024-01-01", "2024-01-02"]),
    "truth": (["True", "False"], [False, True]),
    "truth among others": (["true", "yes"], ["true", "yes"]),
    "quoted": (['"a,b"', '"say ""hi"""'], ["a,b", 'say "hi"']),
}


@pytest.mark.parametrize("cells, labels", LABELS.values(), ids=LABELS.keys())
@pytest.mark.filterwarnings("ignore:.*in white space alone")
def test_labels_survive_a_csv_file(cells, labels, tmp_path):
    groups = column(tmp_path / "a.csv", cells, item="x")
    vocabulary = groups.vocabulary["item"].tolist()
    assert vocabulary == labels and [*map(type, vocabulary)] == [*map(type, labels)]
    if isinstance(labels[0], str) and '"' not in cells[0]:
        assert groups.item.tolist() == [labels.index(cell) for cell in cells]


@pytest.mark.parametrize("width", [np.float16, np.float32, np.float64])
def test_whole_floats_of_any_width_are_labels(width):
    frame = {"user": [0, 0, 1, 1], "item": np.array([1, 2, 2, 3], dtype=width)}
    for groups in (
        exfam.read(frame, group="user", item="item", **FEW),
        Groups.from_frame(frame, group="user", item="item"),
    ):
        assert groups.vocabulary["item"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("vocabulary", "cells", "codes"),
    [
        (np.array(["7", "8", "x"], dtype=object), ["7", "8"], [0, 1]),
        (np.array([8, 7]), ["7", "8"], [1, 0]),
        # A frame with gaps once made floats of them.
        (np.array([8, 7]), ["7.0", "8.0"], [1, 0]),
        # One that is no number does not make text of the others.
        (np.array([8, 7]), ["8", "up", "7", "007"], [0, -1, 1, -1]),
        ([True, False], ["true", "false"], [0, 1]),
    ],
)
def test_a_vocabulary_says_what_labels_are(vocabulary, cells, codes, tmp_path):
    given = {"vocabulary": {"item": vocabulary}, "unknown": "unk"}
    assert column(tmp_path / "a.csv", cells, item="x", **given).item.tolist() == codes


def test_a_vocabulary_of_an_attribute_and_labels_that_it_lacks(tmp_path):
    path = tmp_path / "a.csv"
    codes = {"vocabulary": {"x": ["1", "2"]}}
    assert column(path, ["2", "1"], attributes="x", **codes).attributes["x"].tolist() == [1, 0]
    with pytest.raises(UnknownItemError, match="got '007' at row 0"):
        column(path, ["007", "8"], item="x", vocabulary={"item": np.array([8, 7])})


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


QUOTED = {'the "user"\'s, id': ["a", "b"], "row": [3, 4], "select": ["x", "y"], "": [1, 2]}


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (
            {"g": [1, 1, 2], "x": [3, 1, 2]},
            {"group": "g", "order": "x", "item": "x", "value": "x", "position": "x"},
        ),
        (
            QUOTED | {"file_row_number": [9, 8]},
            {"group": [*QUOTED][0], "item": "select", "value": ["row", "file_row_number"]},
        ),
    ],
    ids=["a column in several parts", "odd names"],
)
def test_any_name_may_be_any_part(rows, columns, tmp_path):
    expected = Groups.from_frame(rows, **columns)
    for writer, name in ((write_csv, "a.csv"), (write_json, "a.jsonl"), (write_parquet, "a.pq")):
        assert_identical(exfam.read(writer(rows, tmp_path / name), **columns, **FEW), expected)


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
    "seconds": pa.array([2, 1, 3], pa.timestamp("s")),
    "nanoseconds": pa.array([2, 1, 3], pa.timestamp("ns")),
    "span": pa.array([2, 1, 3], pa.duration("ms")),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
def test_times_in_parquet_are_times(times, tmp_path):
    pq.write_table(pa.table({"g": [1, 1, 1], "t": times}), path := tmp_path / "a.parquet")
    columns = {"group": "g", "order": "t", "position": "t"}
    # As pyarrow reads the file: Parquet has no seconds.
    for named in (columns, {"group": "t", "value": "g"}):
        expected = Groups.from_frame(pq.read_table(path), **named)
        assert_identical(exfam.read(path, **named, **FEW), expected)
