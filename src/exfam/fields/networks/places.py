"""Places as points of Euclidean space, where kernels of the distance are positive definite."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.geometry import EARTH_RADIUS_KM, check_metric


def to_points(
    coordinates: Float[Tensor, "*shape dims"], metric: str
) -> Float64[Tensor, "*shape space"]:
    """Points whose straight distances stand for those of the places, in float64.

    "haversine": (latitude, longitude) in degrees become points of a sphere, in kilometers from its
    center; "euclidean": the coordinates as they are. Raises ExfamError for another metric.
    """
    check_metric(metric)
    coordinates = coordinates.double()
    if metric == "euclidean":
        return coordinates
    latitude, longitude = torch.deg2rad(coordinates).unbind(-1)
    across = latitude.cos()
    axes = [across * longitude.cos(), across * longitude.sin(), latitude.sin()]
    return EARTH_RADIUS_KM * torch.stack(axes, -1)


def chord_distances(
    first: Float64[Tensor, "*batch rows space"], second: Float64[Tensor, "*batch columns space"]
) -> Float64[Tensor, "*batch rows columns"]:
    """Straight distances between all pairs of points; equal points are exactly 0 apart."""
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")


def great_circle(chord: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Kilometers along the sphere between points that are `chord` kilometers apart through it."""
    return 2 * EARTH_RADIUS_KM * (chord / (2 * EARTH_RADIUS_KM)).clamp(max=1).asin()
