"""Forecasts by what is normal, and by the last anomaly that is known."""

import numpy as np
from benchmarks.arena.fields.normals import Normals, fit_normals
from benchmarks.arena.forecasts.data import ForecastData, Starts
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.distributions import StudentT
from jaxtyping import Float

Cells = Float[np.ndarray, "starts steps sites"]
# Steps back that a last anomaly is looked for.
OLDEST = 7


def fit_climatology(data: ForecastData, seed: int) -> Fitted:
    normals = _normals(data)

    def predict(starts: Starts) -> StudentT:
        nothing = np.zeros((*starts.future.shape, data.n_items))
        return in_units(nothing, nothing + 1.0, normals, starts)

    return Fitted(predict)


def fit_persistence(data: ForecastData, seed: int) -> Fitted:
    """The last anomaly of a site, with the spread that so many steps had in training."""
    normals = _normals(data)
    table = anomalies_by_time(normals, data)
    longest = data.starts.n_steps + OLDEST
    # The first is of no known anomaly.
    spread = np.stack([np.ones(data.n_items), *(_change(table, k) for k in range(1, longest))])

    def predict(starts: Starts) -> StudentT:
        mean = np.zeros((*starts.future.shape, data.n_items))
        sd = np.ones_like(mean)
        steps = np.arange(1, starts.n_steps + 1)[:, None]
        for start in range(len(mean)):
            time, value = starts.known(start, back=OLDEST)
            anomaly = normals.anomalies(time, value)[::-1]
            is_known = ~np.isnan(anomaly)
            first, site = is_known.argmax(0), np.arange(data.n_items)
            age = (time[-1] - time[::-1])[first].astype(int)
            some = is_known.any(0)
            mean[start] = np.where(some, anomaly[first, site], 0.0)
            sd[start] = spread[np.where(some, age + steps, 0), site]
        return in_units(mean, sd, normals, starts)

    return Fitted(predict)


def _normals(data: ForecastData) -> Normals:
    return fit_normals(data.fields.with_train(data.fields.both), kind="seasonal")


def anomalies_by_time(normals: Normals, data: ForecastData) -> Float[np.ndarray, "steps sites"]:
    """Of all that is to be learned from, one row per step of time, NaN where there is no value."""
    maps = data.fields.both
    row = np.round(maps.time - maps.time.min()).astype(int)
    table = np.full((row.max() + 1, data.n_items), np.nan)
    table[row] = normals.anomalies(maps.time, maps.value)
    return table


def _change(table: Float[np.ndarray, "times sites"], k: int) -> Float[np.ndarray, "sites"]:
    """Root mean squares of what anomalies change by in `k` steps."""
    squares = (table[k:] - table[:-k]) ** 2
    n = (~np.isnan(squares)).sum(0)
    # Sites of few pairs are as two pairs of independent anomalies.
    return np.sqrt((np.nansum(squares, axis=0) + 2 * 2.0) / (n + 2))


def in_units(mean: Cells, sd: Cells, normals: Normals, starts: Starts) -> StudentT:
    """Normal distributions of the targets from those of anomalies."""
    location = np.stack([normals.location(starts.time[rows]) for rows in starts.future])
    loc, scale = location + normals.scale * mean, normals.scale * sd
    return StudentT(loc[starts.target], scale[starts.target], np.inf)


CONTENDERS = {
    "climatology": Contender(label="climatology", fit=fit_climatology),
    "persistence": Contender(label="persistence of anomalies", fit=fit_persistence),
}
