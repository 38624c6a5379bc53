"""Tables in files are read as they are."""

import numpy as np
import pyarrow as pa
import pytest

from exfam import DataError
from exfam.tables.data.table_files import read_table_file

CELLS = """,age,km,fuel,zip,new
0,3,40.5,diesel,0012,true
1,NA,NaN,na,0400,
2,5,, Null ,,false
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cars.csv"
    path.write_text(CELLS)
    return str(path)


def test_missing_cells_are_missing_in_columns_of_any_type(file):
    read = read_table_file(file)
    assert read.frame.to_pydict() == {
        "age": [3, None, 5],
        "km": [40.5, None, None],
        "fuel": ["diesel", None, None],
        "zip": ["0012", "0400", None],
        "new": [True, None, False],
    }
    assert (len(read), read.n_missing, read.n_unnamed) == (3, 7, 1)
    assert read.where(2) == f"row 2 in {file}"


def test_known_labels_say_what_is_text_and_what_is_no_gap(file):
    labels = {"age": np.array(["3"], dtype=object), "fuel": ["na"], "new": [True, False]}
    read = read_table_file(file, names=["age", "fuel", "new"], labels=labels)
    assert read.frame.to_pydict() == {
        "age": ["3", None, "5"],
        "fuel": ["diesel", "na", None],
        "new": [True, None, False],
    }


def test_files_with_types_keep_their_texts(tmp_path):
    path, texts = str(tmp_path / "a.parquet"), ["NA", None, "diesel"]
    pa.parquet.write_table(pa.table({"fuel": texts, "": [1, 2, 3]}), path)
    assert read_table_file(path).frame["fuel"].to_pylist() == texts
    (tmp_path / "a.jsonl").write_text('{"km": 4, "fuel": "NA"}\n{"fuel": null, "age": 1.5}\n')
    read = read_table_file(str(tmp_path / "a.jsonl")).frame
    assert read.to_pydict() == {"km": [4, None], "fuel": ["NA", None], "age": [None, 1.5]}


def test_several_files_are_one_table(tmp_path, file):
    (tmp_path / "more.csv").write_text(CELLS)
    read = read_table_file(str(tmp_path))
    assert len(read) == 6 and read.where(4) == f"row 1 in {tmp_path / 'more.csv'}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ignore": ["sky"]}, "`ignore` must name columns of .*cars.csv, got 'sky'. Its"),
        ({"names": ["sky"]}, "`source` must have a column to read, got none in .*cars.csv"),
        ({"numbers": ["fuel"]}, "must be numeric, got 'diesel' at row 0 of column 'fuel' in"),
    ],
)
def test_what_is_wrong_is_named(file, options, message):
    with pytest.raises(DataError, match=message):
        read_table_file(file, **options)


def test_a_broken_file_is_reported_before_its_columns_are_known(tmp_path):
    for name, content, message in (
        ("a.csv", "", "must have a header, got an empty file"),
        ("a.jsonl", "{", "must have one JSON object a line, got"),
        ("a.parquet", "{", "must be a Parquet file, got"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=message):
            read_table_file(str(tmp_path / name))
    with pytest.raises(DataError, match="`source` must be a query that can be run"):
        read_table_file("SELECT what")
