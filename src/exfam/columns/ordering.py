"""Columns of text in the order of what they write: numbers, dates, numbered names."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exfam.checks import DataError, ExfamError, is_utf8
from exfam.dates import find_date_format, parse_dates

Where = Callable[[int], str]

# One pattern for a whole column. What is not a number (a, b, c) is the same in every row.
_NUMBERED = (
    r"^(?P<before>|[^\d]*[^\d.,+\-]|[^\d]*\w-)(?P<a>\d{1,18})(?P<after>|[^\d.,][^\d]*)$",
    r"^(?P<a>\d{4})(?P<between>[-/ ]?[WQ]?)(?P<b>\d{1,2})$",
    r"^(?P<a>\d{1,2}):(?P<b>\d{2})$",
    r"^(?P<a>\d{1,2}):(?P<b>\d{2}):(?P<c>\d{2})$",
)
_NUMBERS = ("a", "b", "c")


def check_date_format(date_format: Any) -> None:
    """Raise ExfamError for a format of digits alone, whose dates look like numbers.

    >>> check_date_format("%d/%m/%Y")
    """
    if isinstance(date_format, str) and not is_utf8(date_format):
        raise ExfamError(f"`date_format` must be text that UTF-8 can write, got {date_format!r}.")
    if isinstance(date_format, str) and datetime(2024, 2, 1).strftime(date_format).isdigit():
        raise ExfamError(
            f"`date_format` must have something between its numbers, got {date_format!r}: such "
            "dates look like numbers. Convert the column to dates first."
        )


def sortable_text(
    texts: pa.Array, *, name: str, date_format: str | None = None, where: Where = "row {}".format
) -> pa.Array:
    """A column of text, none of it missing, as numbers or timestamps that sort as it should.

    Numbers sort as numbers, unless some have leading zeros and all are dates, such as 01052023.
    Dates are read in the format that all of the column fits, or in
    `date_format`. Names such as t9 and t10, weeks such as 2024-W07 and times such as 09:30 sort by
    their numbers.

    `name`: what errors call the column
    `date_format`: as for `exfam.dates.parse_dates` (default None)
    `where`: a row in words, such as "row 3"

    Raises DataError naming column, row and remedy for any other text, which has no order.

    >>> sortable_text(pa.array(["t9", "t10"]), name="step").to_pylist()
    [9, 10]
    >>> sortable_text(pa.array(["31/12/2023", "15/01/2024"]), name="day").type
    TimestampType(timestamp[us])
    """
    numbers = _numbers(texts)
    if numbers is not None:
        dates = _padded_dates(texts, name, where)
        numbers = numbers if dates is None else dates
    if numbers is None and date_format is None:
        numbers = _numbered(texts)
    if numbers is not None:
        return numbers
    dates = dates_in_text(texts, name=name, date_format=date_format, where=where)
    if dates is not None:
        return dates
    raise DataError(
        f"`order` must hold numbers, dates or names with one number each, such as 't9' and 't10', "
        f"got {texts[0].as_py()!r} at {where(0)} of column {name!r}. Other text has no order of "
        "its own: convert the column to numbers, or name the format of dates in `date_format`."
    )


def dates_in_text(
    texts: pa.Array, *, name: str, date_format: str | None = None, where: Where = "row {}".format
) -> pa.Array | None:
    """A column of text, none of it missing, as timestamps; None if it does not begin with a date.

    Arguments and errors are those of `sortable_text`.

    >>> dates_in_text(pa.array(["2024-01-15"]), name="day").to_pylist()
    [datetime.datetime(2024, 1, 15, 0, 0)]
    """
    first = texts[0].as_py() if len(texts) else ""
    if date_format is None and (first.isdigit() or not _is_date(first)):
        return None
    return pa.array(parse_dates(texts, name=name, date_format=date_format, where=where))


def _is_date(text: str) -> bool:
    try:
        return find_date_format([text], name="") is not None
    except DataError:  # a date of several formats
        return True


def _numbers(texts: pa.Array) -> pa.Array | None:
    """The numbers that all texts write; None if one writes none, or no finite one."""
    trimmed = pc.utf8_trim_whitespace(texts)
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = trimmed.cast(kind)
        except pa.ArrowInvalid:
            continue
        is_finite = kind == pa.int64() or pc.all(pc.is_finite(numbers)).as_py()
        return numbers if is_finite else None
    return None


def _padded_dates(texts: pa.Array, name: str, where: Where) -> pa.Array | None:
    """The dates that numbers with leading zeros write, such as 01052023; None if they are none."""
    padded = pc.match_substring_regex(texts, r"^\s*0\d")
    if not pc.any(padded).as_py():
        return None
    try:
        date_format = find_date_format(texts, name=name, where=where)
    except DataError as error:
        row = pc.index(padded, True).as_py()
        raise DataError(
            "`order` must hold numbers, or dates that can be read in one way, got "
            f"{texts[row].as_py()!r} at {where(row)} of column {name!r}, which may be either. "
            "Write dates as 2024-01-31, numbers without leading zeros."
        ) from error
    if date_format is None:
        return None
    return pa.array(parse_dates(texts, name=name, date_format=date_format, where=where))


def _numbered(texts: pa.Array) -> pa.Array | None:
    """The numbers of names that differ in nothing else; None for other texts."""
    for pattern in _NUMBERED:
        parts = pc.extract_regex(texts, pattern)
        if parts.null_count or not len(parts):
            continue
        columns = dict(zip((field.name for field in parts.type), parts.flatten(), strict=True))
        if any(pc.count_distinct(columns[key]).as_py() > 1 for key in columns.keys() - {*_NUMBERS}):
            continue
        numbers = np.zeros(len(texts), dtype=np.int64)
        for key in _NUMBERS:
            if key in columns:
                part = columns[key].cast(pa.int64()).to_numpy(zero_copy_only=False)
                numbers = numbers * 100 + part
        return pa.array(numbers)
    return None
