"""Cells as tokens and numbers: exact, and back."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.preprocessing import SplineTransformer

from exfam.checks import DataError, ExfamError, ExfamWarning
from exfam.tables.data import Cells, as_frame_like, decode, encode_table, learn_schema, read_table

TRAINING = {
    "age": [20.5, 30.0, None, 41.25, 80.0],
    "rooms": [3, 1, 1, None, 7],
    "city": ["Oslo", "Bonn", "Rome", None, "Oslo"],
    "smokes": [None, True, False, True, True],
    "visits": [0, 4, 1, None, 9],
}
KINDS = {"visits": "count", "rooms": [7, 5, 3, 1]}


def schema_of(X, *, kinds=None, numeric="continuous", n_bins=4):
    return learn_schema(read_table(X), kinds=kinds, numeric=numeric, n_bins=n_bins)


def encoded(schema, X, *, unknown="error"):
    return encode_table(schema, read_table(X), unknown=unknown)


@pytest.mark.parametrize("n_bins", [2, 20, 100])
def test_hat_functions_are_the_splines_of_degree_one(n_bins):
    values = np.random.default_rng(0).gamma(2.0, size=(400, 1))
    schema = schema_of(values, n_bins=n_bins)
    cells = encoded(schema, values)
    knots = schema.columns[0].knots
    splines = SplineTransformer(degree=1, knots=knots[:, None], extrapolation="constant")
    weights = np.zeros((400, len(knots) + 1))
    code, fraction = cells.code[:, 0], cells.fraction[:, 0].astype(float)
    weights[np.arange(400), code] = 1 - fraction
    weights[np.arange(400), code + 1] += fraction
    np.testing.assert_allclose(weights[:, :-1], splines.fit_transform(values), atol=1e-6)
    assert ((fraction >= 0) & (fraction < 1)).all() and len(np.unique(fraction)) > 300


def test_numbers_beyond_the_outer_knots_are_clamped_and_keep_their_value():
    schema = schema_of({"a": [1.0, 2.0, 4.0]})
    cells = encoded(schema, {"a": [-1e300, 0.5, 4.0, 1e300]})
    assert cells.code[:, 0].tolist() == [0, 0, 2, 2]
    assert (cells.fraction == 0).all()
    assert cells.value[:, 0].tolist() == [-1e300, 0.5, 4.0, 1e300]


def test_knots_as_far_apart_as_numbers_can_be():
    schema = schema_of({"a": [-1.7e308, 1.7e308]})
    cells = encoded(schema, {"a": [0.0, 0.85e308]})
    np.testing.assert_allclose(cells.fraction[:, 0], [0.5, 0.75])


@pytest.mark.parametrize("n_bins", [4, 100])
def test_a_value_on_an_edge_lies_in_the_lower_bin(n_bins):
    values = np.arange(1.0, 401.0)
    schema = schema_of({"a": values}, numeric="binned", n_bins=n_bins)
    edges = schema.columns[0].knots
    at = np.concatenate([edges, np.nextafter(edges, np.inf), [-1e9, 1e9]])
    codes = encoded(schema, {"a": at}).code[:, 0]
    np.testing.assert_array_equal(codes, np.digitize(at, edges, right=True))
    assert codes[: len(edges)].tolist() == list(range(len(edges)))
    counts = np.bincount(encoded(schema, {"a": values}).code[:, 0])
    assert (counts == 400 // n_bins).all()


@pytest.mark.parametrize("numeric", ["continuous", "binned"])
def test_cells_decode_to_what_they_were(numeric):
    schema = schema_of(TRAINING, kinds=KINDS, numeric=numeric)
    cells = encoded(schema, TRAINING)
    for index, (name, values) in enumerate(TRAINING.items()):
        back = decode(schema, name, cells.value[:, index])
        expected = pd.array(values, dtype=object)
        assert (pd.isna(back) == pd.isna(expected)).all()
        assert [a for a in back if not pd.isna(a)] == [a for a in values if a is not None]
    assert not cells.fraction[:, 1:4].any()


def test_labels_without_gaps_keep_their_type():
    schema = schema_of(TRAINING, kinds=KINDS)
    assert decode(schema, "rooms", np.array([0.0, 3.0])).tolist() == [7, 1]
    assert decode(schema, "smokes", np.array([1.0, 0.0])).dtype == bool
    assert decode(schema, "rooms", np.array([0.0, np.nan])).dtype == float


def test_columns_may_come_in_another_order_or_lack():
    schema = schema_of(TRAINING, kinds=KINDS)
    cells = encoded(schema, TRAINING)
    turned = encoded(schema, dict(reversed(TRAINING.items())))
    np.testing.assert_array_equal(cells.code, turned.code)
    fewer = encoded(schema, {"city": TRAINING["city"]})
    np.testing.assert_array_equal(fewer.code[:, 2], cells.code[:, 2])
    np.testing.assert_array_equal(fewer.value, cells.hide([0, 1, 3, 4]).value)
    with pytest.raises(DataError, match="`name` must be a column of the table, .* got 'more'"):
        encoded(schema, {"more": [1.0]})


NEW = [({"city": ["Bonn", "Paris"]}, "'Paris'"), ({"rooms": [1, 2]}, "2")]


@pytest.mark.parametrize(("X", "label"), NEW, ids=["text", "number"])
def test_a_category_not_seen_in_training_is_an_error_or_absent(X, label):
    schema = schema_of(TRAINING, kinds=KINDS)
    (name,) = X
    message = f"Column {name!r} must hold labels seen in training, got {label} at row 1 (1 of 2"
    with pytest.raises(DataError, match=re.escape(message) + '.* unknown="unk"'):
        encoded(schema, X)
    message = (
        f"1 of 2 rows hold labels .*: 1 of column {name!r}, such as {label} at row 1, are taken"
    )
    with pytest.warns(ExfamWarning, match=message) as record:
        cells = encoded(schema, X, unknown="unk")
    assert len(record) == 1
    assert cells.present[:, schema.index(name)].tolist() == [True, False]
    with pytest.raises(ExfamError, match="`unknown` must be one of 'unk', 'error', got 'x'"):
        encoded(schema, X, unknown="x")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"age": ["a"]}, "Column 'age' must hold numbers, got 'a' at row 0"),
        ({"rooms": [None, "a"]}, "Column 'rooms' must hold numbers, got 'a' at row 1"),
        ({"smokes": ["yes"]}, "Column 'smokes' must hold booleans, got 'yes' at row 0"),
        ({"city": [5]}, "Column 'city' must hold texts, got 5 at row 0"),
        (
            {"visits": [5.0, 0.5]},
            "Column 'visits' must hold whole numbers from 0, got 0.5 at row 1",
        ),
    ],
)
def test_a_cell_of_another_type_than_in_training_is_refused(X, message):
    with pytest.raises(DataError, match=re.escape(message)):
        encoded(schema_of(TRAINING, kinds=KINDS), X, unknown="unk")


def test_rows_of_cells_are_cells():
    cells = encoded(schema_of(TRAINING, kinds=KINDS), TRAINING)
    for rows in (slice(1, 3), np.array([4, 0, 0]), np.arange(5) > 2):
        picked = cells[rows]
        assert isinstance(picked, Cells) and len(picked) == len(np.arange(5)[rows])
        np.testing.assert_array_equal(picked.value, cells.value[rows])
    whole = Cells.concatenate([cells[:2], cells[2:]])
    np.testing.assert_array_equal(whole.code, cells.code)
    np.testing.assert_array_equal(whole.fraction, cells.fraction)


FRAME = pd.DataFrame(
    {"a": [1.5, None], "b": pd.Categorical(["x", None]), "c": pd.array([1, None], dtype="Int64")},
    index=[7, 3],
)
FILLED = {
    "a": np.array([1.5, 2.5]),
    "b": np.array(["x", "x"], dtype=object),
    "c": np.array([1.0, 4.0]),
}


def test_a_pandas_frame_comes_back_with_its_index_and_types():
    filled = as_frame_like(FRAME, FILLED)
    assert filled.dtypes.tolist() == FRAME.dtypes.tolist() and filled.index.tolist() == [7, 3]
    assert filled.to_numpy().tolist() == [[1.5, "x", 1], [2.5, "x", 4]]
    assert FRAME["a"].isna().sum() == 1
    fractions = as_frame_like(FRAME, {"c": np.array([1.0, 4.5])})
    assert fractions["c"].tolist() == [1.0, 4.5]


def test_a_frame_of_any_kind_comes_back_filled():
    columns = {"a": [1.5, None], "b": ["x", None]}
    filled = {name: FILLED[name] for name in columns}
    expected = {"a": [1.5, 2.5], "b": ["x", "x"]}
    categories = pl.DataFrame(columns, schema={"a": pl.Float64, "b": pl.Enum(["x", "y"])})
    back = as_frame_like(categories, {**filled, "other": FILLED["c"]})
    assert back.schema == categories.schema and back.to_dict(as_series=False) == expected
    back = as_frame_like(pa.table(columns), filled)
    assert isinstance(back, pa.Table) and back.to_pydict() == expected
    back = as_frame_like(columns, {"a": FILLED["a"]})
    assert back["a"].tolist() == [1.5, 2.5] and back["b"] == ["x", None]


def test_an_array_comes_back_as_one_of_its_type():
    numbers = np.array([[1.0, np.nan], [3.0, 4.0]], dtype=np.float64)
    back = as_frame_like(numbers, {"x1": np.array([9.0, 4.0])})
    assert back.dtype == float and back.tolist() == [[1.0, 9.0], [3.0, 4.0]]
    mixed = [[1.0, None], [3.0, "b"]]
    back = as_frame_like(mixed, {"x1": np.array(["a", "b"], dtype=object)})
    assert back.tolist() == [[1.0, "a"], [3.0, "b"]]
