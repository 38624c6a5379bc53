"""Columns of times: dates, timestamps, ISO text and numbers as numbers that can be compared."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from exfam.columns.columns import Columns
from exfam.columns.kinds import is_moment, is_text
from exfam.columns.parts import Part
from exfam.dates import parse_dates

DAY = 86_400_000_000  # in microseconds


@dataclass(frozen=True, eq=False)
class Times:
    """A column of times: row i holds `names[codes[i]]`; times increase, each once.

    `time`: days since 1970-01-01 in UTC for dates and timestamps, numbers as they are.
    """

    codes: Int64[np.ndarray, "rows"]
    time: Float[np.ndarray, "times"]
    names: np.ndarray


def read_times(columns: Columns, part: Part, *, date_format: str | None = None) -> Times:
    """A column of dates, timestamps (in UTC if without a zone), dates in text or finite numbers.

    Raises DataError naming the row of a time that is missing or none of these.

    >>> from exfam.reading.columns import open_columns
    >>> part = Part("time", "day")
    >>> read_times(open_columns({"day": ["1970-01-03", "1970-01-02"]}, [part]), part).time
    array([1., 2.])
    """
    array = columns.check(part)
    if is_text(array.type):
        where = columns.places.row
        array = pa.array(parse_dates(array, name=part.name, date_format=date_format, where=where))
    if is_moment(array.type):
        moments, codes = np.unique(
            columns.moments(part, array).astype(np.int64), return_inverse=True
        )
        return Times(codes, moments / DAY, _named(moments))
    names, codes = np.unique(columns.numbers(part), return_inverse=True)
    return Times(codes, names.astype(np.float64), names)


def named_days(time: Float[np.ndarray, "times"]) -> np.ndarray:
    """Days since 1970-01-01 as dates, or as timestamps if any is not at midnight.

    >>> named_days(np.array([13787.0])).tolist()
    [datetime.date(2007, 10, 1)]
    """
    return _named(np.round(time * DAY).astype(np.int64))


def _named(moments: Int64[np.ndarray, "times"]) -> np.ndarray:
    names = moments.astype("datetime64[us]")
    return names.astype("datetime64[D]") if not (moments % DAY).any() else names
