"""Dates in text: one format for a whole column, or a refusal that names the remedy."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from exfam.checks import DataError
from exfam.dates import find_date_format, parse_dates

DAYS = [datetime(2024, 1, 31, 13, 30), datetime(2023, 12, 2, 9, 15), datetime(1999, 6, 7)]
MONTHS = [datetime(2024, month, 28) for month in range(1, 13)]
OF_DAYS = (
    "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S.%f", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%b-%Y",
    "%B %d, %Y", "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M:%S", "%d-%b-%y", "%m/%d/%y",
)  # fmt: skip
OF_MONTHS = ("%Y-%m", "%m/%Y", "%b %Y", "%Y%m%d", "%d%m%Y")
FORMATS = [*((name, DAYS) for name in OF_DAYS), *((name, MONTHS) for name in OF_MONTHS)]


@pytest.mark.parametrize(("date_format", "days"), FORMATS)
def test_every_format_reads_what_it_writes(date_format, days):
    texts = [day.strftime(date_format) for day in days]
    match = find_date_format(texts, name="day")
    assert match == ("iso" if date_format.startswith("%Y-%m-%d") else date_format)
    moments = parse_dates(texts, name="day", date_format=match).tolist()
    assert [moment.strftime(date_format) for moment in moments] == texts


def test_zones_missing_texts_and_categories():
    moments = parse_dates(["2024-01-31T12:30+02:00", None, "2024-01-31T10:30Z"], name="at")
    assert moments[0] == moments[2] and np.isnat(moments[1])
    assert np.isnat(parse_dates(pa.array([None, None], pa.string()), name="at")).all()
    texts = pa.array(["2024-01-31", "2024-02-01", "no date"]).dictionary_encode()[:2]
    assert parse_dates(texts, name="day").tolist()[0] == datetime(2024, 1, 31)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["01/02/2024", "03/04/2024"], "'01/02/2024' at row 0.*'%d/%m/%Y' or '%m/%d/%Y'. Name the"),
        (["05/05/2024", "05/06/2024"], "got '05/06/2024' at row 1, and all of the column fits"),
        (["31/12/24", "15/01/24"], "fits '%d/%m/%y' or '%y/%m/%d'. Name the right one"),
        (["15/01/2024", "12/31/2023"], "here '%d/%m/%Y', got '12/31/2023' at row 1 .1 of 2 rows"),
        (["2023-02-29"], "'day' must hold dates such as '2024-01-31'.*got '2023-02-29' at row 0"),
    ],
)
def test_dates_that_cannot_be_read_in_one_way_are_refused(texts, message):
    with pytest.raises(DataError, match=message):
        parse_dates(texts, name="day")


@pytest.mark.parametrize("date_format", ["%Q", "", "%d/%m", 5])
def test_a_format_without_a_year_is_refused(date_format):
    with pytest.raises(DataError, match=r"`date_format` must be 'iso' or a format of .* a year"):
        parse_dates(["01/02"], name="day", date_format=date_format)


@pytest.mark.parametrize("texts", [["2024-01-31", "Oslo"], [None], ["1112024"], ["11122324"]])
def test_a_column_is_dates_only_if_all_of_it_is(texts):
    assert find_date_format(texts, name="day") is None


def test_a_column_that_is_nearly_all_dates_is_refused():
    days = [f"{day:02d}/01/2024" for day in range(1, 32)]
    match = "one format, here '%d/%m/%Y', got 'unknown' at row 3 .1 of 32 rows"
    with pytest.raises(DataError, match=match):
        find_date_format([*days[:3], "unknown", *days[3:]], name="day")
    assert find_date_format([*days[:8], "unknown"], name="day") is None
    # Other dates of the format could be read in several ways.
    with pytest.raises(DataError, match="can be read in one way"):
        find_date_format(["05/05/2024"], name="day")
