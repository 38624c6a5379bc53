"""A base fitted to maps of many sites: choices on some of them, blocks of columns for all."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from exfam.fields.base.choose import NEAR, choose_rest
from exfam.fields.base.choose_courses import choose_courses
from exfam.fields.base.choose_tails import choose_tails
from exfam.fields.base.conditionals import GivenOthers, OfBlocks, given_near
from exfam.fields.base.courses import CourseChoice, Courses
from exfam.fields.base.folds import (
    DEGREES,
    HeldOutMaps,
    Maps,
    blocks,
    kernel_of_columns,
    with_fewer_rows,
)
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.limits import Evidence
from exfam.fields.base.new_sites import Calibration, Surfaces, calibrate, fit_surfaces
from exfam.fields.base.trials import USUAL_NEAR, Settings
from exfam.fields.local.blocks import (
    Blocks,
    FilledMaps,
    filled_maps,
    kernel_blocks,
    near_of,
    product_blocks,
    with_own,
)
from exfam.fields.local.neighbors import Near, clusters, near_columns
from exfam.fields.local.targets import SomeTargets

# Columns near each site whose covariances are kept; where values are missing, the next ones serve.
MOST_NEAR = 40
# Sites that settings are tried on.
MOST_TARGETS = 200
# Multiplications of all mean products: of more maps, some are taken, evenly.
MOST_PRODUCTS = 1e11


@dataclass(frozen=True, eq=False)
class LocalBase:
    """All that a base of many sites has learned.

    `near`: of each site; `covariance`: of it and these, shrunk to the kernel's, which is `prior`;
    `filled`: the maps that it was fitted to
    """

    settings: Settings
    courses: Courses
    kernel: MovingKernel
    near: Near
    covariance: Blocks
    surfaces: Surfaces
    calibration: Calibration
    filled: FilledMaps
    prior: Blocks


def fit_local_base(maps: Maps) -> LocalBase:
    """The base of these maps, whose choices are made by blocks of time held out."""
    choice = choose_courses(maps)
    courses = maps.courses(choice)
    columns, own = maps.sites.columns, maps.sites.own
    kernel = _kernel(maps, courses)
    near = near_columns(kernel, columns, own, most=MOST_NEAR)
    chosen = with_own(own, near)
    prior = kernel_blocks(kernel, columns, chosen)
    filled = filled_maps(maps, courses, OfBlocks(prior, near))
    settings = Settings(choice, 1.0, DEGREES[0], USUAL_NEAR)
    if len(maps.panel.time) > 1:
        trials = LocalTrials(maps, filled, choice, OfBlocks(prior, near))
        settings = choose_tails(trials, choose_rest(trials, NEAR))
    some = _evenly(len(maps.panel.time), MOST_PRODUCTS / chosen.numel() / chosen.shape[1])
    products = product_blocks(filled, courses, chosen, some)
    if not bool(maps.panel.shown.all()):  # a second step of expectation-maximization
        again = OfBlocks(0.5 * products + 0.5 * prior, near)
        products = product_blocks(filled_maps(maps, courses, again), courses, chosen, some)
    covariance = (1 - settings.shrinkage) * products + settings.shrinkage * prior
    surfaces = fit_surfaces(courses, maps.sites)

    def given_of(evidence: Evidence, some: Int64[Tensor, "some"]) -> GivenOthers:
        near = near_of(kernel, columns.take(own), some, most=MOST_NEAR)
        return given_near(evidence.values, evidence.shown, near, n_used=MOST_NEAR)

    calibration = calibrate(maps, courses, surfaces, given_of)
    return LocalBase(
        settings, courses, kernel, near, covariance, surfaces, calibration, filled, prior
    )


def _evenly(n: int, most: float) -> Int64[Tensor, "some"]:
    return torch.linspace(0, n - 1, min(n, max(2, int(most)))).round().long()


def _kernel(maps: Maps, courses: Courses) -> MovingKernel:
    """The kernel that fits clusters of sites."""
    sites = maps.sites
    chosen = clusters(sites.points, int(sites.columns.lag.max()))
    rows, shown = maps.columns(courses, chosen)
    return kernel_of_columns(rows, shown, sites.columns.take(chosen), n_flat=sites.n_flat)


class LocalTrials:
    """What settings of one choice of courses are tried on: values of some sites, from near them."""

    def __init__(
        self, maps: Maps, filled: FilledMaps, courses: CourseChoice, near_all: OfBlocks
    ) -> None:
        self.courses = courses
        some = SomeTargets(maps, filled, near_all, most=MOST_TARGETS)
        self.prior, self.folds = some.prior, []
        for held in blocks(len(maps.panel.time)):
            of_others = maps.take(~held).courses(courses)
            rows, shown = some.rows(of_others)
            products, log_scale = some.products(of_others, ~held), some.log_scale(of_others)
            fold = HeldOutMaps(Evidence(rows[held], shown[held]), products, log_scale)
            self.folds.append(with_fewer_rows(fold))

    def given(
        self, shrinkage: float, n_near: int | None
    ) -> Iterator[tuple[HeldOutMaps, GivenOthers]]:
        """The blocks held out, and their values given others."""
        for fold in self.folds:
            covariance = (1 - shrinkage) * fold.products + shrinkage * self.prior.block
            near = OfBlocks(covariance, self.prior.columns)
            yield fold, given_near(*fold.evidence[:2], near, n_used=n_near or MOST_NEAR)
