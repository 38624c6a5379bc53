"""What settings of a base are tried on: blocks of time held out."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.fields.base.courses import CourseChoice
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
from exfam.fields.base.moments import MOST_MULTIPLICATIONS

# Where nothing else is tried.
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

    def nats(self, shrinkage: float, n_near: int | None) -> Float64[Tensor, "degrees"]:
        """Nats of all held-out values by degrees of freedom."""
        total = torch.zeros(len(DEGREES)).double()
        for fold in self.folds:
            covariance = (1 - shrinkage) * fold.products + shrinkage * self.prior
            given = given_shown(fold.evidence, covariance, self.targets, self.near, n_near=n_near)
            total += nats_by_df(fold, given)
        return total


def best_settings(
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
