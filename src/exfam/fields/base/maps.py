"""Maps of known sites as rows of anomalies, and the kernel that fits them."""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns, map_columns
from exfam.fields.base.courses import (
    Clock,
    CourseChoice,
    Courses,
    design,
    site_courses,
    site_slopes,
)
from exfam.fields.base.effects import Effects, site_effects, without_effects
from exfam.fields.base.kernel import MovingKernel, fit_kernel, most_of
from exfam.fields.base.likelihood import CompleteRows, IncompleteRows
from exfam.fields.base.limits import Evidence, observation_below
from exfam.fields.base.moments import MOST_MULTIPLICATIONS, mean_products, pairwise_products
from exfam.fields.base.panel import Panel

N_FOLDS = 5
# Share of missing values from which kernels are fitted to rows, not to products of pairs.
MANY_MISSING = 0.15

Rows = Float64[Tensor, "rows columns"]
Shown = Bool[Tensor, "rows columns"]
Covariance = Float64[Tensor, "columns columns"]


class Sites(NamedTuple):
    """What a base knows of sites before any value.

    `terms`: what a plane over them is made of, covariates last; `columns`: of a row, their earlier
    maps included; `n_flat`: axes along which a kernel stretches and moves
    """

    terms: Float64[Tensor, "sites terms"]
    columns: MapColumns
    n_flat: int

    @property
    def points(self) -> Float64[Tensor, "sites space"]:
        """Where the sites are."""
        return self.columns.points[: len(self.terms)]

    @property
    def covariates(self) -> Float64[Tensor, "sites covariates"]:
        """What is known of each site beside its place, if anything is."""
        return self.terms[:, 1 + self.n_flat :]

    @property
    def own(self) -> Int64[Tensor, "sites"]:
        """The columns of a row that are the map's own."""
        return torch.arange(len(self.terms))


class Maps(NamedTuple):
    """Maps of known sites, and how their times are read."""

    panel: Panel
    clock: Clock
    sites: Sites

    def take(self, index: Tensor) -> "Maps":
        """Some of the maps."""
        return self._replace(panel=self.panel.take(index))

    def with_lags(self, n_lags: int) -> "Maps":
        """The maps with so many of those before each beside it."""
        panel = self.panel._replace(earlier=self.panel.earlier[:, :n_lags])
        columns = map_columns(self.sites.points, n_lags)
        return Maps(panel, self.clock, self.sites._replace(columns=columns))

    def of_sites(self, most: int) -> "Maps":
        """The maps of at most so many sites, evenly taken."""
        some = some_sites(len(self.sites.terms), most)
        few = map_columns(self.sites.points[some], self.panel.earlier.shape[1])
        sites = Sites(self.sites.terms[some], few, self.sites.n_flat)
        return Maps(self.panel.of_sites(some), self.clock, sites)

    def with_values(self, values: Float64[Tensor, "times sites"]) -> "Maps":
        """The maps with other values, such as draws of what is censored."""
        return self._replace(panel=self.panel._replace(values=values))

    def courses(self, choice: CourseChoice) -> Courses:
        """The courses of a choice from these maps."""
        panel, waves = self.panel, self.clock.waves(self.panel.time, choice.n_harmonics)
        effects, slopes = None, None
        if choice.effects is not None and panel.covariates is not None:
            x = design(waves)[2]
            x = x if choice.trend is None else torch.cat([x, _centered(waves[:, -1:])], 1)
            effects = site_effects(
                panel.values,
                panel.shown,
                x,
                panel.covariates,
                choice=choice.effects,
                points=self.sites.points,
                n_flat=self.sites.n_flat,
            )
        values, terms = self.without_effects(effects), self.sites.terms
        if choice.trend is not None:
            x, n_plain = design(waves)[2], 1 + self.sites.n_flat
            slopes = site_slopes(
                values, panel.shown, x, waves[:, -1], terms, own=choice.trend, n_plain=n_plain
            )
            values = slopes.without(values)
        courses = site_courses(
            values, panel.shown, waves, terms, own=choice.own, n_plain=1 + self.sites.n_flat
        )
        courses = courses if slopes is None else slopes.added_to(courses)
        return replace(courses, effects=effects)

    def without_effects(
        self, effects: Effects | None, *, new: bool = False
    ) -> Float64[Tensor, "times sites"]:
        """The values less what covariates add to them; if `new`, what they would at new sites."""
        coefficients = None if effects is None else effects.common if new else effects.own
        return without_effects(self.panel.values, self.panel.covariates, coefficients)

    def rows(
        self, courses: Courses, some: Int64[Tensor, "some"] | None = None
    ) -> tuple[Rows, Shown]:
        """Rows of anomalies of all maps or some, earlier maps beside each, and what is shown."""
        return self.panel.stacked(self._anomalies(courses), some=some)

    def columns(self, courses: Courses, chosen: Int64[Tensor, "chosen"]) -> tuple[Rows, Shown]:
        """Chosen columns of these rows."""
        return self.panel.stacked(self._anomalies(courses), chosen=chosen)

    def limits(self, courses: Courses) -> Float64[Tensor, "times sites"]:
        """The limit of censored values, as anomalies."""
        return self.at_limit()._anomalies(courses)

    def at_limit(self) -> "Maps":
        """The maps with the limit of censored values everywhere."""
        return self.with_values(torch.full_like(self.panel.values, self.panel.limit))

    def evidence(self, courses: Courses) -> Evidence:
        """Rows as others are predicted from them: of censored values no more than that they are."""
        rows, shown = self.rows(courses)
        censored = self.panel.censored
        if censored is None:
            return Evidence(rows, shown)
        limit = self.limits(courses)
        seen = observation_below(limit)
        parts = (seen.value, seen.noise, limit, censored.double())
        value, noise, limit, is_censored = (self.panel.stacked(part)[0] for part in parts)
        there = is_censored > 0
        return Evidence(
            torch.where(there, value, rows), shown, torch.where(there, noise, 0.0), there, limit
        )

    def products(
        self,
        courses: Courses,
        prior: Covariance,
        known: Bool[Tensor, "times"],
        *,
        most: float = MOST_MULTIPLICATIONS,
    ) -> Covariance:
        """Mean products of rows of some maps, to which no other map is known.

        `most`: multiplications, where values are missing
        """
        return mean_products(*self.known_rows(courses, known), prior, most=most)

    def known_rows(self, courses: Courses, known: Bool[Tensor, "times"]) -> tuple[Rows, Shown]:
        """Rows of some maps, to which no other map is known."""
        rows, shown = self.panel.stacked(self._anomalies(courses), known)
        return rows[known], shown[known]

    def _anomalies(self, courses: Courses) -> Float64[Tensor, "times sites"]:
        values = self.without_effects(courses.effects)
        return courses.anomalies(values, self.clock.waves(self.panel.time))


def some_sites(n_sites: int, most: int) -> Int64[Tensor, "some"]:
    """At most so many sites, evenly taken."""
    return torch.linspace(0, n_sites - 1, min(most, n_sites)).round().long()


def _centered(time: Float64[Tensor, "times one"]) -> Float64[Tensor, "times one"]:
    return time - time.mean()


def kernel_of(
    rows: Rows, shown: Shown, sites: Sites, *, near: MovingKernel | None = None
) -> MovingKernel:
    """The kernel that fits rows of anomalies, of sites evenly taken where there are many.

    `near`: of more maps, from which it takes a few steps
    """
    chosen = most_of(len(sites.terms), int(sites.columns.lag.max()))
    columns = sites.columns.take(chosen)
    return kernel_of_columns(
        rows[:, chosen], shown[:, chosen], columns, n_flat=sites.n_flat, near=near
    )


def kernel_of_columns(
    rows: Rows,
    shown: Shown,
    columns: MapColumns,
    *,
    n_flat: int,
    near: MovingKernel | None = None,
) -> MovingKernel:
    """The kernel that fits rows of these columns.

    Where many values are missing few rows show both of a pair: then it fits each row's own values.
    """
    values = torch.where(shown, rows, 0.0)
    evidence: CompleteRows | IncompleteRows
    if float((~shown).double().mean()) < MANY_MISSING:
        evidence = CompleteRows(pairwise_products(rows, shown), columns.lag)
    else:
        evidence = IncompleteRows(values, shown, columns.lag)
    variance = values.square().sum() / shown.sum().clamp_min(1)
    return fit_kernel(evidence, columns, n_flat=n_flat, variance=variance, near=near)


def blocks(n: int, n_folds: int = N_FOLDS) -> list[Bool[Tensor, "rows"]]:
    """Which rows each fold holds out: contiguous blocks of time."""
    n_folds = min(n_folds, n)
    fold = torch.arange(n) * n_folds // max(1, n)
    return [fold == k for k in range(n_folds)]
