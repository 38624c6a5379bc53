"""Tables of any library as columns and cells, dates among them."""

import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

import exfam
from exfam.checks import DataError, ExfamError
from exfam.tables.data import read_table
from exfam.tables.data.table_files import read_table_file
from table_model_cases import learned, learned_and_encoded
from tables.table_estimator_cases import FRAME, JOINT, KINDS, fit

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


WHEN = pd.date_range("2011-01-01", periods=len(FRAME), freq="101h")
DATED = FRAME[["height", "city"]].assign(when=WHEN)
WRITTEN = {
    "seconds": WHEN.astype("datetime64[s]"),
    "with a zone": WHEN.tz_localize("UTC").tz_convert("Asia/Tokyo"),
    "ISO text": WHEN.strftime("%Y-%m-%dT%H:%M"),
    "categories": pd.Series(WHEN.strftime("%d.%m.%Y %H:%M")).astype("category"),
    "Python's own": np.array([moment.to_pydatetime() for moment in WHEN], dtype=object),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_dates_are_the_same_cells_however_they_are_written(written):
    expected = learned_and_encoded({"when": WHEN})[1]
    own = written.tolist() if isinstance(written, np.ndarray) else written
    for frame in (pd.DataFrame({"when": written}), pl.DataFrame({"when": own})):
        schema, cells = learned_and_encoded(frame)
        assert schema.columns[0].kind == "date" and schema.targets == ()
        np.testing.assert_array_equal(cells.value, expected.value)
        np.testing.assert_array_equal(cells.code, expected.code)


def test_dates_are_days_since_1970_and_where_in_the_calendar_they_are():
    schema, cells = learned_and_encoded({"when": ["2024-01-01T06:00", "2024-07-01T18:00", None]})
    by_name = dict(zip(schema.names, cells.value.T, strict=True))
    assert by_name["when"][:2].tolist() == [19723.25, 19905.75]
    np.testing.assert_allclose(by_name["when year cos"][:2], [1.0, -1.0], atol=0.02)
    np.testing.assert_allclose(by_name["when day sin"][:2], [1.0, -1.0])
    assert "when weekday" not in schema.names  # both are Mondays
    assert not cells.present[2].any()
    assert learned({"when": [datetime.date(2024, 1, 1)] * 2}).names == ("when",)


@pytest.mark.parametrize("date_format", [None, "%d/%m/%Y", {"when": "%d/%m/%Y"}])
@pytest.mark.parametrize("odd", ["unknown", ""])
def test_one_cell_that_is_no_date_makes_no_categories(odd, date_format):
    """It made a category for each date, silently."""
    days = pd.date_range("2024-01-01", periods=300).strftime("%d/%m/%Y").tolist()
    with pytest.raises(DataError, match=f"got '{odd}' at row 7 .1 of 300 rows"):
        learned({"when": [*days[:7], odd, *days[8:]]}, date_format=date_format)
    declared = learned({"when": [*days, odd]}, kinds={"when": "categorical"})
    assert declared.columns[0].kind == "categorical"


def test_a_format_for_all_columns_leaves_dates_of_another():
    days = pd.date_range("2024-01-01", periods=40)
    frame = {"a": days.strftime("%d/%m/%Y"), "b": days.strftime("%Y-%m-%d"), "c": ["x", "y"] * 20}
    dates = learned(frame, date_format="%d/%m/%Y").dates
    assert [(date.name, date.date_format) for date in dates] == [("a", "%d/%m/%Y"), ("b", "iso")]


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_given_and_never_predicted(kind):
    model = fit(kind, DATED.assign(when=WHEN.strftime("%Y-%m-%d")))
    # A column of dates as text was a category for each, and every new row was refused.
    assert np.isfinite(model.log_prob(DATED.assign(when="2031-05-01"))).all()
    drawn = model.sample(2, given={"when": "2011-05-01"})["when"]
    assert drawn.astype("datetime64[D]").tolist() == [datetime.date(2011, 5, 1)] * 2
    for call in (
        lambda: model.conditional(["when"]),
        lambda: model.log_prob(DATED, order=["when", "city"]),
        lambda: model.experts(DATED[:3], ["when weekday"]),
    ):
        with pytest.raises(DataError, match="got 'when.*', which is a date or part of one"):
            call()
    parts = model.conditional(["height", "city"], given=DATED[["when"]]).log_prob(DATED, n_orders=1)
    result = model.log_prob(DATED, order=["height", "city"])
    np.testing.assert_allclose(result, parts, atol=1e-6)
    imputed = model.impute(DATED[:4].assign(when=[pd.NaT, *WHEN[1:4]], height=np.nan))
    assert imputed.frame["when"].isna().tolist() == [True, False, False, False]
    assert imputed.frame["height"].notna().all() and not imputed.filled["when"].any()


def test_dates_are_read_again_as_they_were(tmp_path):
    text = DATED.assign(when=WHEN.strftime("%d/%m/%Y"))
    model = fit(JOINT, text)
    model.save(tmp_path / "model")
    back = exfam.load(tmp_path / "model")
    ambiguous = text[:2].assign(when=["02/01/2011", "01/02/2011"])
    iso = ambiguous.assign(when=pd.to_datetime(["2011-01-02", "2011-02-01"]))
    for same in (ambiguous, iso):
        np.testing.assert_array_equal(back.log_prob(same), model.log_prob(ambiguous))


FAR = np.datetime64("20000-01-01", "s")
AMBIGUOUS = {"when": ["01/02/2011", "03/04/2011"] * 40}
BROKEN_DATES = [
    ({"when": "01/02/2011"}, {}, "'when' must hold dates that can be read in one way"),
    ({"when weekday": 1.5}, {}, "`X` must have no column 'when weekday' beside the dates"),
    ({"when": FAR}, {}, "of the years 1 to 9999, got .20000-01-01"),
    ({}, {"date_format": {"city": "%d/%m/%Y"}}, "Column 'city' must hold dates of one format"),
    (AMBIGUOUS, {"date_format": "%H"}, "`date_format` must be 'iso' or a format"),
    ({}, {"date_format": {"day": "%d/%m/%Y"}}, "`date_format` must name columns of the table, got"),
    ({}, {"kinds": {"when": "numeric"}}, "must be of kind 'date', got dates and the kind 'num"),
    ({}, {"kinds": {"city": "date"}}, "'city' must hold dates such as '2024-01-31'"),
]


@pytest.mark.parametrize(("change", "parameters", "message"), BROKEN_DATES)
def test_columns_that_cannot_be_learned(change, parameters, message):
    with pytest.raises(ExfamError, match=message):
        fit(JOINT, DATED.assign(**change), **parameters)


def test_formats_are_declared():
    ambiguous = DATED.assign(**AMBIGUOUS)
    model = fit(JOINT, ambiguous, date_format="%d/%m/%Y")
    days = model.schema_.column("when").knots
    assert pd.to_datetime(days, unit="D").month.tolist() == [2, 4]
    model = fit(JOINT, DATED)
    for cell, message in ((5, "hold dates, got 5 at row 0"), ("soon", "such as '2024-01-31' or")):
        with pytest.raises(DataError, match=f"Column 'when' must .*{message}"):
            model.log_prob(DATED.assign(when=cell))


def test_dates_alone_are_no_table():
    with pytest.raises(DataError, match="`X` must have a column besides dates, got dates alone"):
        fit(JOINT, DATED[["when"]])
