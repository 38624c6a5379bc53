"""Fields: values at sites, map after map, in four tasks of every data set.

Of a data set X: `X` is each value given all others of its map; `X_lag` also the map before;
`X_new` every site once as new; `X_gaps` hidden values given those shown.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from benchmarks.arena.contenders.fields import (
    gaussian,
    gpytorch_process,
    inverse_distances,
    local_processes,
    of_amounts,
    ours,
    trees,
)
from benchmarks.arena.fields.judge import judging
from benchmarks.arena.fields.read import october, suite_field
from benchmarks.arena.fields.tasks import TASKS, Field
from benchmarks.arena.kind import Kind, Source

from exfam.simulators import simulate_field

CONTENDERS = {
    **ours.CONTENDERS,
    **of_amounts.CONTENDERS,
    **gaussian.CONTENDERS,
    **trees.CONTENDERS,
    **inverse_distances.CONTENDERS,
    **local_processes.CONTENDERS,
    **gpytorch_process.CONTENDERS,
}
REFERENCE = "field-gaussian"
# A field of more sites is judged on one of so many of them, and all are in a set for --full.
NOAA = "fields/noaa_central_us_1990_1993.csv.gz"
OZONE = "fields/ny_ozone_2006.csv.gz"
PM10 = "fields/de_pm10_1998_2009.csv.gz"
SST = "fields/pacific_sst_monthly.csv.gz"
COLORADO = "fields/colorado_monthly_1950_1997.csv.gz"


def simulated() -> Field:
    """Days of a known process, some values missing: for tests."""
    n_sites, n_steps = 18, 90
    field = simulate_field(n_sites, n_steps, missing=0.1, seed=0)
    groups = field.groups
    value = np.full((n_steps, n_sites), np.nan)
    of_map, site = np.repeat(np.arange(n_steps), groups.lengths), groups.item[groups.elements()]
    observed = np.ones(len(site), dtype=bool) if groups.observed is None else groups.observed
    value[of_map[observed], site[observed]] = groups.values["value"][observed]
    coordinates = np.zeros((n_sites, 2))
    coordinates[site] = groups.attributes["coordinates"][groups.elements()]
    return Field(
        time=groups.group_attributes["time"],
        value=value,
        part=np.digitize(np.arange(n_steps), [50, 70]),
        coordinates=coordinates,
        metric="haversine",
        unit="day",
        block=5,
    )


def _tasks(
    name: str, read: Callable[..., Field], *, remark: str, full: bool = False, **options: Any
) -> dict[str, Source]:
    return {
        name + ending: Source(read=partial(_read, read, ending, options), remark=remark, full=full)
        for ending in TASKS
    }


def _read(read: Callable[..., Field], ending: str, options: dict[str, Any]) -> Any:
    return TASKS[ending](read(**options))


def _suite(
    name: str, file: str, value: str, *, remark: str, every: int = 1, **options: Any
) -> dict[str, Source]:
    """Tasks on one of so many sites, and with all of them for --full."""
    read = partial(suite_field, file, value)
    if every == 1:
        return _tasks(name, read, remark=remark, **options)
    some = f"{remark}; one of {every} sites, in the order of their latitudes"
    return {
        **_tasks(name, read, remark=some, every=every, **options),
        **_tasks(f"{name}_all", read, remark=remark, full=True, **options),
    }


def log1p(value: np.ndarray) -> np.ndarray:
    return np.log1p(np.maximum(value, 0))


_NOAA: dict[str, Any] = {"every": 2, "block": 10}
_COLORADO: dict[str, Any] = {"every": 3, "block": 3}
_BY_TIME = "by time, as the suite's table says"
_HEIGHT = "a metre of height counts as 100 of distance"

KIND = Kind(
    name="fields",
    judging=judging(CONTENDERS[REFERENCE].label),
    sources={
        **_tasks("october", october, remark="2007-2012, 2013-2016 and 2017-2019"),
        **_suite(
            "ozone",
            OZONE,
            "ozone_ppb",
            block=1,
            remark=f"{_BY_TIME}; seven test days, too few for standard errors to be trusted",
        ),
        **_suite(
            "pm10",
            PM10,
            "pm10",
            block=10,
            first="2005-01-01",
            transform=log1p,
            remark=f"{_BY_TIME}, from 2005 on; values are log(1 + y)",
        ),
        **_suite(
            "sst",
            SST,
            "sst",
            block=6,
            every=4,
            remark=_BY_TIME,
        ),
        **_suite("colorado_tmax", COLORADO, "tmax_c", remark=f"{_BY_TIME}; {_HEIGHT}", **_COLORADO),
        **_suite(
            "colorado_rain",
            COLORADO,
            "ppt",
            offset=0.1,
            resolution=0.1,
            remark=f"{_BY_TIME}; {_HEIGHT}; values are log(0.1 + y), y drawn from its tenth of a "
            "centimeter",
            **_COLORADO,
        ),
        **_suite("noaa_tmax", NOAA, "tmax_f", remark=_BY_TIME, **_NOAA),
        **_suite("noaa_dewpoint", NOAA, "dewpoint_f", remark=_BY_TIME, **_NOAA),
        **_suite(
            "noaa_rain",
            NOAA,
            "precip_in",
            offset=0.1,
            resolution=0.01,
            remark=f"{_BY_TIME}; values are log(0.1 + y), y drawn from its hundredth of an inch, "
            "so that days without rain are no atom",
            **_NOAA,
        ),
        **_tasks("simulated_fields", simulated, remark="for tests", full=True),
    },
    contenders=CONTENDERS,
    reference=REFERENCE,
)
