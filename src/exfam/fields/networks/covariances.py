"""Gaussian processes of anomalies over places and earlier maps, and ordinary kriging map by map."""

from dataclasses import dataclass, replace

import numpy as np
import scipy
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.joint_normal import conditionals
from exfam.fields.networks.places import (
    Distances,
    chord_distances,
    great_circle,
    lowest,
    matern_3_2,
    to_points,
)
from exfam.groups import Batch, Groups

# A map's covariance is factorized whole: its time grows with the cube of this number.
MOST_ELEMENTS = 5000
# Doubts are rounded to this share of the scale, so that days of like doubts share a factorization.
DOUBT_GRID = 0.05
# What a search looks at, which takes some dozens of rounds over it: sites, maps, padded elements,
# and multiplications of all factorizations.
MOST_SITES = 400
MOST_MAPS = 500
MOST_PADDED = 2**20
MOST_MULTIPLICATIONS = 1e8

Column = Float64[Tensor, "batch length"]
Matrices = Float64[Tensor, "rows length length"]

KERNELS = ("exponential", "matern")
# Where a search starts and may go, as logarithms, in the order of the parameters: variance and
# length of what sites share, variances of a site's own part and of the noise, and the memories of
# the shared and of the own part. Units: the anomalies' variance, the sites' median distance, steps.
START = (-0.3, 0.0, -2.5, -2.5, 0.5, 0.5)
BOUNDS = [(-7.0, 4.0), (-5.0, 4.0), (-12.0, 3.0), (-9.0, 3.0), (-3.0, 7.0), (-3.0, 7.0)]
VARIOGRAMS = ("exponential", "spherical")
# Bins of distance that pairs of sites are averaged in.
BINS = 20
# Pairs farther apart than this share of the largest distance say little of short ones.
WITHIN = 0.6


@dataclass(frozen=True, eq=False)
class Anomalies:
    """Departures from what is normal, in units of the normal scale; 0 where not observed.

    `doubt`: what is not known of the normal location, in the same units
    """

    value: Column
    observed: Bool[Tensor, "batch length"]
    points: Float64[Tensor, "batch length space"]
    doubt: Column
    steps_back: Column
    scale: Column
    location: Column

    @property
    def signature(self) -> Float64[Tensor, "batch numbers"]:
        """Places, observed ones, doubts and times of each map, side by side."""
        parts = [self.observed.double(), self.doubt, self.steps_back, self.points.flatten(1)]
        return torch.cat(parts, -1)

    def above(self, level: Float64[Tensor, ""]) -> "Anomalies":
        """The same maps with that much taken from every observed anomaly."""
        return replace(self, value=torch.where(self.observed, self.value - level, 0.0))

    def to_eta(self, mean: Column, variance: Column) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation in the value's unit, of those of anomalies."""
        log_sd = self.scale.log() + 0.5 * variance.clamp_min(1e-12).log()
        return torch.stack([self.location + self.scale * mean, log_sd], -1).float()


def read_anomalies(batch: Batch, climate: Climate) -> Anomalies:
    """The anomalies of a batch of field groups with one value column."""
    length = batch.present.shape[1]
    if length > MOST_ELEMENTS:
        raise ExfamError(
            f"`groups` must have at most {MOST_ELEMENTS:,} elements a map, earlier maps included, "
            f"where all of them are solved for at once, got {length:,}. Use fewer lags or sites, "
            "or FieldEFA."
        )
    location, scale, doubt = (part.double() for part in climate(batch))
    observed = batch.observed & batch.present
    (value,) = batch.values.values()
    return Anomalies(
        value=torch.where(observed, (value.double() - location) / scale, 0.0),
        observed=observed,
        points=to_points(batch.attributes["coordinates"], climate.metric),
        doubt=(doubt / scale / DOUBT_GRID).round() * DOUBT_GRID,
        steps_back=batch.steps_back.double(),
        scale=scale,
        location=location,
    )


def thinned(groups: Groups, climate: Climate) -> Anomalies:
    """Anomalies of at most 400 sites on at most 500 maps, evenly taken; doubts are left out."""
    longest = max(1, int(groups.lengths.max()))
    n_maps = min(MOST_MAPS, max(1, MOST_PADDED // longest))
    index = np.unique(np.linspace(0, len(groups) - 1, n_maps).round().astype(np.int64))
    batch = groups.pad(index)
    maps = read_anomalies(batch, climate)
    sites = np.linspace(0, climate.n_sites - 1, MOST_SITES).round().astype(np.int64)
    assert batch.item is not None
    keep = maps.observed & torch.isin(batch.item, torch.from_numpy(np.unique(sites)))
    # Kept elements first: what lies behind the longest of these rows is dropped.
    length = max(1, int(keep.sum(1).max()))
    order = keep.double().argsort(dim=1, descending=True, stable=True)[:, :length]
    columns = {
        name: getattr(maps, name).gather(1, order)
        for name in ("value", "steps_back", "scale", "location")
    }
    points = maps.points.gather(1, order[..., None].expand(-1, -1, maps.points.shape[-1]))
    no_doubt = torch.zeros_like(columns["value"])
    return Anomalies(observed=keep.gather(1, order), points=points, doubt=no_doubt, **columns)


def gaps(steps_back: Float64[Tensor, "rows length"]) -> Matrices:
    """How many steps lie between the maps of each two elements."""
    return (steps_back[:, :, None] - steps_back[:, None]).abs()


@dataclass(frozen=True, eq=False)
class Patterns:
    """Maps that observe the same sites, added up: sums of z z' and how many maps they are of.

    `before` marks observed elements of earlier maps, `own` those of the maps themselves
    """

    distance: Matrices
    gap: Matrices
    observed: Bool[Tensor, "rows length"]
    before: Bool[Tensor, "rows length"]
    squares: Matrices
    count: Float64[Tensor, "rows"]

    @property
    def own(self) -> Bool[Tensor, "rows length"]:
        """Observed elements of the maps themselves."""
        return self.observed & ~self.before


def patterns_of(maps: Anomalies) -> Patterns:
    """The most frequent patterns of observed sites, as many as a search can afford."""
    like, count = torch.unique(maps.signature, dim=0, return_inverse=True, return_counts=True)[1:]
    afford = max(1, int(MOST_MULTIPLICATIONS / maps.value.shape[1] ** 3))
    chosen = count.argsort(descending=True, stable=True)[:afford]
    rows = [(like == pattern).nonzero()[:, 0] for pattern in chosen]
    first = torch.stack([row[0] for row in rows])
    value = torch.where(maps.observed, maps.value, 0.0)
    observed = maps.observed[first]
    return Patterns(
        distance=chord_distances(maps.points[first], maps.points[first]),
        gap=gaps(maps.steps_back[first]),
        observed=observed,
        before=observed & (maps.steps_back[first] > 0),
        squares=torch.stack([value[row].T @ value[row] for row in rows]),
        count=count[chosen].double(),
    )


class GaussianProcessPart(nn.Module):
    """Each value given all observed others, of its own map and of earlier ones.

    Anomalies have one mean everywhere. The covariance of two, at distance d and k steps apart, is
    variance c(d) exp(-k / memory) + own [same site] exp(-k / own_memory) + noise [same value],
    c a Matern 3/2 or exponential correlation. Doubts of sites do not fade.
    Source: Rasmussen & Williams (2006), eq. 5.10 to 5.12 for the leave-one-out conditionals.
    """

    direction = "bidirectional"

    def __init__(self, climate: Climate, *, kernel: str) -> None:
        super().__init__()
        check_choice("kernel", kernel, KERNELS)
        self.climate, self.kernel = climate, kernel
        self.log_parameters = nn.Buffer(torch.zeros(len(START), dtype=torch.float64))
        self.level = nn.Buffer(torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation given the observed others, in the value's unit."""
        maps = read_anomalies(batch, self.climate)

        def covariance(rows: Int64[Tensor, "rows"]) -> Matrices:
            distance = chord_distances(maps.points[rows], maps.points[rows])
            doubt = maps.doubt[rows]
            unknown = doubt[:, :, None] * doubt[:, None] * (distance == 0)
            gap = gaps(maps.steps_back[rows])
            return _covariance(distance, gap, self.log_parameters, self.kernel) + unknown

        value = maps.above(self.level).value
        mean, variance = conditionals(
            value, maps.observed, signature=maps.signature, covariance=covariance
        )
        return maps.to_eta(self.level + mean, variance)


def fit_gaussian_process(
    groups: Groups, climate: Climate, *, kernel: str = "matern"
) -> GaussianProcessPart:
    """The process under which the maps' anomalies are most likely, each given its earlier maps."""
    part = GaussianProcessPart(climate, kernel=kernel)
    maps = thinned(groups, climate)
    part.level.copy_(maps.value[maps.observed].mean())
    patterns = patterns_of(maps.above(part.level))
    apart = patterns.distance[patterns.distance > 0]
    n_observed = (patterns.count[:, None] * patterns.observed).sum()
    spread = patterns.squares.diagonal(dim1=1, dim2=2).sum() / n_observed
    length = apart.median().log() if len(apart) else spread.new_zeros(())
    variance = spread.clamp_min(1e-12).log()
    one = torch.zeros_like(variance)
    unit = torch.stack([variance, length, variance, variance, one, one])
    n_values = (patterns.own.sum(1) * patterns.count).sum()

    def mean_nats(free: Tensor) -> Float64[Tensor, ""]:
        # -log p per value of the maps given their earlier maps, without constants.
        covariance = _covariance(patterns.distance, patterns.gap, free + unit, kernel)
        nats = _nats(covariance, patterns, patterns.observed)
        if patterns.before.any():
            nats = nats - _nats(covariance, patterns, patterns.before)
        return nats / n_values

    part.log_parameters.copy_(lowest(mean_nats, START, BOUNDS) + unit)
    return part


def _covariance(distance: Matrices, gap: Matrices, log_parameters: Tensor, kernel: str) -> Matrices:
    variance, length, own, noise, memory, own_memory = log_parameters.exp()
    shape = matern_3_2(distance, length) if kernel == "matern" else (-distance / length).exp()
    shared = variance * shape * (-gap / memory).exp()
    of_site = own * (-gap / own_memory).exp() * (distance == 0)
    identity = torch.eye(distance.shape[-1], dtype=distance.dtype, device=distance.device)
    return shared + of_site + noise * identity


def _nats(covariance: Matrices, patterns: Patterns, seen: Bool[Tensor, "rows length"]) -> Tensor:
    both = seen[:, :, None] & seen[:, None]
    identity = torch.eye(seen.shape[1], dtype=covariance.dtype)
    factor = torch.linalg.cholesky(torch.where(both, covariance, identity))
    solved = torch.cholesky_solve(patterns.squares * both, factor)
    squares = solved.diagonal(dim1=1, dim2=2).sum()
    return 0.5 * squares + (patterns.count[:, None] * factor.diagonal(dim1=1, dim2=2).log()).sum()


def variogram(distance: Distances, parameters: Float64[Tensor, "3"], *, kind: str) -> Distances:
    """Half the expected squared difference of two anomalies at a distance above 0.

    `parameters` are partial sill, range and nugget. "exponential": nugget + sill (1 - exp(-3 d /
    range)). "spherical": nugget + sill (1.5 r - 0.5 r^3), r = d / range, all of it from the range
    on.
    """
    sill, reach, nugget = parameters
    if kind == "exponential":
        return nugget + sill * (1 - (-3 * distance / reach).exp())
    r = (distance / reach).clamp(max=1.0)
    return nugget + sill * (1.5 * r - 0.5 * r**3)


class KrigingPart(nn.Module):
    """Ordinary kriging of anomalies on each map, leave-one-out where they are observed.

    Earlier maps are not read. The variance is the kriging variance, nugget included. Where no other
    value is observed, an anomaly has the mean and variance of the training anomalies.
    Source: Cressie (1993), section 3.2.
    """

    direction = "bidirectional"

    def __init__(self, climate: Climate, *, kind: str) -> None:
        super().__init__()
        check_choice("variogram", kind, VARIOGRAMS)
        self.climate, self.kind = climate, kind
        self.sill_range_nugget = nn.Buffer(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
        self.mean_variance = nn.Buffer(torch.tensor([0.0, 1.0], dtype=torch.float64))

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation given the observed others, in the value's unit."""
        maps = read_anomalies(batch, self.climate)
        observed = maps.observed & (maps.steps_back == 0)

        def covariance(rows: Int64[Tensor, "rows"]) -> Matrices:
            return self._covariance(maps.points[rows], maps.doubt[rows])

        value = torch.where(observed, maps.value, 0.0)
        mean, variance = conditionals(
            value, observed, signature=maps.signature, covariance=covariance, flat_mean=True
        )
        usual_mean, usual_variance = self.mean_variance
        lone = variance.isinf()
        return maps.to_eta(
            torch.where(lone, usual_mean, mean),
            torch.where(lone, usual_variance + maps.doubt.square(), variance),
        )

    def _covariance(self, points: Tensor, doubt: Tensor) -> Matrices:
        """The sill less the variogram; a nugget and what is not known of a site are its own."""
        distance = _along(chord_distances(points, points), self.climate.metric)
        sill, _, nugget = self.sill_range_nugget
        between = sill + nugget - variogram(distance, self.sill_range_nugget, kind=self.kind)
        # Two sites at one place would otherwise be one and the same, and no system solvable.
        own = nugget.clamp_min(1e-9 * sill) + doubt.square()
        return between + torch.diag_embed(own)


def fit_kriging(groups: Groups, climate: Climate, *, kind: str = "exponential") -> KrigingPart:
    """The part with the variogram of the anomalies of all maps together.

    Half the mean squared difference of each pair of sites is averaged in 20 bins of distance, up to
    0.6 of the largest one, and fitted by least squares with the numbers of pairs as weights.
    """
    part = KrigingPart(climate, kind=kind)
    maps = thinned(groups, climate)
    z = maps.value[maps.observed & (maps.steps_back == 0)]
    spread = float(z.var(correction=0).clamp_min(1e-12))
    part.mean_variance.copy_(torch.stack([z.mean(), z.new_tensor(spread)]))
    bins = _bins(patterns_of(maps), climate.metric)
    if len(bins):
        part.sill_range_nugget.copy_(_least_squares(bins, spread, kind))
    return part


def _bins(patterns: Patterns, metric: str) -> Float64[Tensor, "bins 3"]:
    """Mean distance, mean half squared difference and number of pairs of each bin."""
    distance = _along(patterns.distance, metric)
    own = patterns.own
    pair = (own[:, :, None] & own[:, None]).triu(1) & (distance > 0)
    square = patterns.squares.diagonal(dim1=1, dim2=2)
    half = 0.5 * (square[:, :, None] + square[:, None]) - patterns.squares
    number = patterns.count[:, None, None].expand_as(half)[pair]
    apart, half = distance[pair], half[pair]
    if not len(apart):
        return apart.new_zeros(0, 3)
    # Where sites are few, their few distances need not reach below a share of the largest one.
    reach = max(WITHIN * float(apart.max()), float(apart.min()) * (1 + 1e-9))
    bin_ = (apart / reach * BINS).long()
    totals = torch.stack([apart * number, half, number], -1)[bin_ < BINS]
    sums = totals.new_zeros(BINS, 3).index_add(0, bin_[bin_ < BINS], totals)
    sums = sums[sums[:, 2] > 0]
    return torch.cat([sums[:, :2] / sums[:, 2:], sums[:, 2:]], -1)


def _least_squares(bins: Float64[Tensor, "bins 3"], spread: float, kind: str) -> Tensor:
    distance, half, number = bins.unbind(-1)
    top, far = max(float(half.max()), 1e-9 * spread), float(distance.max())
    root = number.sqrt() / number.sum().sqrt()

    def rest(ratio: np.ndarray) -> np.ndarray:
        parameters = torch.from_numpy(ratio) * unit
        return (root * (variogram(distance, parameters, kind=kind) - half) / top).numpy()

    unit = torch.tensor([top, far, top], dtype=torch.float64)
    low, high = [1e-6, 0.02, 0.0], [20.0, 20.0, 2.0]
    fit = scipy.optimize.least_squares(rest, [0.9, 0.7, 0.1], bounds=(low, high))
    return torch.from_numpy(fit.x) * unit


def _along(chord: Distances, metric: str) -> Distances:
    return great_circle(chord) if metric == "haversine" else chord
