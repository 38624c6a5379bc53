"""A slow linear course in time: a slope of each site, drawn to a plane over the sites."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.fields.base.courses import Courses, plane_of
from exfam.fields.base.effects import beside_courses

# Shares of the sites' own slopes that are tried.
SHARES = (0.0, 0.5, 0.9)
# Of a slope whose times hardly spread.
RIDGE = 1e-6


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
