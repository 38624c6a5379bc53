"""Dates in text: one format for a whole column, or a refusal that names the remedy."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from exfam.checks import DataError
from exfam.dates import ISO, find_date_format, parse_dates

FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S.%f",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%Y/%m/%d",
    "%d-%b-%Y",
    "%d %B %Y",
    "%B %d, %Y",
    "%m/%d/%Y %I:%M %p",
    "%d.%m.%Y %H:%M:%S",
    "%d-%b-%y",
    "%m/%d/%y",
)


@pytest.mark.parametrize("date_format", FORMATS)
def test_every_format_reads_what_it_writes(date_format):
    days = [datetime(2024, 1, 31, 13, 30), datetime(2023, 12, 2, 9, 15), datetime(1999, 6, 7)]
    texts = [day.strftime(date_format) for day in days]
    back = parse_dates(texts, name="day").tolist()
    assert [moment.strftime(date_format) for moment in back] == texts
    found = find_date_format(texts, name="day")
    again = parse_dates(texts, name="day", date_format=found).tolist()
    named = back if found == ISO else parse_dates(texts, name="day", date_format=date_format)
    assert back == again == list(named)


def test_a_zone_is_taken_into_account_and_missing_text_is_no_date():
    read = parse_dates(["2024-01-31T12:30+02:00", None, "2024-01-31T10:30Z"], name="at")
    assert read[0] == read[2] and np.isnat(read[1])
    assert np.isnat(parse_dates(pa.array([None, None], pa.string()), name="at")).all()


def test_categories_are_read_as_their_texts():
    texts = pa.array(["2024-01-31", "2024-02-01", "no date"]).dictionary_encode()[:2]
    assert parse_dates(texts, name="day").tolist()[0] == datetime(2024, 1, 31)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["01/02/2024", "03/04/2024"], "'01/02/2024' at row 0.*'%d/%m/%Y' or '%m/%d/%Y'. Name the"),
        (["05/05/2024", "05/06/2024"], "got '05/06/2024' at row 1, and all of the column fits"),
        (["15/01/2024", "12/31/2023"], "here '%d/%m/%Y', got '12/31/2023' at row 1 .1 of 2 rows"),
        (["2024-01-31", "later"], "got 'later' at row 1 .1 of 2 rows.. Mend these cells"),
        (["2023-02-29"], "such as '2024-01-31'.*got '2023-02-29' at row 0"),
        (["later"], "Column 'day' must hold dates such as '2024-01-31'"),
    ],
)
def test_dates_that_cannot_be_read_in_one_way_are_refused(texts, message):
    with pytest.raises(DataError, match=message):
        parse_dates(texts, name="day")


@pytest.mark.parametrize("date_format", ["%Q", "%", "", "%d/%m", "%H:%M", "abc", 5, b"%Y"])
def test_a_format_without_a_year_is_refused(date_format):
    with pytest.raises(DataError, match=r"`date_format` must be 'iso' or a format of .* a year"):
        parse_dates(["01/02"], name="day", date_format=date_format)


def test_a_column_is_dates_only_if_all_of_it_is():
    assert find_date_format(["2024-01-31", "Oslo"], name="day") is None
    assert find_date_format([None], name="day") is None
    assert find_date_format(["2024-01-31", None], name="day") == ISO


@pytest.mark.parametrize("date_format", ["%Y-%m", "%m/%Y", "%m.%Y", "%b %Y", "%Y%m%d", "%d%m%Y"])
def test_months_and_dates_of_digits_alone_are_found(date_format):
    texts = [datetime(2024, month, 28).strftime(date_format) for month in range(1, 13)]
    assert find_date_format(texts, name="when") == date_format


@pytest.mark.parametrize("texts", [["1112024"], ["11122324"], ["13.2023"], ["24-01"]])
def test_other_numbers_are_no_dates(texts):
    assert find_date_format(texts, name="code") is None


@pytest.mark.parametrize("odd", ["unknown", ""])
def test_a_column_that_is_nearly_all_dates_is_refused(odd):
    days = [f"{day:02d}/01/2024" for day in range(1, 32)]
    match = f"one format, here '%d/%m/%Y', got '{odd}' at row 3 .1 of 32 rows"
    with pytest.raises(DataError, match=match):
        find_date_format([*days[:3], odd, *days[3:]], name="day")
    assert find_date_format([*days[:8], odd], name="day") is None


def test_short_years_that_can_be_read_in_two_ways_are_refused():
    with pytest.raises(DataError, match="fits '%d/%m/%y' or '%y/%m/%d'. Name the right one"):
        find_date_format(["31/12/24", "15/01/24"], name="day")


@pytest.mark.parametrize("texts", [["05/05/2024"], ["01/02/2024", "05/05/2024"]])
def test_a_format_that_other_dates_would_be_ambiguous_in_is_not_kept(texts):
    """Text of which only the dates at hand can be read in one way."""
    with pytest.raises(DataError, match="can be read in one way"):
        find_date_format(texts, name="day")
