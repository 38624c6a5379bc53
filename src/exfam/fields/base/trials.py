"""What settings of a base are tried on: blocks of time held out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.fields.base.conditionals import GivenOthers
from exfam.fields.base.courses import CourseChoice
from exfam.fields.base.folds import (
    DEGREES,
    Covariance,
    HeldOutMaps,
    Joint,
    Maps,
    candidates,
    given_shown,
    held_out_folds,
    kernel_of,
    nats_by_df,
)
from exfam.fields.base.moments import MOST_MULTIPLICATIONS

# Where nothing else is tried.
USUAL_NEAR = 22


class Settings(NamedTuple):
    """What was chosen. `shrinkage`: weight of the kernel; `n_near`: None for all columns.

    `tails`: degrees of freedom of predicted values; None for those of the multivariate t
    """

    courses: CourseChoice
    shrinkage: float
    df: float
    n_near: int | None
    tails: float | None = None

    def joint(self, products: Covariance, prior: Covariance) -> Joint:
        """The distribution of rows of anomalies: mean products shrunk to the kernel's."""
        share = self.shrinkage
        covariance = (1 - share) * products + share * prior
        return Joint(covariance, self.df, self.n_near, self.tails)


@runtime_checkable
class HeldOutTrials(Protocol):
    """Something that settings of one choice of courses are tried on."""

    courses: CourseChoice

    def given(
        self, shrinkage: float, n_near: int | None
    ) -> Iterator[tuple[HeldOutMaps, GivenOthers]]:
        """The blocks held out, and their values given others."""


def nats_of(
    trials: HeldOutTrials, shrinkage: float, n_near: int | None
) -> Float64[Tensor, "degrees"]:
    """Nats of all held-out values by degrees of freedom."""
    total = torch.zeros(len(DEGREES)).double()
    for fold, given in trials.given(shrinkage, n_near):
        total += nats_by_df(fold, given)
    return total


def prior_of(maps: Maps, choice: CourseChoice) -> Covariance:
    """The covariance of all columns in the kernel that fits these maps."""
    return kernel_of(*maps.rows(maps.courses(choice)), maps.sites).of(maps.sites.columns)


class Trials:
    """What settings of one choice of courses are tried on; `most`: of `Maps.products`."""

    def __init__(
        self,
        maps: Maps,
        courses: CourseChoice,
        prior: Covariance,
        *,
        most: float = MOST_MULTIPLICATIONS,
    ) -> None:
        self.courses, self.prior, self.targets = courses, prior, maps.sites.own
        self.folds = held_out_folds(maps, courses, prior, most=most)
        self.near = candidates(prior, self.targets)

    def given(
        self, shrinkage: float, n_near: int | None
    ) -> Iterator[tuple[HeldOutMaps, GivenOthers]]:
        """The blocks held out, and their values given others."""
        for fold in self.folds:
            covariance = (1 - shrinkage) * fold.products + shrinkage * self.prior
            yield (
                fold,
                given_shown(fold.evidence, covariance, self.targets, self.near, n_near=n_near),
            )


def best_settings(
    trials: HeldOutTrials, *, shrinkages: Sequence[float], near: Sequence[int | None]
) -> tuple[float, Settings]:
    """The most nats of all held-out values, and with what."""
    best = (-torch.inf, Settings(trials.courses, 1.0, DEGREES[0], USUAL_NEAR))
    for shrinkage in shrinkages:
        for n_near in near:
            nats = nats_of(trials, shrinkage, n_near)
            if float(nats.max()) > best[0]:
                df = DEGREES[int(nats.argmax())]
                best = (float(nats.max()), Settings(trials.courses, shrinkage, df, n_near))
    return best
