"""Drawing fields from their process: Gaussian values, or counts that follow one."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int64

from exfam.checks import check_fraction, check_positive
from exfam.families import Family
from exfam.groups import Groups
from exfam.simulators.field_processes import FieldSettings, draw_field_process, root
from exfam.simulators.fields import FieldProcess

_FIRST_DAY = np.datetime64("2001-01-01")
_AXES = {"haversine": ("latitude", "longitude"), "euclidean": ("east", "north")}


@dataclass(frozen=True, eq=False)
class SimulatedField:
    """A simulated field, one map per day, and the truth behind it.

    `frame` has the columns time, site, two coordinates and value, which is null where it is not
    observed; `source_row` of `groups` is its row. `complete` holds all values, hidden ones too.
    """

    groups: Groups
    frame: pa.Table
    truth: FieldProcess
    complete: Float[np.ndarray, "steps sites"]
    regime: Int64[np.ndarray, "steps"]


@dataclass(frozen=True, eq=False)
class SimulatedCounts:
    """Simulated counts, one map per day, and the parameters that they were drawn with.

    As `SimulatedField`. `truth` is the process of what the first parameter follows.
    """

    groups: Groups
    frame: pa.Table
    truth: FieldProcess
    complete: Float[np.ndarray, "steps sites"]
    eta: Float[np.ndarray, "steps sites params"]


def simulate_field(
    n_sites: int = 40,
    n_steps: int = 300,
    *,
    settings: FieldSettings | None = None,
    lags: int = 0,
    missing: float = 0.0,
    seed: int,
) -> SimulatedField:
    """A field of Gaussian values whose conditionals `truth.true_conditional` computes exactly.

    Weather moves east from map to map; `exfam.simulators.fields` has the formula.

    `n_sites`: places of measurement (default 40)
    `n_steps`: maps, one per day from 2001-01-01 (default 300)
    `settings`: what the field is like; `FieldSettings()` unless given
    `lags`: how many maps before its own a group sees (default 0)
    `missing`: share of the values that are hidden, at random (default 0.0)

    Raises ExfamError for numbers out of range.

    >>> field = simulate_field(20, 50, seed=0)
    >>> field.groups
    Groups(50 groups, 1000 elements, 20 items, value, coordinates, time)
    >>> field.frame.column_names
    ['time', 'site', 'latitude', 'longitude', 'value']
    """
    check_positive("n_steps", n_steps)
    process = draw_field_process(n_sites, settings=settings, seed=seed)
    # The process took draws of [seed]; values go on with others.
    random = np.random.default_rng([seed, 1])
    clean, regime = _draw_states(process, n_steps, random)
    noise = process.noise * random.standard_normal(clean.shape)
    complete = _expected(process, n_steps) + process.scale * (clean + noise)
    hidden = _draw_gaps(complete.shape, missing, random)
    groups = _as_groups(process, np.where(hidden, np.nan, complete), lags)
    return SimulatedField(groups, _as_frame(process, groups), process, complete, regime)


def simulate_counts(
    n_sites: int = 40,
    n_steps: int = 300,
    *,
    family: Family,
    settings: FieldSettings | None = None,
    missing: float = 0.0,
    level: float = 1.0,
    spread: float = 0.7,
    dispersion: float = 1.0,
    seed: int,
) -> SimulatedCounts:
    """Values of a family whose first parameter is a Gaussian field, such as the log of a rate.

    There is no closed form of what a count says of the others: `eta` is the truth.

    `n_sites`, `n_steps`, `settings`, `missing`: as of `simulate_field`
    `family`: Poisson(), NegativeBinomial() or any other
    `level`: mean of the first parameter over sites and seasons (default 1.0)
    `spread`: its standard deviation (default 0.7)
    `dispersion`: the other parameters, such as the log of a size (default 1.0)

    Raises ExfamError for numbers out of range.

    >>> from exfam.families import Poisson
    >>> field = simulate_counts(10, 20, family=Poisson(), seed=0)
    >>> bool((field.complete >= 0).all()), field.eta.shape
    (True, (20, 10, 1))
    """
    check_positive("n_steps", n_steps)
    check_positive("spread", spread, zero=True)
    process = draw_field_process(n_sites, settings=settings, seed=seed)
    random = np.random.default_rng([seed, 1])
    clean, _ = _draw_states(process, n_steps, random)
    signal = _expected(process, n_steps) + process.scale * clean
    variance = process.mean.var() + (process.amplitude**2 / 2 + process.scale**2).mean()
    eta = np.full((n_steps, n_sites, family.n_params), dispersion)
    eta[..., 0] = level + spread * (signal - process.mean.mean()) / np.sqrt(variance)
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    drawn = family.sample(torch.from_numpy(eta), generator=generator)
    complete = drawn.numpy().astype(np.float64)
    hidden = _draw_gaps(complete.shape, missing, random)
    groups = _as_groups(process, np.where(hidden, np.nan, complete), 0)
    return SimulatedCounts(groups, _as_frame(process, groups), process, complete, eta)


def _draw_states(
    process: FieldProcess, n_steps: int, random: np.random.Generator
) -> tuple[Float[np.ndarray, "steps sites"], Int64[np.ndarray, "steps"]]:
    """The field without means, seasons, scales and noise, and the regime of each map."""
    shape = (n_steps, process.n_sites)
    moving = random.standard_normal(shape) @ root(process.innovation)
    moving[0] = root(process.stationary) @ random.standard_normal(process.n_sites)
    for step in range(1, n_steps):
        moving[step] += process.transition @ moving[step - 1]
    upto = np.cumsum(process.regime_change, axis=1)
    chance = random.random(n_steps)
    regime = np.empty(n_steps, dtype=np.int64)
    regime[0] = int(chance[0] * len(upto))
    for step in range(1, n_steps):
        # Rounding may leave the last sum below 1.
        after = np.searchsorted(upto[regime[step - 1]], chance[step], side="right")
        regime[step] = min(after, len(upto) - 1)
    roots = np.stack([root(covariance) for covariance in process.regime_covariance])
    kinds = np.einsum("tij,tj->ti", roots[regime], random.standard_normal(shape))
    return moving + kinds, regime


def _times(n_steps: int) -> Float[np.ndarray, "steps"]:
    """Days since 1970."""
    return _FIRST_DAY.astype(np.int64) + np.arange(n_steps, dtype=np.float64)


def _expected(process: FieldProcess, n_steps: int) -> Float[np.ndarray, "steps sites"]:
    site = np.tile(np.arange(process.n_sites), (n_steps, 1))
    return process.expected(site, _times(n_steps)[:, None])


def _draw_gaps(
    shape: tuple[int, int], missing: float, random: np.random.Generator
) -> Bool[np.ndarray, "steps sites"]:
    check_fraction("missing", missing)
    return random.random(shape) < missing


def _as_groups(process: FieldProcess, value: Float[np.ndarray, "steps sites"], lags: int) -> Groups:
    """A group a map; NaN where a value is not observed."""
    check_positive("lags", lags, zero=True)
    n_steps, n_sites = value.shape
    step = np.arange(n_steps)
    # An empty range stands for a map before the first one.
    back = step[:, None] - np.arange(lags, 0, -1)
    coordinates = np.tile(process.coordinates, (n_steps, 1))
    hidden = np.isnan(value.ravel())
    return Groups(
        start=step * n_sites,
        stop=(step + 1) * n_sites,
        item=np.tile(np.arange(n_sites), n_steps),
        values={"value": value.ravel()},
        attributes={"coordinates": coordinates},
        group_attributes={"time": _times(n_steps)},
        position=coordinates,
        observed=~hidden if hidden.any() else None,
        source_row=np.arange(n_steps * n_sites),
        context_start=np.maximum(back, 0) * n_sites if lags else None,
        context_stop=np.maximum(back + 1, 0) * n_sites if lags else None,
        vocabulary={"item": process.labels},
        group_names=(_FIRST_DAY + step).astype(str).astype(object),
    )


def _as_frame(process: FieldProcess, groups: Groups) -> pa.Table:
    value = groups.values["value"]
    day = _FIRST_DAY + np.arange(len(groups))
    places = groups.attributes["coordinates"].T
    return pa.table(
        {
            "time": np.repeat(day, process.n_sites),
            "site": pa.array(process.labels[groups.item]),
            **dict(zip(_AXES[process.metric], places, strict=True)),
            "value": pa.array(value, mask=np.isnan(value)),
        }
    )
