"""Dates and times written as text: one format for a whole column, never a guess between two."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from re import ASCII, compile
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64, Shaped

from exfam.checks import DataError

__all__ = ["ISO", "find_date_format", "microseconds", "parse_dates"]

# The name of the format that years, months and days in this order have, as 2024-01-31T12:30.
ISO = "iso"

_ISO = compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?)?", ASCII
)
_DATES = (
    *(order.replace("-", by) for order in ("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d") for by in "/.-"),
    *(f"%d{by}{month}{by}%Y" for month in ("%b", "%B") for by in " -"),
    *(f"{month} %d{by}%Y" for month in ("%b", "%B") for by in (", ", " ")),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_FORMATS = (ISO, *(date + time for date, time in product(_DATES, _TIMES)))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Read in another way it is another day.
_PROBE = datetime(2024, 2, 1, 12, 30)


def parse_dates(
    texts: pa.Array | Sequence[str | None],
    *,
    name: str,
    date_format: Any = None,
    where: Callable[[int], str] = "row {}".format,
) -> Shaped[np.ndarray, "rows"]:
    """A column of text as moments, datetime64 in microseconds and UTC; NaT where text is missing.

    `name`: what errors call the column
    `date_format`: "iso" or a format of `datetime.strptime`, such as "%d/%m/%Y"; None for the one
        format that all of the column fits (default None)
    `where`: a row in words, such as "row 3"

    Raises DataError naming column, row and remedy for a text of another format, and for a column
    that fits several formats which disagree, such as 01/02/2024.

    >>> parse_dates(["15/01/2024", None, "01/02/2024"], name="day").astype("datetime64[D]").tolist()
    [datetime.date(2024, 1, 15), None, datetime.date(2024, 2, 1)]
    """
    codes, distinct = _coded(texts)
    if date_format is None:
        date_format = _fitting(codes, distinct, name, where)[0]
    _check_format(date_format)
    moments = [microseconds(text, date_format) for text in distinct]
    wrong = np.append([moment is None for moment in moments], False)[codes]
    if wrong.any():
        raise _not_in_format(codes, distinct, name, where, wrong=wrong, date_format=date_format)
    known = np.array([*moments, np.iinfo(np.int64).min], dtype=np.int64)  # the last is NaT
    return known[codes].astype("datetime64[us]")


def find_date_format(
    texts: pa.Array | Sequence[str | None],
    *,
    name: str,
    where: Callable[[int], str] = "row {}".format,
) -> str | None:
    """The one format of dates that all texts of a column fit; None if they are not dates.

    Not dates are columns in which some text fits none of the formats. A column of which every text
    is some date, but not all of one format, or of several, is refused as in `parse_dates`; so is
    one of which other dates could be read in several ways, such as 05/05/2024 alone.

    >>> find_date_format(["31.01.2024", "01.02.2024"], name="day")
    '%d.%m.%Y'
    >>> find_date_format(["Oslo", "Bonn"], name="city") is None
    True
    """
    codes, distinct = _coded(texts)
    if not distinct or not all(_possible(text, _FORMATS) for text in distinct):
        return None
    fitting = _fitting(codes, distinct, name, where)
    if len(_readings(_PROBE.strftime(fitting[0]), fitting)) > 1:
        raise _in_several_ways(distinct[0], where(int(np.argmax(codes >= 0))), name, fitting)
    return fitting[0]


def microseconds(text: str, date_format: str) -> int | None:
    """Microseconds since 1970, in UTC if the text names no zone; None if it is not so written.

    >>> microseconds("1970-01-02", ISO), microseconds("02.01.1970", "%d.%m.%Y")
    (86400000000, 86400000000)
    """
    try:
        if date_format == ISO:
            moment = datetime.fromisoformat(text) if _ISO.fullmatch(text) else None
        else:
            moment = datetime.strptime(text, date_format)
    except ValueError:  # such as a 31st of June
        return None
    if moment is None:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _check_format(date_format: Any) -> None:
    """Raise DataError for a format that cannot read the year that it writes."""
    if date_format == ISO:
        return
    try:
        right = datetime.strptime(_PROBE.strftime(date_format), date_format).year == _PROBE.year
    except (TypeError, ValueError):
        right = False
    if not right:
        raise DataError(
            f"`date_format` must be 'iso' or a format of datetime.strptime with a year, got "
            f"{date_format!r}. Write for instance '%d/%m/%Y' for 31/01/2024."
        )


def _coded(texts: pa.Array | Sequence[str | None]) -> tuple[Int64[np.ndarray, "rows"], list[str]]:
    """The distinct texts, and for each row which one it has; -1 where it is missing."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    coded = array.cast(pa.large_string()).dictionary_encode()
    codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, coded.dictionary.to_pylist()


def _possible(text: str, formats: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in formats if microseconds(text, each) is not None)


def _readings(text: str, formats: Iterable[str]) -> set[int]:
    """The moments that a text may be."""
    moments = (microseconds(text, each) for each in formats)
    return {moment for moment in moments if moment is not None}


def _fitting(
    codes: Int64[np.ndarray, "rows"], distinct: list[str], name: str, where: Callable[[int], str]
) -> tuple[str, ...]:
    """The formats that all texts fit. Raises DataError for none, and if they disagree on a text."""
    if all(_ISO.fullmatch(text) for text in distinct):
        return (ISO,)
    fitting: tuple[str, ...] = _FORMATS
    for code, text in enumerate(distinct):
        left = _possible(text, fitting)
        if not left:
            wrong, named = codes == code, fitting[0] if code else ISO
            raise _not_in_format(codes, distinct, name, where, wrong=wrong, date_format=named)
        fitting = left
    if len(fitting) > 1:
        for code, text in enumerate(distinct):
            if len(_readings(text, fitting)) > 1:
                raise _in_several_ways(text, where(int(np.argmax(codes == code))), name, fitting)
    return fitting


def _in_several_ways(text: str, row: str, name: str, fitting: Sequence[str]) -> DataError:
    either = " or ".join(repr(each) for each in fitting)
    return DataError(
        f"Column {name!r} must hold dates that can be read in one way, got {text!r} at {row}, and "
        f"all of the column fits {either}. Name the right one in `date_format`, or write dates as "
        "2024-01-31."
    )


def _not_in_format(
    codes: Int64[np.ndarray, "rows"],
    distinct: list[str],
    name: str,
    where: Callable[[int], str],
    *,
    wrong: Shaped[np.ndarray, "rows"],
    date_format: str,
) -> DataError:
    row = int(np.flatnonzero(wrong)[0])
    written = "such as '2024-01-31' or '2024-01-31T12:30'"
    if date_format != ISO:
        written = f"of one format, here {date_format!r}"
    return DataError(
        f"Column {name!r} must hold dates {written}, got {distinct[codes[row]]!r} at {where(row)} "
        f"({int(wrong.sum())} of {len(codes)} rows). Mend these cells, or name the format of the "
        "column in `date_format`, such as '%d/%m/%Y'."
    )
