"""What is normal at a site and a time: a level, waves, a slope and a spread."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.fields.base.effects import EffectChoice, Effects, beside_courses
from exfam.fields.networks.climate import angle, harmonics

# Waves of the year, and of the day where maps come more often than twice a day.
MOST_HARMONICS, DAY, DAILY_HARMONICS = 2, 1.0, 2
MOST_STEP_OF_DAYS = 0.5
# Directions in which the times of a fit hardly spread are left out: a month of each year has a
# line, not a circle.
LEAST_DIRECTION = 0.1
# A site's own spread is that of at least so many observations of the common one, and its own ones.
COMMON_OBSERVATIONS, FEWEST_SITES = 5.0, 3
# Sites beyond the terms of a plane with covariates.
FEWEST_FREEDOM = 3
# Of a wave's coefficients, in observations: what a site with a handful of them needs.
WAVE_RIDGE = 1.0
# Of a site, as a share of what the usual one says of waves: what keeps its weight above 0.
LEAST_SAID = 1e-6

Values = Float64[Tensor, "times sites"]
Shown = Bool[Tensor, "times sites"]

# Shares of the sites' own slopes that are tried.
SHARES = (0.0, 0.5, 0.9)
# Of a slope whose times hardly spread.
RIDGE = 1e-6


class CourseChoice(NamedTuple):
    """Harmonics of the year, and how much of the waves is a site's own: the rest is a plane's.

    `effects`: of covariates, `trend`: how much of a slope in time is a site's own; None for none
    """

    n_harmonics: int
    own: float
    effects: EffectChoice | None = None
    trend: float | None = None


CHOICES = (
    CourseChoice(0, 1.0),
    *(CourseChoice(n, own) for n in range(1, MOST_HARMONICS + 1) for own in (0.0, 0.5, 1.0)),
)


class Clock(NamedTuple):
    """How times are read: the length of the year and the usual step."""

    period: float
    step: float

    @property
    def has_days(self) -> bool:
        """Whether maps come often enough to see the course of a day."""
        return self.step < MOST_STEP_OF_DAYS

    @property
    def shortest_cycle(self) -> float:
        """A day where it is seen, else the year."""
        return DAY if self.has_days else self.period

    @property
    def n_waves(self) -> int:
        """Columns of `waves`."""
        return 2 * MOST_HARMONICS + 2 * DAILY_HARMONICS + 1

    def waves(
        self, time: Float64[Tensor, "*shape"], n_harmonics: int = MOST_HARMONICS
    ) -> Float64[Tensor, "*shape waves"]:
        """cos and sin of the year, then of the day, 0 where they do not count; then the year."""
        year = harmonics(angle(time, self.period), MOST_HARMONICS)
        day = harmonics(angle(time, DAY), DAILY_HARMONICS)
        year = torch.where(torch.arange(year.shape[-1]) < 2 * n_harmonics, year, 0.0)
        daily = n_harmonics > 0 and self.has_days
        day = day if daily else torch.zeros_like(day)
        return torch.cat([year, day, time[..., None] / self.period], -1)


@dataclass(frozen=True, eq=False)
class Courses:
    """value = level + (waves - center) . wave + covariates . effect + scale * anomaly.

    The last of the waves is time itself. `plane`: waves of a new site, linear in its place and its
    covariates
    """

    level: Float64[Tensor, "sites"]
    wave: Float64[Tensor, "sites waves"]
    scale: Float64[Tensor, "sites"]
    center: Float64[Tensor, "waves"]
    plane: Float64[Tensor, "terms waves"]
    effects: Effects | None = None

    def location(self, waves: Float64[Tensor, "times waves"]) -> Values:
        """What is normal of all sites at some times, covariates being 0."""
        return self.level + (waves - self.center) @ self.wave.T

    def anomalies(self, values: Values, waves: Float64[Tensor, "times waves"]) -> Values:
        """Values less what is normal, in units of the sites' spread.

        `values`: less what covariates add
        """
        return (values - self.location(waves)) / self.scale


def plane_terms(
    points: Float64[Tensor, "sites space"], n_flat: int
) -> Float64[Tensor, "sites terms"]:
    """1 and the flat coordinates."""
    return torch.cat([torch.ones(len(points), 1).to(points), points[:, :n_flat]], 1)


def site_courses(
    values: Values,
    shown: Shown,
    waves: Float64[Tensor, "times waves"],
    terms: Float64[Tensor, "sites terms"],
    *,
    own: float,
    n_plain: int | None = None,
) -> Courses:
    """Least squares site by site, without a slope; waves are drawn to a plane in the sites' places.

    `n_plain`: terms of the plane that are no covariates; all if None
    """
    values = torch.where(shown, values, 0.0)
    seen = shown.double()
    count = seen.sum(0)
    center, directions, x = design(waves)
    squares = torch.einsum("ts,ti,tj->sij", seen, x, x)
    ridge = torch.full((x.shape[1],), WAVE_RIDGE).to(values)
    ridge[0] = 1e-9
    squares = squares + torch.diag(ridge)
    ols = torch.linalg.solve(squares, (values.T @ x)[..., None])[..., 0]
    level = squares[:, :1, 1:]
    beside = squares[:, 1:, 1:] - level.mT @ level / squares[:, :1, :1]
    wave = ols[:, 1:]
    weight = _least_said(beside).sqrt()[:, None]
    fit = plane_of(weight * terms, weight * wave, n_plain or terms.shape[1])
    wave = _drawn_waves(beside, wave, terms @ fit, own=own)
    moved = torch.where(shown, values - x[:, 1:] @ wave.T, 0.0)
    level = moved.sum(0) / count.clamp_min(1)
    scale = site_spreads(torch.where(shown, moved - level, 0.0), shown)
    return Courses(level, wave @ directions.T, scale, center, fit @ directions.T)


def _least_said(squares: Float64[Tensor, "sites d d"]) -> Float64[Tensor, "sites"]:
    """What sites say of the mixture of waves that they say least of, in that of a usual site.

    One that was seen for a part of the year says next to nothing of what it did not see.
    """
    if not squares.shape[-1]:
        return squares.new_ones(len(squares))
    root = torch.linalg.inv(torch.linalg.cholesky(squares.mean(0)))
    return torch.linalg.eigvalsh(root @ squares @ root.T)[:, 0].clamp_min(LEAST_SAID)


def _drawn_waves(
    squares: Float64[Tensor, "sites d d"],
    ols: Float64[Tensor, "sites d"],
    plane: Float64[Tensor, "sites d"],
    *,
    own: float,
) -> Float64[Tensor, "sites d"]:
    """Waves drawn to the plane's, which count as a usual site does, (1 - own) / own times."""
    if not own or not ols.shape[1]:
        return plane
    ridge = WAVE_RIDGE * torch.eye(ols.shape[1]).to(ols)
    prior = (1 - own) / own * squares.mean(0) + ridge
    return plane + torch.linalg.solve(squares + prior, squares @ (ols - plane)[..., None])[..., 0]


def site_spreads(left: Values, shown: Shown) -> Float64[Tensor, "sites"]:
    """Roots of mean squares of what is left of values, drawn to the common one."""
    count, squares = shown.double().sum(0), left.square().sum(0)
    common = squares.sum() / count.sum().clamp_min(1)
    tiny = torch.finfo(left.dtype).tiny
    weight = _weight_of_common(left / common.clamp_min(tiny).sqrt(), count)
    scale = ((squares + weight * common) / (count + weight)).sqrt()
    return torch.where(common > tiny, scale, 1.0)


def _weight_of_common(left: Values, count: Float64[Tensor, "sites"]) -> Float64[Tensor, ""]:
    """How many observations the common spread counts as.

    The ratio of a squared value's variance to that of the sites' own squared spreads, which is what
    these vary by beyond chance and one standard error of that. `left`: in common spreads
    """
    able = count > 1
    least = left.new_tensor(COMMON_OBSERVATIONS)
    if int(able.sum()) < FEWEST_SITES:
        return least
    count, left, total = count[able], left[:, able], count[able].sum()
    own = left.square().sum(0) / count
    usual = (own.square() * count).sum().clamp_min(torch.finfo(left.dtype).tiny)
    noise = (left.pow(4).sum() / usual - 1).clamp_min(2.0)
    chance = noise * len(own) / total
    apart = ((own - 1).square() * count).sum() / total - chance
    apart = apart.clamp_min(0.0) + chance * (2 / len(own)) ** 0.5
    return torch.maximum(noise / apart, least)


def plane_of(
    terms: Float64[Tensor, "sites terms"], waves: Float64[Tensor, "sites waves"], n_plain: int
) -> Float64[Tensor, "terms waves"]:
    """Least squares, with the last terms where that predicts left-out sites better."""
    plain = torch.linalg.pinv(terms[:, :n_plain]) @ waves
    plain = torch.cat([plain, plain.new_zeros(terms.shape[1] - n_plain, waves.shape[1])])
    if len(terms) < terms.shape[1] + FEWEST_FREEDOM or terms.shape[1] == n_plain:
        return plain
    whole = torch.linalg.pinv(terms) @ waves
    better = _left_out(terms, waves) < _left_out(terms[:, :n_plain], waves)
    return whole if bool(better) else plain


def _left_out(
    terms: Float64[Tensor, "sites terms"], waves: Float64[Tensor, "sites waves"]
) -> Float64[Tensor, ""]:
    """The sum of squared errors of least squares where each site is left out of its own fit."""
    inverse = torch.linalg.pinv(terms)
    own = (terms * inverse.T).sum(1, keepdim=True).clamp_max(1 - 1e-9)
    return ((waves - terms @ (inverse @ waves)) / (1 - own)).square().sum()


def design(
    waves: Float64[Tensor, "times waves"],
) -> tuple[Float64[Tensor, "waves"], Float64[Tensor, "waves d"], Float64[Tensor, "times columns"]]:
    """The mean of the waves, their directions, and 1 and these as columns of a regression.

    Time itself is in none of them.
    """
    center = waves.mean(0)
    centered = torch.cat([(waves - center)[:, :-1], torch.zeros_like(waves[:, -1:])], 1)
    directions = _directions(centered)
    return center, directions, torch.cat([torch.ones_like(waves[:, :1]), centered @ directions], 1)


def _directions(centered: Float64[Tensor, "times waves"]) -> Float64[Tensor, "waves directions"]:
    """Orthogonal mixtures of the waves that the times spread along, of variance 1."""
    _, size, right = torch.linalg.svd(centered, full_matrices=False)
    keep = (size > LEAST_DIRECTION * size.max().clamp_min(1e-300)) & (size > 1e-9)
    return right[keep].T * (len(centered) ** 0.5 / size[keep])


class Slopes(NamedTuple):
    """How much values rise in a year at each site, and the plane that new sites have it from.

    `time`: in years from the middle of the fit, at which nothing is added; `middle`: that time
    """

    own: Float64[Tensor, "sites"]
    plane: Float64[Tensor, "terms"]
    time: Float64[Tensor, "times"]
    middle: Float64[Tensor, ""]

    def without(self, values: Float64[Tensor, "times sites"]) -> Float64[Tensor, "times sites"]:
        """Values less what has been added to them by their times."""
        return values - self.time[:, None] * self.own

    def added_to(self, courses: Courses) -> Courses:
        """The courses with these slopes as their last waves."""
        wave, plane, center = (
            part.clone() for part in (courses.wave, courses.plane, courses.center)
        )
        wave[:, -1], plane[:, -1], center[-1] = self.own, self.plane, self.middle
        return Courses(courses.level, wave, courses.scale, center, plane, courses.effects)


def site_slopes(
    values: Float64[Tensor, "times sites"],
    shown: Bool[Tensor, "times sites"],
    x: Float64[Tensor, "times columns"],
    years: Float64[Tensor, "times"],
    terms: Float64[Tensor, "sites terms"],
    *,
    own: float,
    n_plain: int,
) -> Slopes:
    """Least squares beside each site's course, whose columns are `x`.

    Each site's own slope has the plane's as a prior that counts as a usual site's observations do,
    (1 - own) / own times.
    """
    middle = years.mean()
    time = years - middle
    columns = torch.stack([values, time[:, None].expand_as(values)], -1)
    y, z = beside_courses(columns, shown, x).unbind(-1)
    squares, products = z.square().sum(0), (z * y).sum(0)
    usual = squares.mean() + RIDGE * time.square().sum().clamp_min(RIDGE)
    alone = products / (squares + RIDGE * usual)
    weight = squares.sqrt()[:, None]
    plane = plane_of(weight * terms, weight * alone[:, None], n_plain)[:, 0]
    common = terms @ plane
    if not own:
        return Slopes(common, plane, time, middle)
    prior = (1 - own) / own * usual
    return Slopes((products + prior * common) / (squares + prior), plane, time, middle)
