"""Climate: what is normal at a place and a time, from training data only."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from exfam.checks import check_choice, check_positive
from exfam.fields.data.facts import observed_own
from exfam.fields.networks.places import at_places, fit_surface, to_points
from exfam.geometry import check_metric
from exfam.groups import Batch, Groups

# Harmonics of a yearly course at most: a year and half a year.
MOST_HARMONICS = 2
# Standard deviation, in those of the values within sites, that the shared harmonics may have at
# ease: keeps a course read off one month from running away in the others.
EASY_AMPLITUDE = 2.0
# Rounds of expectation and maximization: after these the spreads move by less than a percent.
ROUNDS = 60
# A site's own spread is that of this many observations of the common one, and its own ones.
COMMON_OBSERVATIONS = 5.0

CLIMATES = ("none", "global", "site", "seasonal")
PERIOD = 365.25

Values = Float[Tensor, "batch length"]


class SiteCourses(NamedTuple):
    """Coefficients of each site, in the order level, cos 1, sin 1, cos 2, sin 2.

    `scale`: standard deviation of the values around a site's course, `within` the common one
    """

    coefficient: Float64[np.ndarray, "sites terms"]
    covariance: Float64[np.ndarray, "sites terms terms"]
    scale: Float64[np.ndarray, "sites"]
    within: float


def angle(time: Float64[Tensor, "*shape"], period: float) -> Float64[Tensor, "*shape"]:
    """The position in the period, in [0, 2 pi): from float64, before anything is rounded."""
    return torch.remainder(time, period) * (2 * torch.pi / period)


def harmonics(
    angles: Float64[Tensor, "*shape"], n_harmonics: int
) -> Float64[Tensor, "*shape terms"]:
    """cos and sin of 1, 2, ... times the angle, side by side."""
    columns = [
        wave(k * angles) for k in range(1, n_harmonics + 1) for wave in (torch.cos, torch.sin)
    ]
    return torch.stack(columns, -1) if columns else angles.new_zeros(*angles.shape, 0)


def harmonics_supported(angles: Float64[Tensor, "times"]) -> int:
    """2 if the times leave no quarter of the period without data, else 1."""
    ordered = torch.sort(angles).values
    gaps = torch.diff(torch.cat([ordered, ordered[:1] + 2 * torch.pi]))
    return MOST_HARMONICS if float(gaps.max()) < torch.pi / 2 else 1


def fit_courses(
    value: Float64[np.ndarray, "rows"],
    site: Int64[np.ndarray, "rows"],
    waves: Float64[np.ndarray, "rows waves"],
    *,
    n_sites: int,
) -> SiteCourses:
    """Linear mixed model: value = (shared + site's own coefficients) . (1, waves) + error.

    Sites with few observations are drawn to the shared coefficients. Waves must be centered.
    """
    middle, spread = value.mean(), value.std()
    varies = spread > 1e-12 * np.abs(value).max()
    unit = spread if varies else 1.0
    z = (value - middle) / unit

    def by_site(column: np.ndarray) -> np.ndarray:
        return np.bincount(site, weights=column, minlength=n_sites)

    x = [np.ones_like(z), *waves.T]
    squares = np.array([[by_site(a * b) for b in x] for a in x])
    products = np.array([by_site(a * z) for a in x]).T
    moments = np.moveaxis(squares, -1, 0).copy(), products, by_site(z * z)
    shared, own, error = _spreads(moments, n_rows=len(z))
    coefficient, covariance, residual = _posterior(moments, shared, own, error)
    count = moments[0][:, 0, 0]
    pooled = (residual + COMMON_OBSERVATIONS * error) / (count + COMMON_OBSERVATIONS)
    variance = np.maximum(pooled, 1e-12) if varies else np.ones(n_sites)
    coefficient[:, 0] += middle / unit
    return SiteCourses(
        coefficient=unit * coefficient,
        covariance=unit**2 * covariance,
        scale=unit * np.sqrt(variance),
        within=float(unit * np.sqrt(max(error, 1e-12))),
    )


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def _posterior(moments: Arrays, shared: np.ndarray, own: np.ndarray, error: float) -> Arrays:
    """Coefficients, their covariance, and the expected sum of squared errors of each site."""
    squares, products, total = moments
    precision = squares / error
    inner = np.linalg.inv(np.eye(len(shared)) + own[:, None] * precision)
    covariance = inner * own
    surprise = products / error - precision @ shared
    coefficient = shared + np.einsum("sab,sb->sa", covariance, surprise)
    fitted = np.einsum("sab,sb->sa", squares, coefficient)
    residual = total - 2 * (coefficient * products).sum(-1) + (coefficient * fitted).sum(-1)
    residual += np.einsum("sab,sba->s", squares, covariance)
    return coefficient, covariance, np.maximum(residual, 0.0)


def _spreads(moments: Arrays, *, n_rows: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Shared coefficients, variances of the sites' own ones, and the error's variance."""
    seen = moments[0][:, 0, 0] > 0
    squares, products, total = (part[seen] for part in moments)
    n_terms = squares.shape[1]
    own, error = np.full(n_terms, 0.5), 0.5
    shared = np.zeros(n_terms)
    for _ in range(ROUNDS):
        # Generalized least squares of all sites, the harmonics drawn to 0.
        precision = squares / error
        inner = np.linalg.inv(np.eye(n_terms) + own[:, None] * precision)
        ease = np.diag(np.full(n_terms, 1 / (EASY_AMPLITUDE**2 * error)))
        ease[0, 0] = 0.0
        right = np.einsum("sba,sb->a", inner, products / error)
        shared = np.linalg.solve((precision @ inner).sum(0) + ease, right)
        coefficient, covariance, residual = _posterior(
            (squares, products, total), shared, own, error
        )
        spread = (coefficient - shared) ** 2 + np.diagonal(covariance, axis1=1, axis2=2)
        own = spread.mean(0)
        own[1:] = own[1:].mean() if n_terms > 1 else own[1:]
        error = max(float(residual.sum()) / n_rows, 1e-12)
    return shared, own, error


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
