"""Tables of every kind are read alike; what is no table is refused by column and row."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from exfam.checks import DataError
from exfam.tables.data import read_table
from exfam.tables.data.table_files import read_table_file
from table_model_cases import learned_and_encoded

COLUMNS = {
    "age": [31.5, None, 62.0, 18.25],
    "rooms": [3, 2, 3, 5],
    "city": ["Oslo", "Bonn", None, "Oslo"],
    "smokes": [True, None, False, True],
}
NAN = float("nan")
AGES = [31.5, NAN, 62.0, 18.25]
DICTIONARIES = {"city": pa.array(COLUMNS["city"]).dictionary_encode()}
EVERY = {
    "pandas": pd.DataFrame(COLUMNS),
    "pandas' own types": pd.DataFrame(COLUMNS).convert_dtypes(),
    "pandas categories": pd.DataFrame(COLUMNS).astype({"city": "category"}),
    "polars": pl.DataFrame(COLUMNS),
    "decimals": pa.table(COLUMNS | {"age": pa.array(COLUMNS["age"]).cast(pa.decimal128(6, 2))}),
    "arrow dictionaries": pa.table(COLUMNS | DICTIONARIES),
    "arrow in pieces": pa.concat_tables([pa.table(COLUMNS)[:1], pa.table(COLUMNS)[1:]]),
    "mapping of arrays": {
        "age": np.array(AGES),
        "rooms": np.array([3, 2, 3, 5], dtype=np.int8),
        "city": np.array(["Oslo", "Bonn", NAN, "Oslo"], dtype=object),
        "smokes": pd.array([True, None, False, True], dtype="boolean"),
    },
    "sparse pandas": pd.DataFrame(COLUMNS).assign(age=pd.arrays.SparseArray(AGES)),
}


@pytest.mark.parametrize("X", EVERY.values(), ids=EVERY)
def test_the_same_table_in_any_library_has_the_same_cells(X):
    schema, cells = learned_and_encoded(X)
    expected_schema, expected = learned_and_encoded(COLUMNS)
    assert schema.to_config() == expected_schema.to_config()
    kinds = [column.kind for column in schema.columns]
    assert kinds == ["numeric", "numeric", "categorical", "boolean"]
    np.testing.assert_array_equal(cells.code, expected.code)
    np.testing.assert_array_equal(cells.value, expected.value)
    np.testing.assert_array_equal(cells.present.sum(0), [3, 4, 3, 3])


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT, np.float64("nan")], ids=repr)
def test_rows_of_objects_are_columns_of_their_own_types(missing):
    rows = np.array([["a", 1.5], [missing, missing], ["b", 2.5]], dtype=object)
    for table in (read_table(rows), read_table(rows.tolist())):
        assert table.names == ("x0", "x1")
        assert [column.type for column in table.columns.values()] == ["text", "number"]
        for column in table.columns.values():
            assert column.missing.tolist() == [False, True, False]


def test_what_numpy_reads_as_an_array_is_one():
    table = read_table(torch.tensor([[1.0, torch.nan], [2.0, 3.0]]))
    assert table.columns["x1"].missing.tolist() == [True, False]
    table = read_table(np.ma.MaskedArray([[1.0, 2.0], [3.0, NAN]], mask=[[1, 0], [0, 0]]))
    assert table.columns["x0"].missing.tolist() == [True, False]
    assert table.columns["x1"].missing.tolist() == [False, True]
    assert read_table(pd.DataFrame([[1.5, 2.5]])).names == ("0", "1")


def objects(*cells):
    return np.array([[cell] for cell in cells], dtype=object)


SHAPE = "an array with dim 1. Reshape your data: X.reshape(-1, 1)"
BROKEN = [
    (np.zeros(3), SHAPE),
    (np.zeros((2, 2, 2)), "an array with dim 3. Make each row flat."),
    (np.zeros((0, 3)), "0 sample(s) (shape=(0, 3)) while a minimum of 1 is required."),
    ({}, "while a minimum of 1 is required."),
    (sparse.csr_matrix(np.eye(2)), "must be dense, got a sparse matrix, csr_matrix"),
    (5, "a mapping of columns or a 2-dimensional array, got int."),
    ([[1.0, 2.0], [3.0]], "`X` must have rows of one length, got [1, 2]."),
    ({"a": [1.0], "b": [1.0, 2.0]}, "got 1 rows in 'a' and 2 in 'b'."),
    ({"a": np.zeros((2, 2))}, "flat columns of values, got ndarray for 'a'."),
    (pd.DataFrame([[1, 2]], columns=["1", 1]), "one column of each name, got '1' twice."),
    (np.array([[0.5, 1.0], [1.0, np.inf]]), "Column 'x1' must be finite, got inf at row 1 (1 of 2"),
    (np.array([[1j, 2]]), "Complex data not supported: column 'x0' must hold numbers"),
    (objects(0.5, "a"), "got 'a' (str) at row 1 of column 'x0', where row 0"),
    (objects({"a": 1}), "Column 'x0' must hold numbers, texts, booleans or dates, got"),
    (np.zeros((2, 1), dtype="S3"), "booleans or dates, got |S3. Convert it to numbers or texts"),
    ({"d": np.array([3], dtype="m8[s]")}, "got timedelta64[s]. Convert it to numbers, such as"),
]


@pytest.mark.parametrize(("X", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_what_is_no_table_is_refused(X, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_table(X)


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


def test_missing_cells_are_missing_in_columns_of_any_type(file, tmp_path):
    read = read_table_file(file)
    assert read.frame.to_pydict() == {
        "age": [3, None, 5],
        "km": [40.5, None, None],
        "fuel": ["diesel", None, None],
        "zip": ["0012", "0400", None],
        "new": [True, None, False],
    }
    assert (len(read), read.n_missing, read.n_unnamed) == (3, 7, 1)
    (tmp_path / "more.csv").write_text(CELLS)
    both = read_table_file(str(tmp_path))
    assert len(both) == 6 and both.where(4) == f"row 1 in {tmp_path / 'more.csv'}"


def test_known_labels_decide_what_is_text_and_what_is_no_gap(file):
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


def test_a_broken_source_is_reported_before_its_columns_are_known(tmp_path):
    (tmp_path / "a.jsonl").write_text("{")
    with pytest.raises(DataError, match="must have one JSON object a line, got"):
        read_table_file(str(tmp_path / "a.jsonl"))
    with pytest.raises(DataError, match="`source` must be a query that can be run"):
        read_table_file("SELECT what")
