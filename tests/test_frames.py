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
from exfam.groups import Groups
from group_cases import FRAME, OPTIONS, day, read
from reading.cases import assert_identical

KINDS = {
    "dict": lambda frame: frame,
    "arrays": lambda frame: {
        name: np.array(column) if None not in column else column for name, column in frame.items()
    },
    "pandas": pd.DataFrame,
    "pandas-categories": lambda frame: pd.DataFrame(frame).astype(
        {name: "category" for name in ("user", "movie", "genre")}
    ),
    "pandas-objects": lambda frame: pd.DataFrame(frame).astype(object),
    "polars": pl.DataFrame,
    "polars-categories": lambda frame: pl.DataFrame(frame).with_columns(
        pl.col("user", "movie", "genre").cast(pl.Categorical)
    ),
    "pandas-series": lambda frame: {name: pd.Series(column) for name, column in frame.items()},
    "polars-series": lambda frame: {name: pl.Series(column) for name, column in frame.items()},
    "arrow": pa.table,
    "arrow-views": lambda frame: pa.table(
        {
            name: pa.array(column, pa.string_view()) if isinstance(column[0], str) else column
            for name, column in frame.items()
        }
    ),
    "arrow-chunks": lambda frame: pa.concat_tables(
        [pa.table(frame).slice(0, 2), pa.table(frame).slice(2)]
    ),
    "record-batch": lambda frame: pa.table(frame).to_batches()[0],
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def frame(request):
    return request.param(FRAME)


def test_every_kind_of_frame_reads_the_same(frame):
    groups = read(frame)
    again = exfam.read(frame, **OPTIONS, duplicates="keep", threads=1)
    assert_identical(again, groups)
    assert groups.group_names.tolist() == ["zoe", "adam"]
    assert groups.start.tolist() == [0, 3] and groups.stop.tolist() == [3, 5]
    # Zoe's rows by time, ties in the order of the frame.
    assert groups.source_row.tolist() == [2, 4, 0, 1, 3]
    assert groups.vocabulary["item"].tolist() == ["alien", "heat", "jaws", "up"]
    assert groups.item.tolist() == [1, 2, 3, 3, 0]
    assert groups.observed.tolist() == [True, True, True, False, True]
    assert groups.values["stars"][groups.observed].tolist() == [3, 4, 5, 1]
    assert groups.vocabulary["genre"].tolist() == ["crime", "kids", "sf"]
    assert groups.attributes["genre"].tolist() == [0, 2, 1, 1, 2]
    assert groups.attributes["gap"].tolist() == [2.5, 4.5, 0.5, 1.5, 3.5]
    assert groups.group_attributes["age"].tolist() == [30, 41]
    assert groups.group_attributes["age"].dtype == np.float64
    assert groups.vocabulary["member"].tolist() == [False, True]
    assert groups.group_attributes["member"].tolist() == [1, 0]
    assert groups.ignored is None


def test_codes_do_not_depend_on_the_order_of_rows():
    rows = pd.DataFrame(FRAME)
    for seed in range(3):
        shuffled = rows.sample(frac=1, random_state=seed)
        groups = read(shuffled)
        assert groups.vocabulary["item"].tolist() == ["alien", "heat", "jaws", "up"]
        # A row is a place in the frame, whatever its index says.
        movies = shuffled["movie"].to_numpy()[groups.source_row]
        assert groups.vocabulary["item"][groups.item].tolist() == movies.tolist()


def test_numbers_sort_as_numbers():
    groups = Groups.from_frame({"g": [1, 1, 1], "movie": [10, 9, 100]}, group="g", item="movie")
    assert groups.vocabulary["item"].tolist() == [9, 10, 100]
    assert groups.item.tolist() == [1, 0, 2]


def test_only_the_group_is_needed():
    groups = Groups.from_frame({"g": [2, 1, 2]}, group="g")
    assert groups.lengths.tolist() == [2, 1] and groups.columns == ()
    assert groups.group_names.tolist() == [2, 1]


def test_several_values_are_observed_together():
    frame = {"g": [1, 1, 1], "a": [1.0, None, 3.0], "b": [1, 2, 3]}
    groups = Groups.from_frame(frame, group="g", value=["a", "b"])
    assert list(groups.values) == ["a", "b"]
    assert groups.observed.tolist() == [True, False, True]
    assert groups.pad([0]).values["b"].tolist() == [[1, 0, 3]]


@pytest.mark.parametrize(
    "column, expected",
    [
        ([1, 2], np.int64),
        ([True, False], np.int64),
        ([1.5, None], np.float64),
        ([decimal.Decimal("1.25"), decimal.Decimal("2")], np.float64),
        (np.array([1.5, 2], dtype=np.float16), np.float32),
        (np.array([1.5, 2], dtype=np.float32), np.float32),
        (np.array([1, 2], dtype=np.uint8), np.int64),
        (np.array([1, 2], dtype=np.uint64), np.float64),
        ([np.float64(1.5), np.nan], np.float64),
        (pd.array([1, None], dtype="Int64"), np.float64),
        (pd.array([True, None], dtype="boolean"), np.float64),
        ([None, None], np.float64),
        (pd.Series([1, 2], dtype="category"), np.int64),
    ],
    ids=str,
)
def test_values_become_numbers(column, expected):
    groups = Groups.from_frame({"g": [1, 1], "y": column}, group="g", value="y")
    value = groups.values["y"]
    assert value.dtype == expected
    wanted = [np.nan if x is None or x is pd.NA else float(x) for x in list(column)]
    np.testing.assert_array_equal(value.astype(float), wanted)


@pytest.mark.parametrize(
    "column",
    [
        [3, 1, 2],
        [3.5, 1.5, 2.5],
        ["t10", "t8", "t9"],
        [day(3), day(1), day(2)],
        np.array(["2024-01-03", "2024-01-01", "2024-01-02"], dtype="datetime64[ns]"),
        list(np.array(["2024-01-03", "2024-01-01", "2024-01-02"], dtype="datetime64[s]")),
        pd.Series(["2024-01-03", "2024-01-01", "2024-01-02"]).astype("datetime64[ns, UTC]"),
        [decimal.Decimal(3), decimal.Decimal(1), decimal.Decimal(2)],
        [datetime.timedelta(3), datetime.timedelta(1), datetime.timedelta(2)],
    ],
    ids=lambda column: str(type(column[0]).__name__),
)
def test_anything_ordered_orders(column):
    groups = Groups.from_frame({"g": [1, 1, 1], "t": column}, group="g", order="t")
    assert groups.source_row.tolist() == [1, 2, 0]


def test_several_columns_order_one_after_the_other():
    frame = {"g": [1] * 4, "day": [2, 1, 2, 1], "hour": [1, 2, 0, 1]}
    groups = Groups.from_frame(frame, group="g", order=["day", "hour"])
    assert groups.source_row.tolist() == [3, 1, 2, 0]


def test_positions_are_numbers_places_or_times():
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


def test_groups_may_be_times():
    groups = Groups.from_frame({"day": [day(2), day(1), day(2)]}, group="day")
    assert groups.group_names.astype(str).tolist() == ["2024-01-02", "2024-01-01"]


def test_whole_numbers_that_became_floats_are_labels_still():
    frame = pd.DataFrame({"g": [1.0, 2.0], "item": [7.0, 3.0]})
    groups = Groups.from_frame(frame, group="g", item="item")
    assert groups.vocabulary["item"].tolist() == [3, 7]
    assert groups.vocabulary["item"].dtype == np.int64
    decimals = {"g": [decimal.Decimal(1), decimal.Decimal(2)]}
    assert Groups.from_frame(decimals, group="g").group_names.tolist() == [1, 2]


def test_other_columns_of_a_frame_do_not_matter():
    frame = pd.DataFrame({"g": [1, 2], "odd": [object(), {1: 2}]})
    assert len(Groups.from_frame(frame, group="g")) == 2


# ---------------------------------------------------------------------------- vocabularies


def test_a_given_vocabulary_gives_the_codes():
    vocabulary = {
        "item": ["up", "jaws", "heat", "alien", "dumbo"],
        "genre": ["sf", "kids", "crime"],
    }
    groups = read(FRAME, vocabulary=vocabulary)
    assert groups.item.tolist() == [2, 1, 0, 0, 3]
    assert groups.n_items == 5
    assert groups.attributes["genre"].tolist() == [2, 0, 1, 1, 0]


def test_numbers_with_a_vocabulary_are_labels():
    groups = read(FRAME, vocabulary={"age": [41, 30]})
    assert groups.group_attributes["age"].tolist() == [1, 0]


def test_unknown_items_are_an_error_that_names_the_row():
    with pytest.raises(UnknownItemError, match=r"`item` .* got 'heat' at row 2 \(2 of 5 rows\)"):
        read(FRAME, vocabulary={"item": ["up", "jaws"]})
    with pytest.raises(
        UnknownItemError, match=r"vocabulary of 'item' \(2 labels\)|`item`.*2 labels"
    ):
        read(FRAME, vocabulary={"item": ["up", "jaws"]})
    with pytest.raises(DataError, match=r"`attributes` .* of 'genre' .* got 'crime' at row 2"):
        read(FRAME, vocabulary={"genre": ["kids", "sf"]})


def test_labels_of_another_type_are_unknown():
    with pytest.raises(UnknownItemError, match=r"got '1' at row 0"):
        frame = {"g": [1], "movie": ["1"]}
        Groups.from_frame(frame, group="g", item="movie", vocabulary={"item": [1]})


def test_ignored_elements_are_dropped_and_counted():
    groups = read(FRAME, vocabulary={"item": ["alien", "jaws"]}, unknown="ignore")
    assert groups.source_row.tolist() == [4, 3]
    assert groups.ignored.tolist() == [2, 1]
    assert groups.lengths.tolist() == [1, 1]
    assert groups.group_attributes["age"].tolist() == [30, 41]
    nothing = read(FRAME, vocabulary={"item": ["alien"]}, unknown="ignore")
    assert nothing.lengths.tolist() == [0, 1] and nothing.group_names.tolist() == ["zoe", "adam"]
    assert nothing.ignored.tolist() == [3, 1]
    assert nothing[1:].ignored.tolist() == [1]
    plain = read(FRAME, item=None, unknown="ignore")
    assert plain.n_elements == 5 and plain.ignored.tolist() == [0, 0]


def test_unknown_may_be_a_code():
    groups = read(FRAME, vocabulary={"item": ["alien", "jaws"], "genre": ["sf"]}, unknown="unk")
    assert groups.item.tolist() == [-1, 1, -1, -1, 0]
    assert groups.attributes["genre"].tolist() == [-1, 0, -1, -1, 0]
    ignoring = read(FRAME, vocabulary={"genre": ["sf"]}, unknown="ignore")
    assert ignoring.attributes["genre"].tolist() == [-1, 0, -1, -1, 0]


# ---------------------------------------------------------------------------- and back


@pytest.mark.parametrize("kind, frame_type", [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_to_frame_writes_what_was_read(kind, frame_type):
    groups = read(FRAME).with_(role=[0, 0, 1, 0, 0], position=[1.0, 2, 3, 1, 2])
    frame = groups.to_frame(kind)
    assert isinstance(frame, frame_type)
    table = groups.to_frame("arrow").to_pydict()
    assert table["group"] == ["zoe"] * 3 + ["adam"] * 2
    assert table["item"] == ["heat", "jaws", "up", "up", "alien"]
    assert table["stars"] == [3, 4, 5, None, 1]
    assert table["genre"] == ["crime", "sf", "kids", "kids", "sf"]
    assert table["age"] == [30, 30, 30, 41, 41]
    assert table["member"] == [True, True, True, False, False]
    assert table["role"] == ["target", "target", "context", "target", "target"]
    assert table["position"] == [1, 2, 3, 1, 2]
    back = Groups.from_frame(frame, group="group", item="item", value="stars", attributes="genre")
    assert back.item.tolist() == groups.item.tolist()
    np.testing.assert_array_equal(back.observed, groups.observed)


@pytest.mark.parametrize("name", ["group", "position", "role"])
def test_to_frame_keeps_no_column_under_a_name_that_it_needs(name):
    groups = Groups(start=[0], stop=[1], values={name: [2.0]}, position=[3], role=[1])
    with pytest.raises(DataError, match=rf"`values` must not be named '{name}' in a frame"):
        groups.to_frame("arrow")
    alone = Groups(start=[0], stop=[1], values={"role": [2.0]})
    assert alone.to_frame("arrow")["role"].to_pylist() == [2.0]


def test_an_element_without_one_of_its_values_is_not_observed():
    frame = {"user": [1, 1], "stars": [4, 2], "hours": [None, 1.0]}
    groups = Groups.from_frame(frame, group="user", value=["stars", "hours"])
    assert groups.observed.tolist() == [False, True]


def test_to_frame_shows_the_view_only():
    groups = read(FRAME)[1:]
    assert groups.to_frame("arrow")["item"].to_pylist() == ["up", "alien"]


def test_to_frame_without_labels_writes_codes_and_unknown_as_missing():
    groups = Groups(
        start=[0],
        stop=[2],
        item=[1, 0],
        attributes={"flags": np.eye(2), "k": [0, -1]},
        vocabulary={"k": ["a"]},
    )
    table = groups.to_frame("arrow").to_pydict()
    assert table == {"group": [0, 0], "item": [1, 0], "flags": [[1, 0], [0, 1]], "k": ["a", None]}


# ---------------------------------------------------------------------------- Arrow


def test_arrow_has_one_row_a_group():
    table = read(FRAME).to_arrow()
    assert table["group_names"].to_pylist() == ["zoe", "adam"]
    assert table["item"].to_pylist() == [[1, 2, 3], [3, 0]]


def test_arrow_survives_parquet(tmp_path):
    groups = read(FRAME, position=["gap", "time"])
    pq.write_table(groups.to_arrow(), tmp_path / "groups.parquet")
    back = Groups.from_arrow(pq.read_table(tmp_path / "groups.parquet"))
    for name in ("start", "stop", "item", "position", "observed", "source_row", "group_names"):
        ours, theirs = getattr(groups, name), getattr(back, name)
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(groups.values["stars"], back.values["stars"])
    assert {k: v.dtype for k, v in groups.vocabulary.items()} == {
        k: v.dtype for k, v in back.vocabulary.items()
    }


def test_a_foreign_table_is_told_apart():
    with pytest.raises(DataError, match="`table` must have been made by Groups.to_arrow"):
        Groups.from_arrow(pa.table(FRAME))


def test_a_newer_or_maimed_table_is_told_apart():
    table = read(FRAME).to_arrow()
    ((key, header),) = table.schema.metadata.items()
    newer = table.replace_schema_metadata({key: header.replace(b'"format": 1', b'"format": 2')})
    with pytest.raises(DataError, match="`table` must be of format 1 or older, got 2. Update"):
        Groups.from_arrow(newer)
    with pytest.raises(DataError, match="all columns it was written with, got no 'item'"):
        Groups.from_arrow(table.drop_columns(["item"]))


def test_labels_that_json_cannot_hold_are_refused():
    days = np.array(["2024-01-01"], dtype="datetime64[D]")
    groups = Groups(start=[0], stop=[1], item=[0], vocabulary={"item": days})
    with pytest.raises(DataError, match=r"`vocabulary` of 'item' must hold text, numbers or bool"):
        groups.to_arrow()
