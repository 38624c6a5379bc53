"""Imputation of fields: of a data set X, `X_impute` is a panel of it with hidden values."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.arena.contenders.fields import gaussian, inverse_distances, ours
from benchmarks.arena.contenders.imputations import matrices
from benchmarks.arena.fields.data import FieldData
from benchmarks.arena.fields.read import october, suite_field
from benchmarks.arena.fields.tasks import Field
from benchmarks.arena.imputations.judge import judging
from benchmarks.arena.imputations.panels import impute
from benchmarks.arena.kind import Contender, Fitted, Folds, Kind, Source
from benchmarks.arena.kinds.fields import NOAA, OZONE, PM10, SST, log1p, simulated


def _without_lags(data: FieldData, seed: int) -> Fitted:
    return ours.default("FieldGaussian")(replace(data, lags=0), seed)


def _with_a_lag(name: str, label: str) -> dict[str, Contender]:
    return {name: replace(ours.CONTENDERS[name], label=label)}


CONTENDERS = {
    **_with_a_lag("field-gaussian", "FieldGaussian(lags=1)"),
    "field-gaussian-0": Contender(label="FieldGaussian()", fit=_without_lags, ours=True),
    **_with_a_lag("field-efa", "FieldEFA(lags=1)"),
    **_with_a_lag("field-gaussian-process", "FieldGaussianProcess(lags=1)"),
    **{name: ours.CONTENDERS[name] for name in ("field-kriging", "field-climatology")},
    **gaussian.CONTENDERS,
    **matrices.CONTENDERS,
    **inverse_distances.CONTENDERS,
}
REFERENCE = "field-gaussian"


def _impute(
    read: Callable[..., Field],
    *words: str,
    n_times: int,
    remark: str = "",
    full: bool = False,
    **options: Any,
) -> Source:
    """The last `n_times` maps; `remark`: of the data, without that."""
    last = f"the last {n_times} maps"
    return Source(
        read=partial(_read, partial(read, *words, **options), n_times=n_times),
        remark=f"{remark}; {last}" if remark else last,
        full=full,
    )


def _read(read: Callable[[], Field], *, n_times: int) -> Folds:
    return impute(read(), n_times=n_times)


_HALF: dict[str, Any] = {"every": 2, "block": 10, "remark": "one of 2 sites", "n_times": 365}

KIND = Kind(
    name="imputations",
    judging=judging(CONTENDERS[REFERENCE].label),
    sources={
        "october_impute": _impute(october, n_times=248),
        "ozone_impute": _impute(suite_field, OZONE, "ozone_ppb", block=4, n_times=62),
        "noaa_tmax_impute": _impute(suite_field, NOAA, "tmax_f", **_HALF),
        "noaa_dewpoint_impute": _impute(suite_field, NOAA, "dewpoint_f", **_HALF),
        "pm10_impute": _impute(
            suite_field,
            PM10,
            "pm10",
            n_times=365,
            block=10,
            first="2005-01-01",
            transform=log1p,
            remark="values are log(1 + y)",
        ),
        "sst_impute": _impute(
            suite_field, SST, "sst", n_times=240, every=10, block=6, remark="one of 10 sites"
        ),
        "simulated_fields_impute": _impute(simulated, n_times=90, remark="for tests", full=True),
    },
    contenders=CONTENDERS,
    reference=REFERENCE,
)
