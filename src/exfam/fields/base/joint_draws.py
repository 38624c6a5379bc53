"""What is missing on a map, drawn together: how its values hang together, as probabilities."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.families import StudentT
from exfam.fields.base.conditionals import Covariance, patterns

# Added to what is left of variances, which rounding may leave below 0.
JITTER = 1e-10
# Probabilities keep this far from 0 and 1.
LEAST = 1e-15

Rows = Float64[Tensor, "rows columns"]
Which = Bool[Tensor, "rows columns"]


class Wanted(NamedTuple):
    """Rows of which some columns are shown and others are to be drawn.

    `noise`: variances by which shown values may be off, None where they are known
    """

    shown: Which
    missing: Which
    noise: Rows | None = None


def joint_levels(
    wanted: Wanted, covariance: Covariance, df: float, *, generator: torch.Generator
) -> Rows:
    """Probabilities below joint draws of what is missing, given all that is shown; else 1/2.

    Rows are multivariate t of mean 0: what is missing is drawn together, and each draw put as the
    probability below it in its own conditional distribution. So put into other distributions of the
    same values, draws keep how they hang together (a copula).
    """
    levels = torch.full(wanted.shown.shape, 0.5, dtype=torch.float64)
    both = torch.cat([wanted.shown, wanted.missing], 1)
    noise = None if wanted.noise is None else wanted.noise.repeat(1, 2)
    for pattern, rows in patterns(both, noise):
        known, missing = (part.nonzero()[:, 0] for part in pattern.chunk(2))
        if not len(missing):
            continue
        off = torch.zeros(len(known)).double()
        if wanted.noise is not None:
            off = wanted.noise[rows[0], known]
        among = covariance[known[:, None], known] + torch.diag(off)
        half = torch.linalg.solve_triangular(
            torch.linalg.cholesky(among), covariance[known[:, None], missing], upper=False
        )
        left = covariance[missing[:, None], missing] - half.T @ half
        root = torch.linalg.cholesky(left + JITTER * torch.eye(len(left)).double())
        unit = root / root.square().sum(1, keepdim=True).sqrt()
        drawn = torch.randn(len(rows), len(missing), generator=generator).double() @ unit.T
        total = torch.full((len(rows), 1), df + float((1 / (1 + off)).sum())).double()
        drawn = drawn * (total / 2 / torch._standard_gamma(total / 2, generator=generator)).sqrt()
        levels[rows[:, None], missing] = levels_of(drawn, unit_t(total).expand(*drawn.shape, 3))
    return levels


def unit_t(df: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape 3"]:
    """Parameters of Student t distributions of location 0 and scale 1."""
    return torch.stack([torch.zeros_like(df), torch.zeros_like(df), (df - 2).log()], -1)


def levels_of(
    value: Float64[Tensor, "*shape"], eta: Float64[Tensor, "*shape 3"]
) -> Float64[Tensor, "*shape"]:
    """Probabilities below values in their Student t distributions, strictly between 0 and 1."""
    return StudentT().cdf(value, eta).clamp(LEAST, 1 - LEAST)
