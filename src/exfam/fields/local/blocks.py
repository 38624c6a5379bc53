"""Columns near each of many sites, and blocks of covariances: there is no table of all pairs."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from scipy.spatial import cKDTree
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import NearColumns, OfBlocks, given_near
from exfam.fields.base.courses import Clock, Courses
from exfam.fields.base.effects import without_effects
from exfam.fields.base.kernel import MOST_COLUMNS, MovingKernel
from exfam.fields.base.limits import Evidence
from exfam.fields.base.maps import Maps, some_sites

# Sites near each other that a kernel is fitted to together: their distances show its short lengths.
SITES_OF_A_CLUSTER = 4

Near = Int64[Tensor, "targets near"]

# Entries of the arrays that are worked on at once: bounds memory.
MOST_ENTRIES = 2**22
# The same of kernels, whose few steps each are faster where what they work on stays at hand.
MOST_IN_CACHE = 2**17

# Near values that a missing one is filled in from, and sites that are filled in together.
N_NEAR, SITES_AT_ONCE = 12, 4000
MOST_ROWS_ENTRIES = 2**25

Blocks = Float64[Tensor, "targets all all"]
Columns = Int64[Tensor, "targets all"]


def near_columns(
    kernel: MovingKernel, columns: MapColumns, targets: Int64[Tensor, "targets"], *, most: int
) -> Near:
    """The columns of the largest |covariance| with own columns, these left out; best first.

    Looked for among those nearest to where each part of the kernel comes from at each step back,
    and at the target's own site.
    """
    n_lags = int(columns.lag.max())
    n_sites = len(columns.lag) // (n_lags + 1)
    points, found = columns.points[:n_sites], []
    for stretch, velocity in kernel.metrics(points.shape[1]):
        tree = cKDTree((points @ stretch.T).numpy())
        for lag in range(n_lags + 1):
            came_from = (points[targets] - lag * velocity) @ stretch.T
            at = tree.query(came_from.numpy(), k=range(1, min(most + 1, n_sites) + 1))[1]
            found.append(lag * n_sites + torch.from_numpy(at))
    found.append(targets[:, None] + n_sites * torch.arange(1, n_lags + 1))
    candidate = torch.cat(found, 1).sort(1).values
    new = torch.ones_like(candidate, dtype=torch.bool)
    new[:, 1:] = candidate[:, 1:] != candidate[:, :-1]
    own, others = columns.take(targets[:, None]), columns.take(candidate)
    strength = kernel.between(own, others)[:, 0].abs()
    strength = torch.where(new & (candidate != targets[:, None]), strength, -1.0)
    n = min(most, len(columns.lag) - 1)
    return candidate.gather(1, strength.topk(n, dim=1).indices)


def clusters(points: Float64[Tensor, "sites space"], n_lags: int) -> Int64[Tensor, "chosen"]:
    """Columns that a kernel is fitted to: sites evenly taken, with their nearest ones, all lags."""
    n = max(1, MOST_COLUMNS // ((n_lags + 1) * SITES_OF_A_CLUSTER))
    centers = torch.linspace(0, len(points) - 1, n).round().long()
    k = range(1, min(SITES_OF_A_CLUSTER, len(points)) + 1)
    found = cKDTree(points.numpy()).query(points[centers].numpy(), k=k)[1]
    sites = torch.from_numpy(found).flatten().unique()
    return (len(points) * torch.arange(n_lags + 1)[:, None] + sites).flatten()


class FilledMaps(NamedTuple):
    """Values of all sites at all times; `left`: mean variance of a site's filled-in ones."""

    values: Float64[Tensor, "times sites"]
    left: Float64[Tensor, "sites"]
    time: Float64[Tensor, "times"]
    earlier: Int64[Tensor, "times lags"]
    clock: Clock
    covariates: Float64[Tensor, "times sites covariates"] | None = None

    def anomalies(self, courses: Courses) -> Float64[Tensor, "times sites"]:
        """Values less what is normal, in units of the sites' spread."""
        own = None if courses.effects is None else courses.effects.own
        values = without_effects(self.values, self.covariates, own)
        return courses.anomalies(values, self.clock.waves(self.time))

    def known(self, known: Bool[Tensor, "times"]) -> "FilledMaps":
        """The maps, where none before another is known but some."""
        there = (self.earlier >= 0) & known[self.earlier]
        return self._replace(earlier=torch.where(there, self.earlier, -1))


def kernel_blocks(kernel: MovingKernel, columns: MapColumns, chosen: Columns) -> Blocks:
    """The kernel's covariances among the chosen columns of each target."""
    n = chosen.shape[1]
    parts = chosen.split(max(1, MOST_IN_CACHE // n**2))
    return torch.cat([kernel.of(columns.take(part)) for part in parts])


def product_blocks(
    maps: FilledMaps, courses: Courses, chosen: Columns, rows: Int64[Tensor, "rows"]
) -> Blocks:
    """Expected mean products of chosen columns over rows that have all of their earlier maps."""
    values = maps.anomalies(courses)
    index = torch.cat([torch.arange(len(values))[:, None], maps.earlier], 1)[rows]
    index = index[(index >= 0).all(1)]
    n_sites, out = values.shape[1], []
    for part in chosen.split(max(1, MOST_ENTRIES // (max(1, len(index)) * chosen.shape[1]))):
        lag, site = part // n_sites, part % n_sites
        x = values[index[:, lag], site].transpose(0, 1)
        left = (maps.left / courses.scale.square())[site]
        out.append(x.mT @ x / max(1, len(index)) + torch.diag_embed(left))
    return torch.cat(out)


def filled_maps(maps: Maps, courses: Courses, near: NearColumns) -> FilledMaps:
    """Missing values are what is expected of them given those shown near them."""
    panel, values = maps.panel, maps.panel.values.clone()
    n_times, left = len(values), torch.zeros(values.shape[1]).to(values)
    gaps = (~panel.shown.all(0)).nonzero()[:, 0]
    at_once = max(1, MOST_ROWS_ENTRIES // len(maps.sites.columns.lag))
    for times in torch.arange(n_times).split(at_once) if len(gaps) else ():
        rows, shown = maps.rows(courses, times)
        normal = courses.location(maps.clock.waves(panel.time[times]))
        if courses.effects is not None and panel.covariates is not None:
            own = courses.effects.own
            normal = without_effects(normal, panel.covariates[times], -own)
        for some in gaps.split(SITES_AT_ONCE):
            given = given_near(rows, shown, near.take(some), n_used=N_NEAR)
            hidden, scale = ~shown[:, some], courses.scale[some]
            expected = normal[:, some] + scale * given.mean
            values[times[:, None], some] += torch.where(hidden, expected, 0.0)
            variance = torch.where(hidden, given.variance, 0.0)
            left[some] += scale.square() * variance.sum(0) / n_times
    return FilledMaps(values, left, panel.time, panel.earlier, maps.clock, panel.covariates)


def near_of(
    kernel: MovingKernel, columns: MapColumns, targets: Int64[Tensor, "targets"], *, most: int
) -> OfBlocks:
    """Columns near own ones with the kernel's covariances."""
    index = near_columns(kernel, columns, targets, most=most)
    return OfBlocks(kernel_blocks(kernel, columns, with_own(targets, index)), index)


def with_own(targets: Int64[Tensor, "targets"], near: Near) -> Columns:
    """Each target and then its near columns."""
    return torch.cat([targets[:, None], near], 1)


class LocalRows:
    """Rows of the columns near some sites, the targets, as `BaseRows`; at most so many of them."""

    def __init__(self, maps: Maps, filled: FilledMaps, near: OfBlocks, *, most: int) -> None:
        self.maps, self._filled = maps, filled
        self.targets = some_sites(len(maps.sites.terms), most)
        of_some = near.columns[self.targets]
        others = of_some.unique()
        self._used = torch.cat([self.targets, others[~torch.isin(others, self.targets)]])
        self._chosen = with_own(self.targets, of_some)
        order = self._used.argsort()
        columns = order[torch.searchsorted(self._used[order], of_some)]
        self.prior: NearColumns = OfBlocks(near.block[self.targets], columns)
        self.columns = maps.sites.columns.take(self._used)

    def evidence(self, courses: Courses) -> Evidence:
        return Evidence(*self.maps.columns(courses, self._used))

    def prior_of(self, courses: Courses, left: Bool[Tensor, "times"]) -> NearColumns:
        return self.prior

    def products(self, courses: Courses, left: Bool[Tensor, "times"]) -> Blocks:
        known = left.nonzero()[:, 0]
        return product_blocks(self._filled.known(left), courses, self._chosen, known)
