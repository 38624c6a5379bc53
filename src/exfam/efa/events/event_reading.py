"""What a user passes as events: frames of one stream, moments, time zones."""

import os
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from exfam.checks import DataError, ExfamError, check_positive, shown
from exfam.columns.columns import days_of
from exfam.columns.dialect import Dialect
from exfam.columns.frames import collected, open_frame, with_columns
from exfam.columns.parts import FrameColumns, Part
from exfam.columns.rules import is_moment, is_text
from exfam.dates import ISO, microseconds
from exfam.groups import Groups
from exfam.reading.database import ReadingOptions
from exfam.reading.folders import is_prepared
from exfam.reading.reader import open_columns

# The column of streams where there is one stream alone.
ONE_STREAM = "exfam stream"
# In days, or units of the column.
_LATEST = 1e20


def one_stream(X: Any, estimator: Any) -> tuple[Any, FrameColumns | None]:
    """The data, with a column of streams if they have none, and the columns of a frame."""
    columns = estimator._columns()
    is_frame = not isinstance(X, Groups | str | os.PathLike)
    if estimator.group is not None or not is_frame:
        return X, columns
    X = collected(X)
    opened = open_frame(X, argument="X")
    if estimator.time not in opened:
        raise DataError(
            f"`time` must name a column of the frame, got {estimator.time!r}; it has "
            f"{', '.join(map(repr, opened))}."
        )
    n = len(opened[estimator.time])
    X = with_columns(X, {ONE_STREAM: np.zeros(n, dtype=np.int64)})
    times = [n for n in (estimator.time, estimator.begin, estimator.end) if n is not None]
    return X, FrameColumns(
        group=ONE_STREAM,
        order=[estimator.time],
        item=estimator.item,
        value=estimator.value,
        position=times,
    )


def moment_of(name: str, given: Any) -> float:
    """A number, or a date as days since 1970."""
    is_number = isinstance(given, int | float | np.integer | np.floating)
    if is_number and -_LATEST <= given <= _LATEST:
        return float(given)
    if isinstance(given, str):
        found = microseconds(given, ISO)
        if found is not None:
            return found / 86_400e6
    elif not isinstance(given, Mapping):
        try:
            moment = np.datetime64(given, "us")
        except (OverflowError, TypeError, ValueError):
            moment = np.datetime64("NaT")
        if not np.isnat(moment):
            return float(days_of(np.array([moment]))[0])
    raise ExfamError(
        f"`{name}` must be a finite number, a date, or text such as '2024-01-31', got "
        f"{shown(given)}."
    )


def has_dates(X: Any, time: str | None, dialect: Dialect) -> bool:
    """Whether the column of times of a frame or file holds dates, or text that was read as such."""
    if isinstance(X, Groups) or time is None or (is_path(X) and is_prepared(X)):
        return False
    part = Part("position", time)
    kind = open_columns(X, [part], options=ReadingOptions(dialect=dialect)).arrays[part].type
    return is_moment(kind) or is_text(kind)


def is_path(X: Any) -> bool:
    """Whether this names a file or a folder."""
    return isinstance(X, str | os.PathLike)


def dates_of(days: np.ndarray) -> np.ndarray:
    """Days since 1970 as dates to the microsecond, NaT for what never comes."""
    held = np.isfinite(days) & (np.abs(days) < 3e6)
    moments = np.full(len(days), np.datetime64("NaT"), dtype="datetime64[us]")
    moments[held] = np.round(days[held] * 86_400e6).astype(np.int64).astype("datetime64[us]")
    return moments


def check_window(window: Any) -> None:
    """Raise ExfamError unless this is a length of time above 0."""
    check_positive("window", window)
    if window > _LATEST:
        raise ExfamError(f"`window` must be at most {_LATEST:g}, got {shown(window)}.")


def row_numbers(rows: Any) -> list[int]:
    """Numbers of rows; DataError for anything else."""
    given = rows if isinstance(rows, list | tuple | np.ndarray) else [rows]
    for row in given:
        if isinstance(row, bool) or not isinstance(row, int | np.integer):
            raise DataError(f"`rows` must be numbers of rows, from 0, got {shown(row)}.")
    return [int(row) for row in given]


def zone_must_be_known(zone: str | None) -> None:
    """Raise ExfamError for a time zone that this machine does not know."""
    if zone is None:
        return
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise ExfamError(
            f"`time_zone` must be a zone that this machine knows, such as 'Europe/Vienna', got "
            f"{zone!r}."
        ) from error
