"""What a model of maps sees in one row: sites in a frame, and those of earlier maps."""

from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.fields.networks.places import chord_distances, to_points
from exfam.geometry import EARTH_RADIUS_KM

# Sites whose distances give the unit.
MOST_SITES = 1000

Points = Float64[Tensor, "*shape space"]


class MapColumns(NamedTuple):
    """Where and how many steps back each column of a row is; `site` tells sites apart."""

    points: Float64[Tensor, "*shape space"]
    lag: Float64[Tensor, "*shape"]
    site: Int64[Tensor, "*shape"]

    def take(self, index: Int64[Tensor, "*index"]) -> "MapColumns":
        """Columns at an index, of any shape."""
        return MapColumns(self.points[index], self.lag[index], self.site[index])

    def with_(self, other: "MapColumns") -> "MapColumns":
        """These columns and then others."""
        return MapColumns(*(torch.cat(pair) for pair in zip(self, other, strict=True)))


def map_columns(points: Float64[Tensor, "sites space"], n_lags: int) -> MapColumns:
    """Column `lag * sites + site` is a site's value so many steps back."""
    n_sites = len(points)
    lag = torch.arange(n_lags + 1).repeat_interleave(n_sites)
    site = torch.arange(n_sites).repeat(n_lags + 1)
    return MapColumns(points.repeat(n_lags + 1, 1), lag.double(), site)


def columns_of_elements(
    site: Int64[Tensor, "batch length"],
    lag: Int64[Tensor, "batch length"],
    *,
    n_sites: int,
    n_lags: int,
) -> Int64[Tensor, "batch length"]:
    """The column of each element of maps; as many as there are where it has none.

    `site`: -1 for places that are not among the known sites, and for what is no element
    """
    there = (site >= 0) & (lag <= n_lags)
    return torch.where(there, lag * n_sites + site, n_sites * (n_lags + 1))


def in_columns(numbers: Tensor, column: Int64[Tensor, "batch length"], n: int) -> Tensor:
    """Numbers of elements as rows of `n` columns; 0 or False where no element is."""
    return numbers.new_zeros(len(column), n + 1).scatter(1, column, numbers)[:, :n]


def at_columns(
    rows: Float64[Tensor, "batch columns"],
    column: Int64[Tensor, "batch length"],
    *,
    missing: float,
) -> Float64[Tensor, "batch length"]:
    """Of each element the number in its column; `missing` where it has none."""
    padded = torch.nn.functional.pad(rows, (0, 1), value=missing)
    return padded.gather(1, column.clamp_max(rows.shape[1]))


class Frame(NamedTuple):
    """point -> (point - center) rotated, in units; `n_flat`: axes along which sites spread.

    Places of a globe are points of a sphere, turned so that the middle of the sites is at the end
    of the third axis: the first two are east and north there, distances are straight ones.
    """

    center: Float64[Tensor, "space"]
    rotation: Float64[Tensor, "space space"]
    unit: Float64[Tensor, ""]
    n_flat: int

    def points(self, coordinates: Tensor, *, metric: str) -> Points:
        """Places in the frame."""
        return (to_points(coordinates, metric) - self.center) @ self.rotation.T / self.unit


def fit_frame(coordinates: Float64[Tensor, "sites dims"], *, metric: str) -> Frame:
    """The frame of these sites."""
    points = to_points(coordinates, metric)
    some = points[:: max(1, len(points) // MOST_SITES)]
    apart = chord_distances(some, some)
    apart = apart[apart > 0]
    unit = apart.median() if len(apart) else points.new_ones(())
    middle, rotation = points.mean(0), torch.eye(points.shape[1]).double()
    if metric != "haversine":
        return Frame(middle, rotation, unit, points.shape[1])
    up = middle / middle.norm().clamp_min(1e-9 * EARTH_RADIUS_KM)
    if up.norm() < 0.5:  # sites all around the globe have no middle
        up = points.new_tensor([1.0, 0.0, 0.0])
    east = torch.linalg.cross(points.new_tensor([0.0, 0.0, 1.0]), up)
    if east.norm() < 1e-9:
        east = points.new_tensor([0.0, 1.0, 0.0])
    east = east / east.norm()
    rotation = torch.stack([east, torch.linalg.cross(up, east), up])
    return Frame(EARTH_RADIUS_KM * up, rotation, unit, 2)
