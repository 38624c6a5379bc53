"""Tables that are simulated, public or with cells missing."""

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam_studies.experts.tables.data import (
    SHARES,
    WHITE_COLLAR,
    adult,
    auto_mpg,
    bike_sharing,
    learn_features,
    missing_cells,
    read_columns,
    simulate_numbers,
    simulate_shifted_tables,
    wine_quality,
    with_dropped,
    with_missing,
)
from studies.experts.table_cases import toy

# The paper's terciles, as its code prints them.
EDGES = {
    "displacement": (119, 232), "horsepower": (84, 110), "weight": (2395, 3353),
    "acceleration": (14.5, 16.5), "model year": (74, 78),
}  # fmt: skip
SHIFTS = {
    auto_mpg: {"pooled": (245, 140)},
    bike_sharing: {"day": (365, 366), "hour": (8645, 8734)},
    wine_quality: {None: (1599, 4898)},
    adult: {"occupation": (24819, 21214), "country": (43832, 4153)},
}
SIMULATED = {"n_informative": 5, "noise": 0.0, "corr": 0.9, "seed": 0}


@pytest.mark.parametrize("corr", [0.1, 0.9])
def test_columns_are_correlated_as_the_setting_says(corr):
    tables = simulate_numbers(**{**SIMULATED, "corr": corr}, n_rows=20_000)
    sign = np.array([-1, -1, 1, 1, 1])
    for part, own in zip(tables, (corr, 1 - corr), strict=True):
        expected = np.outer(sign, sign) * (own + (1 - own) * np.eye(5))
        result = np.corrcoef(part[:, :5], rowvar=False)
        np.testing.assert_allclose(result, expected, atol=0.03)
    noisy = simulate_numbers(n_informative=1, noise=1.5, corr=corr, seed=0, n_rows=20_000)
    variance = [1 + 0.6**2] + [1 + 0.45**2] * 4
    np.testing.assert_allclose(noisy[0][:, :5].var(axis=0), variance, rtol=0.04)
    # y is linear in the same columns of both tables.
    slopes, *_ = np.linalg.lstsq(tables[0][:, :5], tables[0][:, 5])
    assert ((slopes > -0.2) & (slopes < 10.2)).all()
    for part in tables:
        residual = part[:, 5] - part[:, :5] @ slopes
        assert residual.std() == pytest.approx(2, rel=0.06) and abs(residual.mean()) < 0.2


def test_pooled_bins_are_equally_full_together_and_others_in_training():
    pooled, own = (simulate_shifted_tables(**SIMULATED, bins=bins) for bins in ("pooled", "train"))
    for name in pooled.train:
        assert (np.bincount(np.concatenate([pooled.train[name], pooled.test[name]])) == 400).all()
        assert (np.bincount(own.train[name]) == 200).all()
    assert (np.bincount(np.concatenate([pooled.train_y, pooled.test_y])) == 400).all()
    assert (np.bincount(own.test_y, minlength=10) != 200).any()
    # Codes rise with the numbers.
    order = np.argsort(simulate_numbers(**SIMULATED)[1][:, 5])
    assert (np.diff(pooled.test_y[order]) >= 0).all()


def test_arguments_out_of_range_are_refused():
    for changed, message in (
        ({"n_informative": 6}, "`n_informative` must be one of 1, 2, 3, 4, 5, got 6"),
        ({"corr": 1.0}, "`corr` must be a number strictly between 0 and 1, got 1.0"),
        ({"bins": "test"}, "`bins` must be one of 'pooled', 'train', got 'test'"),
    ):
        with pytest.raises(ExfamError, match=message):
            simulate_shifted_tables(**{**SIMULATED, **changed})
    for build in (adult, auto_mpg, bike_sharing):
        with pytest.raises(ExfamError, match=r"must be one of .*, got 'other'"):
            build("other")
    with pytest.raises(ExfamError, match="`by` must be one of 'cell', 'column', got 'row'"):
        with_missing({}, share=0.1, by="row", seed=0)


@pytest.mark.parametrize("build", SHIFTS)
def test_public_tables_are_whole(data_folder, build):
    for argument, sizes in SHIFTS[build].items():
        shift = build(argument) if argument else build()
        assert (len(shift.train_y), len(shift.test_y)) == sizes
        for part, y in ((shift.train, shift.train_y), (shift.test, shift.test_y)):
            assert list(part) == list(shift.kinds)
            assert {len(column) for column in part.values()} == {len(y)}
        assert set(shift.kinds.values()) <= {"categorical", "ordinal", "boolean", "numeric"}
        if "y" in shift.levels:
            assert set(shift.train_y) | set(shift.test_y) <= set(shift.levels["y"])


def test_cars_are_binned_as_in_the_paper(data_folder):
    cars = auto_mpg()
    assert np.bincount(cars.train_y).tolist() == [125, 83, 37]
    assert np.bincount(cars.test_y).tolist() == [4, 52, 84]
    rows = read_columns("tabular/auto-mpg.csv")
    kept = (rows["horsepower"] != "?") & np.isin(rows["cylinders"], (4, 6, 8))
    american = rows["origin"][kept] == 1
    for name, (low, high) in EDGES.items():
        values = rows[name][kept].astype(float)
        codes = (values > low).astype(int) + (values > high)
        np.testing.assert_array_equal(cars.train[name], codes[american])
        np.testing.assert_array_equal(cars.test[name], codes[~american])
    cylinders = np.concatenate([cars.train["cylinders"], cars.test["cylinders"]])
    assert (
        np.bincount(cylinders) == np.unique(rows["cylinders"][kept], return_counts=True)[1]
    ).all()
    own = auto_mpg("train")
    assert np.bincount(own.train_y).min() > 70
    assert np.bincount(own.test_y, minlength=3)[0] == 0


def test_no_column_shows_what_is_predicted(data_folder):
    for bikes in (bike_sharing(), bike_sharing("hour")):
        assert not {"instant", "dteday", "yr", "casual", "registered", "cnt"} & set(bikes.train)
        assert bikes.train_y.sum() + bikes.test_y.sum() == 3_292_679
    wines = wine_quality()
    assert max(wines.train_y) == 8 and int((wines.test_y == 9).sum()) == 5
    assert len(wines.kinds) == 11
    by_work, by_country = adult("occupation"), adult("country")
    assert "occupation" not in by_work.kinds and "native_country" in by_work.kinds
    assert "native_country" not in by_country.kinds and "occupation" in by_country.kinds
    assert not set(WHITE_COLLAR) - set(by_country.train["occupation"])
    # "?" of the file is missing, and nothing else is.
    kinds_of_work = set(by_country.train["workclass"])
    assert None in kinds_of_work and "?" not in kinds_of_work


def test_features_know_the_rows_to_fit_on_alone():
    table = toy("regression")
    features = learn_features(table)
    other = {**table.test, "color": np.array(["green"] * 200, dtype=object)}
    assert np.isnan(features.codes(other)[:, 0]).all() and features.unordered == [0]
    assert (features.design(other)[:, :2] == 0).all()
    whole = features.design(table.train)
    assert np.nanmean(whole[:, -1]) == pytest.approx(0, abs=1e-9)
    there = whole[~missing_cells(table.train["weight"]), -1]
    assert there.std() == pytest.approx(1)
    table.train["weight"][:] = 1.0  # a column that never varies stays finite
    assert (learn_features(table).design(table.train)[:, -1] == 0).all()


@pytest.mark.parametrize("by", ["cell", "column"])
def test_cells_go_missing_at_random(by):
    columns = toy("regression").test
    before = np.mean([missing_cells(cells).mean() for cells in columns.values()])
    hidden = with_missing(columns, share=0.5, by=by, seed=0)
    gone = [missing_cells(cells).mean() for cells in hidden.values()]
    assert np.mean(gone) == pytest.approx(0.5 + before / 2, abs=0.1)
    assert ((np.array(gone) == 1).sum() == 2) == (by == "column")
    for name, column in hidden.items():
        there = ~missing_cells(column)
        assert (column[there] == columns[name][there]).all()


def test_dropped_rows_come_once_with_every_share():
    table = toy("regression", n=400)
    table.train["weight"][:], table.train["color"][:] = 1.0, "red"
    whole = with_dropped(table, seed=0)
    gone = np.stack([missing_cells(column) for column in whole.train.values()]).mean(0)
    by_copy = gone.reshape(5, 80, 5).transpose(1, 0, 2)
    # Row by row: copy c of row i has the share at index i + c.
    turned = [by_copy[:, c, (k - c) % 5].mean() for c in range(5) for k in range(5)]
    np.testing.assert_allclose(np.reshape(turned, (5, 5)), [SHARES] * 5, atol=0.15)
    np.testing.assert_array_equal(whole.train_y, np.tile(table.train_y, 5))
    there, size = ~missing_cells(whole.train["size"]), np.tile(table.train["size"], 5)
    np.testing.assert_array_equal(whole.train["size"][there], size[there])
    once = with_dropped(toy("regression", n=5001), seed=0)
    assert len(once.train_y) == 5001 and missing_cells(once.train["size"]).any()
