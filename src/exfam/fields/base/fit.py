"""A base fitted to maps: choices by cross-validation, then everything from all maps."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.fields.base.choose import choose
from exfam.fields.base.columns import Frame, map_columns
from exfam.fields.base.complete import completed, courses_beside
from exfam.fields.base.conditionals import GivenOthers, given_all
from exfam.fields.base.courses import Courses, plane_terms
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.limits import Evidence
from exfam.fields.base.maps import Covariance, Maps, Sites
from exfam.fields.base.moments import mean_products
from exfam.fields.base.new_sites import Calibration, Surfaces, calibrate, fit_surfaces
from exfam.fields.base.trials import BaseRows, Settings, WholeRows

# Weight of the kernel where levels are in doubt, which products have to bear.
MOST_OF_KERNEL = 0.98
# And where a covariance of the sites' own memories replaces the products.
LEAST_OF_KERNEL = 0.001


@dataclass(frozen=True, eq=False)
class FieldBase:
    """All that a base has learned.

    `calibration`: of new sites; `end`: the last time that was learned from; `numbers`: what its
    kind of base alone has, by name; `rows`: those that it was fitted to, draws in place of what is
    censored
    """

    settings: Settings
    courses: Courses
    kernel: MovingKernel
    surfaces: Surfaces
    calibration: Calibration
    end: float
    numbers: dict[str, Tensor]
    rows: Callable[[], BaseRows]


def sites_of(
    points: Float64[Tensor, "sites space"],
    frame: Frame,
    *,
    n_lags: int,
    covariates: Float64[Tensor, "sites covariates"] | None = None,
) -> Sites:
    """What a base knows of the sites at these points of the frame."""
    terms = plane_terms(points, frame.n_flat)
    terms = terms if covariates is None else torch.cat([terms, covariates], 1)
    return Sites(terms, map_columns(points, n_lags), frame.n_flat)


def _doubted(
    settings: Settings,
    products: Covariance,
    prior: Covariance,
    doubt: Float64[Tensor, "sites sites"],
) -> tuple[Settings, Covariance]:
    """Settings and products whose shrunk covariance has the levels' doubt added, at all lags."""
    own, times = settings.shrinkage, len(prior) // len(doubt)
    share = min(own, MOST_OF_KERNEL)
    total = (own - share) * prior + (1 - own) * products + doubt.repeat(times, times)
    forecasts = settings.forecasts and settings.forecasts._replace(shrinkage=share)
    return settings._replace(shrinkage=share, forecasts=forecasts), total / (1 - share)


def _remembered(
    settings: Settings, products: Covariance, rows: WholeRows
) -> tuple[Settings, Covariance]:
    """Settings and products whose covariance, shrunk a little, is that of sites' own memories."""
    prior = rows.prior.covariance
    total = rows.prior.drawn(products, settings.memories).covariance
    forecasts = settings.forecasts and settings.forecasts._replace(shrinkage=LEAST_OF_KERNEL)
    settings = settings._replace(shrinkage=LEAST_OF_KERNEL, forecasts=forecasts)
    return settings, (total - LEAST_OF_KERNEL * prior) / (1 - LEAST_OF_KERNEL)


def fit_base(maps: Maps) -> FieldBase:
    """The base of these maps, whose choices are made by blocks of time held out."""
    maps = completed(maps)
    settings, courses, kernel = choose(maps)
    courses, doubt = courses_beside(maps, courses, settings.courses, kernel)
    rows, shown = maps.rows(courses)
    prior = kernel.of(maps.sites.columns)
    products = mean_products(rows, shown, prior)
    again = WholeRows(maps, prior)
    if settings.memories:
        again = again.with_memories()
        settings, products = _remembered(settings, products, again)
    if doubt is not None:
        settings, products = _doubted(settings, products, prior, doubt)
    numbers = {"products": products}
    surfaces = fit_surfaces(courses, maps.sites)
    own = kernel.of(maps.sites.columns.take(maps.sites.own))

    def given_of(evidence: Evidence, some: Int64[Tensor, "some"]) -> GivenOthers:
        return given_all(evidence.values, evidence.shown, own, some, noise=evidence.noise)

    calibration = calibrate(maps, courses, surfaces, given_of)
    end = float(maps.panel.time[-1])
    return FieldBase(settings, courses, kernel, surfaces, calibration, end, numbers, lambda: again)
