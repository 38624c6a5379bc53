"""Places and the distances between them: on a globe, or in any plain space."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64, Num

from exfam.checks import DataError, check_choice, check_positive

EARTH_RADIUS_KM = 6371.0
METRICS = ("euclidean", "haversine")
# Rows whose distances to all others are held at once, on the way to the result.
ROWS_AT_ONCE = 1 << 10


@dataclass(frozen=True)
class WrongCoordinate:
    """The first row of some coordinates that is none, and the rule that its column breaks."""

    row: int
    column: int
    rule: str
    advice: str = ""


def check_metric(metric: str) -> None:
    """Raise ExfamError unless `metric` is "euclidean" or "haversine"."""
    check_choice("metric", metric, METRICS)


def distances(
    a: Num[np.ndarray, "n _"], b: Num[np.ndarray, "m _"], *, metric: str
) -> Float[np.ndarray, "n m"]:
    """All distances between places of `a` and places of `b`.

    "haversine" takes (latitude, longitude) in degrees and gives great-circle distances in km on a
    sphere of radius 6371 km; "euclidean" takes any number of coordinates and keeps their unit.
    Raises ExfamError for another metric, DataError for haversine without two columns, and for
    places with different numbers of columns.

    >>> distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]]), metric="euclidean")
    array([[5.]])
    >>> half_way = distances(np.zeros((1, 2)), np.array([[0.0, 180.0]]), metric="haversine")
    >>> round(half_way.item())
    20015
    """
    check_metric(metric)
    a = _as_places("a", a, metric)
    b = _as_places("b", b, metric, like=a)
    apart = np.empty((len(a), len(b)))
    for first in range(0, len(a), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        apart[part] = _between(a[part, None], b[None], metric)
    return apart


def nearest(
    places: Num[np.ndarray, "n _"],
    among: Num[np.ndarray, "m _"],
    *,
    k: int,
    metric: str,
) -> tuple[Int64[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """For each place, the indices of its `k` nearest of `among`, nearest first, and the distances.

    All of `among` where there are fewer than `k`. Equally near ones come in the order of `among`.
    A place that is itself in `among` is its own nearest. Distances are as in `distances`.
    Raises ExfamError for a `k` below 1 or another metric, DataError if `among` is empty.

    >>> places = np.array([[0.0, 0.0], [5.0, 5.0]])
    >>> nearest(places, np.array([[0.0, 1.0], [4.0, 5.0]]), k=1, metric="euclidean")
    (array([[0],
           [1]]), array([[1.],
           [1.]]))
    """
    from scipy.spatial import cKDTree

    check_metric(metric)
    check_positive("k", k)
    places = _as_places("places", places, metric)
    among = _as_places("among", among, metric, like=places)
    if not len(among):
        raise DataError("`among` must hold at least one place, got none.")
    inner, outer = (_on_sphere(at) if metric == "haversine" else at for at in (among, places))
    index = cKDTree(inner).query(outer, k=np.arange(1, min(k, len(among)) + 1))[1]
    index = np.asarray(index, dtype=np.int64)
    # The tree's own distances are chords, in which near places lose digits.
    distance = _between(places[:, None], among[index], metric)
    order = np.lexsort((index, distance))
    return np.take_along_axis(index, order, 1), np.take_along_axis(distance, order, 1)


def check_coordinates(coordinates: Num[np.ndarray, "places space"], *, metric: str) -> None:
    """Raise unless these are places: finite, and on the globe for "haversine".

    There, column 0 is the latitude, from -90 to 90 degrees, and column 1 the longitude, from -180
    to 360 degrees: both -180 .. 180 and 0 .. 360 are in use, and 190 is the same as -170.
    Raises DataError naming column and row, ExfamError for another metric.

    >>> check_coordinates(np.array([[60.2, 24.9]]), metric="haversine")
    """
    check_metric(metric)
    coordinates = _as_places("coordinates", coordinates, metric)
    wrong = wrong_coordinate(coordinates, metric=metric)
    if wrong is not None:
        got = coordinates[wrong.row, wrong.column]
        raise DataError(
            f"`coordinates` must {wrong.rule}, got {got} in column {wrong.column} of row "
            f"{wrong.row}. {wrong.advice}".rstrip()
        )


def wrong_coordinate(
    coordinates: Float[np.ndarray, "places space"], *, metric: str
) -> WrongCoordinate | None:
    """The first row that is no place, by the rules of `check_coordinates`; None if all are."""
    wrong = ~np.isfinite(coordinates)
    if wrong.any():
        row, column = _first(wrong)
        return WrongCoordinate(row, column, "be finite", "Give its coordinates.")
    if metric != "haversine":
        return None
    outside = _off_the_globe(coordinates)
    if not outside.any():
        return None
    row, column = _first(outside)
    rule = ("be a latitude from -90 to 90 degrees", "be a longitude from -180 to 360 degrees")
    swapped = not _off_the_globe(coordinates[:, ::-1]).any()
    advice = (
        "Latitude comes first: these look like longitude and latitude, so swap the two."
        if swapped
        else "Give degrees, latitude first, or choose metric='euclidean'."
    )
    return WrongCoordinate(row, column, rule[column], advice)


def _first(wrong: np.ndarray) -> tuple[int, int]:
    row, column = np.argwhere(wrong)[0]
    return int(row), int(column)


def _off_the_globe(coordinates: np.ndarray) -> np.ndarray:
    low, high = np.array([-90.0, -180.0]), np.array([90.0, 360.0])
    return (coordinates < low) | (coordinates > high)


def _as_places(
    name: str, places: np.ndarray, metric: str, like: np.ndarray | None = None
) -> np.ndarray:
    if metric == "haversine" and places.shape[1] != 2:
        raise DataError(
            f"`{name}` must have two columns, latitude and longitude, for metric='haversine', got "
            f"{places.shape[1]}. Choose metric='euclidean' for other places."
        )
    if like is not None and places.shape[1] != like.shape[1]:
        raise DataError(
            f"`{name}` must have {like.shape[1]} columns, as the places that it is measured from, "
            f"got {places.shape[1]}."
        )
    return places.astype(np.float64, copy=False)


def _between(a: np.ndarray, b: np.ndarray, metric: str) -> np.ndarray:
    """Distances between places that broadcast against each other, coordinates last."""
    if metric == "euclidean":
        return np.sqrt(np.square(a - b).sum(axis=-1))
    a, b = np.deg2rad(a), np.deg2rad(b)
    half = np.square(np.sin((b - a) / 2))
    chord = half[..., 0] + np.cos(a[..., 0]) * np.cos(b[..., 0]) * half[..., 1]
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(chord, 0, 1)))


def _on_sphere(places: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 3"]:
    latitude, longitude = np.deg2rad(places).T
    ring = np.cos(latitude)
    return np.stack([ring * np.cos(longitude), ring * np.sin(longitude), np.sin(latitude)], axis=-1)
