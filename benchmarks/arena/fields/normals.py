"""What is normal at sites and times, for rivals: levels, or levels with a yearly course."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.arena.fields.data import FieldData
from jaxtyping import Float

KINDS = ("site", "seasonal")
# Observations that the common level, and a common course, weigh as much as at every site.
_OF_LEVEL, _OF_COURSE = 2.0, 20.0
_NEIGHBORS = 8


@dataclass(frozen=True, eq=False)
class Normals:
    """Coefficients of each site, of a constant and of sines and cosines of the year.

    At sites without a training value they are those of the nearest sites, by inverse distances;
    `elsewhere` has such ones for all sites, as if each were new.
    """

    kind: str
    period: float
    coefficients: Float[np.ndarray, "sites terms"]
    scale: Float[np.ndarray, "sites"]
    elsewhere: "Normals | None" = None

    def location(self, time: Float[np.ndarray, "maps"]) -> Float[np.ndarray, "maps sites"]:
        return design(time, self.kind, self.period) @ self.coefficients.T

    def anomalies(
        self, time: Float[np.ndarray, "maps"], value: Float[np.ndarray, "maps sites"]
    ) -> Float[np.ndarray, "maps sites"]:
        return (value - self.location(time)) / self.scale


def fit_normals(data: FieldData, *, kind: str) -> Normals:
    """Of the training maps: least squares, drawn to what is common to all sites."""
    maps = data.train
    terms = design(maps.time, kind, data.period)
    there = ~np.isnan(maps.value)
    of_map, _ = there.nonzero()
    pooled = _ridge(terms[of_map], maps.value[there], np.full(terms.shape[1], 1e-6))
    rest = maps.value - (terms @ pooled)[:, None]
    penalty = np.array([_OF_LEVEL, *[_OF_COURSE] * (terms.shape[1] - 1)])
    n_sites = maps.value.shape[1]
    apart = np.zeros((n_sites, len(pooled)))
    for site in range(n_sites):
        rows = there[:, site]
        apart[site] = _ridge(terms[rows], rest[rows, site], penalty)
        rest[:, site] -= terms @ apart[site]
    squares, n = np.nansum(rest**2, axis=0), there.sum(0)
    common = max(squares.sum() / n.sum(), 1e-12)
    scale = np.sqrt((squares + _OF_LEVEL * common) / (n + _OF_LEVEL))
    own = Normals(kind, data.period, pooled + apart, scale)
    return _with_new_sites(own, data, known=n > 0)


def design(
    time: Float[np.ndarray, "maps"], kind: str, period: float
) -> Float[np.ndarray, "maps terms"]:
    """A constant, and of a course the year's two lowest frequencies."""
    angle = 2 * np.pi * time / period
    waves = [f(k * angle) for k in (1, 2) for f in (np.cos, np.sin)] if kind == "seasonal" else []
    return np.stack([np.ones_like(time, dtype=float), *waves], axis=1)


def _with_new_sites(own: Normals, data: FieldData, *, known: Any) -> Normals:
    apart = np.where(known[None, :], data.distance, np.inf)
    apart = np.maximum(apart, 1e-9 * np.where(np.isfinite(apart), apart, 0).max())
    k = min(_NEIGHBORS, int(known.sum()) - 1)
    near = apart <= np.sort(apart, axis=1)[:, [k - 1]]
    weight = np.where(near, apart**-2.0, 0.0)
    weight /= weight.sum(1, keepdims=True)
    coefficients = np.where(known[:, None], own.coefficients, 0.0)
    around = weight @ coefficients
    scale = np.exp(weight @ np.log(np.where(known, own.scale, 1.0)))
    elsewhere = Normals(own.kind, own.period, around, scale)
    return Normals(
        own.kind,
        own.period,
        np.where(known[:, None], own.coefficients, around),
        np.where(known, own.scale, scale),
        elsewhere,
    )


def _ridge(terms: Any, value: Any, penalty: Any) -> Float[np.ndarray, "terms"]:
    products = terms.T @ terms + np.diag(penalty)
    return np.linalg.solve(products, terms.T @ value)
