"""What is learned of columns: kinds, labels, knots and edges, from the training rows alone."""

import itertools
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.preprocessing import KBinsDiscretizer

from exfam.checks import DataError, ExfamError
from exfam.tables.data import TableSchema
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
        ([0, 0], None, "numeric", None),
        ([-1, 0, 1, 0, 1], None, "numeric", None),
        ([0, 1, None], None, "ordinal", [0, 1]),
        ([0.5, 2.0], None, "numeric", None),
        (pd.Categorical([3, 1]), None, "categorical", [1, 3]),
        (pd.Categorical([3, 1], ordered=True, categories=[3, 2, 1]), None, "ordinal", [3, 2, 1]),
        (["M"], SIZES, "ordinal", SIZES),
        ([8, 4], [8, 6, 4], "ordinal", [8, 6, 4]),
        ([8.0, 4.0], (8, 6, 4), "ordinal", [8, 6, 4]),
        ([1.5, 0.5], "categorical", "categorical", [0.5, 1.5]),
        ([1, 0], "boolean", "boolean", [False, True]),
        ([None, None], SIZES, "ordinal", SIZES),
        ([None, None], "boolean", "boolean", [False, True]),
        ([True, False], "ordinal", "ordinal", [False, True]),
        ([True, False], [True, False], "ordinal", [True, False]),
    ],
)
def test_kinds_are_declared_or_guessed_by_type(values, declared, kind, labels):
    column = only(values, kinds=None if declared is None else {"a": declared})
    assert column.kind == kind
    assert (None if column.labels is None else column.labels.tolist()) == labels


def test_counts_are_declared():
    column = only([0, 3, None, 1], kinds={"a": "count"}, numeric="binned")
    assert (column.kind, column.binned, column.knots.tolist()) == ("count", False, [0.0, 1.0, 3.0])
    assert only([0, 3, None, 1]).kind == "numeric"


def test_knots_are_quantiles_and_edges_those_of_scikit_learn():
    column = only(DRAWS, n_bins=11)
    indices = [np.mean(knot >= DRAWS) for knot in column.knots]
    np.testing.assert_allclose(indices, np.linspace(0, 1, 11), atol=1 / len(DRAWS))
    assert column.n_tokens == 11
    np.testing.assert_allclose((column.center, column.scale), (DRAWS.mean(), DRAWS.std()))
    column = only(DRAWS, numeric="binned", n_bins=7, n_knots=9)
    binner = KBinsDiscretizer(7, quantile_method="linear").fit(DRAWS[:, None])
    np.testing.assert_allclose(column.knots, binner.bin_edges_[0][1:-1])
    assert column.n_tokens == 7
    # A value that most rows have leaves knots to the others.
    knots = only(np.append(np.zeros(900), np.linspace(1, 2, 100)), n_bins=3, n_knots=11).knots
    assert (len(knots), np.sum(knots == 0)) == (11, 1)


@pytest.mark.parametrize("numeric", ["continuous", "binned"])
@pytest.mark.parametrize(
    "values", [[2.5], [0.1] * 7, [0.0, 1.0], [0.0] + [1.0] * 30, [0.0] * 30 + [1.0], [1, 1, 2, 9.5]]
)
def test_few_distinct_values_have_few_tokens_and_none_too_many(values, numeric):
    schema, cells = learned_and_encoded({"a": values}, numeric=numeric)
    (column,) = schema.columns
    assert (np.diff(column.knots) > 0).all() and len(column.knots) >= 1
    assert (cells.fraction == 0).all() and (cells.code < column.n_tokens).all()
    distinct = len(set(values))
    assert len(np.unique(cells.code)) == min(distinct, column.n_tokens)
    if distinct == 1:
        assert (column.center, column.scale) == (values[0], 1.0)


@pytest.mark.parametrize("numeric", ["continuous", "binned"])
def test_huge_numbers_overflow_nowhere(numeric):
    column = only(np.linspace(-1, 1, 50) * 1.7e308, numeric=numeric, n_bins=5)
    assert np.isfinite(column.knots).all() and len(column.knots) >= 4
    assert np.isfinite([column.center, column.scale]).all()


def test_schemas_go_through_json():
    X = {"a": SIZES, "b": [1, 2, 3], "c": [1.5, 2.0, None], "d": [True, None, False]}
    for numeric, name in itertools.product(("continuous", "binned"), X):
        schema = learned(X, kinds={"a": SIZES, "b": "categorical"}, numeric=numeric)
        back = TableSchema.from_config(json.loads(json.dumps(schema.to_config())))
        column, other = schema.column(name), back.column(name)
        assert column.to_config() == other.to_config() and column.n_tokens == other.n_tokens
        if column.labels is not None:
            assert other.labels.dtype == column.labels.dtype
    assert only([0.5, 1.0], kinds={"a": "categorical"}).labels.dtype == float


def test_several_tables_are_matched_by_name():
    first = {"age": [20.0, 30.0], "city": ["Oslo", "Bonn"], "rooms": [1, 2]}
    second = {"income": [5.5], "city": ["Rome"], "age": [90.0], "rooms": [None]}
    schema = learned(first, second)
    assert schema.names == ("age", "city", "rooms", "income")
    assert schema.column("city").labels.tolist() == ["Bonn", "Oslo", "Rome"]
    assert schema.column("age").knots.tolist() == [20.0, 30.0, 90.0]
    assert encoded(schema, second).code.tolist() == [[2, 2, -1, 0]]
    one = learned({name: [*first[name], *second[name]] for name in ("age", "city")})
    assert one.to_config()["columns"] == schema.to_config()["columns"][:2]
    # Text is categorical whether or not a table says so.
    schema = learned({"a": pd.Categorical(["x"])}, {"a": ["y"]})
    assert schema.columns[0].labels.tolist() == ["x", "y"]


ORDERED = pd.Categorical(["a"], ordered=True)


@pytest.mark.parametrize(
    ("values", "others", "message"),
    [
        (["a"], [1.5], "got text in table 0 and number in table 2."),
        ([True], [1.5], "got boolean in table 0 and number in table 2."),
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
    ([None], "numeric", "Column 'a' must have a value in some row of training"),
    (SIZES, "ordinal", "Column 'a' must have its texts in an order to be ordinal"),
    (SIZES, "numeric", "Column 'a' must hold numbers, got 'S' at row 0 (3 of 3"),
    (SIZES, "boolean", "Column 'a' must hold booleans, got 'S' at row 0 (3 of 3"),
    ([1, 2, 0], "boolean", "be one of False, True, got 2 at row 1 (1 of 3 rows)"),
    ([1, 2, 0], [1, 2], "Column 'a' must be one of 1, 2, got 0 at row 2 (1 of 3"),
    ([1, 2, 0], SIZES, "Column 'a' must hold texts, got 1 at row 0 (3 of 3 rows)"),
    ([1, -2], "count", "Column 'a' must hold whole numbers from 0, got -2 at row 1"),
    ([0.5], "count", "Column 'a' must hold whole numbers from 0, got 0.5 at row 0"),
    ([0.5], [], DISTINCT),
    ([0.5], [1, 1], DISTINCT),
    ([0.5], [1, "b"], DISTINCT),
    ([0.5], [1, np.nan], DISTINCT),
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
    schema = learned({"a": SIZES})
    assert len(schema) == 1 and schema.index("a") == 0
    with pytest.raises(DataError, match="`name` must be a column of the table, one of 'a', got"):
        schema.index("b")
