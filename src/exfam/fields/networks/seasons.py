"""What is normal at each site: a level and a yearly course, drawn to those that sites share."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

# Harmonics of a yearly course at most: a year and half a year.
MOST_HARMONICS = 2
# Standard deviation, in those of the values within sites, that the shared harmonics may have at
# ease: keeps a course read off one month from running away in the others.
EASY_AMPLITUDE = 2.0
# Rounds of expectation and maximization: after these the spreads move by less than a percent.
ROUNDS = 60
# A site's own spread is that of this many observations of the common one, and its own ones.
COMMON_OBSERVATIONS = 5.0


class SiteCourses(NamedTuple):
    """Coefficients of each site, in the order level, cos 1, sin 1, cos 2, sin 2.

    `scale`: standard deviation of the values around a site's course, `within` the common one
    """

    coefficient: Float64[np.ndarray, "sites terms"]
    covariance: Float64[np.ndarray, "sites terms terms"]
    scale: Float64[np.ndarray, "sites"]
    within: float


def angle(time: Float64[Tensor, "*shape"], period: float) -> Float64[Tensor, "*shape"]:
    """The position in the period, in [0, 2 pi): from float64, before anything is rounded."""
    return torch.remainder(time, period) * (2 * torch.pi / period)


def harmonics(
    angles: Float64[Tensor, "*shape"], n_harmonics: int
) -> Float64[Tensor, "*shape terms"]:
    """cos and sin of 1, 2, ... times the angle, side by side."""
    columns = [
        wave(k * angles) for k in range(1, n_harmonics + 1) for wave in (torch.cos, torch.sin)
    ]
    return torch.stack(columns, -1) if columns else angles.new_zeros(*angles.shape, 0)


def harmonics_supported(angles: Float64[Tensor, "times"]) -> int:
    """2 if the times leave no quarter of the period without data, else 1."""
    ordered = torch.sort(angles).values
    gaps = torch.diff(torch.cat([ordered, ordered[:1] + 2 * torch.pi]))
    return MOST_HARMONICS if float(gaps.max()) < torch.pi / 2 else 1


def fit_courses(
    value: Float64[np.ndarray, "rows"],
    site: Int64[np.ndarray, "rows"],
    waves: Float64[np.ndarray, "rows waves"],
    *,
    n_sites: int,
) -> SiteCourses:
    """Linear mixed model: value = (shared + site's own coefficients) . (1, waves) + error.

    Sites with few observations are drawn to the shared coefficients. Waves must be centered.
    """
    middle, spread = value.mean(), value.std()
    varies = spread > 1e-12 * np.abs(value).max()
    unit = spread if varies else 1.0
    z = (value - middle) / unit

    def by_site(column: np.ndarray) -> np.ndarray:
        return np.bincount(site, weights=column, minlength=n_sites)

    x = [np.ones_like(z), *waves.T]
    squares = np.array([[by_site(a * b) for b in x] for a in x])
    products = np.array([by_site(a * z) for a in x]).T
    moments = np.moveaxis(squares, -1, 0).copy(), products, by_site(z * z)
    shared, own, error = _spreads(moments, n_rows=len(z))
    coefficient, covariance, residual = _posterior(moments, shared, own, error)
    count = moments[0][:, 0, 0]
    pooled = (residual + COMMON_OBSERVATIONS * error) / (count + COMMON_OBSERVATIONS)
    variance = np.maximum(pooled, 1e-12) if varies else np.ones(n_sites)
    coefficient[:, 0] += middle / unit
    return SiteCourses(
        coefficient=unit * coefficient,
        covariance=unit**2 * covariance,
        scale=unit * np.sqrt(variance),
        within=float(unit * np.sqrt(max(error, 1e-12))),
    )


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def _posterior(moments: Arrays, shared: np.ndarray, own: np.ndarray, error: float) -> Arrays:
    """Coefficients, their covariance, and the expected sum of squared errors of each site."""
    squares, products, total = moments
    precision = squares / error
    inner = np.linalg.inv(np.eye(len(shared)) + own[:, None] * precision)
    covariance = inner * own
    surprise = products / error - precision @ shared
    coefficient = shared + np.einsum("sab,sb->sa", covariance, surprise)
    fitted = np.einsum("sab,sb->sa", squares, coefficient)
    residual = total - 2 * (coefficient * products).sum(-1) + (coefficient * fitted).sum(-1)
    residual += np.einsum("sab,sba->s", squares, covariance)
    return coefficient, covariance, np.maximum(residual, 0.0)


def _spreads(moments: Arrays, *, n_rows: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Shared coefficients, variances of the sites' own ones, and the error's variance."""
    seen = moments[0][:, 0, 0] > 0
    squares, products, total = (part[seen] for part in moments)
    n_terms = squares.shape[1]
    own, error = np.full(n_terms, 0.5), 0.5
    shared = np.zeros(n_terms)
    for _ in range(ROUNDS):
        # Generalized least squares of all sites, the harmonics drawn to 0.
        precision = squares / error
        inner = np.linalg.inv(np.eye(n_terms) + own[:, None] * precision)
        ease = np.diag(np.full(n_terms, 1 / (EASY_AMPLITUDE**2 * error)))
        ease[0, 0] = 0.0
        right = np.einsum("sba,sb->a", inner, products / error)
        shared = np.linalg.solve((precision @ inner).sum(0) + ease, right)
        coefficient, covariance, residual = _posterior(
            (squares, products, total), shared, own, error
        )
        spread = (coefficient - shared) ** 2 + np.diagonal(covariance, axis1=1, axis2=2)
        own = spread.mean(0)
        own[1:] = own[1:].mean() if n_terms > 1 else own[1:]
        error = max(float(residual.sum()) / n_rows, 1e-12)
    return shared, own, error
