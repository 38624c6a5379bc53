"""Frames and files of values at places and times as Groups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int64
from pyarrow import types

from exfam.checks import DataError, shown
from exfam.columns.columns import Columns, times_in_text, zone_of
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.parts import Names, Part
from exfam.columns.rules import is_moment, is_real, is_text
from exfam.columns.suspects import warn_of_stand_ins, warn_of_twins
from exfam.estimator.rules import check_distinct, listed
from exfam.fields.data.facts import FieldFacts
from exfam.geometry import check_metric, wrong_coordinate
from exfam.groups import Groups
from exfam.reading.database import ReadingOptions
from exfam.reading.reader import open_columns

# Names that the columns of a field have for themselves.
TAKEN = ("coordinates", "covariates", "item", "time")
DAY = 86_400_000_000  # in microseconds


def read_field(
    data: Any,
    *,
    time: str,
    site: str,
    coordinates: str | Sequence[str],
    value: str,
    covariates: Names = None,
    metric: str = "haversine",
    missing: Any = None,
    sites: Any = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    date_format: str | None = None,
    sheet: str | None = None,
) -> Groups:
    """Rows of values at places and times as Groups: one group per time step, one element per site.

    Groups come in increasing time and are named by it, elements in the order of their sites'
    labels; the order of the rows changes nothing but `source_row`. Nothing is filled in: a cell
    without a row is no element, and one without a value is an element that is not `observed`
    (its value is NaN).
    The groups have `item` (codes of sites), one column of `values`, `attributes["coordinates"]`
    and `position` (both the coordinates), `attributes["covariates"]` where there are some, and
    `group_attributes["time"]`.

    `data`: a pandas or polars frame, an Arrow table or a mapping of columns; or a CSV, Parquet or
        JSON lines file, a folder or a query, as for `exfam.read`
    `time`: column of dates, timestamps (UTC if without a zone), dates in text, or numbers. Dates
        and timestamps become days since 1970-01-01, exact to the microsecond
    `site`: column of the sites' labels: text, whole numbers or booleans
    `coordinates`: columns of the sites' coordinates, the same in all rows of a site
    `value`: column of the values; None, NaN and empty cells are not observed
    `covariates`: columns of numbers known in every row, such as an altitude or a forecast of the
        value, for estimators that have this parameter; others leave them out
    `metric`: "haversine" for (latitude, longitude) in degrees, latitude from -90 to 90, longitude
        from -180 to 360; "euclidean" for any number of coordinates
    `missing`: numbers and texts that stand for a value that was not observed, such as -99
    `sites`: known labels that codes refer to; other sites get code -1 and come last in their group.
        None for those of the data
    `date_format`: how text in `time` writes dates: "iso" or a format of `datetime.strptime`; None
        for the one that all of the column fits
    `encoding`, `decimal`, `thousands`, `sheet`: how files are written, as for `exfam.read`

    Raises DataError naming the column, the row and the file for a pair of time and site that
    repeats, a site that moves, coordinates that are missing or off the globe, a missing time, site
    or covariate, values that are not numbers, and for data without any value (unless `sites` are
    given).

    >>> frame = {"day": ["2007-10-02", "2007-10-01"], "city": ["Oslo", "Bonn"], "lat": [59.9, 50.7],
    ...     "lon": [10.8, 7.1], "celsius": [8.5, -99]}
    >>> columns = dict(time="day", site="city", coordinates=["lat", "lon"], value="celsius")
    >>> groups = read_field(frame, missing=-99, **columns)
    >>> groups.observed
    array([False,  True])
    """
    names: Any = {"time": time, "site": site, "coordinates": coordinates, "value": value}
    how: Any = {"covariates": covariates, "metric": metric, "sites": sites}
    dialect = Dialect(encoding, decimal, thousands, date_format, missing, sheet)
    return read_field_with_facts(data, **names, **how, dialect=dialect)[0]


def read_field_with_facts(
    data: Any,
    *,
    time: str,
    site: str,
    coordinates: str | Sequence[str],
    value: str,
    covariates: Names = None,
    metric: str = "haversine",
    sites: Any = None,
    dialect: Dialect = BY_LOOKING,
) -> tuple[Groups, FieldFacts]:
    """As `read_field`, and what the field holds and lacks; `dialect`: how files are written."""
    check_metric(metric)
    check_names(time=time, site=site, coordinates=coordinates, value=value)
    check_distinct({"covariates": listed(covariates)})
    standing = np.asarray(dialect.numbers, dtype=np.float64)
    known = None if sites is None else np.asarray(sites)
    if known is not None and (known.ndim != 1 or len(set(known.tolist())) < len(known)):
        raise DataError(f"`sites` must be labels, each once, got {sites!r}.")
    axes = [coordinates] if isinstance(coordinates, str) else list(coordinates)
    at, where, what = Part("time", time), Part("site", site), Part("value", value)
    axis_parts = [Part("coordinates", name) for name in axes]
    vocabulary = {} if known is None else {site: known}
    more_parts = [Part("covariates", name) for name in listed(covariates)]
    parts = [at, where, *axis_parts, what, *more_parts]
    # Numbers are counted below; of text and cells, all is missing.
    columns = open_columns(data, parts, vocabulary=vocabulary, options=_options(dialect))
    times = _read_times(columns, at, dialect)
    of = _read_sites(columns, where, known)
    places = _read_coordinates(columns, axis_parts, of, metric)
    values, n_standing = _read_values(columns, what, standing)
    if dialect.missing is None:
        warn_of_stand_ins({value: values})
    if known is None and np.isnan(values).all():
        raise DataError(
            f"`value` must be observed at least once, got none in the {len(values)} rows of "
            f"column {value!r}{columns.origin.where}."
        )
    order = _checked_order(columns, times, of)
    stop = np.cumsum(np.bincount(times.codes))
    observed: np.ndarray = ~np.isnan(values)
    attributes = {"coordinates": places[order]}
    if more_parts:
        numbers = [columns.numbers(part) for part in more_parts]
        attributes["covariates"] = np.stack(numbers, axis=1, dtype=np.float64)[order]
    groups = Groups(
        start=np.concatenate([[0], stop[:-1]]),
        stop=stop,
        item=np.where(of.codes < len(of.known), of.codes, -1)[order],
        values={value: values[order]},
        attributes=attributes,
        group_attributes={"time": times.time},
        position=places[order],
        observed=None if observed.all() else observed[order],
        source_row=order,
        vocabulary={"item": of.known},
        group_names=times.names,
    )
    return groups, _facts(times, of, observed, n_standing)


def _facts(times: "_Times", sites: "_Sites", observed: np.ndarray, n_sentinel: int) -> FieldFacts:
    n_times, n_rows = len(times.names), len(observed)
    there = np.bincount(sites.codes, minlength=len(sites.names)) > 0
    heard = np.bincount(sites.codes[observed], minlength=len(sites.names)) > 0
    lit = np.bincount(times.codes[observed], minlength=n_times) > 0
    n_sites, n_observed = int(there.sum()), int(observed.sum())
    return FieldFacts(
        n_rows=n_rows,
        n_times=n_times,
        n_sites=n_sites,
        n_observed=n_observed,
        n_missing=n_rows - n_observed - n_sentinel,
        n_sentinel=n_sentinel,
        n_absent=n_times * n_sites - n_rows,
        times_without_values=tuple(times.names[~lit].tolist()),
        sites_without_values=tuple(sites.names[there & ~heard].tolist()),
        new_sites=tuple(sites.names[len(sites.known) :].tolist()),
    )


def check_names(**columns: Any) -> None:
    """Raise DataError unless names of columns are text, those of coordinates one or several."""
    for argument, names in columns.items():
        several = argument == "coordinates" and isinstance(names, list | tuple)
        for name in names if several else [names]:
            if not isinstance(name, str):
                rule = "names of columns" if argument == "coordinates" else "the name of a column"
                raise DataError(f"`{argument}` must be {rule}, text, got {name!r}.")
    if not columns["coordinates"]:
        raise DataError("`coordinates` must name at least one column, got none.")
    if columns["value"] in TAKEN:
        raise DataError(
            f"`value` must not be named {columns['value']!r}, which a field has for itself. Rename "
            "the column."
        )


def _options(dialect: Dialect) -> ReadingOptions:
    """How to read, numbers that stand for a missing value as they are: they are counted."""
    missing = dialect.texts or (() if dialect.missing == () else None)
    return ReadingOptions(dialect=replace(dialect, missing=missing))


class _Times(NamedTuple):
    """A column of times: row i holds `names[codes[i]]`; times increase, each once."""

    codes: Int64[np.ndarray, "rows"]
    time: Float[np.ndarray, "times"]
    names: np.ndarray


def _read_times(columns: Columns, part: Part, dialect: Dialect) -> _Times:
    array = columns.check(part)
    if is_text(array.type):
        where = columns.origin.row
        array = times_in_text(array, name=part.name, dialect=dialect, where=where)
    elif is_moment(array.type):
        dialect.check_zone(part.name, zone_of(array.type))
    if is_moment(array.type):
        of_rows = columns.moments(part, array).astype(np.int64)
        moments, codes = np.unique(of_rows, return_inverse=True)
        return _Times(codes, moments / DAY, _named(moments))
    names, codes = np.unique(columns.numbers(part), return_inverse=True)
    return _Times(codes, names.astype(np.float64), names)


def named_days(time: Float[np.ndarray, "times"]) -> np.ndarray:
    """Days since 1970-01-01 as dates, or as timestamps if any is not at midnight."""
    return _named(np.round(time * DAY).astype(np.int64))


def _named(moments: Int64[np.ndarray, "times"]) -> np.ndarray:
    names = moments.astype("datetime64[us]")
    return names.astype("datetime64[D]") if not (moments % DAY).any() else names


class _Sites(NamedTuple):
    """A column of sites: row i holds `names[codes[i]]`; `known` ones come first."""

    codes: Int64[np.ndarray, "rows"]
    names: np.ndarray
    known: np.ndarray


def _read_sites(columns: Columns, part: Part, known: np.ndarray | None) -> _Sites:
    labels = columns.labels(part)
    warn_of_twins(part.argument, part.name, labels.names, () if known is None else known)
    if known is None:
        order = np.argsort(labels.names)
        names = labels.names[order]
        return _Sites(np.argsort(order)[labels.codes], names, names)
    held = {label: code for code, label in enumerate(known.tolist())}
    new = sorted({label for label in labels.names.tolist() if label not in held})
    code_of = held | {label: len(known) + k for k, label in enumerate(new)}
    codes = np.array([code_of[label] for label in labels.names.tolist()])
    return _Sites(codes[labels.codes], np.array([*known.tolist(), *new], dtype=object), known)


def _read_coordinates(
    columns: Columns, parts: Sequence[Part], sites: _Sites, metric: str
) -> Float[np.ndarray, "rows space"]:
    coordinates = np.stack([columns.numbers(part) for part in parts], axis=1, dtype=np.float64)
    if metric == "haversine" and len(parts) != 2:
        raise DataError(
            "`coordinates` must name two columns, latitude and longitude, for metric='haversine', "
            f"got {len(parts)}. Choose metric='euclidean' for other places."
        )
    wrong = wrong_coordinate(coordinates, metric=metric)
    if wrong is not None:
        here = np.arange(len(coordinates)) == wrong.row
        columns.complain(parts[wrong.column], wrong.rule, here, wrong.advice)
    codes, first = np.unique(sites.codes, return_index=True)
    first_row = first[np.searchsorted(codes, sites.codes)]
    moved = np.flatnonzero((coordinates != coordinates[first_row]).any(axis=1))
    if moved.size:
        row, before = int(moved[0]), int(first_row[moved[0]])
        here, there = (tuple(coordinates[index].tolist()) for index in (row, before))
        raise DataError(
            f"`coordinates` must stay the same for a site, got {here} for "
            f"{shown(sites.names[sites.codes[row]])} at {columns.origin.row(row)}, after {there} "
            f"at {columns.origin.row(before)} ({moved.size} of {columns.n_rows} rows). Mend them, "
            "or give what moved a site label of its own."
        )
    return coordinates


def _read_values(
    columns: Columns, part: Part, standing: Float[np.ndarray, "numbers"]
) -> tuple[Float[np.ndarray, "rows"], int]:
    array, stands = columns.arrays[part], np.zeros(columns.n_rows, dtype=bool)
    if is_real(array.type) or types.is_integer(array.type):
        # -99.9 in a column of float32 is not the float64 that is closest to -99.9.
        dtype = np.float32 if types.is_float32(array.type) else np.float64
        floats = array.cast(pa.from_numpy_dtype(dtype), safe=False)
        values = floats.to_numpy(zero_copy_only=False)
        stands = np.isin(values, standing.astype(dtype))
        advice = "Mend these rows, or declare the number in missing."
        columns.complain(part, "be finite", np.isinf(values) & ~stands, advice)
        array = pc.if_else(pa.array(stands), pa.scalar(None, array.type), array)
    values = Columns({part: array}, columns.origin).numbers(part)
    return values.astype(np.float64, copy=False), int(stands.sum())


def _checked_order(columns: Columns, times: _Times, sites: _Sites) -> Int64[np.ndarray, "rows"]:
    """The rows by time, then site. Raises DataError where such a pair repeats."""
    cell = times.codes * len(sites.names) + sites.codes
    order = np.argsort(cell, kind="stable")
    again = np.flatnonzero(cell[order][1:] == cell[order][:-1]) + 1
    if again.size:
        k = again[np.argmin(order[again])]
        first, row = (int(number) for number in order[[k - 1, k]])
        when, site = times.names[times.codes[row]], sites.names[sites.codes[row]]
        raise DataError(
            f"`data` must have one row for each time and site, got {when} and {site!r} at "
            f"{columns.origin.row(row)} again, after {columns.origin.row(first)} ({again.size} of "
            f"{columns.n_rows} rows). Drop one of them or average them."
        )
    return order
