"""A base fitted to maps of many sites: choices on some of them, blocks of columns for all."""

from functools import partial

import torch
from jaxtyping import Int64
from torch import Tensor

from exfam.fields.base.choose import NEAR, choose_courses, choose_ends, choose_rest
from exfam.fields.base.conditionals import GivenOthers, OfBlocks, given_near
from exfam.fields.base.courses import Courses
from exfam.fields.base.fit import FieldBase
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.limits import Evidence
from exfam.fields.base.maps import Maps, kernel_of_columns
from exfam.fields.base.new_sites import calibrate, fit_surfaces
from exfam.fields.base.trials import DEGREES, USUAL_NEAR, Settings, Trials
from exfam.fields.local.blocks import (
    LocalRows,
    clusters,
    filled_maps,
    kernel_blocks,
    near_columns,
    near_of,
    product_blocks,
    with_own,
)

# Columns near each site whose covariances are kept; where values are missing, the next ones serve.
MOST_NEAR = 40
# Sites that settings are tried on, and that attention is trained on.
MOST_TARGETS, MOST_OF_ATTENTION = 200, 300
# Multiplications of all mean products: of more maps, some are taken, evenly.
MOST_PRODUCTS = 1e11


def fit_local_base(maps: Maps) -> FieldBase:
    """The base of these maps, whose choices are made by blocks of time held out."""
    choice = choose_courses(maps)
    courses = maps.courses(choice)
    columns, own = maps.sites.columns, maps.sites.own
    kernel = _kernel(maps, courses)
    near = near_columns(kernel, columns, own, most=MOST_NEAR)
    chosen = with_own(own, near)
    prior = kernel_blocks(kernel, columns, chosen)
    of_kernel = OfBlocks(prior, near)
    filled = filled_maps(maps, courses, of_kernel)
    settings = Settings(choice, 1.0, DEGREES[0], USUAL_NEAR)
    if len(maps.panel.time) > 1:
        trials = Trials(LocalRows(maps, filled, of_kernel, most=MOST_TARGETS), choice)
        settings = choose_ends(trials, choose_rest(trials, NEAR))
    some = _evenly(len(maps.panel.time), MOST_PRODUCTS / chosen.numel() / chosen.shape[1])
    products = product_blocks(filled, courses, chosen, some)
    if not bool(maps.panel.shown.all()):  # a second step of expectation-maximization
        again = filled_maps(maps, courses, of_kernel.drawn(products, 0.5))
        products = product_blocks(again, courses, chosen, some)
    drawn = of_kernel.drawn(products, settings.shrinkage)
    surfaces = fit_surfaces(courses, maps.sites)

    def given_of(evidence: Evidence, some: Int64[Tensor, "some"]) -> GivenOthers:
        near = near_of(kernel, columns.take(own), some, most=MOST_NEAR)
        return given_near(evidence.values, evidence.shown, near, n_used=MOST_NEAR)

    calibration = calibrate(maps, courses, surfaces, given_of)
    numbers = {"near": near, "covariance": drawn.block}
    rows = partial(LocalRows, maps, filled, of_kernel, most=MOST_OF_ATTENTION)
    end = float(maps.panel.time[-1])
    return FieldBase(settings, courses, kernel, surfaces, calibration, end, numbers, rows)


def _evenly(n: int, most: float) -> Int64[Tensor, "some"]:
    return torch.linspace(0, n - 1, min(n, max(2, int(most)))).round().long()


def _kernel(maps: Maps, courses: Courses) -> MovingKernel:
    """The kernel that fits clusters of sites."""
    sites = maps.sites
    chosen = clusters(sites.points, int(sites.columns.lag.max()))
    rows, shown = maps.columns(courses, chosen)
    return kernel_of_columns(rows, shown, sites.columns.take(chosen), n_flat=sites.n_flat)
