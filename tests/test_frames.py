"""Groups from frames of every library, and frames that are refused."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exfam
from exfam.checks import DataError, UnknownItemError
from exfam.columns.columns import Columns
from exfam.columns.parts import Part
from exfam.groups import Groups
from group_cases import FRAME, OPTIONS, day, read
from reading.cases import assert_identical

TEXTS = ("user", "movie", "genre")
CATEGORIES, VIEWS = dict.fromkeys(TEXTS, "category"), pa.string_view()
KINDS = {
    "dict": dict,
    "arrays": lambda frame: {k: x if None in x else np.array(x) for k, x in frame.items()},
    "pandas": pd.DataFrame,
    "pandas-categories": lambda frame: pd.DataFrame(frame).astype(CATEGORIES),
    "pandas-objects": lambda frame: pd.DataFrame(frame).astype(object),
    "pandas-series": lambda frame: {name: pd.Series(x) for name, x in frame.items()},
    "polars": pl.DataFrame,
    "polars-categories": lambda f: pl.DataFrame(f).cast(dict.fromkeys(TEXTS, pl.Categorical)),
    "polars-series": lambda frame: {name: pl.Series(x) for name, x in frame.items()},
    "arrow": pa.table,
    "arrow-views": lambda frame: pa.table(
        {name: pa.array(x, VIEWS) if name in TEXTS else x for name, x in frame.items()}
    ),
    "arrow-chunks": lambda f: pa.concat_tables([pa.table(f).slice(0, 2), pa.table(f).slice(2)]),
    "record-batch": lambda frame: pa.table(frame).to_batches()[0],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_reads_the_same(kind):
    frame = KINDS[kind](FRAME)
    groups = read(frame)
    assert_identical(groups, read(FRAME))
    assert_identical(exfam.read(frame, **OPTIONS, duplicates="keep", threads=1), groups)


def test_a_frame_is_read_by_hand_whatever_its_index_says():
    shuffled = pd.DataFrame(FRAME).iloc[[4, 3, 1, 0, 2]]
    groups = read(shuffled)
    assert groups.group_names.tolist() == ["zoe", "adam"]
    assert groups.start.tolist() == [0, 3] and groups.stop.tolist() == [3, 5]
    # Zoe's rows by time, ties in the order of the frame.
    assert groups.source_row.tolist() == [0, 4, 3, 1, 2]
    assert groups.vocabulary["item"].tolist() == ["alien", "heat", "jaws", "up"]
    assert groups.item.tolist() == [2, 1, 3, 0, 3]
    assert groups.observed.tolist() == [True, True, True, True, False]
    assert groups.values["stars"][groups.observed].tolist() == [4, 3, 5, 1]
    assert groups.vocabulary["genre"].tolist() == ["crime", "kids", "sf"]
    assert groups.attributes["genre"].tolist() == [2, 0, 1, 2, 1]
    assert groups.attributes["gap"].tolist() == [4.5, 2.5, 0.5, 3.5, 1.5]
    assert groups.group_attributes["age"].tolist() == [30, 41]
    assert groups.group_attributes["age"].dtype == np.float64
    assert groups.vocabulary["member"].tolist() == [False, True]
    assert groups.group_attributes["member"].tolist() == [1, 0]
    assert groups.ignored is None


def test_other_columns_do_not_matter_and_an_element_may_lack_one_of_its_values():
    frame = pd.DataFrame({"g": [2, 1, 2], "odd": [object(), {1: 2}, None]})
    groups = Groups.from_frame(frame, group="g")
    assert groups.lengths.tolist() == [2, 1] and groups.columns == ()
    assert groups.group_names.tolist() == [2, 1]
    frame = {"g": [1, 1, 1], "a": [1.0, None, None], "b": [1, 2, None]}
    for reader in (Groups.from_frame, exfam.read):
        groups = reader(frame, group="g", value=["a", "b"])
        assert list(groups.values) == ["a", "b"]
        assert groups.observed.tolist() == [True, True, False]
        again = Groups.from_arrow(groups.to_arrow())
        for batch in (groups.pad([0]), again.pad([0]), again.with_(observed=None).pad([0])):
            assert batch.values["b"].tolist() == [[1, 2, 0]]
            assert batch.observed.tolist() == [[True, True, False]]
            assert batch.has_value("a").tolist() == [[True, False, False]]
        assert groups.to_frame()["b"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    "column, expected",
    [
        ([1, 2], np.int64),
        ([True, False], np.int64),
        ([1.5, None], np.float64),
        ([decimal.Decimal("1.25"), decimal.Decimal("2")], np.float64),
        (np.array([1.5, 2], dtype=np.float16), np.float32),
        (np.array([1, 2], dtype=np.uint8), np.int64),
        (np.array([1, 2], dtype=np.uint64), np.float64),
        (pd.array([1, None], dtype="Int64"), np.float64),
        (pd.array([True, None], dtype="boolean"), np.float64),
        ([None, None], np.float64),
        (pd.Series([1, 2], dtype="category"), np.int64),
    ],
    ids=str,
)
def test_values_become_numbers(column, expected):
    value = Groups.from_frame({"g": [1, 1], "y": column}, group="g", value="y").values["y"]
    assert value.dtype == expected
    wanted = [np.nan if x is None or x is pd.NA else float(x) for x in list(column)]
    np.testing.assert_array_equal(value.astype(float), wanted)


DAYS = ["2024-01-03", "2024-01-01", "2024-01-02"]


@pytest.mark.parametrize(
    "column",
    [
        [3.5, 1.5, 2.5],
        ["t10", "t8", "t9"],
        [day(3), day(1), day(2)],
        np.array(DAYS, dtype="datetime64[ns]"),
        list(np.array(DAYS, dtype="datetime64[s]")),
        pd.Series(DAYS).astype("datetime64[ns, UTC]"),
        list(map(decimal.Decimal, (3, 1, 2))),
        list(map(datetime.timedelta, (3, 1, 2))),
    ],
    ids=lambda column: str(type(column[0]).__name__),
)
def test_anything_ordered_orders_and_several_columns_one_after_the_other(column):
    for order, rows in (("t", [1, 2, 0]), (["same", "t"], [1, 2, 0]), (["odd", "t"], [1, 0, 2])):
        frame = {"g": [1, 1, 1], "t": column, "same": [5, 5, 5], "odd": [0, 0, 1]}
        assert Groups.from_frame(frame, group="g", order=order).source_row.tolist() == rows


def test_positions_are_numbers_coordinates_or_times():
    frame = {
        "g": [1, 1],
        "n": [4, 9],
        "lat": [50.0, 51.0],
        "lon": [8.0, 9.0],
        "day": [day(1), day(3)],
        "time": np.array(["2024-01-01T00", "2024-01-01T12"], dtype="datetime64[s]"),
        "wait": [datetime.timedelta(1), datetime.timedelta(hours=6)],
    }

    def position(column):
        return Groups.from_frame(frame, group="g", position=column).position

    assert position("n").tolist() == [4, 9] and position("n").dtype == np.int64
    assert position(["lat", "lon"]).tolist() == [[50, 8], [51, 9]]
    assert np.diff(position("day")).tolist() == [2.0]
    assert np.diff(position("time")).tolist() == [0.5]
    assert position("wait").tolist() == [1.0, 0.25]
    assert position(["lat", "time"])[:, 1].tolist() == position("time").tolist()


def test_labels_sort_as_what_they_are():
    frame = pd.DataFrame({"g": [1.0, 2.0, 1.0], "item": [10.0, 9.0, 100.0]})
    items = Groups.from_frame(frame, group="g", item="item").vocabulary["item"]
    # Whole numbers that became floats are labels still.
    assert items.tolist() == [9, 10, 100] and items.dtype == np.int64
    decimals = {"g": [decimal.Decimal(1), decimal.Decimal(2)]}
    assert Groups.from_frame(decimals, group="g").group_names.tolist() == [1, 2]
    days = Groups.from_frame({"day": [day(2), day(1), day(2)]}, group="day").group_names
    assert days.astype(str).tolist() == ["2024-01-02", "2024-01-01"]


class TestVocabularies:
    def test_a_given_one_gives_the_codes(self):
        items, genres = ["up", "jaws", "heat", "alien", "dumbo"], ["sf", "kids", "crime"]
        groups = read(FRAME, vocabulary={"item": items, "genre": genres, "age": [41, 30]})
        assert groups.item.tolist() == [2, 1, 0, 0, 3] and groups.n_items == 5
        assert groups.attributes["genre"].tolist() == [2, 0, 1, 1, 0]
        assert groups.group_attributes["age"].tolist() == [1, 0]  # numbers are labels then

    def test_what_it_lacks_is_an_error_that_names_the_row(self):
        match = r"`item` must be in the vocabulary \(2 labels\), got 'heat' at row 2 \(2 of 5 rows"
        with pytest.raises(UnknownItemError, match=match):
            read(FRAME, vocabulary={"item": ["up", "jaws"]})
        with pytest.raises(DataError, match=r"`attributes` .* of 'genre' .* got 'crime' at row 2"):
            read(FRAME, vocabulary={"genre": ["kids", "sf"]})
        frame = {"g": [1], "movie": ["1"]}
        with pytest.raises(UnknownItemError, match=r"got '1' at row 0"):  # of another type
            Groups.from_frame(frame, group="g", item="movie", vocabulary={"item": [1]})

    def test_ignored_elements_are_dropped_and_counted_and_unknown_may_be_a_code(self):
        some = read(FRAME, vocabulary={"item": ["alien"]}, unknown="ignore")
        assert some.source_row.tolist() == [3] and some.group_attributes["age"].tolist() == [30, 41]
        assert some.lengths.tolist() == [0, 1] and some.group_names.tolist() == ["zoe", "adam"]
        assert some.ignored.tolist() == [3, 1] and some[1:].ignored.tolist() == [1]
        plain = read(FRAME, item=None, unknown="ignore")
        assert plain.n_elements == 5 and plain.ignored.tolist() == [0, 0]
        groups = read(FRAME, vocabulary={"item": ["alien", "jaws"], "genre": ["sf"]}, unknown="unk")
        assert groups.item.tolist() == [-1, 1, -1, -1, 0]
        ignoring = read(FRAME, vocabulary={"genre": ["sf"]}, unknown="ignore")
        for coded in (groups, ignoring):
            assert coded.attributes["genre"].tolist() == [-1, 0, -1, -1, 0]


class TestToFrame:
    @pytest.mark.parametrize("kind, frame", [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
    def test_it_writes_what_was_read(self, kind, frame):
        groups = read(FRAME).with_(role=[0, 0, 1, 0, 0], position=[1.0, 2, 3, 1, 2])
        written = groups.to_frame(kind)
        assert isinstance(written, frame)
        assert groups.to_frame("arrow").to_pydict() == {
            "group": ["zoe"] * 3 + ["adam"] * 2,
            "item": ["heat", "jaws", "up", "up", "alien"],
            "stars": [3, 4, 5, None, 1],
            "genre": ["crime", "sf", "kids", "kids", "sf"],
            "gap": [2.5, 4.5, 0.5, 1.5, 3.5],
            "age": [30, 30, 30, 41, 41],
            "member": [True, True, True, False, False],
            "position": [1, 2, 3, 1, 2],
            "role": ["target", "target", "context", "target", "target"],
        }
        back = Groups.from_frame(written, group="group", item="item", value="stars")
        assert back.item.tolist() == groups.item.tolist()
        np.testing.assert_array_equal(back.observed, groups.observed)
        assert groups[1:].to_frame("arrow")["item"].to_pylist() == ["up", "alien"]

    @pytest.mark.parametrize("name", ["group", "position", "role"])
    def test_no_column_has_a_name_that_the_frame_needs(self, name):
        groups = Groups(start=[0], stop=[1], values={name: [2.0]}, position=[3], role=[1])
        with pytest.raises(DataError, match=rf"`values` must not be named '{name}' in a frame"):
            groups.to_frame("arrow")
        alone = Groups(start=[0], stop=[1], values={"role": [2.0]})
        assert alone.to_frame("arrow")["role"].to_pylist() == [2.0]

    def test_codes_without_labels_and_unknown_ones(self):
        attributes = {"flags": np.eye(2), "k": [0, -1]}
        vocabulary = {"k": ["a"]}
        groups = Groups([0], [2], item=[1, 0], attributes=attributes, vocabulary=vocabulary)
        written = {"group": [0, 0], "item": [1, 0], "flags": [[1, 0], [0, 1]], "k": ["a", None]}
        assert groups.to_frame("arrow").to_pydict() == written


def test_a_row_a_group_survives_parquet(tmp_path):
    groups = read(FRAME, position=["gap", "time"])
    table = groups.to_arrow()
    assert table["group_names"].to_pylist() == ["zoe", "adam"]
    assert table["item"].to_pylist() == [[1, 2, 3], [3, 0]]
    pq.write_table(table, tmp_path / "groups.parquet")
    assert_identical(Groups.from_arrow(pq.read_table(tmp_path / "groups.parquet")), groups)
    ((key, header),) = table.schema.metadata.items()
    newer = table.replace_schema_metadata({key: header.replace(b'"format": 1', b'"format": 2')})
    for given, match in (
        (pa.table(FRAME), "`table` must have been made by Groups.to_arrow"),
        (newer, "`table` must be of format 1 or older, got 2. Update"),
        (table.drop_columns(["item"]), "all columns it was written with, got no 'item'"),
    ):
        with pytest.raises(DataError, match=match):
            Groups.from_arrow(given)
    days = np.array(["2024-01-01"], dtype="datetime64[D]")
    with pytest.raises(DataError, match=r"`vocabulary` of 'item' must hold text, numbers or b"):
        Groups(start=[0], stop=[1], item=[0], vocabulary={"item": days}).to_arrow()


PLAIN = "must hold values of one plain type, got"
FOREIGN = "`frame` must be a pandas or polars frame, an Arrow table or a mapping of columns .*got"
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
