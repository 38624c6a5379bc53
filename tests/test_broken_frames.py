"""A broken frame is refused with its column, its row and what to do, by both readers."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import exfam
from exfam.checks import DataError
from exfam.columns.columns import Columns
from exfam.columns.parts import Part
from exfam.groups import Groups
from group_cases import FRAME, OPTIONS, day, read

PLAIN = "must hold values of one plain type, got"
FOREIGN = "`frame` must be a pandas or polars frame, an Arrow table or a mapping of columns, got"
EMPTY = "`(frame|source)` must have at least one row, got none"
LABELS = r"must hold labels \(text, whole numbers, booleans\), got"
NAMES = "must have names of their own, got"
READERS = {
    "from_frame": read,
    "read": lambda frame, **changes: exfam.read(
        frame, **OPTIONS | changes, duplicates="keep", threads=1
    ),
}
# Names of columns that are wrong for the frame.
NAMED = [
    ({"item": "film"}, "`item` must name a column of the frame, got 'film'. Its columns: 'user'"),
    ({"item": "gap"}, f"`item` {LABELS} 0.5 at row 0"),
    (
        {"value": "genre", "attributes": "gap"},
        "`value` must be numeric, got 'kids' at row 0 of column 'genre' .* Convert the column to",
    ),
    (
        {"attributes": ["genre"], "group_attributes": "genre", "group": "genre"},
        f"`group_attributes` {NAMES} 'genre' once more",
    ),
]
# One cell of the frame that is wrong: column, row, cell, error.
CELLS = [
    ("user", 3, None, r"`group` must not be missing, got nothing at row 3 .*\(1 of 5 rows\). Drop"),
    ("time", 4, None, "`order` must not be missing, got nothing at row 4"),
    ("gap", 2, None, "`attributes` must not be missing, got nothing at row 2"),
    ("stars", 2, np.inf, "`value` must be finite, got inf at row 2 of column 'stars'"),
    ("stars", 2, "bad", rf"`value` {PLAIN} 'bad' \(str\) at row 2 .*, where row 0 has 5.0 \(fl"),
    ("movie", 3, object(), f"`item` {PLAIN} <object"),
    ("movie", 2, "\ud800", r"`item` must hold text that UTF-8 can write, got '\\ud800' at row 2"),
    ("member", 3, True, "second value of 'member' in group 'adam' at row 3"),
]
# One column of the frame that is wrong.
COLUMNS = [
    ("movie", np.array(["a", "b", "c", "\ud800", "e"]), "`item` must hold text .* at row 3"),
    ("movie", [[1]] * 5, rf"`item` {LABELS} \[1\] at row 0"),
    ("movie", [1e60] * 5, r"`item` must be below 2\*\*53 .* got 1e.60 at row 0 .*\(5 of 5 rows\)"),
    ("movie", (i for i in range(5)), "`item` must name a column of values, got generator as"),
    ("stars", [day(1)] * 5, "`value` must be numeric, got datetime.date"),
    ("stars", [2**80] * 5, f"`value` {PLAIN} 1208925819614629174706176"),
    ("stars", np.zeros((5, 2)), f"`value` {PLAIN} array"),
    ("stars", [1, None, 2**53 + 1, 4, 5], r"at most 2\*\*53 in size in a column with gaps, got 9"),
    ("stars", np.full(5, 2**64 - 1, np.uint64), r"at most 2\*\*53 .* of unsigned integers, got 18"),
    ("stars", [1.0, 2.0], "`value` must have as many rows as 'user', 5, got 2 in column 'stars'"),
    ("user", [None, *[[2]] * 4], "`group` must not be missing, got nothing at row 0"),
    # Arrow does not know NumPy's times beside its numbers.
    ("user", [np.datetime64("2024-01-02"), *[np.int8(3)] * 4], f"{PLAIN} .* at row 1 of column 'u"),
]


def with_cell(name, row, cell):
    column = list(FRAME[name])
    column[row] = cell
    return FRAME | {name: column}


BROKEN = [
    *((FRAME, changes, match) for changes, match in NAMED),
    *((with_cell(*cell), {}, match) for *cell, match in CELLS),
    *((FRAME | {name: column}, {}, match) for name, column, match in COLUMNS),
    (FRAME | {"item": [1] * 5}, {"value": "item"}, f"`values` {NAMES}"),
    ({name: [] for name in FRAME}, {}, EMPTY),
    ([1, 2], {}, f"{FOREIGN} list"),
]


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("broken, changes, match", BROKEN)
def test_a_broken_frame_names_column_and_row(reader, broken, changes, match):
    with pytest.raises(DataError, match=match):
        reader(broken, **changes)


def test_errors_of_pandas_frames_count_rows_whatever_the_index():
    frame = pd.DataFrame(with_cell("movie", 1, None), index=[50, 51, 52, 53, 54])
    with pytest.raises(DataError, match="at row 1 of column 'movie'"):
        read(frame)


def test_two_columns_of_one_name_are_not_guessed_between():
    table = pa.table([[1, 2], [3, 4]], names=["g", "g"])
    for frame in (table, pd.DataFrame([[1, 3], [2, 4]], columns=["g", "g"])):
        with pytest.raises(DataError, match="`frame` must have one column of each name, got 'g' t"):
            Groups.from_frame(frame, group="g")


def test_sparse_columns_are_read_as_they_are():
    values = pd.arrays.SparseArray([0.0, 1.5, 0.0])
    frame = pd.DataFrame({"g": [1, 1, 2], "item": ["a", "b", "a"], "y": values})
    groups = Groups.from_frame(frame, group="g", item="item", value="y")
    assert groups.values["y"].tolist() == [0.0, 1.5, 0.0]


def test_a_zone_that_is_not_known_is_no_traceback():
    times = pa.array([1, 2], pa.timestamp("us", tz="Nowhere/Else"))
    frame = pa.table({"g": [1, 1], "item": ["a", "b"], "when": times})
    with pytest.raises(DataError, match=r"got datetime.datetime\(1970.* of column 'when'"):
        Groups.from_frame(frame, group="g", item="item", attributes=["when"])


def test_an_empty_column_of_an_odd_type_has_no_labels():
    part = Part("group", "user")
    for empty in (pd.Series([], dtype="period[D]"), pa.array([], pa.list_(pa.int64()))):
        assert Columns.of_frame({"user": empty}, [part]).labels(part).codes.size == 0


@pytest.mark.parametrize(
    "form", [lambda x: x, pl.DataFrame.lazy, lambda x: x["a\0"], lambda x: {"user": x["a\0"]}]
)
def test_names_with_a_nul_do_not_end_the_process(form):
    frame = form(pl.DataFrame({"movie": [1], "a\0": [2]}))
    with pytest.raises(DataError, match="`frame` must "):
        Groups.from_frame(frame, group="user")
