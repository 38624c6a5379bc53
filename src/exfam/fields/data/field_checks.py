"""What makes Groups a field, and which site each of its elements is."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError
from exfam.groups import Groups

__all__ = ["OwnSites", "check_field", "own_sites"]


@dataclass(frozen=True, eq=False)
class OwnSites:
    """The site of every own element, as its place among all sites.

    Known sites come first, by code, each with its label; new ones follow, one a place, in the order
    of their coordinates, which are their names. `coordinates` are NaN for sites without elements.
    """

    codes: Int64[np.ndarray, "elements"]
    names: np.ndarray
    coordinates: Float[np.ndarray, "sites space"]
    n_known: int


def check_field(groups: Groups) -> None:
    """Raise DataError unless the groups are a field, as `read_field` makes them.

    >>> check_field(Groups(start=[0], stop=[2]))
    Traceback (most recent call last):
    ...
    exfam.checks.DataError: `groups` must be a field with item, coordinates, position, time and one
    value, got none of item, coordinates, position, time, value. Make them with read_field.
    """
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


def own_sites(groups: Groups) -> OwnSites:
    """The site of every own element of a field; new sites (item -1) at one place count as one.

    Raises DataError for groups that are no field.
    """
    check_field(groups)
    assert groups.item is not None
    rows = groups.elements()
    codes = groups.item[rows].astype(np.int64)
    places = groups.attributes["coordinates"][rows]
    is_new, n_known = codes < 0, groups.n_items
    new, which = np.unique(places[is_new], axis=0, return_inverse=True)
    codes[is_new] = n_known + which.reshape(-1)
    coordinates = np.full((n_known + len(new), places.shape[1]), np.nan)
    coordinates[codes] = places
    names = np.empty(len(coordinates), dtype=object)
    names[:n_known] = groups.vocabulary.get("item", np.arange(n_known))
    names[n_known:] = [tuple(place) for place in new.tolist()]
    return OwnSites(codes, names, coordinates, n_known)
