"""exfam's forecasts: draws of whole futures, each map given those drawn before it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.arena.contenders.fields.ours import groups_of
from benchmarks.arena.fields.data import FieldData, Maps, plain
from benchmarks.arena.forecasts.data import ForecastData, Starts
from benchmarks.arena.forecasts.draws import OfDraws
from benchmarks.arena.kind import Contender, Fitted
from jaxtyping import Float

import exfam.fields

N_DRAWS = 100


def drawn(name: str, *, lags: Any, **options: Any) -> Callable[[ForecastData, int], Fitted]:
    """Fit the estimator of that name to training and validation maps, all else by default."""

    def fit(data: ForecastData, seed: int) -> Fitted:
        fields = data.fields
        # Estimators find earlier maps themselves.
        plain_fields = replace(fields, lags=0)
        estimator = getattr(exfam.fields, name)
        own = {"seed": seed, "progress": False}
        declared = estimator().get_params(deep=False)
        given = {**options, **{key: own[key] for key in own.keys() & declared.keys()}}
        model = estimator(metric=fields.metric, period=fields.period, lags=lags, step=1.0, **given)
        model.fit(groups_of(plain(fields.both.time, fields.both.value), plain_fields))

        def predict(starts: Starts) -> OfDraws:
            draws = [
                _of_start(
                    model, start, starts, plain_fields, n_earlier=model.shape_.lags, seed=seed
                )
                for start in range(len(starts.row))
            ]
            return OfDraws(np.stack(draws, axis=1)[:, starts.target])

        settings = {
            "parameters": model.get_params(deep=False),
            "lags": model.shape_.lags,
            "draws": N_DRAWS,
        }
        return Fitted(predict, settings=settings)

    return fit


def _of_start(
    model: Any, start: int, starts: Starts, fields: FieldData, *, n_earlier: int, seed: int
) -> Float[np.ndarray, "draws steps sites"]:
    time, value = starts.known(start, back=n_earlier)
    everywhere = np.ones(value.shape, dtype=bool)
    shown = ~np.isnan(value)
    maps = Maps(
        time=time,
        value=value,
        shown=shown,
        # Sites without a value are to be forecast as well.
        target=everywhere,
        before=np.full_like(value, np.nan),
        hidden_share=np.zeros(len(time)),
    )
    forecast = model.forecast(
        groups_of(maps, fields), steps=starts.n_steps, n=N_DRAWS, seed=seed + start
    )
    draws = np.full((N_DRAWS, starts.n_steps, value.shape[1]), np.nan)
    draws[:, :, forecast.sites.astype(int)] = forecast.draws
    return draws


CONTENDERS = {
    "field-gaussian-1": Contender(
        label="FieldGaussian(lags=1)", fit=drawn("FieldGaussian", lags=1), ours=True
    ),
    "field-gaussian-2": Contender(
        label="FieldGaussian(lags=2)", fit=drawn("FieldGaussian", lags=2), ours=True
    ),
    "field-gaussian-auto": Contender(
        label='FieldGaussian(lags="auto")', fit=drawn("FieldGaussian", lags="auto"), ours=True
    ),
    "field-efa-1": Contender(
        label="FieldEFA(lags=1)", fit=drawn("FieldEFA", lags=1), ours=True, is_random=True
    ),
    "field-gaussian-process-1": Contender(
        label="FieldGaussianProcess(lags=1)",
        fit=drawn("FieldGaussianProcess", lags=1, standardize="seasonal"),
        ours=True,
    ),
}
