"""What is normal where values are missing: other days of a site are what its neighbors say."""

from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.fields.base.conditionals import OfMatrix, given_near, nearest_columns
from exfam.fields.base.courses import CourseChoice, Courses, site_spreads
from exfam.fields.base.effects import without_effects
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.maps import Maps

# Steps of expectation-maximization, and the neighbors that a missing value is filled in from.
ROUNDS_OF_GAPS, N_NEAR = 4, 12
# Share of missing values below which nothing is gained.
LEAST_SHARE = 0.02


def courses_beside(
    maps: Maps, courses: Courses, choice: CourseChoice, kernel: MovingKernel
) -> Courses:
    """Courses of the maps whose missing values are filled in from those near them, in turn.

    The mean of the few days that a site was seen on is off by what these days were: its neighbors
    know. Spreads are of what was seen.
    """
    shown = maps.panel.shown
    if float((~shown).double().mean()) < LEAST_SHARE:
        return courses
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
        left = torch.where(shown, maps.panel.values - _normal(maps, found), 0.0)
        courses = replace(found, scale=site_spreads(left, shown))
    return courses


def _normal(maps: Maps, courses: Courses) -> Float64[Tensor, "times sites"]:
    """What is normal at all times, with what covariates add."""
    normal = courses.location(maps.clock.waves(maps.panel.time))
    if courses.effects is None:
        return normal
    return without_effects(normal, maps.panel.covariates, -courses.effects.own)
