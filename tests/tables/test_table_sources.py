"""Estimators of tables read files by themselves, as the command line does, and marks of missing."""

import numpy as np
import pytest

from exfam import Community, DataError, ExfamWarning, MaskedTable, MaskedTableRegressor
from exfam.columns.dialect import Dialect
from exfam.columns.suspects import stand_in, warn_of_twins
from exfam.tables.data.table_files import read_marked, table_and_response_of, table_of


@pytest.fixture(scope="module")
def cars(tmp_path_factory):
    random = np.random.default_rng(0)
    size = random.normal(3, 1, 60).round(3)
    columns = {"size": size, "kind": ["a", "b"] * 30, "price": (2 * size + 1).round(2)}
    path = tmp_path_factory.mktemp("cars") / "cars.csv"
    lines = [
        "size;kind;price",
        *(";".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines).replace(".", ","))
    return path, columns


def without(columns, name):
    return {key: column for key, column in columns.items() if key != name}


def test_a_file_is_its_columns(cars):
    path, columns = cars
    options = {"base": "none", "max_epochs": 2, "progress": False, "seed": 0}
    of_file = MaskedTableRegressor(decimal=",", **options).fit(path, "price")
    response = {"price": columns["price"]}
    of_frame = MaskedTableRegressor(**options).fit(without(columns, "price"), response["price"])
    np.testing.assert_array_equal(
        of_file.predict(path), of_frame.predict(without(columns, "price"))
    )
    assert of_file.score(path, "price") == of_frame.score(
        without(columns, "price"), columns["price"]
    )
    assert of_file.log_score(path, "price") == of_frame.log_score(
        without(columns, "price"), columns["price"]
    )


def test_a_joint_model_fills_in_the_cells_of_a_file(cars):
    path, columns = cars
    model = MaskedTable(base="none", max_epochs=2, decimal=",", progress=False).fit(str(path))
    assert model.schema_.names == tuple(columns)
    assert model.transform(path)["size"].to_pylist() == columns["size"].tolist()


def test_communities_read_files(tmp_path):
    random = np.random.default_rng(0)
    rain = random.normal(size=60).round(3)
    sites = {"rain": rain, "reed": (rain > 0) * 1, "sedge": (random.normal(size=60) > 0) * 1}
    path = tmp_path / "sites.csv"
    path.write_text(
        "\n".join(
            [
                "rain,reed,sedge",
                *(",".join(map(str, row)) for row in zip(*sites.values(), strict=True)),
            ]
        )
    )
    options = {"species": ["reed", "sedge"], "correction": False}
    of_file, of_frame = Community(**options).fit(path), Community(**options).fit(sites)
    np.testing.assert_array_equal(of_file.predict(path), of_frame.predict(sites))


def test_a_response_that_is_no_column(cars):
    with pytest.raises(DataError, match=r"`y` must name a column of .*cars.csv, got 'cost'. Its"):
        table_and_response_of(cars[0], "cost", Dialect(decimal=","))


def test_what_is_no_path_stays_as_it_is():
    columns = {"a": [1]}
    assert table_of(columns, Dialect()) is columns
    assert table_and_response_of(columns, "y", Dialect()) == (columns, "y")


def test_marks_are_missing_cells():
    columns = {
        "size": [1.0, -999.0, 2.0],
        "single": np.array([-99.9, 1.0, 2.0], dtype=np.float32),
        "kind": ["a", " ? ", "b"],
        "truth": [True, False, True],
    }
    table = read_marked(columns, Dialect(missing=[-999, -99.9, "?"]))
    missing = {name: column.missing.tolist() for name, column in table.columns.items()}
    assert missing == {
        "size": [False, True, False],
        "single": [True, False, False],
        "kind": [False, True, False],
        "truth": [False] * 3,
    }


def test_numbers_and_labels_that_are_seldom_meant_are_pointed_out():
    columns = {"size": [1.0, 2.0, 3.0, -999.0] * 10, "kind": ["x", " x", "y", "y"] * 10}
    options = {"base": "none", "max_epochs": 1, "progress": False}
    with pytest.warns(ExfamWarning) as caught:
        MaskedTable(**options).fit(columns)
    lines = [str(warning.message) for warning in caught]
    assert any("'size' has -999 in 10 of 40 rows" in line for line in lines)
    assert any("'x' and ' x'" in line for line in lines)


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ([1, 2, 3, 4, 999, 999], 999),
        ([1.5, 2.5, 2.0, -99.9, -99.9], -99.9),
        ([0, 1, 2, 9999, -9999, 9999], 9999),
        ([1, 2, 3, 2147483647, 2147483647], 2147483647),
        ([1, 2, 3, 4, 999], None),  # once
        ([1, 2, 3, 98, 99, 99], None),  # not far
        ([1, 2, 3, 4, 1000, 1000], None),  # as good as any
        ([5, 5, 5, 99, 99], None),  # of others there is one number alone
        ([np.nan, np.nan], None),
        ([True, False], None),
    ],
)
def test_what_most_likely_stands_for_missing(column, found):
    result = stand_in(np.array(column))
    assert (None if result is None else result[0]) == found


def test_labels_are_compared_with_those_of_the_fit():
    with pytest.warns(ExfamWarning, match=r"'milk' and 'milk\\u200b', and 1 more such pairs"):
        warn_of_twins("item", "product", ["milk\u200b", "oat  milk", 3], ["milk", "oat milk"])
    warn_of_twins("item", "product", [" a", "b"])
    warn_of_twins("item", "product", [1, 2])
