"""Choices of a base by cross-validation over blocks of time: courses, shrinkage, columns, tails."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float64
from torch import Tensor

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
# Every so many of them is tried with all numbers of columns, those between with the best one.
STRIDE = 3
# Courses are chosen with a few shrinkages only, and on some of many sites.
FEW_SHRINKAGES, MOST_SITES = (0.1, 0.3, 0.6), 60
# How many columns a value is predicted from, if not from all.
NEAR = (8, 15, 22, 32)
USUAL_NEAR = 22


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


@runtime_checkable
class HeldOutTrials(Protocol):
    """Something that settings of one choice of courses are tried on."""

    courses: CourseChoice

    def nats(self, shrinkage: float, n_near: int | None) -> Float64[Tensor, "degrees"]:
        """Nats of all held-out values by degrees of freedom."""


def choose(maps: Maps) -> Settings:
    """Courses first, then shrinkage, columns and degrees of freedom together.

    What is chosen makes values of held-out blocks likeliest.
    """
    courses = choose_courses(maps)
    if len(maps.panel.time) < 2:
        return Settings(courses, 1.0, DEGREES[0], USUAL_NEAR)
    return choose_rest(Trials(maps, courses, prior_of(maps, courses)), (*NEAR, None))


def choose_courses(maps: Maps) -> CourseChoice:
    """The courses of some of the sites, tried with a few shrinkages."""
    if len(maps.panel.time) < 2:
        return CHOICES[0]
    some = maps.of_sites(MOST_SITES)
    prior = prior_of(some, CHOICES[0])
    tried = [
        best_of(Trials(some, choice, prior), shrinkages=FEW_SHRINKAGES, near=[None])
        for choice in CHOICES
    ]
    return max(tried, key=lambda pair: pair[0])[1].courses


def choose_rest(trials: HeldOutTrials, near: Sequence[int | None]) -> Settings:
    """Shrinkage, columns and degrees of freedom: every third shrinkage, then those between."""
    coarse = best_of(trials, shrinkages=SHRINKAGES[1::STRIDE], near=near)
    k = SHRINKAGES.index(coarse[1].shrinkage)
    between = SHRINKAGES[max(0, k - STRIDE + 1) : k] + SHRINKAGES[k + 1 : k + STRIDE]
    fine = best_of(trials, shrinkages=between, near=[coarse[1].n_near])
    return max(coarse, fine, key=lambda pair: pair[0])[1]


def prior_of(maps: Maps, choice: CourseChoice) -> Covariance:
    """The covariance of all columns in the kernel that fits these maps."""
    return kernel_of(*maps.rows(maps.courses(choice)), maps.sites).of(maps.sites.columns)


class Trials:
    """What settings of one choice of courses are tried on."""

    def __init__(self, maps: Maps, courses: CourseChoice, prior: Covariance) -> None:
        self.courses, self.prior, self.targets = courses, prior, maps.sites.own
        self.folds = held_out_folds(maps, courses, prior)
        self.near = candidates(prior, self.targets)

    def nats(self, shrinkage: float, n_near: int | None) -> Float64[Tensor, "degrees"]:
        """Nats of all held-out values by degrees of freedom."""
        total = torch.zeros(len(DEGREES)).double()
        for fold in self.folds:
            covariance = (1 - shrinkage) * fold.products + shrinkage * self.prior
            given = given_shown(
                fold.values, fold.shown, covariance, self.targets, self.near, n_near=n_near
            )
            total += nats_by_df(fold, given)
        return total


def best_of(
    trials: HeldOutTrials, *, shrinkages: Sequence[float], near: Sequence[int | None]
) -> tuple[float, Settings]:
    """The most nats of all held-out values, and with what."""
    best = (-torch.inf, Settings(trials.courses, 1.0, DEGREES[0], USUAL_NEAR))
    for shrinkage in shrinkages:
        for n_near in near:
            nats = trials.nats(shrinkage, n_near)
            if float(nats.max()) > best[0]:
                df = DEGREES[int(nats.argmax())]
                best = (float(nats.max()), Settings(trials.courses, shrinkage, df, n_near))
    return best
