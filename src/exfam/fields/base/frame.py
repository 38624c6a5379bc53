"""Sites in a frame of their own: about their middle, in units of their median distance."""

from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.fields.networks.places import chord_distances, to_points
from exfam.geometry import EARTH_RADIUS_KM

# Sites whose distances give the unit.
MOST_SITES = 1000

Points = Float64[Tensor, "*shape space"]


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
