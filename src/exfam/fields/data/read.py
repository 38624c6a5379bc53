"""Frames and files of values at places and times as Groups."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int64
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.columns import Columns
from exfam.columns.kinds import is_real
from exfam.columns.parts import Part
from exfam.fields.data.facts import FieldFacts, count_facts
from exfam.fields.data.sites import Sites, read_coordinates, read_sites
from exfam.fields.data.times import Times, read_times
from exfam.geometry import check_metric
from exfam.groups import Groups
from exfam.reading.columns import open_columns

# Names that the columns of a field have for themselves.
TAKEN = ("coordinates", "item", "time")


def read_field(
    data: Any,
    *,
    time: str,
    site: str,
    coordinates: str | Sequence[str],
    value: str,
    metric: str = "haversine",
    missing: Any = (),
    sites: Any = None,
    date_format: str | None = None,
) -> Groups:
    """Rows of values at places and times as Groups: one group per time step, one element per site.

    Groups come in increasing time and are named by it, elements in the order of their sites'
    labels; the order of the rows changes nothing but `source_row`. Nothing is filled in: a cell
    without a row is no element, and one without a value is an element that is not `observed`
    (its value is NaN). Time steps and sites that have rows and no value at all are kept.
    The groups have `item` (codes of sites), one column of `values`, `attributes["coordinates"]`
    and `position` (both the coordinates) and `group_attributes["time"]`.

    `data`: a pandas or polars frame, an Arrow table or a mapping of columns; or a CSV, Parquet or
        JSON lines file, a folder or a query, as for `exfam.read`
    `time`: column of dates, timestamps (UTC if without a zone), text such as "2007-10-01",
        "2007-10-01T12:30" or "31/10/2007", or numbers. Dates and timestamps become days since
        1970-01-01, exact to the microsecond; numbers stay as they are
    `site`: column of the sites' labels: text, whole numbers or booleans
    `coordinates`: columns of the sites' coordinates, the same in all rows of a site, not missing
        even where the value is; two sites may be at the same place
    `value`: column of the values; None, NaN and empty cells are not observed
    `metric`: "haversine" for (latitude, longitude) in degrees, latitude from -90 to 90, longitude
        from -180 to 360; "euclidean" for any number of coordinates (default "haversine")
    `missing`: a number, or several, that stands for a value that was not observed, such as -99
        (default ())
    `sites`: known labels, such as those of a fitted model, that codes refer to; sites that they do
        not hold get code -1 and come last in their group. None for those of the data
        (default None)
    `date_format`: how text in `time` writes dates: "iso" or a format of `datetime.strptime` such
        as "%d/%m/%Y"; None for the one that all of the column fits (default None)

    Raises DataError naming the column, the row and the file for a pair of time and site that
    repeats, a site that moves, coordinates that are missing or off the globe, a missing time or
    site, values that are not numbers, and for data without any value (unless `sites` are given).

    >>> frame = {
    ...     "day": ["2007-10-02", "2007-10-01", "2007-10-01"],
    ...     "city": ["Oslo", "Oslo", "Bonn"],
    ...     "lat": [59.9, 59.9, 50.7],
    ...     "lon": [10.8, 10.8, 7.1],
    ...     "celsius": [8.5, -99, 14.0],
    ... }
    >>> columns = dict(time="day", site="city", coordinates=["lat", "lon"], value="celsius")
    >>> groups = read_field(frame, missing=-99, **columns)
    >>> groups
    Groups(2 groups, 3 elements, 2 items, celsius, coordinates, time)
    >>> groups.observed
    array([ True, False,  True])
    """
    return read_field_with_facts(
        data,
        time=time,
        site=site,
        coordinates=coordinates,
        value=value,
        metric=metric,
        missing=missing,
        sites=sites,
        date_format=date_format,
    )[0]


def read_field_with_facts(
    data: Any,
    *,
    time: str,
    site: str,
    coordinates: str | Sequence[str],
    value: str,
    metric: str = "haversine",
    missing: Any = (),
    sites: Any = None,
    date_format: str | None = None,
) -> tuple[Groups, FieldFacts]:
    """As `read_field`, and what the field holds and lacks.

    >>> frame = {"day": [1, 1, 2], "city": ["Oslo", "Bonn", "Oslo"], "x": [0, 1, 0], "t": [5, 6, 7]}
    >>> columns = dict(time="day", site="city", coordinates="x", value="t", metric="euclidean")
    >>> print(read_field_with_facts(frame, **columns)[1])
    2 times x 2 sites: 3 rows, 1 absent
    3 values observed, 0 missing
    """
    check_metric(metric)
    layout = _layout(time, site, coordinates, value)
    standing = _numbers_standing_for_missing(missing)
    known = None if sites is None else _known_sites(sites)
    columns = open_columns(
        data, layout.parts, vocabulary={} if known is None else {layout.site.name: known}
    )
    times = read_times(columns, layout.time, date_format=date_format)
    of = read_sites(columns, layout.site, known=known)
    places = read_coordinates(columns, layout.coordinates, of, metric=metric)
    values, n_standing = _read_values(columns, layout.value, standing)
    if known is None and np.isnan(values).all():
        raise DataError(
            f"`value` must be observed at least once, got none in the {len(values)} rows of "
            f"column {value!r}{columns.places.where}."
        )
    order = _checked_order(columns, times, of)
    facts = count_facts(times.codes, of.codes, ~np.isnan(values), times=times.names, sites=of.names)
    return _assembled(order, times, of, places, {value: values}), replace(
        facts,
        n_missing=facts.n_missing - n_standing,
        n_sentinel=n_standing,
        new_sites=tuple(of.new.tolist()),
    )


@dataclass(frozen=True)
class _Layout:
    """Which columns play which part."""

    time: Part
    site: Part
    coordinates: tuple[Part, ...]
    value: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of them, time first."""
        return self.time, self.site, *self.coordinates, self.value


def _layout(time: str, site: str, coordinates: str | Sequence[str], value: str) -> _Layout:
    check_names(time=time, site=site, coordinates=coordinates, value=value)
    if value in TAKEN:
        raise DataError(
            f"`value` must not be named {value!r}, which a field has for itself. Rename the column."
        )
    names = [coordinates] if isinstance(coordinates, str) else list(coordinates)
    if not names:
        raise DataError("`coordinates` must name at least one column, got none.")
    places = tuple(Part("coordinates", name) for name in names)
    return _Layout(Part("time", time), Part("site", site), places, Part("value", value))


def check_names(**given: Any) -> None:
    """Raise DataError unless names of columns are text, those of coordinates one or several.

    >>> check_names(time="day", coordinates=["lat", "lon"])
    """
    for argument, names in given.items():
        several = argument == "coordinates" and isinstance(names, list | tuple)
        for name in names if several else [names]:
            if not isinstance(name, str):
                rule = "names of columns" if argument == "coordinates" else "the name of a column"
                raise DataError(f"`{argument}` must be {rule}, text, got {name!r}.")


def _known_sites(sites: Any) -> np.ndarray:
    known = np.asarray(sites)
    if known.ndim != 1 or len(set(known.tolist())) < len(known):
        raise DataError(f"`sites` must be labels, each once, got {sites!r}.")
    return known


def _numbers_standing_for_missing(missing: Any) -> Float[np.ndarray, "numbers"]:
    try:
        numbers = np.atleast_1d(np.asarray(missing, dtype=np.float64))
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if numbers.ndim > 1 or np.isnan(numbers).any():
        raise DataError(
            f"`missing` must be a number or several, such as -99, got {missing!r}. None, NaN and "
            "empty cells are missing anyway."
        )
    return numbers


def _read_values(
    columns: Columns, part: Part, standing: Float[np.ndarray, "numbers"]
) -> tuple[Float[np.ndarray, "rows"], int]:
    """The values, NaN where not observed, and how many were declared missing."""
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
    values = Columns({part: array}, columns.places).numbers(part)
    return values.astype(np.float64, copy=False), int(stands.sum())


def _checked_order(columns: Columns, times: Times, sites: Sites) -> Int64[np.ndarray, "rows"]:
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
            f"{columns.places.row(row)} again, after {columns.places.row(first)} ({again.size} of "
            f"{columns.n_rows} rows). Drop one of them or average them."
        )
    return order


def _assembled(
    order: Int64[np.ndarray, "rows"],
    times: Times,
    sites: Sites,
    places: Float[np.ndarray, "rows space"],
    values: dict[str, Float[np.ndarray, "rows"]],
) -> Groups:
    stop = np.cumsum(np.bincount(times.codes))
    ordered, places = {name: column[order] for name, column in values.items()}, places[order]
    observed: Bool[np.ndarray, "rows"] = ~np.isnan(next(iter(ordered.values())))
    return Groups(
        start=np.concatenate([[0], stop[:-1]]),
        stop=stop,
        item=sites.item[order],
        values=ordered,
        attributes={"coordinates": places},
        group_attributes={"time": times.time},
        position=places,
        observed=None if observed.all() else observed,
        source_row=order,
        vocabulary={"item": sites.known},
        group_names=times.names,
    )
