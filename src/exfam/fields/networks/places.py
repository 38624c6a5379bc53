"""Places as points of Euclidean space, and Gaussian processes over them: one number per site."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.geometry import EARTH_RADIUS_KM, check_metric

# Sites that a fit looks at: a factorization of their covariance costs the cube of their number.
MOST_SITES = 400
FEWEST_SITES = 4
# Sites that one new place is read from: those farther away are hidden behind them.
NEIGHBORS = 64
# Entries of one table of distances or stack of systems: bounds memory.
MOST_ENTRIES = 2**22
# Log-normal priors keep a handful of sites from giving a surface without roughness or of no width:
# the variance and the nugget in units of the sites' variance, the length of their median distance.
PRIOR_CENTER = (1.0, 0.5, 0.1)
PRIOR_WIDTH = (1.0, 1.0, 1.5)
BOUNDS = [(-12.0, 8.0), (-8.0, 4.0), (-12.0, 8.0)]

Sites = Float64[Tensor, "sites"]
Points = Float64[Tensor, "sites space"]
Distances = Float64[Tensor, "*shape"]
Moments = tuple[Tensor, Tensor]


def to_points(
    coordinates: Float[Tensor, "*shape dims"], metric: str
) -> Float64[Tensor, "*shape space"]:
    """Points whose straight distances stand for those of the places, in float64.

    Degrees become points of a sphere, in kilometers from its center.
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


def great_circle(chord: Distances) -> Distances:
    """Kilometers along the sphere between points that are `chord` kilometers apart through it."""
    return 2 * EARTH_RADIUS_KM * (chord / (2 * EARTH_RADIUS_KM)).clamp(max=1).asin()


def matern_3_2(distance: Distances, length: float | Tensor) -> Distances:
    """The Matern 3/2 correlation at a distance: (1 + r) exp(-r), r = sqrt(3) distance / length."""
    r = distance * (3**0.5 / length)
    return (1 + r) * (-r).exp()


class Surface(NamedTuple):
    """A Gaussian process over places: value ~ mean + smooth part + what is a site's own.

    `variance` and `length` are those of the smooth part, a Matern 3/2 kernel, `nugget` is the
    variance of a site's own part
    """

    mean: float
    variance: float
    length: float
    nugget: float


def fit_surface(points: Points, value: Sites, *, noise: Sites, unknown: float) -> Surface:
    """The surface under which the sites' values are most likely (with weak priors).

    `noise` is the variance of the error of each value; `unknown` that between sites if there is
    only one. Below 4 sites, or where all values agree, the surface is flat.
    """
    if len(value) < 2:
        return Surface(float(value.mean()), 0.0, 1.0, unknown)
    spread = float(value.var())
    agree = spread <= 1e-20 * float(value.abs().max()) ** 2
    if len(value) < FEWEST_SITES or agree:
        return Surface(float(value.mean()), 0.0, 1.0, 0.0 if agree else spread)
    chosen = np.unique(np.linspace(0, len(value) - 1, MOST_SITES).round().astype(np.int64))
    at, z, error = points[chosen], value[chosen], noise[chosen]
    distance = chord_distances(at, at)
    apart = distance[distance > 0]
    width = float(apart.median()) if len(apart) else 1.0
    unit = z.new_tensor([spread, width, spread])
    center = z.new_tensor(PRIOR_CENTER).log()

    def nats(free: Tensor) -> Tensor:
        prior = ((free - center) / z.new_tensor(PRIOR_WIDTH)).square().sum()
        return _profile(distance, z, error, free.exp() * unit)[1] + 0.5 * prior

    best = lowest(nats, center.tolist(), BOUNDS).exp() * unit
    mean, _ = _profile(distance, z, error, best)
    return Surface(float(mean), *best.tolist())


def lowest(
    nats: Callable[[Tensor], Tensor],
    start: Sequence[float],
    bounds: Sequence[tuple[float, float]],
) -> Float64[Tensor, "parameters"]:
    """Where `nats` are lowest, by L-BFGS with torch's gradients."""

    def with_slope(free: Tensor) -> tuple[float, Tensor]:
        value = nats(free.requires_grad_())
        value.backward()
        assert free.grad is not None
        return float(value.detach()), free.grad

    with torch.enable_grad():
        return lowest_by_slope(with_slope, start, bounds, most_rounds=15_000)


def lowest_by_slope(
    with_slope: Callable[[Tensor], tuple[float, Tensor]],
    start: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    *,
    most_rounds: int,
) -> Float64[Tensor, "parameters"]:
    """Where a number that comes with its derivatives is lowest, by at most so many rounds."""

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = with_slope(torch.tensor(point))
        return value, slope.numpy()

    fit = scipy.optimize.minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": most_rounds},
    )
    return torch.from_numpy(fit.x)


def _profile(distance: Tensor, z: Tensor, error: Tensor, parameters: Tensor) -> Moments:
    """The mean that is most likely under the parameters, and -log p in nats with it."""
    variance, length, nugget = parameters
    jitter = 1e-9 * variance
    covariance = variance * matern_3_2(distance, length) + torch.diag(nugget + error + jitter)
    factor = torch.linalg.cholesky(covariance)
    both = torch.stack([z, torch.ones_like(z)], -1)
    z_white, one_white = torch.linalg.solve_triangular(factor, both, upper=False).unbind(-1)
    mean = (z_white * one_white).sum() / one_white.square().sum()
    rest = (z_white - mean * one_white).square().sum()
    return mean, 0.5 * rest + factor.diagonal().log().sum()


def at_places(
    places: Float64[Tensor, "places space"],
    points: Points,
    *,
    value: Float64[Tensor, "sites fields"],
    noise: Float64[Tensor, "sites fields"],
    surfaces: Float64[Tensor, "fields 4"],
) -> tuple[Float64[Tensor, "places fields"], Float64[Tensor, "places fields"]]:
    """Mean and variance of a new site's own value at each place, kriged from its 64 nearest sites.

    A row of `surfaces` is (mean, variance, length, nugget) of one field.
    """
    n_near = min(NEIGHBORS, len(points))
    chunk = max(1, MOST_ENTRIES // max(len(points), n_near**2))
    means, variances = [], []
    for part in places.split(chunk):
        to_sites, near = chord_distances(part, points).topk(n_near, largest=False)
        between = chord_distances(points[near], points[near])
        fields = [
            _krige(to_sites, between, value[near, k], noise[near, k], surface)
            for k, surface in enumerate(surfaces)
        ]
        means.append(torch.stack([mean for mean, _ in fields], -1))
        variances.append(torch.stack([variance for _, variance in fields], -1))
    return torch.cat(means), torch.cat(variances)


def _krige(
    to_sites: Tensor, between: Tensor, value: Tensor, noise: Tensor, surface: Tensor
) -> Moments:
    mean, variance, length, nugget = surface
    if variance == 0:
        return mean.expand(len(value)), nugget.expand(len(value))
    own = nugget + noise + 1e-9 * variance
    covariance = variance * matern_3_2(between, length) + torch.diag_embed(own)
    shared = variance * matern_3_2(to_sites, length)
    factor = torch.linalg.cholesky(covariance)
    weights = torch.cholesky_solve(shared[..., None], factor)[..., 0]
    explained = (weights * shared).sum(-1)
    moved = mean + (weights * (value - mean)).sum(-1)
    return moved, (variance - explained).clamp_min(0) + nugget
