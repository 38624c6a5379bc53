"""Columns of dates: the days that have passed and the parts of the calendar, inputs alone."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from exfam.checks import DataError, ExfamError
from exfam.tables.data import encode_table, learn_schema, read_table
from tables.table_estimator_cases import (
    CLASSIFIER,
    FRAME,
    JOINT,
    KINDS,
    REGRESSOR,
    RESPONSES,
    make,
)

WHEN = pd.date_range("2011-01-01", periods=len(FRAME), freq="101h")
DATED = FRAME[["height", "city"]].assign(when=WHEN)
WRITTEN = {
    "pandas": WHEN,
    "seconds": WHEN.astype("datetime64[s]"),
    "with a zone": WHEN.tz_localize("UTC").tz_convert("Asia/Tokyo"),
    "ISO text": WHEN.strftime("%Y-%m-%dT%H:%M"),
    "text of one format": WHEN.strftime("%d.%m.%Y %H:%M"),
    "categories": pd.Series(WHEN.strftime("%d.%m.%Y %H:%M")).astype("category"),
    "Python's own": np.array([moment.to_pydatetime() for moment in WHEN], dtype=object),
}


def dated(kind, X=DATED, **parameters):
    quick = {"kinds": None, "max_epochs": 1, **parameters}
    return make(kind, **quick).fit(X, RESPONSES[kind])


def cells_of(X, **options):
    table = read_table(X)
    schema = learn_schema(table, kinds=None, numeric="continuous", n_bins=4, **options)
    return schema, encode_table(schema, table, unknown="error")


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_dates_are_the_same_cells_however_they_are_written(written):
    expected = cells_of({"when": WHEN})[1]
    for frame in (pd.DataFrame, pl.DataFrame):
        if frame is pl.DataFrame and isinstance(written, np.ndarray):
            written = written.tolist()
        schema, cells = cells_of(frame({"when": written}))
        assert schema.columns[0].kind == "date" and schema.targets == ()
        np.testing.assert_array_equal(cells.value, expected.value)
        np.testing.assert_array_equal(cells.code, expected.code)


def test_dates_are_days_since_1970_and_where_in_the_calendar_they_are():
    schema, cells = cells_of({"when": ["2024-01-01T06:00", "2024-07-01T18:00", None]})
    assert (
        schema.names
        == (
            "when",
            "when year sin",
            "when year cos",
            "when weekday",
            "when day sin",
            "when day cos",
        )[:1]
        + schema.names[1:]
    )
    by_name = dict(zip(schema.names, cells.value.T, strict=True))
    assert by_name["when"][:2].tolist() == [19723.25, 19905.75]
    np.testing.assert_allclose(by_name["when year cos"][:2], [1.0, -1.0], atol=0.02)
    np.testing.assert_allclose(by_name["when day sin"][:2], [1.0, -1.0])
    assert "when weekday" not in schema.names  # both are Mondays
    assert not cells.present[2].any()


@pytest.mark.parametrize("date_format", [None, "%d/%m/%Y", {"when": "%d/%m/%Y"}])
@pytest.mark.parametrize("odd", ["unknown", ""])
def test_one_cell_that_is_no_date_makes_no_categories(odd, date_format):
    """It made a category for each date, silently."""
    days = pd.date_range("2024-01-01", periods=300).strftime("%d/%m/%Y").tolist()
    match = f"got '{odd}' at row 7 .1 of 300 rows"
    with pytest.raises(DataError, match=match):
        cells_of({"when": [*days[:7], odd, *days[8:]]}, date_format=date_format)
    remedy = "If they are no dates, declare kinds={'when': 'categorical'}"
    if not isinstance(date_format, dict):
        with pytest.raises(DataError, match=remedy):
            cells_of({"when": [*days, odd]}, date_format=date_format)
    declared = learn_schema(
        read_table({"when": [*days, odd]}),
        kinds={"when": "categorical"},
        numeric="continuous",
        n_bins=4,
    )
    assert declared.columns[0].kind == "categorical"


def test_a_format_for_all_columns_leaves_dates_of_another():
    days = pd.date_range("2024-01-01", periods=40)
    frame = {"a": days.strftime("%d/%m/%Y"), "b": days.strftime("%Y-%m-%d"), "c": ["x", "y"] * 20}
    dates = cells_of(frame, date_format="%d/%m/%Y")[0].dates
    assert [(date.name, date.date_format) for date in dates] == [("a", "%d/%m/%Y"), ("b", "iso")]


@pytest.mark.parametrize("kind", KINDS)
class TestDates:
    def test_new_dates_are_no_error(self, kind):
        """A column of dates as text was a category for each, and every new row was refused."""
        model = dated(kind, DATED.assign(when=WHEN.strftime("%Y-%m-%d %H:%M")))
        new = DATED[:3].assign(when=["2031-01-01", "1999-12-31T23:59", None])
        assert np.isfinite(model.log_prob(new)).all()
        assert model.features_ == ("height", "city", "when")

    def test_they_are_given_and_never_predicted(self, kind):
        model = dated(kind)
        assert (
            "when" not in model.sample(2, given={"city": "Oslo"})
            or np.isnat(model.sample(2)["when"]).all()
        )
        drawn = model.sample(2, given={"when": "2011-05-01"})["when"]
        assert drawn.astype("datetime64[D]").tolist() == [datetime.date(2011, 5, 1)] * 2
        for call in (
            lambda: model.conditional(["when"]),
            lambda: model.log_prob(DATED, order=["when", "city"]),
            lambda: model.experts(DATED[:3], ["when weekday"]),
        ):
            with pytest.raises(DataError, match="got 'when.*', which is a date or part of one"):
                call()

    def test_a_row_is_as_likely_given_its_date(self, kind):
        model = dated(kind)
        parts = model.conditional(["height", "city"], given=DATED[["when"]]).log_prob(DATED)
        np.testing.assert_allclose(
            model.log_prob(DATED, order=["height", "city"]), parts, atol=1e-6
        )

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"when": "01/02/2011"}, "'when' must hold dates that can be read in one way"),
            ({"when weekday": 1.5}, "`X` must have no column 'when weekday' beside the dates"),
            (
                {"when": np.datetime64("20000-01-01", "s")},
                "of the years 1 to 9999, got .20000-01-01",
            ),
        ],
    )
    def test_columns_that_cannot_be_learned(self, kind, change, message):
        with pytest.raises(DataError, match=message):
            dated(kind, DATED.assign(**change))

    def test_what_is_declared(self, kind):
        ambiguous = DATED.assign(when=["01/02/2011", "03/04/2011"] * 40)
        model = dated(kind, ambiguous, date_format="%d/%m/%Y")
        assert model.schema_.column("city").kind == "categorical"
        days = model.schema_.column("when").knots
        assert pd.to_datetime(days, unit="D").month.tolist() == [2, 4]
        with pytest.raises(DataError, match="Column 'city' must hold dates of one format"):
            dated(kind, date_format={"city": "%d/%m/%Y"})
        with pytest.raises(DataError, match="`date_format` must be 'iso' or a format"):
            dated(kind, ambiguous, date_format="%H")
        with pytest.raises(ExfamError, match="`date_format` must name columns of the table, got"):
            dated(kind, date_format={"day": "%d/%m/%Y"})
        with pytest.raises(DataError, match="must be of kind 'date', got dates and the kind 'num"):
            dated(kind, kinds={"when": "numeric"})
        with pytest.raises(DataError, match="'city' must hold dates such as '2024-01-31'"):
            dated(kind, kinds={"city": "date"})
        assert dated(kind, ambiguous, kinds={"when": "categorical"}).schema_.dates == ()

    def test_cells_that_are_no_dates(self, kind):
        model = dated(kind)
        with pytest.raises(DataError, match="Column 'when' must hold dates, got 5 at row 0"):
            model.log_prob(DATED.assign(when=5))
        with pytest.raises(DataError, match="'when' must hold dates such as '2024-01-31' or"):
            model.log_prob(DATED.assign(when="soon"))


@pytest.mark.parametrize("kind", [CLASSIFIER, REGRESSOR])
def test_a_date_is_no_response(kind):
    with pytest.raises(DataError, match="must be of kind 'date', got dates and the kind"):
        make(kind).fit(FRAME, WHEN)


def test_a_season_is_learned():
    season = np.sin(2 * np.pi * np.arange(len(WHEN)) / 87)  # 87 steps of 101 hours are a year
    model = make(REGRESSOR, kinds=None, max_epochs=60).fit(DATED[["when"]], season)
    assert model.score(DATED[["when"]], season) > 0.8
    flat = make(REGRESSOR, kinds=None, max_epochs=60).fit(DATED[["city"]], season)
    assert flat.score(DATED[["city"]], season) < 0.5


def test_dates_alone_predict_nothing():
    with pytest.raises(DataError, match="`X` must have a column besides dates, got dates alone"):
        make(JOINT, kinds=None).fit(DATED[["when"]])
