"""Fields with further places and times to be predicted, and with values that are hidden."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError
from exfam.columns.parts import Part
from exfam.fields.data.field_checks import OwnSites, check_field, is_observed, own_sites
from exfam.fields.data.times import named_days, read_times
from exfam.geometry import check_coordinates
from exfam.groups import TARGET, Groups
from exfam.reading.columns import open_columns


@dataclass(frozen=True, eq=False)
class _Room:
    """Where the rows of wider columns come from: rows of before, and those of further elements."""

    old: Int64[np.ndarray, "rows"]
    new: Int64[np.ndarray, "further"]

    def filled(self, column: np.ndarray | None, fill: Any) -> np.ndarray | None:
        """The wider column."""
        if column is None:
            return None
        wide = np.empty((len(self.old) + len(self.new), *column.shape[1:]), dtype=column.dtype)
        wide[self.old], wide[self.new] = column, fill
        return wide

    def shifted(self, bound: np.ndarray | None) -> np.ndarray | None:
        """Bounds of context ranges, all of which lie behind the further elements."""
        return None if bound is None else bound + len(self.new)


def with_places(groups: Groups, coordinates: Any, *, labels: Any = None) -> Groups:
    """The same maps with elements at further places, to be predicted from the others.

    In every group they follow its own elements, in the order given, so that a column of results
    with one row per own element ends, group by group, with one row per place. They are targets
    without a value (NaN, not observed), their `source_row` is -1 and their item -1, or the code of
    a label that the vocabulary knows. The columns are new ones; context ranges are as before, and
    have no elements at these places.

    `coordinates`: one row per place, columns as those of the groups; the range of latitudes and
        longitudes is not checked here
    `labels`: one label per place; None for new sites (default None)

    Raises DataError for groups that are no field or have attributes besides the coordinates, for
    coordinates that are not finite or not as many as those of the groups, and for a labeled place
    whose site a group already has.

    >>> from exfam.fields.data.read import read_field
    >>> frame = {"day": [1, 2], "city": ["Oslo", "Oslo"], "x": [0, 0], "t": [5, 6]}
    >>> columns = dict(time="day", site="city", coordinates="x", value="t", metric="euclidean")
    >>> groups = with_places(read_field(frame, **columns), [[7.0]])
    >>> groups.item, groups.values["t"]
    (array([ 0, -1,  0, -1], dtype=int32), array([ 5., nan, 6., nan]))
    """
    _check_plain(groups)
    places = _as_places(groups, coordinates)
    codes = _codes_of(groups, labels, len(places))
    whole = groups.compact()
    added = len(places) * np.arange(1, len(whole) + 1)
    room = _Room(
        old=np.arange(whole.n_rows) + len(places) * _group_of(whole),
        new=(whole.stop[:, None] + added[:, None] - np.arange(len(places), 0, -1)).ravel(),
    )
    everywhere = room.filled(whole.attributes["coordinates"], np.tile(places, (len(whole), 1)))
    return whole.with_(
        start=whole.start + added - len(places),
        stop=whole.stop + added,
        item=room.filled(whole.item, np.tile(codes, len(whole))),
        values={
            name: room.filled(column.astype(np.float64, copy=False), np.nan)
            for name, column in whole.values.items()
        },
        attributes={"coordinates": everywhere},
        position=everywhere,
        observed=room.filled(is_observed(whole), False),
        role=room.filled(whole.role, TARGET),
        source_row=room.filled(whole.source_row, -1),
        context_start=room.shifted(whole.context_start),
        context_stop=room.shifted(whole.context_stop),
    )


def with_times(groups: Groups, times: Any) -> Groups:
    """The same maps and, after them, maps of later times with all sites and no values.

    Each of them has all sites that the groups have elements of, new ones (item -1) once per place.
    Elements are targets without a value, their `source_row` is -1. The columns are new ones.
    Context ranges of the groups are kept and those of the further ones are empty: give lags to
    groups with their further times.

    `times`: dates, timestamps, ISO text or numbers, as `read_field` takes them, each later than
        those of the groups; numbers count days since 1970-01-01 where the groups are named by dates

    Raises DataError for groups that are no field, have none or have attributes besides the
    coordinates, and for times that are none, not later, or dates where the groups have numbers.

    >>> from exfam.fields.data.read import read_field
    >>> frame = {"day": ["2007-10-01"], "city": ["Oslo"], "x": [0], "t": [5]}
    >>> columns = dict(time="day", site="city", coordinates="x", value="t", metric="euclidean")
    >>> groups = with_times(read_field(frame, **columns), ["2007-10-02"])
    >>> groups.group_names, groups.observed
    (array(['2007-10-01', '2007-10-02'], dtype='datetime64[D]'), array([ True, False]))
    """
    _check_plain(groups)
    if not groups.n_elements:
        raise DataError("`groups` must have at least one element, got none: no site is known.")
    time, names = _later_times(groups, times)
    further = _unseen(groups, own_sites(groups), time)
    if groups.group_names is not None:
        further = further.with_(group_names=names)
    return Groups.concatenate([groups, further])


def _unseen(groups: Groups, sites: OwnSites, time: Float[np.ndarray, "times"]) -> Groups:
    """Maps of these times with all sites that have elements, and no values."""
    there = np.unique(sites.codes)
    n_rows = len(there) * len(time)
    places = np.tile(sites.coordinates[there], (len(time), 1))
    stop = len(there) * np.arange(1, len(time) + 1)
    return Groups(
        start=stop - len(there),
        stop=stop,
        item=np.tile(np.where(there < sites.n_known, there, -1), len(time)),
        values={name: np.full(n_rows, np.nan) for name in groups.values},
        attributes={"coordinates": places},
        group_attributes={"time": time},
        position=places,
        observed=np.zeros(n_rows, dtype=bool),
        source_row=None if groups.source_row is None else np.full(n_rows, -1),
        vocabulary=groups.vocabulary,
    )


def only_observed(groups: Groups, keep: Any) -> Groups:
    """The same elements, of which only those to `keep` have an observed value.

    Values are hidden from all groups that see them, as context too, and stay in the columns: they
    are there to be compared with predictions. The groups given are left as they are.

    `keep`: one bool for each own element, in the order of `groups.elements()`

    Raises DataError for another number of them.

    >>> groups = Groups(start=[0], stop=[2], values={"t": [5.0, 6.0]})
    >>> only_observed(groups, [True, False]).observed
    array([ True, False])
    """
    kept = np.asarray(keep)
    if kept.dtype != bool or kept.shape != (groups.n_elements,):
        raise DataError(
            f"`keep` must hold a bool for each of {groups.n_elements} elements, got dtype "
            f"{kept.dtype} of shape {kept.shape}."
        )
    observed = is_observed(groups).copy()
    observed[groups.elements()[~kept]] = False
    return groups.with_(observed=observed)


def _check_plain(groups: Groups) -> None:
    check_field(groups)
    if len(groups.attributes) > 1 or len(groups.group_attributes) > 1:
        others = [*groups.attributes, *groups.group_attributes]
        others = [name for name in others if name not in ("coordinates", "time")]
        raise DataError(
            "`groups` must have no attributes besides coordinates and time, since those of further "
            f"elements are not known, got {others}. Leave them out."
        )


def _as_places(groups: Groups, coordinates: Any) -> Float[np.ndarray, "places space"]:
    try:
        places = np.asarray(coordinates, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"`coordinates` must be numbers, one row per place, got {coordinates!r}."
        ) from None
    space = groups.attributes["coordinates"].shape[1]
    if places.ndim != 2 or places.shape[1] != space or not len(places):
        raise DataError(
            f"`coordinates` must have one row per place and {space} columns, as those of the "
            f"groups, got shape {places.shape}."
        )
    check_coordinates(places, metric="euclidean")
    return places


def _codes_of(groups: Groups, labels: Any, n_places: int) -> Int64[np.ndarray, "places"]:
    if labels is None:
        return np.full(n_places, -1)
    given = np.asarray(labels).tolist()
    if len(given) != n_places:
        raise DataError(
            f"`labels` must have one label for each of {n_places} places, got {len(given)}."
        )
    known = groups.vocabulary.get("item", np.arange(groups.n_items)).tolist()
    held = {label: code for code, label in enumerate(known)}
    codes = np.array([held.get(label, -1) for label in given])
    for k, code in enumerate(codes.tolist()):
        _check_free(groups, codes[:k], code, known)
    return codes


def _check_free(groups: Groups, taken: np.ndarray, code: int, known: list[Any]) -> None:
    """Raise if a known site is one of `taken`, or has elements."""
    assert groups.item is not None
    has = np.flatnonzero(groups.item[groups.elements()] == code)
    if code < 0 or (not has.size and code not in taken):
        return
    group = np.searchsorted(np.cumsum(groups.stop - groups.start), has[:1], side="right")
    where = f"which group {group[0]} has" if has.size else "twice"
    raise DataError(
        f"`labels` must be of sites that no group has, each once, got {known[code]!r}, {where}. "
        "Leave it out: an element without a value is predicted anyway."
    )


def _group_of(whole: Groups) -> Int64[np.ndarray, "rows"]:
    """The group of each own element of compact groups; what only context ranges see comes last."""
    own = whole.stop - whole.start
    spare = whole.n_rows - whole.n_elements
    return np.repeat(np.arange(len(whole) + 1), np.append(own, spare))


def _later_times(groups: Groups, times: Any) -> tuple[Float[np.ndarray, "times"], np.ndarray]:
    """The times in increasing order, each once, and their names."""
    is_single = isinstance(times, str) or not hasattr(times, "__len__")
    part = Part("times", "times")
    listed = [times] if is_single else times
    if not len(listed):
        raise DataError("`times` must hold at least one time, got none.")
    later = read_times(open_columns({"times": listed}, [part]), part)
    names, is_date = later.names, later.names.dtype.kind == "M"
    named = groups.group_names
    if named is not None and is_date and named.dtype.kind != "M":
        raise DataError(
            f"`times` must be numbers, as those of the groups are, got {names[0]}. Count them on."
        )
    if named is not None and named.dtype.kind == "M":
        names = named_days(later.time)
    last = groups.group_attributes["time"].max()
    if later.time[0] <= last:
        raise DataError(
            f"`times` must be later than those of the groups, of which the last is {last}, got "
            f"{later.time[0]}. Leave out what the groups have."
        )
    return later.time, names
