"""What makes Groups a field, which elements have a value, and which site each of them is."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError
from exfam.groups import Groups


@dataclass(frozen=True, eq=False)
class OwnSites:
    """The site of every own element, as its index among all sites.

    Known sites come first, by code, with their labels; new ones follow, one for each pair of
    coordinates and named by them, in their order. `coordinates` are NaN for sites without elements.
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


def is_observed(groups: Groups) -> Bool[np.ndarray, "elements"]:
    """Whether elements of the flat columns have an observed value."""
    return np.ones(groups.n_rows, dtype=bool) if groups.observed is None else groups.observed


def observed_own(groups: Groups) -> Int64[np.ndarray, "own"]:
    """Own elements with an observed value."""
    own = groups.elements()
    return own[is_observed(groups)[own]]


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
