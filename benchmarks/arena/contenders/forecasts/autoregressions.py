"""Autoregressions of anomalies from each site's yearly course: of each site, and of all together.

Their distributions several steps ahead are exact normal ones given what is known at a start.
"""

import numpy as np
import scipy.linalg
from benchmarks.arena.contenders.fields.gaussian import shrunk_covariance
from benchmarks.arena.contenders.forecasts.rules import anomalies_by_time, in_units
from benchmarks.arena.fields.normals import fit_normals
from benchmarks.arena.forecasts.data import ForecastData, Starts
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.distributions import StudentT
from jaxtyping import Float

MOST_LAGS = 8
# Steps before a start that are conditioned on.
KNOWN = 20
# Reflections of absolute value one would have no finite variance.
_MOST_REFLECTION = 0.995
_FEWEST_PAIRS = 20

Series = Float[np.ndarray, "times"]
Moments = Float[np.ndarray, "lags"]


def fit_by_site(data: ForecastData, seed: int) -> Fitted:
    """An autoregression for each site, of as many lags as Akaike's criterion wants."""
    normals = fit_normals(data.fields.with_train(data.fields.both), kind="seasonal")
    table = anomalies_by_time(normals, data)
    n = KNOWN + data.starts.n_steps
    fits = [autocovariance(table[:, site], n=n) for site in range(data.n_items)]

    def predict(starts: Starts) -> StudentT:
        mean = np.zeros((*starts.future.shape, data.n_items))
        variance = np.ones_like(mean)
        for start in range(len(mean)):
            time, value = starts.known(start, back=KNOWN)
            anomaly = normals.anomalies(time, value)
            back = np.round(time[-1] - time).astype(int)
            for site, (moments, _) in enumerate(fits):
                here = ~np.isnan(anomaly[:, site])
                mean[start, :, site], variance[start, :, site] = given_known(
                    moments, -back[here], anomaly[here, site], n_steps=starts.n_steps
                )
        return in_units(mean, np.sqrt(variance), normals, starts)

    orders = [order for _, order in fits]
    return Fitted(predict, settings={"lags": {p: orders.count(p) for p in sorted(set(orders))}})


def autocovariance(series: Series, *, n: int) -> tuple[Moments, int]:
    """Of the autoregression that Akaike's criterion chooses: `n` autocovariances, and its lags.

    Reflections are Burg's, from all values whose earlier ones are there: no gap makes them larger
    than one.
    """
    n_values = int((~np.isnan(series)).sum())
    # A series without values is as one of the usual variance.
    variance = (np.nansum(series**2) + 2.0) / (n_values + 2)
    forward, backward = series, series
    weights, moments = np.zeros(0), np.array([variance])
    best = n_values * np.log(variance), weights, moments
    for p in range(1, MOST_LAGS + 1):
        ahead, behind = forward[1:], backward[:-1]
        pairs = ~np.isnan(ahead + behind)
        if pairs.sum() < _FEWEST_PAIRS:
            break
        products, squares = ahead[pairs] @ behind[pairs], ahead[pairs] ** 2 + behind[pairs] ** 2
        reflection = min(max(2 * products / squares.sum(), -_MOST_REFLECTION), _MOST_REFLECTION)
        forward, backward = ahead - reflection * behind, behind - reflection * ahead
        moments = np.append(moments, weights @ moments[:0:-1] + reflection * variance)
        weights = np.append(weights - reflection * weights[::-1], reflection)
        variance = variance * (1 - reflection**2)
        criterion = n_values * np.log(variance) + 2 * p
        if criterion < best[0]:
            best = criterion, weights, moments
    _, weights, moments = best
    p = len(weights)
    longer = list(moments)
    while len(longer) < n:
        longer.append(float(weights @ longer[: -p - 1 : -1]) if p else 0.0)
    return np.array(longer), p


def given_known(
    moments: Moments, time: Float[np.ndarray, "known"], value: Series, *, n_steps: int
) -> tuple[Float[np.ndarray, "steps"], Float[np.ndarray, "steps"]]:
    """Mean and variance of times 1 to `n_steps` given values at times up to 0."""
    ahead = np.arange(1, n_steps + 1)
    if not len(time):
        return np.zeros(n_steps), np.full(n_steps, moments[0])
    own = moments[np.abs(time[:, None] - time)] + 1e-9 * moments[0] * np.eye(len(time))
    across = moments[ahead[:, None] - time]
    weights = scipy.linalg.solve(own, across.T, assume_a="pos").T
    return weights @ value, np.maximum(moments[0] - (weights * across).sum(1), 1e-9)


def fit_of_all(data: ForecastData, seed: int) -> Fitted:
    """One of all sites and one lag, from the shrunk covariance of a map and the one before."""
    fields = data.fields
    normals = fit_normals(fields.with_train(fields.both), kind="seasonal")
    maps, n = fields.both, data.n_items
    rows = [normals.anomalies(maps.time, maps.value), normals.anomalies(maps.time - 1, maps.before)]
    both, shrinkage = shrunk_covariance(np.concatenate(rows, axis=1))
    before = both[n:, n:] + 1e-9 * np.eye(n)
    weights = np.linalg.solve(before, both[n:, :n]).T
    noise = both[:n, :n] - weights @ both[n:, :n]

    def predict(starts: Starts) -> StudentT:
        mean = np.zeros((*starts.future.shape, n))
        variance = np.ones_like(mean)
        for start in range(len(mean)):
            time, value = starts.known(start, back=1)
            state, doubt = _state(normals.anomalies(time, value)[-1], before)
            for step in range(starts.n_steps):
                state, doubt = weights @ state, weights @ doubt @ weights.T + noise
                mean[start, step], variance[start, step] = state, np.diag(doubt)
        return in_units(mean, np.sqrt(np.maximum(variance, 1e-9)), normals, starts)

    return Fitted(predict, settings={"shrinkage": round(shrinkage, 4)})


def _state(
    anomaly: Float[np.ndarray, "sites"], covariance: Float[np.ndarray, "sites sites"]
) -> tuple[Float[np.ndarray, "sites"], Float[np.ndarray, "sites sites"]]:
    """Mean and covariance of a map given those of its sites that have a value."""
    seen = ~np.isnan(anomaly)
    state, doubt = np.nan_to_num(anomaly), np.zeros_like(covariance)
    hidden = ~seen
    if hidden.any():
        across = covariance[np.ix_(seen, hidden)]
        pulled = np.linalg.solve(covariance[np.ix_(seen, seen)], across)
        state[hidden] = pulled.T @ anomaly[seen]
        doubt[np.ix_(hidden, hidden)] = covariance[np.ix_(hidden, hidden)] - across.T @ pulled
    return state, doubt


CONTENDERS = {
    "autoregression": Contender(label="autoregression of each site", fit=fit_by_site),
    "vector-autoregression": Contender(
        label="autoregression of all sites, Ledoit-Wolf", fit=fit_of_all
    ),
}
