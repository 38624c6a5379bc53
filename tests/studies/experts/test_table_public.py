import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam_studies.experts.tables.adult import WHITE_COLLAR, adult
from exfam_studies.experts.tables.auto_mpg import auto_mpg
from exfam_studies.experts.tables.public import bike_sharing, read_columns, wine_quality

# The paper's terciles, as its code prints them.
EDGES = {
    "displacement": (119, 232),
    "horsepower": (84, 110),
    "weight": (2395, 3353),
    "acceleration": (14.5, 16.5),
    "model year": (74, 78),
}
SHIFTS = {
    "auto-mpg": auto_mpg,
    "bike-day": bike_sharing,
    "bike-hour": lambda: bike_sharing("hour"),
    "wine": wine_quality,
    "adult-occupation": adult,
    "adult-country": lambda: adult("country"),
}
SIZES = {
    "auto-mpg": (245, 140),
    "bike-day": (365, 366),
    "bike-hour": (8645, 8734),
    "wine": (1599, 4898),
    "adult-occupation": (24819, 21214),
    "adult-country": (43832, 4153),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_tables_are_whole(data_folder, name):
    shift = SHIFTS[name]()
    assert shift.name == name
    assert (len(shift.train_y), len(shift.test_y)) == SIZES[name]
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
    assert set(cars.train["cylinders"]) == {4, 6, 8}
    assert set(cars.test["cylinders"]) == {4, 6}
    assert list(cars.levels["cylinders"]) == [4, 6, 8]


def test_bins_of_american_cars_alone_are_equally_full(data_folder):
    cars = auto_mpg("train")
    assert np.bincount(cars.train_y).min() > 70
    assert np.bincount(cars.test_y, minlength=3)[0] == 0


def test_nothing_tells_the_number_of_bikes_or_the_year(data_folder):
    for bikes in (bike_sharing(), bike_sharing("hour")):
        columns = {"instant", "dteday", "yr", "casual", "registered", "cnt"}
        assert not columns & set(bikes.train)
        assert bikes.train_y.sum() + bikes.test_y.sum() == 3_292_679
        assert bikes.train_y.mean() < bikes.test_y.mean()


def test_only_white_wines_have_quality_9(data_folder):
    wines = wine_quality()
    assert max(wines.train_y) == 8 and int((wines.test_y == 9).sum()) == 5
    assert len(wines.kinds) == 11


def test_adults_are_parted_by_what_they_no_longer_show(data_folder):
    by_work, by_country = adult("occupation"), adult("country")
    assert "occupation" not in by_work.kinds and "native_country" in by_work.kinds
    assert "native_country" not in by_country.kinds and "occupation" in by_country.kinds
    assert not set(WHITE_COLLAR) - set(by_country.train["occupation"])
    # "?" of the file is missing, and nothing else is.
    assert None in set(by_work.train["workclass"]) | set(by_country.train["workclass"])
    assert "?" not in set(by_country.train["workclass"])
    rich = [np.mean(part == ">50K") for part in (by_work.train_y, by_work.test_y)]
    assert rich[0] > 1.3 * rich[1]


def test_an_education_has_one_number(data_folder):
    from exfam_studies.experts.tables import adult as module

    rows = module._rows()
    pairs = set(zip(rows["education"], rows["education_num"], strict=True))
    assert len(pairs) == 16 == len(set(rows["education_num"].tolist()))


def test_unknown_parts_are_refused():
    for build in (adult, auto_mpg, bike_sharing):
        with pytest.raises(ExfamError, match=r"must be one of .*, got 'other'"):
            build("other")
