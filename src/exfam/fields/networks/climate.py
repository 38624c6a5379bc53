"""Climate: what is normal at a place and a time, from training data only."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from exfam.checks import check_choice, check_positive
from exfam.fields.data.facts import observed_own
from exfam.fields.networks.places import at_places, fit_surface, to_points
from exfam.fields.networks.seasons import (
    MOST_HARMONICS,
    SiteCourses,
    angle,
    fit_courses,
    harmonics,
    harmonics_supported,
)
from exfam.geometry import check_metric
from exfam.groups import Batch, Groups

CLIMATES = ("none", "global", "site", "seasonal")
PERIOD = 365.25

Values = Float[Tensor, "batch length"]


class Normal(NamedTuple):
    """What is normal: value = location + scale * anomaly, all in the value's unit.

    `doubt`: standard deviation of what is not known of the location
    """

    location: Values
    scale: Values
    doubt: Values


class Climate(nn.Module):
    """What is normal at each element's site and time; buffers only, which `fit_climate` fills.

    "none": 0 and 1 everywhere. "global": mean and standard deviation of all values. "site": those
    of each site, drawn to the common ones where it has few observations. "seasonal": a yearly
    course of each site beside its level. Sites that training did not observe are read from their
    64 nearest ones by simple kriging, and have their doubt.
    """

    def __init__(
        self, kind: str, *, n_sites: int, n_dims: int, metric: str, period: float, step: float
    ) -> None:
        super().__init__()
        check_choice("kind", kind, CLIMATES)
        check_metric(metric)
        check_positive("period", period)
        check_positive("step", step)
        self.kind, self.n_sites, self.n_dims = kind, n_sites, n_dims
        self.metric, self.period, self.step = metric, period, step
        self.has_sites = kind in ("site", "seasonal")
        rows = n_sites if self.has_sites else 1
        terms = 1 + (2 * MOST_HARMONICS if kind == "seasonal" else 0)
        zeros = partial(torch.zeros, dtype=torch.float64)
        self.points = nn.Buffer(zeros(rows, 3 if metric == "haversine" else n_dims))
        self.coefficient = nn.Buffer(zeros(rows, terms))
        self.covariance = nn.Buffer(zeros(rows, terms, terms))
        self.log_scale = nn.Buffer(zeros(rows))
        self.noise = nn.Buffer(zeros(rows, terms + 1))
        self.surfaces = nn.Buffer(zeros(terms + 1, 4))
        self.center = nn.Buffer(zeros(terms - 1))
        self.known = nn.Buffer(torch.zeros(rows, dtype=torch.bool))

    @torch.no_grad()
    def forward(self, batch: Batch) -> Normal:
        """Location, scale and doubt of every element, those of earlier maps included."""
        own, new = torch.zeros_like(batch.element), torch.zeros_like(batch.present)
        if self.has_sites and batch.item is not None:
            own = batch.item.clamp(0, len(self.known) - 1)
            new = batch.present & ((batch.item < 0) | ~self.known[own])
        terms = self._terms(batch)
        location = (self.coefficient[own] * terms).sum(-1)
        square = torch.einsum("blt,bltu,blu->bl", terms, self.covariance[own], terms)
        log_scale = self.log_scale[own]
        if new.any():
            coordinates, known = batch.attributes["coordinates"][new], self.known
            places, back = torch.unique(coordinates, dim=0, return_inverse=True)
            fields, variance = at_places(
                to_points(places, self.metric),
                self.points[known],
                value=torch.cat([self.coefficient, self.log_scale[:, None]], -1)[known],
                noise=self.noise[known],
                surfaces=self.surfaces,
            )
            fields, variance = fields[back], variance[back]
            location[new] = (fields[:, :-1] * terms[new]).sum(-1)
            square[new] = (variance[:, :-1] * terms[new].square()).sum(-1)
            log_scale[new] = fields[:, -1]
        doubt = square.clamp_min(0).sqrt()
        return Normal(location.float(), log_scale.exp().float(), doubt.float())

    def _terms(self, batch: Batch) -> Float64[Tensor, "batch length terms"]:
        one = torch.ones(*batch.present.shape, 1, dtype=torch.float64, device=self.center.device)
        if self.kind != "seasonal":
            return one
        time = batch.group_attributes["time"].double() - self.step * batch.steps_back.double()
        waves = harmonics(angle(time, self.period), MOST_HARMONICS) - self.center
        return torch.cat([one, waves], -1)


class ClimatologyPart(nn.Module):
    """A Gaussian around what is normal, of the normal spread; nothing else of the map is read."""

    direction = "bidirectional"

    def __init__(self, climate: Climate) -> None:
        super().__init__()
        self.climate = climate

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation of each element, in the value's unit."""
        normal = self.climate(batch)
        return torch.stack([normal.location, torch.hypot(normal.scale, normal.doubt).log()], -1)


def fit_climate(
    groups: Groups, *, kind: str, metric: str, period: float = PERIOD, step: float = 1.0
) -> Climate:
    """What is normal, from the own observed elements of the groups and nothing else."""
    n_dims = groups.attributes["coordinates"].shape[1]
    climate = Climate(
        kind, n_sites=groups.n_items, n_dims=n_dims, metric=metric, period=period, step=step
    )
    if kind == "none":
        return climate
    assert groups.item is not None
    elements = observed_own(groups)
    elements = elements[groups.item[elements] >= 0]
    (column,) = groups.values.values()
    value = column[elements].astype(np.float64)
    if kind == "global":
        climate.coefficient[0] = value.mean()
        spread = value.std()
        varies = spread > 1e-12 * np.abs(value).max()
        climate.log_scale[0] = np.log(spread) if varies else 0.0
        return climate
    waves = np.zeros((len(value), 0))
    if kind == "seasonal":
        time = np.empty(groups.n_rows)
        of_own = groups.group_attributes["time"].astype(np.float64)
        time[groups.elements()] = np.repeat(of_own, groups.stop - groups.start)
        angles = angle(torch.from_numpy(time[elements]), period)
        waves = harmonics(angles, harmonics_supported(angles)).numpy()
    climate.center[: waves.shape[1]] = torch.from_numpy(waves.mean(0))
    site = groups.item[elements].astype(np.int64)
    courses = fit_courses(value, site, waves - waves.mean(0), n_sites=max(1, groups.n_items))
    _fill(climate, courses, site, groups.attributes["coordinates"][elements].astype(np.float64))
    return climate


def _fill(climate: Climate, courses: SiteCourses, site: np.ndarray, places: np.ndarray) -> None:
    """The buffers of a climate with sites, surfaces to places without data included."""
    terms = courses.coefficient.shape[1]
    count = np.bincount(site, minlength=len(courses.scale))
    first = np.unique(site, return_index=True)[1]
    climate.known.copy_(torch.from_numpy(count > 0))
    climate.points[climate.known] = to_points(torch.from_numpy(places[first]), climate.metric)
    climate.coefficient[:, :terms] = torch.from_numpy(courses.coefficient)
    climate.covariance[:, :terms, :terms] = torch.from_numpy(courses.covariance)
    climate.log_scale.copy_(torch.from_numpy(np.log(courses.scale)))
    climate.noise[:, :-1] = climate.covariance.diagonal(dim1=1, dim2=2)
    # The log of a standard deviation of n values errs by about 1 / sqrt(2 n).
    climate.noise[:, -1] = torch.from_numpy(0.5 / np.maximum(count, 1))
    fields = torch.cat([climate.coefficient, climate.log_scale[:, None]], -1)[climate.known]
    for k in range(fields.shape[1]):
        surface = fit_surface(
            climate.points[climate.known],
            fields[:, k],
            noise=climate.noise[climate.known, k],
            unknown=courses.within**2 if k == 0 else 0.0,
        )
        climate.surfaces[k] = torch.tensor(surface, dtype=torch.float64)
