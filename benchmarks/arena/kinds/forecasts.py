"""Forecasts of fields: of a data set X, `X_ahead` is the maps of several steps to come."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.arena.contenders.forecasts import autoregressions, ours, rules, state_spaces
from benchmarks.arena.fields.read import october, suite_field
from benchmarks.arena.fields.tasks import Field
from benchmarks.arena.forecasts.data import ForecastData, ahead
from benchmarks.arena.forecasts.judge import judging
from benchmarks.arena.kind import Kind, Source
from benchmarks.arena.kinds.fields import NOAA, PM10, SST, log1p, simulated

CONTENDERS = {
    **ours.CONTENDERS,
    **autoregressions.CONTENDERS,
    **state_spaces.CONTENDERS,
    **rules.CONTENDERS,
}
REFERENCE = "field-gaussian-1"


def _ahead(
    read: Callable[..., Field],
    *words: str,
    spacing: int,
    n_steps: int = 7,
    remark: str = "",
    full: bool = False,
    **options: Any,
) -> Source:
    """Starts at one of `spacing` test maps; `remark`: of the data, without the starts."""
    starts = f"one of {spacing} test maps is a start"
    return Source(
        read=partial(_read, partial(read, *words, **options), n_steps=n_steps, spacing=spacing),
        remark=f"{remark}; {starts}" if remark else starts,
        full=full,
    )


def _read(read: Callable[[], Field], *, n_steps: int, spacing: int) -> ForecastData:
    return ahead(read(), n_steps=n_steps, spacing=spacing)


_HALF: dict[str, Any] = {"every": 2, "block": 10, "remark": "one of 2 sites"}

KIND = Kind(
    name="forecasts",
    judging=judging(CONTENDERS[REFERENCE].label),
    sources={
        "october_ahead": _ahead(october, spacing=4),
        "noaa_tmax_ahead": _ahead(suite_field, NOAA, "tmax_f", spacing=9, **_HALF),
        "noaa_dewpoint_ahead": _ahead(suite_field, NOAA, "dewpoint_f", spacing=9, **_HALF),
        "pm10_ahead": _ahead(
            suite_field,
            PM10,
            "pm10",
            spacing=36,
            block=36,
            first="2005-01-01",
            transform=log1p,
            remark="from 2005 on; values are log(1 + y)",
        ),
        "sst_ahead": _ahead(
            suite_field,
            SST,
            "sst",
            spacing=4,
            n_steps=6,
            every=10,
            block=6,
            remark="one of 10 sites",
        ),
        "simulated_fields_ahead": _ahead(
            simulated, spacing=3, n_steps=3, remark="for tests", full=True
        ),
    },
    contenders=CONTENDERS,
    reference=REFERENCE,
)
