"""One Gaussian distribution of all sites, its covariance shrunk to its diagonal as by Ledoit-Wolf.

With a lag it is one of the map and the map before together. Where values are missing, rounds of
expectation and maximization fill in their means and covariances.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from benchmarks.arena.contenders.fields.rules import at_known_sites
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.fields.judge import best_on_validation
from benchmarks.arena.fields.normals import KINDS, Normals, fit_normals
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.distributions import StudentT
from jaxtyping import Bool, Float, Int64

ROUNDS = 6

Rows = Float[np.ndarray, "maps variables"]
Square = Float[np.ndarray, "variables variables"]
# The covariance of rows, and what is to be said of it.
Estimate = Callable[[Rows, FieldData], tuple[Square, dict[str, Any]]]


def fit_gaussian(data: FieldData, seed: int) -> Fitted:
    def estimate(rows: Rows, data: FieldData) -> tuple[Square, dict[str, Any]]:
        covariance, shrinkage = shrunk_covariance(rows)
        return covariance, {"shrinkage": round(shrinkage, 4)}

    return chosen(data, estimate)


def chosen(data: FieldData, estimate: Estimate) -> Fitted:
    """The kind of normals that validation wants, under the covariance estimated of anomalies."""
    candidates = (({"normals": kind}, _fitted(kind, data, estimate)) for kind in KINDS)
    return best_on_validation(candidates, data)


def _fitted(kind: str, data: FieldData, estimate: Estimate) -> Fitted:
    normals = fit_normals(data, kind=kind)
    covariance, settings = estimate(_rows(data.train, data, normals), data)

    def predict(maps: Maps) -> StudentT:
        rows = _rows(maps, data, normals)
        mean, variance = conditionals(rows, maps.target, covariance)
        of_map, site = maps.targets
        scale = normals.scale[site]
        loc = normals.location(maps.time)[of_map, site] + scale * mean
        return StudentT(loc, scale * np.sqrt(variance), np.inf)

    return Fitted(predict, settings=settings, refit=lambda other: _fitted(kind, other, estimate))


def _rows(maps: Maps, data: FieldData, normals: Normals) -> Rows:
    """Anomalies that are shown, and with a lag those before beside them."""
    own = normals.anomalies(maps.time, maps.visible)
    if not data.lags:
        return own
    return np.concatenate([own, normals.anomalies(maps.time - 1, maps.before)], axis=1)


def shrunk_covariance(rows: Rows) -> tuple[Square, float]:
    """The covariance about 0 drawn to its diagonal, and by how much."""
    from sklearn.covariance import LedoitWolf

    rows = rows[~np.isnan(rows).all(1)]
    estimate = LedoitWolf(assume_centered=True)
    covariance = estimate.fit(np.nan_to_num(rows)).covariance_
    there = ~np.isnan(rows)
    # A variable without a value is as if it had the usual variance.
    covariance[np.diag_indices_from(covariance)] += 1 - there.any(0)
    shrinkage = float(estimate.shrinkage_)
    for _ in range(0 if there.all() else ROUNDS):
        whole, doubt = _expected(rows, covariance)
        shrinkage = float(estimate.fit(whole).shrinkage_)
        products = (whole.T @ whole + doubt) / len(whole)
        covariance = (1 - shrinkage) * products
        covariance[np.diag_indices_from(covariance)] = np.diag(products)
    if there.all():
        products = rows.T @ rows / len(rows)
        covariance = (1 - shrinkage) * products
        covariance[np.diag_indices_from(covariance)] = np.diag(products)
    return covariance, shrinkage


def _expected(rows: Rows, covariance: Square) -> tuple[Rows, Square]:
    """Rows with their missing values expected given the others, and the sum of their doubts."""
    whole, doubt = np.nan_to_num(rows), np.zeros_like(covariance)
    for alike, seen in _patterns(~np.isnan(rows)):
        hidden = ~seen
        weights = np.linalg.solve(
            covariance[np.ix_(seen, seen)] + 1e-9 * np.eye(seen.sum()),
            covariance[np.ix_(seen, hidden)],
        )
        whole[np.ix_(alike, hidden)] = whole[np.ix_(alike, seen)] @ weights
        left = covariance[np.ix_(hidden, hidden)] - covariance[np.ix_(hidden, seen)] @ weights
        doubt[np.ix_(hidden, hidden)] += len(alike) * left
    return whole, doubt


def conditionals(
    rows: Rows, target: Bool[np.ndarray, "maps sites"], covariance: Square
) -> tuple[Float[np.ndarray, "targets"], Float[np.ndarray, "targets"]]:
    """Mean and variance of each target given all shown variables of its row but itself."""
    mean, variance = (np.zeros(target.shape) for _ in range(2))
    n_sites = target.shape[1]
    for alike, seen in _patterns(~np.isnan(rows)):
        precision = np.linalg.inv(covariance[np.ix_(seen, seen)] + 1e-9 * np.eye(seen.sum()))
        x = rows[np.ix_(alike, seen)]
        own, wanted = seen[:n_sites], target[alike]
        n_own = int(own.sum())
        pulled, spread = (x @ precision)[:, :n_own], 1 / np.diag(precision)[:n_own]
        mean[np.ix_(alike, own)] = x[:, :n_own] - pulled * spread
        variance[np.ix_(alike, own)] = spread
        hidden = np.flatnonzero(~own & wanted.any(0))
        across = covariance[np.ix_(seen, hidden)]
        weights = precision @ across
        mean[np.ix_(alike, hidden)] = x @ weights
        left = np.diag(covariance)[hidden] - (across * weights).sum(0)
        variance[np.ix_(alike, hidden)] = np.maximum(left, 1e-9)
    return mean[target], variance[target]


def _patterns(
    there: Bool[np.ndarray, "maps variables"],
) -> Iterator[tuple[Int64[np.ndarray, "alike"], Any]]:
    """Rows that have the same variables, and which these are."""
    patterns, number = np.unique(there, axis=0, return_inverse=True)
    number = number.reshape(-1)
    for index, pattern in enumerate(patterns):
        yield np.flatnonzero(number == index), pattern


CONTENDERS = {
    "gaussian-ledoit-wolf": Contender(
        label="Gaussian, Ledoit-Wolf", fit=fit_gaussian, unsuited=at_known_sites
    ),
}
