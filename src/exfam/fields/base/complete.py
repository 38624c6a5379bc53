"""Maps completed: draws of what is censored, and courses of sites whose values are missing."""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.fields.base.conditionals import (
    OfMatrix,
    given_near,
    inverse_of_known,
    nearest_columns,
    pattern_parts,
)
from exfam.fields.base.courses import CHOICES, CourseChoice, Courses, site_spreads
from exfam.fields.base.effects import without_effects
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.limits import moments_below
from exfam.fields.base.maps import Covariance, Maps, kernel_of
from exfam.fields.base.moments import BESIDE

ROUNDS, SWEEPS, START_ROUNDS = 6, 3, 20
# What is normal while drawing; later it is chosen.
COURSE, FEWEST_MAPS = CourseChoice(1, 0.5), 30
KERNEL_SHARE = 0.5
# A site's own spread is that of this many values of all sites, and its own ones.
COMMON_VALUES = 5.0
JITTER = 1e-6
MOST_MULTIPLICATIONS = 3e10
# Below, the tail of a Gaussian is an exponential one.
TAIL = -6.0

Values = Float64[Tensor, "times sites"]
Numbers = Float64[Tensor, "*shape"]
Shown = Bool[Tensor, "times sites"]

# Steps of expectation-maximization, and the neighbors that a missing value is filled in from.
ROUNDS_OF_GAPS, N_NEAR = 4, 12
# Share of missing values below which nothing is gained.
LEAST_SHARE = 0.02
# Multiplications that exact levels may take.
MOST_OF_LEVELS = 4e10


def completed(maps: Maps, *, seed: int = 0) -> Maps:
    """The maps with a draw in place of each censored value, given the others of its map.

    Gibbs sampling (Albert & Chib, 1993) in turn with courses and covariances: a mean in place of a
    draw would make values below the limit too much alike.
    """
    censored = maps.panel.censored
    if censored is None or not bool(censored.any()):
        return maps
    generator = torch.Generator().manual_seed(seed)
    values = _start(maps, generator)
    n_times, n_sites = values.shape
    affordable = MOST_MULTIPLICATIONS / (SWEEPS * n_times * float(n_sites) ** 2)
    for _ in range(min(ROUNDS, max(1, int(affordable)))):
        values = _again(maps.with_lags(0).with_values(values), censored, generator)
    return maps.with_values(values)


def _start(maps: Maps, generator: torch.Generator) -> Values:
    """Draws from each site's own Gaussian, fitted by expectation-maximization."""
    panel, censored = maps.panel, maps.panel.censored
    assert censored is not None
    shown, limit, count = panel.shown, panel.limit, panel.shown.sum(0).clamp_min(1)
    exact = shown & ~censored
    values = torch.where(shown, panel.values, 0.0)
    mean = values.sum(0) / count
    spread = _spread(torch.where(shown, values - mean, 0.0).square(), shown)
    for _ in range(START_ROUNDS):
        under = moments_below((limit - mean) / spread)
        filled = torch.where(exact, values, mean + spread * under.mean)
        mean = torch.where(shown, filled, 0.0).sum(0) / count
        left = torch.where(exact, 0.0, spread.square() * under.variance)
        spread = _spread(torch.where(shown, (filled - mean).square() + left, 0.0), shown)
    drawn = mean + spread * _drawn_below(((limit - mean) / spread).expand_as(values), generator)
    return torch.where(censored, drawn, values)


def _spread(squares: Values, shown: Shown) -> Float64[Tensor, "sites"]:
    count = shown.sum(0)
    common = squares.sum() / count.sum().clamp_min(1)
    common = torch.where(common > 0, common, 1.0)
    return ((squares.sum(0) + COMMON_VALUES * common) / (count + COMMON_VALUES)).sqrt()


def _again(maps: Maps, censored: Shown, generator: torch.Generator) -> Values:
    """New draws under courses and a covariance that fit the last ones."""
    few = len(maps.panel.time) < FEWEST_MAPS
    courses = maps.courses(CHOICES[0] if few else COURSE)
    z, shown = maps.rows(courses)
    prior = kernel_of(z, shown, maps.sites).of(maps.sites.columns)
    products = maps.products(courses, prior, torch.ones(len(z), dtype=torch.bool))
    eye = torch.eye(len(prior)).to(prior)
    precision = torch.linalg.inv(
        (1 - KERNEL_SHARE) * products + KERNEL_SHARE * prior + JITTER * eye
    )
    limit = maps.limits(courses)
    location = maps.panel.limit - courses.scale * limit
    for _ in range(SWEEPS):
        for site in range(len(precision)):
            wanted = (censored[:, site] | ~shown[:, site]).nonzero()[:, 0]
            if not len(wanted):
                continue
            own = precision[site, site]
            mean = z[wanted, site] - z[wanted] @ precision[:, site] / own
            sd = own.rsqrt()
            top = torch.where(censored[wanted, site], (limit[wanted, site] - mean) / sd, torch.inf)
            z[wanted, site] = mean + sd * _drawn_below(top, generator)
    return torch.where(censored, location + courses.scale * z, maps.panel.values)


def _drawn_below(limit: Numbers, generator: torch.Generator) -> Numbers:
    """Standard Gaussians below limits."""
    u = torch.rand(limit.shape, generator=generator, dtype=limit.dtype).clamp(1e-12, 1 - 1e-12)
    near = torch.special.ndtri(u * torch.special.ndtr(limit.clamp_min(TAIL)))
    far = limit + u.log() / limit.clamp_max(TAIL).abs()
    return torch.where(limit < TAIL, far, torch.minimum(near, limit))


class CoursesBeside(NamedTuple):
    """Courses, and the covariance of what their levels are off by as anomalies; None if little."""

    courses: Courses
    doubt: Covariance | None = None


def courses_beside(
    maps: Maps, courses: Courses, choice: CourseChoice, kernel: MovingKernel
) -> CoursesBeside:
    """Courses of the maps whose missing values are filled in from those near them, in turn.

    The mean of the few days that a site was seen on is off by what these days were: its neighbors
    know. Spreads are of what was seen.
    """
    shown = maps.panel.shown
    if float((~shown).double().mean()) < LEAST_SHARE:
        return CoursesBeside(courses)
    maps = maps.with_lags(0)
    own = maps.sites.own
    covariance = kernel.of(maps.sites.columns)
    near = OfMatrix(covariance, own, nearest_columns(covariance, own, most=4 * N_NEAR))
    whole = maps._replace(panel=maps.panel._replace(shown=torch.ones_like(shown)))
    for _ in range(ROUNDS_OF_GAPS):
        rows, _ = maps.rows(courses)
        given = given_near(rows, shown, near, n_used=N_NEAR)
        expected = _normal(maps, courses) + courses.scale * given.mean
        values = torch.where(shown, maps.panel.values, expected)
        found = whole.with_values(values).courses(choice)
        courses = _with_spreads(maps, found)
    n_patterns = len(torch.unique(shown, dim=0))
    if n_patterns * (float(len(own)) ** 3 + BESIDE) > MOST_OF_LEVELS:
        return CoursesBeside(courses)
    return _with_levels(maps, courses, covariance)


def _with_levels(maps: Maps, courses: Courses, covariance: Covariance) -> CoursesBeside:
    """The courses with levels of generalized least squares, where the turns above lead slowly."""
    rows, shown = maps.rows(courses)
    precision = JITTER * torch.eye(len(covariance)).to(covariance)
    right = torch.zeros_like(courses.level)
    for known, some in pattern_parts(shown):
        inverse = inverse_of_known(covariance, known)
        x = rows[some].view(len(known), -1, len(covariance))
        precision = precision + x.shape[1] * inverse.sum(0)
        right = right + (x @ inverse).sum((0, 1))
    doubt = torch.linalg.inv(precision)
    moved = replace(courses, level=courses.level + courses.scale * (doubt @ right))
    moved = _with_spreads(maps, moved)
    unit = courses.scale / moved.scale
    return CoursesBeside(moved, doubt * unit[:, None] * unit)


def _with_spreads(maps: Maps, courses: Courses) -> Courses:
    """The courses with spreads of what was seen."""
    shown = maps.panel.shown
    left = torch.where(shown, maps.panel.values - _normal(maps, courses), 0.0)
    return replace(courses, scale=site_spreads(left, shown))


def _normal(maps: Maps, courses: Courses) -> Float64[Tensor, "times sites"]:
    """What is normal at all times, with what covariates add."""
    normal = courses.location(maps.clock.waves(maps.panel.time))
    if courses.effects is None:
        return normal
    return without_effects(normal, maps.panel.covariates, -courses.effects.own)
