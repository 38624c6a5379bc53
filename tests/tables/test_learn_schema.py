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
from exfam.tables.data import (
    Column,
    TableSchema,
    encode_table,
    label_array,
    learn_schema,
    read_table,
)

SIZES = ["S", "M", "L"]


def learned(X, *, kinds=None, numeric="continuous", n_bins=5, **options):
    tables = [read_table(each) for each in X] if isinstance(X, list) else read_table(X)
    return learn_schema(tables, kinds=kinds, numeric=numeric, n_bins=n_bins, **options)


def only(X, **options):
    (column,) = learned(X, **options).columns
    return column


def draws(n=500, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


ORDERED = [
    pd.DataFrame({"a": pd.Categorical(["L", "S"], categories=SIZES, ordered=True)}),
    pl.DataFrame({"a": pl.Series(["L", "S"], dtype=pl.Enum(SIZES))}),
    pa.table({"a": pa.DictionaryArray.from_arrays([2, 0], SIZES, ordered=True)}),
]


@pytest.mark.parametrize("X", ORDERED, ids=["pandas", "polars", "arrow"])
def test_declared_orders_are_kept_with_categories_that_never_occur(X):
    column = only(X)
    assert (column.kind, column.labels.tolist()) == ("ordinal", SIZES)
    table = read_table(X)
    assert encode_table(learned(X), table, unknown="error").code.tolist() == [[2], [0]]


@pytest.mark.parametrize(
    ("values", "kind", "labels"),
    [
        (["b", "a", "b"], "categorical", ["a", "b"]),
        ([True, True], "boolean", [False, True]),
        ([5, 3, 5], "numeric", None),
        ([0, 0], "numeric", None),
        ([-1, 0, 1, 0, 1], "numeric", None),
        ([0, 1, None], "ordinal", [0, 1]),
        ([0.5, 2.0], "numeric", None),
        (pd.Categorical([3, 1]), "categorical", [1, 3]),
        (pd.Categorical([3, 1], ordered=True, categories=[3, 2, 1]), "ordinal", [3, 2, 1]),
        (["b"], "categorical", ["b"]),
    ],
)
def test_kinds_are_guessed_by_type(values, kind, labels):
    column = only({"a": values})
    assert column.kind == kind
    assert (None if column.labels is None else column.labels.tolist()) == labels


@pytest.mark.parametrize(
    ("values", "declared", "kind", "labels"),
    [
        (["M"], SIZES, "ordinal", SIZES),
        ([8, 4], (8, 6, 4), "ordinal", [8, 6, 4]),
        ([8.0, 4.0], (8, 6, 4), "ordinal", [8, 6, 4]),
        ([1.5, 0.5], "categorical", "categorical", [0.5, 1.5]),
        ([1, 0], "boolean", "boolean", [False, True]),
        ([None, None], SIZES, "ordinal", SIZES),
        ([None, None], "boolean", "boolean", [False, True]),
        ([True, False], "ordinal", "ordinal", [False, True]),
        ([True, False], [True, False], "ordinal", [True, False]),
    ],
)
def test_a_declared_kind_is_the_kind(values, declared, kind, labels):
    column = only({"a": values}, kinds={"a": declared})
    assert (column.kind, column.labels.tolist()) == (kind, labels)


def test_a_value_that_most_rows_have_leaves_knots_to_the_others():
    values = np.append(np.zeros(900), np.linspace(1, 2, 100))
    knots = only({"a": values}, n_bins=11).knots
    assert (len(knots), np.sum(knots == 0)) == (11, 1)


def test_knots_are_quantiles():
    values = draws()
    column = only({"a": values}, n_bins=11)
    indices = [np.mean(values <= knot) for knot in column.knots]
    np.testing.assert_allclose(indices, np.linspace(0, 1, 11), atol=1 / len(values))
    assert column.n_tokens == 11
    np.testing.assert_allclose((column.center, column.scale), (values.mean(), values.std()))


def test_edges_are_those_of_scikit_learn():
    values = draws()
    column = only({"a": values}, numeric="binned", n_bins=7)
    binner = KBinsDiscretizer(7, quantile_method="linear").fit(values[:, None])
    np.testing.assert_allclose(column.knots, binner.bin_edges_[0][1:-1])
    assert column.n_tokens == 7


@pytest.mark.parametrize("numeric", ["continuous", "binned"])
def test_huge_numbers_overflow_nowhere(numeric):
    values = np.linspace(-1, 1, 50) * 1.7e308
    column = only({"a": values}, numeric=numeric)
    assert np.isfinite(column.knots).all() and len(column.knots) >= 4
    assert np.isfinite([column.center, column.scale]).all()


def test_schemas_go_through_json():
    X = {"a": SIZES, "b": [1, 2, 3], "c": [1.5, 2.0, None], "d": [True, None, False]}
    kinds = {"a": SIZES, "b": "categorical"}
    for numeric, name in itertools.product(("continuous", "binned"), X):
        schema = learned(X, kinds=kinds, numeric=numeric)
        back = TableSchema.from_config(json.loads(json.dumps(schema.to_config())))
        column, other = schema.column(name), back.column(name)
        assert column.to_config() == other.to_config() and column.n_tokens == other.n_tokens
        if column.labels is not None:
            assert other.labels.dtype == column.labels.dtype
    assert learned({"a": [0.5, 1.0]}, kinds={"a": "categorical"}).columns[0].labels.dtype == float


def test_several_tables_are_matched_by_name():
    first = {"age": [20.0, 30.0], "city": ["Oslo", "Bonn"], "rooms": [1, 2]}
    second = {"income": [5.5], "city": ["Rome"], "age": [90.0], "rooms": [None]}
    schema = learned([first, second])
    assert schema.names == ("age", "city", "rooms", "income")
    assert schema.column("city").labels.tolist() == ["Bonn", "Oslo", "Rome"]
    assert schema.column("age").knots.tolist() == [20.0, 30.0, 90.0]
    cells = encode_table(schema, read_table(second), unknown="error")
    assert cells.code.tolist() == [[2, 2, -1, 0]]
    one = learned({name: [*first[name], *second[name]] for name in ("age", "city")})
    assert one.to_config()["columns"] == schema.to_config()["columns"][:2]


@pytest.mark.parametrize(
    ("values", "others", "message"),
    [
        (["a"], [1.5], "got text in table 0 and number in table 2."),
        ([True], [1.5], "got boolean in table 0 and number in table 2."),
        (pd.Categorical([1]), [1], "got categories of number in table 0 and number in table 2."),
        (
            pd.Categorical(["a"], ordered=True),
            ["a"],
            "got categories in the order ['a'] in table 0",
        ),
    ],
)
def test_a_column_is_of_one_kind_in_all_tables(values, others, message):
    with pytest.raises(DataError, match=re.escape("one kind in all tables, " + message)):
        learned([{"a": values}, {"b": [1.0]}, {"a": others}])


BROKEN = [
    ({"a": [None, None]}, None, "Column 'a' must have a value in some row of training, got 2"),
    ({"a": [None]}, {"a": "numeric"}, "Column 'a' must have a value in some row of training"),
    ({"a": SIZES}, {"a": "ordinal"}, "Column 'a' must have its texts in an order to be ordinal"),
    ({"a": SIZES}, {"a": "numeric"}, "Column 'a' must hold numbers, got 'S' at row 0 (3 of 3"),
    ({"a": SIZES}, {"a": "boolean"}, "Column 'a' must hold booleans, got 'S' at row 0 (3 of 3"),
    ({"a": [1, 2, 0]}, {"a": "boolean"}, "be one of False, True, got 2 at row 1 (1 of 3 rows)"),
    ({"a": [1, 2, 0]}, {"a": [1, 2]}, "Column 'a' must be one of 1, 2, got 0 at row 2 (1 of 3"),
    ({"a": [1, 2, 0]}, {"a": SIZES}, "Column 'a' must hold texts, got 1 at row 0 (3 of 3 rows)"),
    ({"a": [1, -2]}, {"a": "count"}, "Column 'a' must hold whole numbers from 0, got -2 at row 1"),
    ({"a": [0.5]}, {"a": "count"}, "Column 'a' must hold whole numbers from 0, got 0.5 at row 0"),
    ({"a": [0.5]}, {"b": "count"}, "`kinds` must name columns of the table, 'a'; got 'b'."),
    ({"a": [0.5]}, {"a": []}, "a list of distinct labels of one type (texts, finite numbers or"),
    ({"a": [0.5]}, {"a": [1, 1]}, "a list of distinct labels of one type"),
    ({"a": [0.5]}, {"a": [1, "b"]}, "a list of distinct labels of one type"),
    ({"a": [0.5]}, {"a": [1, np.nan]}, "a list of distinct labels of one type"),
    (
        {"a": [0.5]},
        {"a": "real"},
        "`kinds['a']` must be one of 'categorical', 'ordinal', 'boolean'",
    ),
]


@pytest.mark.parametrize(("X", "kinds", "message"), BROKEN, ids=[each[2] for each in BROKEN])
def test_columns_that_are_not_of_their_kind_are_refused(X, kinds, message):
    with pytest.raises(ExfamError, match=re.escape(message)):
        learned(X, kinds=kinds)


def test_the_row_of_an_error_is_that_of_its_own_table():
    with pytest.raises(DataError, match=re.escape("got -1 at row 0 (1 of 1 rows)")):
        learned([{"a": [1, 2]}, {"a": [-1]}], kinds={"a": "count"})


def test_settings_are_checked():
    with pytest.raises(
        ExfamError, match="`numeric` must be one of 'continuous', 'binned', got 'x'"
    ):
        learned({"a": [0.5]}, numeric="x")
    with pytest.raises(ExfamError, match="`n_bins` must be an integer >= 2, got 1"):
        learned({"a": [0.5]}, n_bins=1)
    with pytest.raises(DataError, match="`tables` must hold at least one table, got none"):
        learned([])


def test_an_index_is_that_of_a_column():
    schema = TableSchema((Column("a", "ordinal", labels=label_array(SIZES)),))
    assert len(schema) == 1 and schema.index("a") == 0
    with pytest.raises(
        DataError, match="`name` must be a column of the table, one of 'a', got 'b'"
    ):
        schema.index("b")
