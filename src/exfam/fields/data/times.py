"""Columns of times: dates, timestamps, ISO text and numbers as numbers that can be compared."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int64
from pyarrow import types

from exfam.dates import parse_dates
from exfam.reading.source_columns import SourceColumns
from exfam.reading.table import Part

__all__ = ["Times", "named_days", "read_times"]

DAY = 86_400_000_000  # in microseconds
RULE = "be times (dates, timestamps, numbers, or text such as '2007-10-01' or '2007-10-01T12:30')"


@dataclass(frozen=True, eq=False)
class Times:
    """A column of times: row i holds `names[codes[i]]`; times increase, each once.

    `time`: days since 1970-01-01 in UTC for dates and timestamps, numbers as they are.
    """

    codes: Int64[np.ndarray, "rows"]
    time: Float[np.ndarray, "times"]
    names: np.ndarray


def read_times(columns: SourceColumns, part: Part, *, date_format: str | None = None) -> Times:
    """A column of dates, timestamps (in UTC if without a zone), dates in text or finite numbers.

    Raises DataError naming the row of a time that is missing or none of these.

    >>> from exfam.reading.source_columns import open_columns
    >>> part = Part("time", "day")
    >>> columns = open_columns({"day": ["1970-01-03", "1970-01-02"]}, [part], vocabulary={})
    >>> read_times(columns, part).time
    array([1., 2.])
    """
    array = columns.arrays[part]
    kind = array.type
    columns.complain(part, "not be missing", pc.is_null(array), "Drop these rows or mend them.")
    if types.is_large_string(kind):
        return _from_moments(_read_text(columns, part, date_format))
    if types.is_date(kind) or types.is_timestamp(kind):
        moments = array.cast(pa.timestamp("us"), safe=False)  # Arrow keeps zoned ones in UTC
        return _from_moments(moments.view(pa.int64()).to_numpy())
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if not is_number:
        columns.complain(part, RULE, np.ones(len(array), dtype=bool), "Convert the column first.")
    if not types.is_integer(kind) or kind == pa.uint64():
        array = array.cast(pa.float64(), safe=False)
    numbers = array.to_numpy()
    columns.complain(part, "be finite", ~np.isfinite(numbers), "Drop these rows or mend them.")
    names, codes = np.unique(numbers, return_inverse=True)
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


def _from_moments(moments: Int64[np.ndarray, "rows"]) -> Times:
    """Times of microseconds since 1970."""
    found, codes = np.unique(moments, return_inverse=True)
    return Times(codes, found / DAY, _named(found))


def _read_text(
    columns: SourceColumns, part: Part, date_format: str | None
) -> Int64[np.ndarray, "rows"]:
    dates = parse_dates(
        columns.arrays[part], name=part.name, date_format=date_format, where=columns.where
    )
    return dates.astype(np.int64)
