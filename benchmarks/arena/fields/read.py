"""Fields of the suite, and cities in October: frames as matrices of values at times and sites."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.fields.tasks import Field
from benchmarks.arena.read import suite_file, suite_rows
from jaxtyping import Float

from exfam.reading.public_sets.named import temperature_table

KM_OF_A_DEGREE = 111.195
# A metre of height counts as a hundred of distance.
HEIGHT = 0.1

Transform = Callable[[Float[np.ndarray, "rows"]], Float[np.ndarray, "rows"]]


def october() -> Field:
    """Cities of the United States; to fit 2007 to 2016, of which the last four choose."""
    frame = temperature_table().to_pandas()
    days = pd.to_datetime(frame.date)
    frame = frame.assign(time=days, value=frame.temperature_f)
    year = days.dt.year.to_numpy()
    part = pd.Series(np.digitize(year, [2013, 2017]), index=days).groupby(level=0).first()
    places = frame.groupby("site")[["lat", "lon"]].first()
    return _as_field(frame, part=part, places=places, unit="day", block=10)


def suite_field(
    file: str,
    value: str,
    *,
    block: float,
    every: int = 1,
    first: str = "",
    transform: Transform | None = None,
    resolution: float = 0.0,
    offset: float | None = None,
) -> Field:
    """A value of a file of the suite, split by time as its table says.

    `block`: of standard errors, in days or months; `first`: time before which rows are left out
    `every`: one of so many sites is kept, in the order of their coordinates
    `resolution`: values stand for an interval of that width, in which each is drawn with seed 0
    `transform`: of values then; `offset`: values are log(offset + y) instead
    """
    rows = suite_rows()
    row = next(row for row in rows if row["file"] == file and row.get("value") == value)
    (when,), site = row["order"], row["site"]
    frame = _read(file, site).dropna(subset=value)
    frame = frame[frame[when] >= first]
    places = _places(row, frame, site)
    places = places[places.index.isin(frame.site)].sort_values(list(places))[::every]
    frame = frame[frame.site.isin(places.index)]
    numbers = frame[value].to_numpy(dtype=np.float64)
    if resolution:
        numbers = numbers + resolution * np.random.default_rng(0).random(len(numbers))
    days = pd.to_datetime(frame[when])
    if offset is not None:
        numbers = np.log(numbers + offset)
    frame = frame.assign(time=days, value=numbers if transform is None else transform(numbers))
    split = row["split"]
    ends = pd.to_datetime([split["train_below"], split["test_from"]])
    times = pd.Index(np.sort(days.unique()))
    part = pd.Series(np.searchsorted(ends, times, side="right"), index=times)
    is_monthly = times.day.max() == 1
    unit = "month" if is_monthly else "day"
    field = _as_field(frame, part=part, places=places, unit=unit, block=block)
    return field if offset is None else replace(field, offset=offset, resolution=resolution)


def _read(file: str, site: list[str]) -> pd.DataFrame:
    """The file, its columns of a site joined as the column "site"."""
    path = suite_file(file.removesuffix(".gz"))
    frame = pd.read_csv(path, dtype={name: str for name in site}, low_memory=False)
    return frame.assign(site=frame[site[0]].str.cat([frame[name] for name in site[1:]], sep=" "))


def _places(row: dict[str, Any], frame: pd.DataFrame, site: list[str]) -> pd.DataFrame:
    """Coordinates by site: latitude and longitude, or kilometers where there is a height."""
    names = row["coordinates"]
    if "coordinates_file" in row:
        frame = _read(row["coordinates_file"], site)
    places = frame.groupby("site")[names].first().astype(float)
    lon, lat = places[names[0]], places[names[1]]
    if len(names) == 2:
        return pd.DataFrame({"lat": lat, "lon": lon})
    east = np.cos(np.deg2rad(lat.mean())) * KM_OF_A_DEGREE
    columns = {"north": KM_OF_A_DEGREE * lat, "east": east * lon, "up": HEIGHT * places[names[2]]}
    return pd.DataFrame(columns)


def _as_field(
    frame: pd.DataFrame, *, part: pd.Series, places: pd.DataFrame, unit: str, block: float
) -> Field:
    table = frame.pivot(index="time", columns="site", values="value")
    times = table.index.to_numpy()
    step = "datetime64[M]" if unit == "month" else "datetime64[D]"
    return Field(
        time=times.astype(step).astype(np.int64).astype(np.float64),
        value=table.to_numpy(dtype=np.float64),
        part=part.loc[table.index].to_numpy(),
        coordinates=places.loc[table.columns].to_numpy(),
        metric="haversine" if places.shape[1] == 2 else "euclidean",
        unit=unit,
        block=block,
    )
