"""A smooth surface over coordinates, or over all covariates, as columns of a design: low rank."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist

_MOST_KNOTS = 400
# Ranges as shares of the typical distance between sites, and scales of the columns.
RANGES, SCALES = (0.15, 0.4, 1.0, 2.5), (1.0, 4.0)
_NUGGET = 1e-6

Points = Float[np.ndarray, "sites dims"]


@dataclass(frozen=True, eq=False)
class SiteSurface:
    """Functions around knots: Matérn's of smoothness 3/2, whitened, times a scale.

    `unit`: the typical distance between sites; `reach`: in that unit
    """

    knots: Float[np.ndarray, "knots dims"]
    unit: float
    reach: float
    scale: float
    white: Float[np.ndarray, "knots knots"]

    def columns(self, points: Points) -> Float[np.ndarray, "sites knots"]:
        """Columns of the design; all 0 where a coordinate is missing."""
        there = ~np.isnan(points).any(1)
        columns = np.zeros((len(points), len(self.knots)))
        kernel = _kernel(points[there], self.knots, self.unit * self.reach)
        columns[there] = self.scale * kernel @ self.white
        return columns


def fit_site_surface(points: Points, *, reach: float, scale: float) -> SiteSurface | None:
    """The surface of these sites; None without two different ones."""
    sites = np.unique(points[~np.isnan(points).any(1)], axis=0)
    if len(sites) < 2:
        return None
    center = sites.mean(0)
    unit = float(np.sqrt(2 * np.square(sites - center).sum(1).mean()))
    knots = _far_apart(sites, center)
    values, vectors = np.linalg.eigh(_kernel(knots, knots, unit * reach))
    white = vectors / np.sqrt(np.maximum(values, _NUGGET))
    return SiteSurface(knots, unit, reach, scale, white @ vectors.T)


def _kernel(
    points: Points, knots: Float[np.ndarray, "knots dims"], reach: float
) -> Float[np.ndarray, "sites knots"]:
    distance = np.sqrt(3.0) * cdist(points, knots) / reach
    return (1 + distance) * np.exp(-distance)


def _far_apart(sites: Points, center: Float[np.ndarray, "dims"]) -> Float[np.ndarray, "knots dims"]:
    """Sites of which each is the farthest from those before it."""
    chosen = [int(np.square(sites - center).sum(1).argmin())]
    distance = cdist(sites, sites[chosen])[:, 0]
    while len(chosen) < min(_MOST_KNOTS, len(sites)):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, cdist(sites, sites[chosen[-1:]])[:, 0])
    return sites[chosen]
