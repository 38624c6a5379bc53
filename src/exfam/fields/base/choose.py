"""Choices of a base by cross-validation over blocks of time: courses, shrinkage, columns, tails."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from exfam.fields.base.courses import CHOICES, CourseChoice
from exfam.fields.base.folds import (
    DEGREES,
    Covariance,
    Joint,
    Maps,
    candidates,
    given_shown,
    held_out_folds,
    kernel_of,
    nats_by_df,
)

SHRINKAGES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Courses are chosen with a few shrinkages only.
FEW_SHRINKAGES = (0.1, 0.3, 0.6)
# How many columns a value is predicted from; None for all.
NEAR = (8, 15, 22, 32, None)
USUAL_NEAR = 22
# Columns beyond which all at once are no candidate: each trial would take seconds.
MOST_AT_ONCE = 1000


class Settings(NamedTuple):
    """What was chosen. `shrinkage`: weight of the kernel; `n_near`: None for all columns."""

    courses: CourseChoice
    shrinkage: float
    df: float
    n_near: int | None

    def joint(self, products: Covariance, prior: Covariance) -> Joint:
        """The distribution of rows of anomalies: mean products shrunk to the kernel's."""
        share = self.shrinkage
        return Joint((1 - share) * products + share * prior, self.df, self.n_near)


def choose(maps: Maps) -> Settings:
    """Courses first, then shrinkage, columns and degrees of freedom together.

    What is chosen makes values of held-out blocks likeliest.
    """
    if len(maps.panel.time) < 2:
        return Settings(CHOICES[0], 1.0, DEGREES[0], USUAL_NEAR)
    wide = len(maps.sites.columns.lag) > MOST_AT_ONCE
    usual = (USUAL_NEAR if wide else None,)
    prior = prior_of(maps, CHOICES[0])
    tried = [
        _best(maps, choice, prior, shrinkages=FEW_SHRINKAGES, near=usual) for choice in CHOICES
    ]
    courses = max(tried, key=lambda pair: pair[0])[1].courses
    prior = prior_of(maps, courses)
    near = tuple(n for n in NEAR if n is not None or not wide)
    return _best(maps, courses, prior, shrinkages=SHRINKAGES, near=near)[1]


def prior_of(maps: Maps, choice: CourseChoice) -> Covariance:
    """The covariance of all columns in the kernel that fits these maps."""
    return kernel_of(*maps.rows(maps.courses(choice)), maps.sites).of(maps.sites.columns)


def _best(
    maps: Maps,
    courses: CourseChoice,
    prior: Covariance,
    *,
    shrinkages: Sequence[float],
    near: Sequence[int | None],
) -> tuple[float, Settings]:
    """The most nats of all held-out values, and with what."""
    folds = held_out_folds(maps, courses, prior)
    order = candidates(prior, maps.sites.own)
    best = (-torch.inf, Settings(courses, 1.0, DEGREES[0], USUAL_NEAR))
    for a in shrinkages:
        for n_near in near:
            nats = torch.zeros(len(DEGREES)).double()
            for fold in folds:
                covariance = (1 - a) * fold.products + a * prior
                given = given_shown(
                    fold.values, fold.shown, covariance, maps.sites.own, order, n_near=n_near
                )
                nats += nats_by_df(fold, given)
            if float(nats.max()) > best[0]:
                df = DEGREES[int(nats.argmax())]
                best = (float(nats.max()), Settings(courses, a, df, n_near))
    return best
