"""Anomalies of which no more is known than that they are at most some limit."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from exfam.families import StudentT
from exfam.fields.base.conditionals import (
    GivenOthers,
    NearColumns,
    OfMatrix,
    given_all,
    given_near,
)

# Limits beyond, in standard deviations, count as this far off.
FARTHEST = 12.0
LEAST_PRECISION, TINY = 1e-6, 1e-30

Numbers = Float64[Tensor, "*shape"]


class CutMoments(NamedTuple):
    """Mean and variance of a standard Gaussian below a limit."""

    mean: Numbers
    variance: Numbers


class Observation(NamedTuple):
    """What stands for a number that is not known: a value, and the variance of its noise."""

    value: Numbers
    noise: Numbers


class Evidence(NamedTuple):
    """Rows of anomalies as others are predicted from them.

    `noise`: variance by which a value may be off, 0 where it is known; `censored`: of which no more
    is known than that it is at most `limit`. All three are None where all that is shown is known
    """

    values: Float64[Tensor, "rows columns"]
    shown: Bool[Tensor, "rows columns"]
    noise: Float64[Tensor, "rows columns"] | None = None
    censored: Bool[Tensor, "rows columns"] | None = None
    limit: Float64[Tensor, "rows columns"] | None = None

    def take(self, index: Tensor) -> "Evidence":
        """Some of the rows."""
        return self._like(lambda part: part[index])

    def first(self, n: int) -> "Evidence":
        """The first columns."""
        return self._like(lambda part: part[:, :n])

    def without(self, hidden: Bool[Tensor, "columns"]) -> "Evidence":
        """With nothing shown in some columns."""
        return self._replace(shown=self.shown & ~hidden)

    def given(self, near: NearColumns, n_near: int | None) -> GivenOthers:
        """Each target given the first of its near columns that are shown.

        With `n_near` None, and one matrix of covariances, given all others that are shown.
        """
        values, shown, noise = self[:3]
        if n_near is None and isinstance(near, OfMatrix):
            return given_all(values, shown, near.covariance, near.targets, noise=noise)
        n_used = n_near or near.columns.shape[1]
        return given_near(values, shown, near, n_used=n_used, noise=noise)

    def _like(self, some: Callable[[Tensor], Tensor]) -> "Evidence":
        rest = (None if part is None else some(part) for part in self[2:])
        return Evidence(some(self.values), some(self.shown), *rest)


def moments_below(limit: Numbers) -> CutMoments:
    """Moments of a standard Gaussian below limits."""
    limit = limit.clamp(-FARTHEST, FARTHEST)
    ratio = (-0.5 * limit.square() - torch.special.log_ndtr(limit)).exp() / (2 * torch.pi) ** 0.5
    return CutMoments(-ratio, (1 - ratio * (limit + ratio)).clamp(1e-4, 1.0))


def observation_below(limit: Numbers) -> Observation:
    """The noisy observation that says of an anomaly what being at most `limit` says.

    Together with the anomaly's own distribution, a standard Gaussian, it gives the mean and the
    variance below the limit; it says nothing of any other value. The site step of expectation
    propagation: Rasmussen & Williams (2006), Gaussian Processes, section 3.6.
    """
    mean, variance = moments_below(limit)
    precision = (1 / variance - 1).clamp_min(LEAST_PRECISION)
    return Observation(mean / variance / precision, 1 / precision)


def log_mass_below(
    limit: Numbers, given: GivenOthers, df: float, tails: float | None = None
) -> Numbers:
    """log P(anomaly <= limit) of the Student t distributions of `GivenOthers.student_t`."""
    location, scale, total = StudentT().parameters(given.student_t(df, tails))
    return log_cdf((limit - location) / scale, total)


def nats_of(
    value: Numbers,
    eta: Float64[Tensor, "*shape 3"],
    censored: Bool[Tensor, "*shape"] | None,
    limit: Numbers | None,
) -> Numbers:
    """Log densities under Student t's; log probabilities of values known to be at most a limit."""
    nats = StudentT().log_prob(value, eta)
    if censored is None or limit is None or not bool(censored.any()):
        return nats
    location, scale, df = StudentT().parameters(eta)
    return torch.where(censored, log_cdf((limit - location) / scale, df), nats)


def log_cdf(at: Float[Tensor, "*shape"], df: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape"]:
    """Log of the cdf of Student's t, by the Gaussian of the same probability to third order.

    Wallace (1959), Bounds on normal approximations: exact to 1e-3 from 8 degrees of freedom on.
    """
    shrunk = (8 * df + 1) / (8 * df + 3)
    # A root has no slope at 0.
    size = (df * (at.square() / df).log1p() + TINY).sqrt()
    return torch.special.log_ndtr(at.sign() * shrunk * size)
