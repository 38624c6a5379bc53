"""What makes Groups a field, what a field holds and lacks, and earlier maps as context."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError, ExfamError, check_positive
from exfam.groups import Groups

MOST_LISTED = 5

# Of a step: by how much the difference of two times may be off, as sums of 0.1 are.
TOLERANCE = 1e-6
# More than a year of hourly maps.
MOST_LAGS = 10_000


def check_field(groups: Groups) -> None:
    """Raise DataError unless the groups are a field, as `read_field` makes them."""
    coordinates = groups.attributes.get("coordinates")
    has = {
        "item": groups.item is not None,
        "coordinates": coordinates is not None and coordinates.ndim == 2,
        "position": groups.position is not None and groups.position.ndim == 2,
        "time": "time" in groups.group_attributes,
        "value": len(groups.values) == 1,
    }
    lacking = ", ".join(name for name, there in has.items() if not there)
    if lacking:
        raise DataError(
            "`groups` must be a field with item, coordinates, position, time and one value, got "
            f"none of {lacking}. Make them with read_field."
        )


def is_observed(groups: Groups) -> Bool[np.ndarray, "elements"]:
    """Whether elements of the flat columns have an observed value."""
    return np.ones(groups.n_rows, dtype=bool) if groups.observed is None else groups.observed


def observed_own(groups: Groups) -> Int64[np.ndarray, "own"]:
    """Own elements with an observed value."""
    own = groups.elements()
    return own[is_observed(groups)[own]]


@dataclass(frozen=True)
class FieldFacts:
    """Counts of the cells of a field: every time step at every site.

    `n_rows`: rows of the source, of which `n_observed` have a value, `n_missing` none and
    `n_sentinel` one that stands for a missing value; `n_absent`: pairs of a time step and a site
    without a row. Labels: time steps and sites without values, which are kept, and sites that are
    not known.
    """

    n_rows: int
    n_times: int
    n_sites: int
    n_observed: int
    n_missing: int = 0
    n_sentinel: int = 0
    n_absent: int = 0
    times_without_values: tuple[Any, ...] = ()
    sites_without_values: tuple[Any, ...] = ()
    new_sites: tuple[Any, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.n_times:,} times x {self.n_sites:,} sites: {self.n_rows:,} rows, "
            f"{self.n_absent:,} absent",
            f"{self.n_observed:,} values observed, {self.n_missing:,} missing"
            + (f", {self.n_sentinel:,} declared missing" if self.n_sentinel else ""),
        ]
        listed = {
            "times without values": self.times_without_values,
            "sites without values": self.sites_without_values,
            "new sites": self.new_sites,
        }
        return "\n".join(
            lines + [f"{what}: {_listed(labels)}" for what, labels in listed.items() if labels]
        )


def _listed(labels: tuple[Any, ...]) -> str:
    more = f" and {len(labels) - MOST_LISTED:,} more" if len(labels) > MOST_LISTED else ""
    return ", ".join(str(label) for label in labels[:MOST_LISTED]) + more


def with_lags(groups: Groups, lags: Any, *, step: float | int | None = None) -> Groups:
    """The same maps, each of which also sees the `lags` maps before it (at most 10,000).

    `context_start` and `context_stop` get one range per lag, the oldest first, the last one a
    `step` before the group's own time, by default the most frequent gap. A range is empty where
    these groups have no map of that time, so add lags before splitting; `lags` of 0 takes
    ranges away.
    Raises ExfamError for `lags` or a `step` out of range, DataError for groups that are no field,
    or have two maps of one time.

    >>> from exfam.fields.data.read import read_field
    >>> frame = {"day": [1, 2, 4], "city": ["Oslo"] * 3, "x": [0, 0, 0], "t": [5, 6, 7]}
    >>> columns = dict(time="day", site="city", coordinates="x", value="t", metric="euclidean")
    >>> groups = with_lags(read_field(frame, **columns), 1)
    >>> (groups.context_stop - groups.context_start).ravel()
    array([0, 1, 0])
    """
    check_field(groups)
    is_whole = isinstance(lags, int | np.integer) and not isinstance(lags, bool)
    if not is_whole or not 0 <= lags <= MOST_LAGS:
        raise ExfamError(f"`lags` must be a whole number from 0 to {MOST_LAGS:,}, got {lags!r}.")
    if step is not None:
        check_positive("step", step)
    if lags == 0:
        return groups.with_(context_start=None, context_stop=None)
    time = groups.group_attributes["time"].astype(np.float64)
    order = np.argsort(time, kind="stable")
    again = np.flatnonzero(np.diff(time[order]) == 0)
    if again.size:
        first, second = sorted(order[again[0] : again[0] + 2].tolist())
        raise DataError(
            f"`groups` must have one map of each time, got time {time[first]} at group {second} "
            f"again, after group {first}. Add lags before picking groups more than once."
        )
    step = time_step(time) if step is None else step
    if not len(groups) or step is None:
        nothing = np.zeros((len(groups), lags), dtype=np.int64)
        return groups.with_(context_start=nothing, context_stop=nothing)
    wanted = time[:, None] - step * np.arange(lags, 0, -1)
    # The first map that is not earlier than wanted, give or take what sums of steps are off by.
    k = np.searchsorted(time[order], wanted - TOLERANCE * step)
    candidate = order[np.minimum(k, len(order) - 1)]
    there = np.abs(time[candidate] - wanted) <= TOLERANCE * step
    start = np.where(there, groups.start[candidate], 0)
    stop = np.where(there, groups.stop[candidate], 0)
    return groups.with_(context_start=start, context_stop=stop)


def time_step(time: Float[np.ndarray, "times"]) -> float | None:
    """The most frequent gap between consecutive times, the smallest of equals; None without two.

    Gaps that differ by less than a millionth are one.
    """
    gaps = np.sort(np.diff(np.sort(time)))
    if not len(gaps):
        return None
    begins = np.concatenate([[True], np.diff(gaps) > TOLERANCE * gaps[1:]])
    alike = np.cumsum(begins) - 1
    most = np.argmax(np.bincount(alike))
    return float(np.median(gaps[alike == most]))


def has_history(groups: Groups) -> Bool[np.ndarray, "groups"]:
    """Whether all maps that a group is to see beside its own are there, with values or without."""
    if groups.context_start is None or groups.context_stop is None:
        return np.ones(len(groups), dtype=bool)
    is_there: np.ndarray = groups.context_stop > groups.context_start
    return np.all(is_there, axis=1)
