"""What is learned of columns from the training rows alone; their cells as tokens, and back."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.preprocessing import KBinsDiscretizer, SplineTransformer

from exfam.checks import DataError, ExfamError
from exfam.tables.data import Column, TableSchema, as_frame_like, decode, label_array
from table_model_cases import encoded, learned, learned_and_encoded

SIZES = ["S", "M", "L"]
DRAWS = np.random.default_rng(0).gamma(2.0, size=500)


def only(values, **options):
    (column,) = learned({"a": values}, **options).columns
    return column


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": pd.Categorical(["L", "S"], categories=SIZES, ordered=True)}),
        pl.DataFrame({"a": pl.Series(["L", "S"], dtype=pl.Enum(SIZES))}),
        pa.table({"a": pa.DictionaryArray.from_arrays([2, 0], SIZES, ordered=True)}),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_declared_orders_are_kept_with_categories_that_never_occur(X):
    schema, cells = learned_and_encoded(X)
    assert (schema.columns[0].kind, schema.columns[0].labels.tolist()) == ("ordinal", SIZES)
    assert cells.code.tolist() == [[2], [0]]


@pytest.mark.parametrize(
    ("values", "declared", "kind", "labels"),
    [
        (["b", "a", "b"], None, "categorical", ["a", "b"]),
        ([True, True], None, "boolean", [False, True]),
        ([5, 3, 5], None, "numeric", None),
        ([0, 1, None], None, "ordinal", [0, 1]),
        (pd.Categorical([3, 1]), None, "categorical", [1, 3]),
        ([8, 4], [8, 6, 4], "ordinal", [8, 6, 4]),
        ([0, 3, None], "count", "count", None),
        ([1, 0], "boolean", "boolean", [False, True]),
        ([None, None], SIZES, "ordinal", SIZES),
        ([None, None], "boolean", "boolean", [False, True]),
        ([True, False], "ordinal", "ordinal", [False, True]),
    ],
)
def test_kinds_are_declared_or_guessed_by_type(values, declared, kind, labels):
    column = only(values, kinds=None if declared is None else {"a": declared})
    assert column.kind == kind
    assert (None if column.labels is None else column.labels.tolist()) == labels


def test_knots_are_quantiles_and_edges_those_of_scikit_learn():
    column = only(DRAWS, n_bins=11)
    indices = [np.mean(knot >= DRAWS) for knot in column.knots]
    np.testing.assert_allclose(indices, np.linspace(0, 1, 11), atol=1 / len(DRAWS))
    np.testing.assert_allclose((column.center, column.scale), (DRAWS.mean(), DRAWS.std()))
    column = only(DRAWS, numeric="binned", n_bins=7, n_knots=9)
    binner = KBinsDiscretizer(7, quantile_method="linear").fit(DRAWS[:, None])
    np.testing.assert_allclose(column.knots, binner.bin_edges_[0][1:-1])
    assert column.n_tokens == 7
    # A value that most rows have leaves knots to the others.
    knots = only(np.append(np.zeros(900), np.linspace(1, 2, 100)), n_bins=3, n_knots=11).knots
    assert (len(knots), np.sum(knots == 0)) == (11, 1)
    huge = only(np.linspace(-1, 1, 50) * 1.7e308, n_bins=5)
    assert np.isfinite([*huge.knots, huge.center, huge.scale]).all()


def test_several_tables_are_matched_by_name():
    first = {"age": [20.0, 30.0], "city": ["Oslo", "Bonn"], "rooms": [1, 2]}
    second = {"income": [5.5], "city": ["Rome"], "age": [90.0], "rooms": [None]}
    schema = learned(first, second)
    assert schema.names == ("age", "city", "rooms", "income")
    assert schema.column("city").labels.tolist() == ["Bonn", "Oslo", "Rome"]
    assert schema.column("age").knots.tolist() == [20.0, 30.0, 90.0]
    assert encoded(schema, second).code.tolist() == [[2, 2, -1, 0]]


ORDERED = pd.Categorical(["a"], ordered=True)


@pytest.mark.parametrize(
    ("values", "others", "message"),
    [
        (["a"], [1.5], "got text in table 0 and number in table 2."),
        (pd.Categorical([1]), [1], "got categories of number in table 0 and number in table 2."),
        (ORDERED, ["a"], "got categories in the order ['a'] in table 0"),
    ],
)
def test_a_column_is_of_one_kind_in_all_tables(values, others, message):
    with pytest.raises(DataError, match=re.escape("one kind in all tables, " + message)):
        learned({"a": values}, {"b": [1.0]}, {"a": others})


DISTINCT = "a list of distinct labels of one type"
BROKEN = [
    ([None, None], None, "Column 'a' must have a value in some row of training, got 2"),
    (SIZES, "ordinal", "Column 'a' must have its texts in an order to be ordinal"),
    (SIZES, "numeric", "Column 'a' must hold numbers, got 'S' at row 0 (3 of 3"),
    (SIZES, "boolean", "Column 'a' must hold booleans, got 'S' at row 0 (3 of 3"),
    ([1, 2, 0], [1, 2], "Column 'a' must be one of 1, 2, got 0 at row 2 (1 of 3"),
    ([1, 2, 0], SIZES, "Column 'a' must hold texts, got 1 at row 0 (3 of 3 rows)"),
    ([1, -2], "count", "Column 'a' must hold whole numbers from 0, got -2 at row 1"),
    ([0.5], "count", "Column 'a' must hold whole numbers from 0, got 0.5 at row 0"),
    *(([0.5], kind, DISTINCT) for kind in ([], int, [1, 1], [1, "b"], [1, np.nan])),
    ([0.5], "real", "`kinds['a']` must be one of 'categorical', 'ordinal', 'boolean'"),
]


@pytest.mark.parametrize(("values", "kind", "message"), BROKEN)
def test_columns_that_are_not_of_their_kind_are_refused(values, kind, message):
    with pytest.raises(ExfamError, match=re.escape(message)):
        only(values, kinds=None if kind is None else {"a": kind})


def test_errors_name_columns_and_the_row_in_its_own_table():
    with pytest.raises(DataError, match=re.escape("got -1 at row 0 (1 of 1 rows)")):
        learned({"a": [1, 2]}, {"a": [-1]}, kinds={"a": "count"})
    with pytest.raises(DataError, match="`kinds` must name columns of the table, 'a'; got 'b'"):
        only([0.5], kinds={"b": "count"})
    with pytest.raises(DataError, match="`name` must be a column of the table, one of 'a', got"):
        learned({"a": SIZES}).index("b")


def test_a_saved_column_has_labels_or_knots():
    config = Column("size", "ordinal", labels=label_array(["S", "M"])).to_config()
    for change, message in (
        ({"labels": None}, "'size' must have labels or knots"),
        ({"labels": [["S"], ["M"]]}, "'size' must be one list, got a nested one"),
        ({"knots": [2.0, 1.0]}, "knots of the column 'size' must be finite and increasing"),
    ):
        with pytest.raises(ValueError, match=message):
            Column.from_config(config | change)


TRAINING = {
    "age": [20.5, 30.0, None, 41.25, 80.0],
    "rooms": [3, 1, 1, None, 7],
    "city": ["Oslo", "Bonn", "Rome", None, "Oslo"],
    "smokes": [None, True, False, True, True],
    "visits": [0, 4, 1, None, 9],
}
KINDS = {"visits": "count", "rooms": [7, 5, 3, 1]}
SCHEMA = learned(TRAINING, kinds=KINDS)


@pytest.mark.parametrize("numeric", ["continuous", "binned"])
def test_cells_decode_to_what_they_were_also_through_json(numeric):
    schema = learned(TRAINING, kinds=KINDS, numeric=numeric)
    back = TableSchema.from_config(json.loads(json.dumps(schema.to_config())))
    assert back.to_config() == schema.to_config()
    cells = encoded(back, TRAINING)
    np.testing.assert_array_equal(cells.code, encoded(schema, TRAINING).code)
    for index, (name, values) in enumerate(TRAINING.items()):
        result = decode(back, name, cells.value[:, index])
        assert pd.isna(result).tolist() == [value is None for value in values]
        assert [a for a in result if not pd.isna(a)] == [a for a in values if a is not None]
    assert not cells.fraction[:, 1:4].any()


@pytest.mark.parametrize("n_bins", [2, 20, 100])
def test_hat_functions_are_the_splines_of_degree_one(n_bins):
    values = np.random.default_rng(0).gamma(2.0, size=(400, 1))
    schema = learned(values, n_bins=n_bins)
    cells, knots = encoded(schema, values), schema.columns[0].knots
    splines = SplineTransformer(degree=1, knots=knots[:, None], extrapolation="constant")
    weights = np.zeros((400, len(knots) + 1))
    code, fraction = cells.code[:, 0], cells.fraction[:, 0].astype(float)
    weights[np.arange(400), code] = 1 - fraction
    weights[np.arange(400), code + 1] += fraction
    np.testing.assert_allclose(weights[:, :-1], splines.fit_transform(values), atol=1e-6)
    assert ((fraction >= 0) & (fraction < 1)).all() and len(np.unique(fraction)) > 300


@pytest.mark.parametrize(
    ("knots", "values", "code", "fraction"),
    [
        # Beyond the outer knots numbers are clamped, and keep their value.
        ([1.0, 2.0, 4.0], [-1e300, 0.5, 4.0, 1e300], [0, 0, 2, 2], [0.0] * 4),
        ([-1.7e308, 1.7e308], [0.0, 0.85e308], [0, 0], [0.5, 0.75]),
        ([0.0, 1.0], [np.nextafter(1.0, 0.0)], [0], [1 - 2**-24]),
    ],
)
def test_a_fraction_is_below_one_however_far_a_number_lies(knots, values, code, fraction):
    cells = encoded(learned({"a": knots}), {"a": values})
    assert cells.code[:, 0].tolist() == code and (cells.fraction < 1).all()
    np.testing.assert_allclose(cells.fraction[:, 0], fraction)
    assert cells.value[:, 0].tolist() == values


@pytest.mark.parametrize("n_bins", [4, 100])
def test_a_value_on_an_edge_lies_in_the_lower_bin(n_bins):
    schema = learned({"a": np.arange(1.0, 401.0)}, numeric="binned", n_bins=n_bins)
    edges = schema.columns[0].knots
    at = np.concatenate([edges, np.nextafter(edges, np.inf), [-1e9, 1e9]])
    codes = encoded(schema, {"a": at}).code[:, 0]
    np.testing.assert_array_equal(codes, np.digitize(at, edges, right=True))


def test_labels_without_gaps_keep_their_type():
    assert decode(SCHEMA, "rooms", np.array([0.0, 3.0])).tolist() == [7, 1]
    assert decode(SCHEMA, "smokes", np.array([1.0, 0.0])).dtype == bool
    assert decode(SCHEMA, "rooms", np.array([0.0, np.nan])).dtype == float
    message = "codes of the 4 labels of 'rooms', whole numbers from 0, got 0.5 at row 1"
    with pytest.raises(ExfamError, match=message):
        decode(SCHEMA, "rooms", np.array([np.nan, 0.5]))


def test_columns_may_come_in_another_order_or_lack():
    fewer = encoded(SCHEMA, {"city": TRAINING["city"], "age": TRAINING["age"]})
    hidden = encoded(SCHEMA, TRAINING).hide([1, 3, 4])
    np.testing.assert_array_equal(fewer.code, hidden.code)
    np.testing.assert_array_equal(fewer.value, hidden.value)


def test_a_frame_of_any_kind_comes_back_filled_with_its_index_and_types():
    texts, whole = np.array(["x", "x"], dtype=object), np.array([1.0, 4.0])
    columns = {"a": [1.5, None], "b": ["x", None]}
    filled, expected = {"a": np.array([1.5, 2.5]), "b": texts}, {"a": [1.5, 2.5], "b": ["x", "x"]}
    frame = pd.DataFrame({**columns, "c": pd.array([1, None], dtype="Int64")}, index=[7, 3])
    frame = frame.astype({"b": "category"})
    back = as_frame_like(frame, {**filled, "c": whole})
    assert back.dtypes.tolist() == frame.dtypes.tolist() and back.index.tolist() == [7, 3]
    assert back.to_dict("list") == {**expected, "c": [1, 4]} and frame["a"].isna().sum() == 1
    assert as_frame_like(frame, {"c": whole + 0.5})["c"].tolist() == [1.5, 4.5]
    categories = pl.DataFrame(columns, schema={"a": pl.Float64, "b": pl.Enum(["x", "y"])})
    back = as_frame_like(categories, filled)
    assert back.schema == categories.schema and back.to_dict(as_series=False) == expected
    back = as_frame_like(pa.table(columns), filled)
    assert isinstance(back, pa.Table) and back.to_pydict() == expected
    back = as_frame_like(columns, {"a": filled["a"]})
    assert back["a"].tolist() == [1.5, 2.5] and back["b"] == ["x", None]
    back = as_frame_like(np.array([[1.0, np.nan], [3.0, 4.0]]), {"x1": np.array([9.0, 4.0])})
    assert back.dtype == float and back.tolist() == [[1.0, 9.0], [3.0, 4.0]]
    back = as_frame_like([[1.0, None], [3.0, "b"]], {"x1": np.array(["a", "b"], dtype=object)})
    assert back.tolist() == [[1.0, "a"], [3.0, "b"]]
