"""ARMA models of each site's anomalies in state-space form, by statsmodels."""

import warnings
from typing import Any

import numpy as np
from benchmarks.arena.contenders.forecasts.autoregressions import KNOWN
from benchmarks.arena.contenders.forecasts.rules import anomalies_by_time, in_units
from benchmarks.arena.fields.normals import fit_normals
from benchmarks.arena.forecasts.data import ForecastData, Starts
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.distributions import StudentT
from jaxtyping import Float

# Orders that Akaike's criterion chooses among, site by site.
ORDERS = ((1, 0, 0), (2, 0, 0), (1, 0, 1), (2, 0, 1))

Series = Float[np.ndarray, "times"]


def fit_arma(data: ForecastData, seed: int) -> Fitted:
    """Anomalies from each site's yearly course; gaps are filtered over, forecasts are exact."""
    normals = fit_normals(data.fields.with_train(data.fields.both), kind="seasonal")
    table = anomalies_by_time(normals, data)
    models = [_best(table[:, site]) for site in range(data.n_items)]

    def predict(starts: Starts) -> StudentT:
        mean = np.zeros((*starts.future.shape, data.n_items))
        sd = np.ones_like(mean)
        for start in range(len(mean)):
            time, value = starts.known(start, back=KNOWN)
            known = np.full((KNOWN + 1, data.n_items), np.nan)
            back = np.round(time[-1] - time).astype(int)
            recent = back <= KNOWN
            known[KNOWN - back[recent]] = normals.anomalies(time, value)[recent]
            for site, model in enumerate(models):
                ahead = model.apply(known[:, site]).get_forecast(starts.n_steps)
                mean[start, :, site] = ahead.predicted_mean
                sd[start, :, site] = ahead.se_mean
        return in_units(mean, sd, normals, starts)

    orders = [model.model.order for model in models]
    return Fitted(predict, settings={"orders": {str(o): orders.count(o) for o in ORDERS}})


def _best(series: Series) -> Any:
    from statsmodels.tsa.statespace.sarimax import SARIMAX

    with warnings.catch_warnings():
        # Searches that stop early, or start at the edge, are judged by their criterion too.
        warnings.simplefilter("ignore")
        fits = [SARIMAX(series, order=order).fit(disp=False, maxiter=50) for order in ORDERS]
    return min(fits, key=lambda fit: fit.aic)


CONTENDERS = {
    "arma": Contender(label="ARMA of each site (statsmodels)", fit=fit_arma, needs="statsmodels"),
}
