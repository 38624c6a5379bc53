"""Choices of a base by cross-validation over blocks of time: courses, shrinkage, columns, tails."""

from collections.abc import Sequence
from typing import NamedTuple

from exfam.fields.base.choose_courses import choose_courses
from exfam.fields.base.choose_tails import choose_tails
from exfam.fields.base.courses import Courses
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.maps import Maps, kernel_of
from exfam.fields.base.trials import (
    DEGREES,
    USUAL_NEAR,
    Settings,
    Trials,
    WholeRows,
    best_settings,
)

SHRINKAGES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Every so many of them is tried with all numbers of columns, those between with the best one.
STRIDE = 3
# How many columns a value is predicted from, if not from all.
NEAR = (8, 15, USUAL_NEAR, 32)


class Chosen(NamedTuple):
    """What was chosen, and the courses and the kernel that all maps have under it."""

    settings: Settings
    courses: Courses
    kernel: MovingKernel


def choose(maps: Maps) -> Chosen:
    """Courses first, then shrinkage, columns and degrees of freedom together, then tails.

    What is chosen makes values of held-out blocks likeliest.
    """
    choice = choose_courses(maps)
    courses = maps.courses(choice)
    kernel = kernel_of(*maps.rows(courses), maps.sites)
    if len(maps.panel.time) < 2:
        return Chosen(Settings(choice, 1.0, DEGREES[0], USUAL_NEAR), courses, kernel)
    trials = Trials(WholeRows(maps, kernel.of(maps.sites.columns)), choice)
    settings = choose_tails(trials, choose_rest(trials, (*NEAR, None)))
    return Chosen(settings, courses, kernel)


def choose_rest(trials: Trials, near: Sequence[int | None]) -> Settings:
    """Shrinkage, columns and degrees of freedom: every third shrinkage, then those between."""
    coarse = best_settings(trials, shrinkages=SHRINKAGES[1::STRIDE], near=near)
    k = SHRINKAGES.index(coarse[1].shrinkage)
    between = SHRINKAGES[max(0, k - STRIDE + 1) : k] + SHRINKAGES[k + 1 : k + STRIDE]
    fine = best_settings(trials, shrinkages=between, near=[coarse[1].n_near])
    return max(coarse, fine, key=lambda pair: pair[0])[1]
