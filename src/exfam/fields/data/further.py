"""Fields with further places and times to be predicted, and with values that are hidden."""

from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError
from exfam.fields.data.facts import check_field, is_observed
from exfam.fields.data.read import named_days
from exfam.groups import TARGET, Groups


def with_places(
    groups: Groups,
    places: Float[np.ndarray, "places space"],
    *,
    covariates: Float[np.ndarray, "places covariates"] | None = None,
) -> Groups:
    """The same maps with new sites at these places, to be predicted from the others.

    In every group they follow its own elements, targets without a value. `covariates`: of the
    places, where the groups have some
    """
    _check_plain(groups)
    whole, n_new = groups.compact(), len(places)
    added = n_new * np.arange(1, len(whole) + 1)
    # What only context ranges see comes last in compact groups.
    sizes = np.append(whole.stop - whole.start, whole.n_rows - whole.n_elements)
    old = np.arange(whole.n_rows) + n_new * np.repeat(np.arange(len(whole) + 1), sizes)
    new = (whole.stop[:, None] + added[:, None] - np.arange(n_new, 0, -1)).ravel()

    def wider(column: np.ndarray | None, fill: Any) -> np.ndarray | None:
        if column is None:
            return None
        wide = np.empty((len(old) + len(new), *column.shape[1:]), dtype=column.dtype)
        wide[old], wide[new] = column, fill
        return wide

    everywhere = wider(whole.attributes["coordinates"], np.tile(places, (len(whole), 1)))
    attributes = {"coordinates": everywhere}
    if covariates is not None:
        more = np.tile(covariates, (len(whole), 1))
        attributes["covariates"] = wider(whole.attributes["covariates"].astype(float), more)
    begin, end = whole.context_start, whole.context_stop
    return whole.with_(
        start=whole.start + added - n_new,
        stop=whole.stop + added,
        item=wider(whole.item, -1),
        values={name: wider(column.astype(float), np.nan) for name, column in whole.values.items()},
        attributes=attributes,
        position=everywhere,
        observed=wider(is_observed(whole), False),
        role=wider(whole.role, TARGET),
        source_row=wider(whole.source_row, -1),
        context_start=None if begin is None else begin + len(new),
        context_stop=None if end is None else end + len(new),
    )


def with_times(groups: Groups, time: Float[np.ndarray, "times"]) -> Groups:
    """The same maps and, after them, maps of these times: all sites, targets without a value.

    New sites (item -1) at one place count as one. Context ranges of further maps are empty, and
    covariates those of the first map that has a site.
    """
    _check_plain(groups)
    if not groups.n_elements:
        raise DataError("`groups` must have at least one element, got none: no site is known.")
    # All sites that have own elements: known ones by code, then new ones.
    assert groups.item is not None
    rows = groups.elements()
    item, places = groups.item[rows], groups.attributes["coordinates"][rows]
    number, is_new = item.astype(np.int64), item < 0
    distinct = np.unique(places[is_new], axis=0, return_inverse=True)[1]
    number[is_new] = groups.n_items + distinct.reshape(-1)
    first = np.unique(number, return_index=True)[1]
    item, places = item[first], places[first]
    n_rows = len(item) * len(time)
    everywhere = np.tile(places, (len(time), 1))
    attributes = {name: array[rows][first] for name, array in groups.attributes.items()}
    stop = len(item) * np.arange(1, len(time) + 1)
    names = groups.group_names
    if names is not None:
        names = named_days(time) if names.dtype.kind == "M" else time
    further = Groups(
        start=stop - len(item),
        stop=stop,
        item=np.tile(item, len(time)),
        values={name: np.full(n_rows, np.nan) for name in groups.values},
        attributes={name: np.tile(array, (len(time), 1)) for name, array in attributes.items()},
        group_attributes={"time": time},
        position=everywhere,
        observed=np.zeros(n_rows, dtype=bool),
        source_row=None if groups.source_row is None else np.full(n_rows, -1),
        vocabulary=groups.vocabulary,
        group_names=names,
    )
    return Groups.concatenate([groups, further])


def only_observed(groups: Groups, keep: Any) -> Groups:
    """The same elements, of which only those to `keep` have an observed value.

    Values are hidden from all groups that see them, as context too, and stay in the columns. `keep`
    has one bool for each own element, in the order of `groups.elements()`; DataError otherwise.

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
    others = {*groups.attributes, *groups.group_attributes} - {"coordinates", "covariates", "time"}
    if others:
        raise DataError(
            "`groups` must have no attributes besides coordinates and time, since those of further "
            f"elements are not known, got {sorted(others)}. Leave them out."
        )
