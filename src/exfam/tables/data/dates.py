"""Columns of dates: the time that has passed, and where in the year, week and day it was."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Shaped

from exfam.checks import DataError, ExfamError
from exfam.dates import NEARLY_ALL, date_share, find_date_format, parse_dates
from exfam.tables.data.frames import RawColumn, RawTable, cell_error
from exfam.tables.data.schema import PARTS, DateColumn

_DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")
_DAYS_A_YEAR = 365.2425
_MONDAY = 4  # days from 1970-01-01, a Thursday, to the first Monday


def find_dates(
    tables: Sequence[RawTable], kinds: Mapping[str, Any], date_format: Any
) -> tuple[DateColumn, ...]:
    """The columns of dates: those that hold dates, are declared so, or whose text all is dates."""
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    by_name = date_format if isinstance(date_format, Mapping) else {}
    for name in by_name:
        if name not in names:
            raise ExfamError(f"`date_format` must name columns of the table, got {name!r}.")
    dates = []
    for name in names:
        columns = [table.columns[name] for table in tables if name in table.columns]
        filled = [column for column in columns if not column.is_empty]
        declared = "date" if name in by_name else kinds.get(name)
        own = by_name.get(name) if isinstance(date_format, Mapping) else date_format
        if not filled:
            continue
        if any(column.type == "date" for column in filled) or declared == "date":
            if declared not in (None, "date"):
                raise DataError(
                    f"Column {name!r} must be of kind 'date', got dates and the kind {declared!r}. "
                    "Convert it to numbers or texts first, or leave it out of `kinds`."
                )
            own = own or find_date_format(_texts(filled), name=name)
        else:
            texts = all(column.type == "text" and column.order is None for column in filled)
            own = _format_of(_texts(filled), name, own) if declared is None and texts else None
            if own is None:
                continue
        moments = np.concatenate([_moments(name, column, own) for column in filled])
        days = moments[~np.isnat(moments)].astype(np.int64) / _DAY
        every = _parts(days, DateColumn("", None, tuple(PARTS)))
        varying = [p for p, names in PARTS.items() if np.ptp(every[f" {names[-1]}"] * 1.0) > 0]
        dates.append(DateColumn(name, own, tuple(varying)))
    return tuple(dates)


def with_date_parts(table: RawTable, dates: Sequence[DateColumn]) -> RawTable:
    """The table with days since 1970 in place of dates, and beside them their parts."""
    columns = dict(table.columns)
    for date in dates:
        for name in date.part_names:
            if name in columns:
                raise DataError(
                    f"`X` must have no column {name!r} beside the dates in {date.name!r}, of which "
                    "that is a part. Rename one of them."
                )
        if date.name in columns:
            raw = columns[date.name]
            moments = _moments(date.name, raw, date.date_format)
            missing = np.isnat(moments)
            days = np.where(missing, 0.0, moments.astype(np.int64) / _DAY)
            parts = {date.name: days, **_parts(days, date)}
            columns |= {name: RawColumn(values, missing) for name, values in parts.items()}
    return RawTable(columns, table.n_rows)


def as_dates(days: Float64[np.ndarray, "rows"]) -> Shaped[np.ndarray, "rows"]:
    """Days since 1970 as datetime64 in microseconds; NaT for NaN."""
    missing = np.isnan(days)
    moments = np.rint(np.where(missing, 0.0, days) * _DAY).astype(np.int64).astype("datetime64[us]")
    return np.where(missing, np.datetime64("NaT", "us"), moments)


def _format_of(texts: pa.Array, name: str, date_format: str | None) -> str | None:
    """The format of text of no declared kind: the one given, if it is dates of it, or its own."""
    if date_format is not None:
        share = date_share(texts, date_format=date_format)
        if share == 1:
            return date_format
    try:
        if date_format is not None and share >= NEARLY_ALL:
            parse_dates(texts, name=name, date_format=date_format)
        return find_date_format(texts, name=name)
    except DataError as error:
        raise DataError(
            f"{error} If they are no dates, declare kinds={{{name!r}: 'categorical'}}."
        ) from error


def _texts(columns: Sequence[RawColumn]) -> pa.Array:
    texts = [_text(column) for column in columns if column.type == "text"]
    return pa.concat_arrays(texts) if texts else pa.nulls(0, pa.large_string())


def _text(column: RawColumn) -> pa.Array:
    codes = pa.array(column.values, pa.int64(), mask=column.missing)
    return pa.array(column.labels, pa.large_string()).take(codes)


def _moments(name: str, column: RawColumn, date_format: str | None) -> Shaped[np.ndarray, "rows"]:
    if column.is_empty:
        return np.full(len(column), np.datetime64("NaT", "us"))
    if column.type == "text":
        return parse_dates(_text(column), name=name, date_format=date_format)
    if column.type != "date":
        advice = "Convert the column, or declare its kind in `kinds`."
        raise cell_error(name, "hold dates", column, ~column.missing, advice=advice)
    return np.where(column.missing, np.datetime64("NaT", "us"), column.values)


def _parts(days: Float64[np.ndarray, "rows"], date: DateColumn) -> dict[str, np.ndarray]:
    start = np.floor(days).astype("datetime64[D]").astype("datetime64[Y]").astype("datetime64[D]")
    year = 2 * np.pi * (days - start.astype(np.float64)) / _DAYS_A_YEAR
    day = 2 * np.pi * (days - np.floor(days))
    every = {
        "year sin": np.sin(year),
        "year cos": np.cos(year),
        "weekday": (np.floor(days).astype(np.int64) - _MONDAY) % 7,
        "day sin": np.sin(day),
        "day cos": np.cos(day),
    }
    return {f"{date.name} {name}": every[name] for part in date.parts for name in PARTS[part]}
