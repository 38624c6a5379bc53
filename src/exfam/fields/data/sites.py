"""Columns of sites and of their coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64, Shaped

from exfam.checks import DataError, shown
from exfam.columns.columns import Columns
from exfam.columns.parts import Part
from exfam.geometry import wrong_coordinate


@dataclass(frozen=True, eq=False)
class Sites:
    """A column of sites: row i holds `names[codes[i]]`.

    Known sites come first, by their index among `known`, then new ones by label. Without known
    sites all of the column are.
    """

    codes: Int64[np.ndarray, "rows"]
    names: np.ndarray
    known: np.ndarray

    @property
    def item(self) -> Int64[np.ndarray, "rows"]:
        """The index among `known` in every row, -1 for a new site."""
        return np.where(self.codes < len(self.known), self.codes, -1)

    @property
    def new(self) -> np.ndarray:
        """Labels that are not known."""
        return self.names[len(self.known) :]


def read_sites(columns: Columns, part: Part, *, known: Shaped[np.ndarray, "sites"] | None) -> Sites:
    """A column of labels: text, whole numbers or booleans.

    Raises DataError naming the row of a label that is missing or of another kind.

    >>> from exfam.reading.columns import open_columns
    >>> part = Part("site", "city")
    >>> read_sites(open_columns({"city": ["Oslo", "Bonn"]}, [part]), part, known=None).codes
    array([1, 0])
    """
    labels = columns.labels(part)
    if known is None:
        order = np.argsort(labels.names)
        names = labels.names[order]
        return Sites(np.argsort(order)[labels.codes], names, names)
    held = {label: code for code, label in enumerate(known.tolist())}
    new = sorted({label for label in labels.names.tolist() if label not in held})
    code_of = held | {label: len(known) + k for k, label in enumerate(new)}
    codes = np.array([code_of[label] for label in labels.names.tolist()])
    names = np.array([*known.tolist(), *new], dtype=object)
    return Sites(codes[labels.codes], names, known)


def read_coordinates(
    columns: Columns, parts: Sequence[Part], sites: Sites, *, metric: str
) -> Float[np.ndarray, "rows space"]:
    """The coordinates in every row, in the order of `parts`.

    Raises DataError naming the row of a coordinate that is missing, not a number or out of range,
    or both rows where a site has moved.
    """
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
    _check_still(columns, coordinates, sites)
    return coordinates


def _check_still(
    columns: Columns, coordinates: Float[np.ndarray, "rows space"], sites: Sites
) -> None:
    first = np.zeros(len(sites.names), dtype=np.int64)
    rows = np.arange(len(coordinates))[::-1]
    first[sites.codes[rows]] = rows  # the last to be written is the first row
    moved = (coordinates != coordinates[first[sites.codes]]).any(axis=1)
    if moved.any():
        row = int(np.flatnonzero(moved)[0])
        before = int(first[sites.codes[row]])
        site = sites.names[sites.codes[row]]
        here, there = (tuple(coordinates[index].tolist()) for index in (row, before))
        raise DataError(
            f"`coordinates` must stay the same for a site, got {here} for {shown(site)} at "
            f"{columns.places.row(row)}, after {there} at {columns.places.row(before)} "
            f"({int(moved.sum())} of {columns.n_rows} rows). Mend them, or give what moved a site "
            "label of its own."
        )
