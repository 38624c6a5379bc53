"""Covariances of each target and the columns near it, one block for each."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import NearColumns, OfBlocks, given_near
from exfam.fields.base.courses import Clock, Courses
from exfam.fields.base.effects import without_effects
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.maps import Maps
from exfam.fields.local.neighbors import Near, near_columns

# Entries of the arrays that are worked on at once: bounds memory.
MOST_ENTRIES = 2**22
# The same of kernels, whose few steps each are faster where what they work on stays at hand.
MOST_IN_CACHE = 2**17

# Near values that a missing one is filled in from, and sites that are filled in together.
N_NEAR, SITES_AT_ONCE = 12, 4000
MOST_ROWS_ENTRIES = 2**25

Blocks = Float64[Tensor, "targets all all"]
Columns = Int64[Tensor, "targets all"]


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
