"""Columns of dates: the days that have passed and the parts of the calendar, inputs alone."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exfam
from exfam.checks import DataError, ExfamError
from table_model_cases import learned, learned_and_encoded
from tables.table_estimator_cases import FRAME, JOINT, KINDS, fit

WHEN = pd.date_range("2011-01-01", periods=len(FRAME), freq="101h")
DATED = FRAME[["height", "city"]].assign(when=WHEN)
WRITTEN = {
    "seconds": WHEN.astype("datetime64[s]"),
    "with a zone": WHEN.tz_localize("UTC").tz_convert("Asia/Tokyo"),
    "ISO text": WHEN.strftime("%Y-%m-%dT%H:%M"),
    "categories": pd.Series(WHEN.strftime("%d.%m.%Y %H:%M")).astype("category"),
    "Python's own": np.array([moment.to_pydatetime() for moment in WHEN], dtype=object),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_dates_are_the_same_cells_however_they_are_written(written):
    expected = learned_and_encoded({"when": WHEN})[1]
    own = written.tolist() if isinstance(written, np.ndarray) else written
    for frame in (pd.DataFrame({"when": written}), pl.DataFrame({"when": own})):
        schema, cells = learned_and_encoded(frame)
        assert schema.columns[0].kind == "date" and schema.targets == ()
        np.testing.assert_array_equal(cells.value, expected.value)
        np.testing.assert_array_equal(cells.code, expected.code)


def test_dates_are_days_since_1970_and_where_in_the_calendar_they_are():
    schema, cells = learned_and_encoded({"when": ["2024-01-01T06:00", "2024-07-01T18:00", None]})
    by_name = dict(zip(schema.names, cells.value.T, strict=True))
    assert by_name["when"][:2].tolist() == [19723.25, 19905.75]
    np.testing.assert_allclose(by_name["when year cos"][:2], [1.0, -1.0], atol=0.02)
    np.testing.assert_allclose(by_name["when day sin"][:2], [1.0, -1.0])
    assert "when weekday" not in schema.names  # both are Mondays
    assert not cells.present[2].any()
    assert learned({"when": [datetime.date(2024, 1, 1)] * 2}).names == ("when",)


@pytest.mark.parametrize("date_format", [None, "%d/%m/%Y", {"when": "%d/%m/%Y"}])
@pytest.mark.parametrize("odd", ["unknown", ""])
def test_one_cell_that_is_no_date_makes_no_categories(odd, date_format):
    """It made a category for each date, silently."""
    days = pd.date_range("2024-01-01", periods=300).strftime("%d/%m/%Y").tolist()
    with pytest.raises(DataError, match=f"got '{odd}' at row 7 .1 of 300 rows"):
        learned({"when": [*days[:7], odd, *days[8:]]}, date_format=date_format)
    declared = learned({"when": [*days, odd]}, kinds={"when": "categorical"})
    assert declared.columns[0].kind == "categorical"


def test_a_format_for_all_columns_leaves_dates_of_another():
    days = pd.date_range("2024-01-01", periods=40)
    frame = {"a": days.strftime("%d/%m/%Y"), "b": days.strftime("%Y-%m-%d"), "c": ["x", "y"] * 20}
    dates = learned(frame, date_format="%d/%m/%Y").dates
    assert [(date.name, date.date_format) for date in dates] == [("a", "%d/%m/%Y"), ("b", "iso")]


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_given_and_never_predicted(kind):
    model = fit(kind, DATED.assign(when=WHEN.strftime("%Y-%m-%d")))
    # A column of dates as text was a category for each, and every new row was refused.
    assert np.isfinite(model.log_prob(DATED.assign(when="2031-05-01"))).all()
    drawn = model.sample(2, given={"when": "2011-05-01"})["when"]
    assert drawn.astype("datetime64[D]").tolist() == [datetime.date(2011, 5, 1)] * 2
    for call in (
        lambda: model.conditional(["when"]),
        lambda: model.log_prob(DATED, order=["when", "city"]),
        lambda: model.experts(DATED[:3], ["when weekday"]),
    ):
        with pytest.raises(DataError, match="got 'when.*', which is a date or part of one"):
            call()
    parts = model.conditional(["height", "city"], given=DATED[["when"]]).log_prob(DATED)
    result = model.log_prob(DATED, order=["height", "city"])
    np.testing.assert_allclose(result, parts, atol=1e-6)
    imputed = model.impute(DATED[:4].assign(when=[pd.NaT, *WHEN[1:4]], height=np.nan))
    assert imputed.frame["when"].isna().tolist() == [True, False, False, False]
    assert imputed.frame["height"].notna().all() and not imputed.filled["when"].any()


def test_dates_are_read_again_as_they_were(tmp_path):
    text = DATED.assign(when=WHEN.strftime("%d/%m/%Y"))
    model = fit(JOINT, text)
    model.save(tmp_path / "model")
    back = exfam.load(tmp_path / "model")
    ambiguous = text[:2].assign(when=["02/01/2011", "01/02/2011"])
    iso = ambiguous.assign(when=pd.to_datetime(["2011-01-02", "2011-02-01"]))
    for same in (ambiguous, iso):
        np.testing.assert_array_equal(back.log_prob(same), model.log_prob(ambiguous))


FAR = np.datetime64("20000-01-01", "s")
AMBIGUOUS = {"when": ["01/02/2011", "03/04/2011"] * 40}
BROKEN = [
    ({"when": "01/02/2011"}, {}, "'when' must hold dates that can be read in one way"),
    ({"when weekday": 1.5}, {}, "`X` must have no column 'when weekday' beside the dates"),
    ({"when": FAR}, {}, "of the years 1 to 9999, got .20000-01-01"),
    ({}, {"date_format": {"city": "%d/%m/%Y"}}, "Column 'city' must hold dates of one format"),
    (AMBIGUOUS, {"date_format": "%H"}, "`date_format` must be 'iso' or a format"),
    ({}, {"date_format": {"day": "%d/%m/%Y"}}, "`date_format` must name columns of the table, got"),
    ({}, {"kinds": {"when": "numeric"}}, "must be of kind 'date', got dates and the kind 'num"),
    ({}, {"kinds": {"city": "date"}}, "'city' must hold dates such as '2024-01-31'"),
]


@pytest.mark.parametrize(("change", "parameters", "message"), BROKEN)
def test_columns_that_cannot_be_learned(change, parameters, message):
    with pytest.raises(ExfamError, match=message):
        fit(JOINT, DATED.assign(**change), **parameters)


def test_formats_are_declared():
    ambiguous = DATED.assign(**AMBIGUOUS)
    model = fit(JOINT, ambiguous, date_format="%d/%m/%Y")
    days = model.schema_.column("when").knots
    assert pd.to_datetime(days, unit="D").month.tolist() == [2, 4]
    model = fit(JOINT, DATED)
    for cell, message in ((5, "hold dates, got 5 at row 0"), ("soon", "such as '2024-01-31' or")):
        with pytest.raises(DataError, match=f"Column 'when' must .*{message}"):
            model.log_prob(DATED.assign(when=cell))


def test_dates_alone_are_no_table():
    with pytest.raises(DataError, match="`X` must have a column besides dates, got dates alone"):
        fit(JOINT, DATED[["when"]])
