"""Fields to fit temperature models on: the real one, simulated ones, and sites left out.

All have the layout of the real one: maps of October days, 6 years to train, 4 to choose by, the
rest to report on. The values of a simulated one are normal together: its conditionals are exact.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Int64

from exfam.checks import DataError
from exfam.families import Gaussian
from exfam.families.mixtures import Mixture
from exfam.fields.data import has_history, only_observed, read_field, with_lags
from exfam.groups import Groups
from exfam.reading.public_sets.named import temperature_table
from exfam.scores.prediction import Prediction
from exfam.simulators import FieldProcess, simulate_field
from exfam_studies.common.splits import Splits

# Of "Exponential Family Attention", section 6.4: 2007-2012, 2013-2016, 2017-2019.
TRAIN_YEARS, FIT_YEARS = 6, 10
OCTOBER = 10
# As many sites, years and October days as the real field has, in a long daily series of its own.
N_SITES, N_YEARS = 44, 13
FIRST_SIMULATED = np.datetime64("2001-01-01")


def read_temperatures(table: pa.Table | None = None) -> Groups:
    """The maps of all October days, in increasing time; of some rows if a table is given."""
    return read_field(
        temperature_table() if table is None else table,
        time="date",
        site="site",
        coordinates=["lat", "lon"],
        value="temperature_f",
    )


def simulated_temperatures(seed: int) -> tuple[Groups, FieldProcess]:
    """October days of a simulated daily field, and the process that drew it."""
    last = FIRST_SIMULATED.astype("datetime64[Y]") + N_YEARS
    n_steps = int((last.astype("datetime64[D]") - FIRST_SIMULATED).astype(int))
    field = simulate_field(N_SITES, n_steps, seed=seed)
    october = _months(field.groups) % 12 + 1 == OCTOBER
    return field.groups[october].compact(), field.truth


def field_splits(groups: Groups, *, lags: int = 0, history: int = 0) -> Splits:
    """Maps by year, each with `lags` maps before its own; only days with `history` days before.

    Days before the first of October are in no file: with a history, the month's first days go.
    """
    kept = has_history(with_lags(groups, history))
    groups = with_lags(groups, lags)
    year = _months(groups) // 12
    since = year - year.min()
    parts = (since < TRAIN_YEARS, (since >= TRAIN_YEARS) & (since < FIT_YEARS), since >= FIT_YEARS)
    return Splits(*(groups[part & kept] for part in parts))


def _months(groups: Groups) -> Int64[np.ndarray, "groups"]:
    """Months since January 1970 of each map."""
    days = groups.group_attributes["time"].astype(np.int64).astype("datetime64[D]")
    return days.astype("datetime64[M]").astype(np.int64)


def draw_sites(labels: Sequence[str], *, draws: int, size: int, seed: int) -> list[tuple[str, ...]]:
    """Draws of `size` sites each; none is drawn again while enough others are left."""
    random = np.random.default_rng(seed)
    whole = len(labels) // size * size
    rounds = [random.permutation(len(labels))[:whole] for _ in range(-(-draws * size // whole))]
    drawn = np.concatenate(rounds).reshape(-1, size)[:draws]
    return [tuple(labels[index] for index in sorted(row)) for row in drawn.tolist()]


def new_sites(sites: Sequence[str]) -> tuple[Splits, Splits]:
    """The field without these sites, to be fitted to, and with them, to be scored on.

    In the second they are hidden from all others and from each other, but keep their values.
    """
    table = temperature_table()
    whole = read_temperatures(table)
    assert whole.item is not None
    labels = whole.vocabulary["item"][whole.item[whole.elements()]]
    scored = only_observed(whole, ~np.isin(labels.astype(str), list(sites)))
    left_out = pc.is_in(table["site"], value_set=pa.array(sites))
    known = read_temperatures(table.filter(pc.invert(left_out)))
    return field_splits(known), field_splits(scored)


def true_conditional(process: FieldProcess, groups: Groups) -> Prediction:
    """The distribution of each own element given all others that its group sees, exactly.

    Others are those of the same map and of the maps in its context ranges. No prediction has a
    smaller expected squared error, no model a higher mean of log-densities. With K the inverse
    covariance of a window and d its deviation from the mean, d_i given the others has mean
    d_i - (K d)_i / K_ii and variance 1 / K_ii. Raises DataError unless every window is whole.
    """
    starts, stops = groups.start[:, None], groups.stop[:, None]
    if groups.context_start is not None and groups.context_stop is not None:
        starts = np.hstack([starts, groups.context_start[:, ::-1]])
        stops = np.hstack([stops, groups.context_stop[:, ::-1]])
    if groups.observed is not None or (stops - starts != process.n_sites).any():
        raise DataError(
            f"`groups` must have all {process.n_sites} sites on every map, all of them observed, "
            "got some without. Leave out maps that lack a value or a map before them."
        )
    n_maps, n_sites = starts.shape[1], process.n_sites
    rows = (starts[:, :, None] + np.arange(n_sites)).reshape(len(groups), -1)
    back = np.repeat(np.arange(n_maps), n_sites)
    days = groups.group_attributes["time"][:, None] - back
    site = np.tile(np.arange(n_sites), n_maps)
    center = process.expected(np.tile(site, (len(groups), 1)), days)
    (value,) = groups.values.values()
    apart = value[rows] - center
    maps, own = range(n_maps), slice(n_sites)
    lagged = [process.covariance(lag) for lag in maps]
    joint = np.block([[lagged[j - i] if j >= i else lagged[i - j].T for j in maps] for i in maps])
    inverse = np.linalg.inv(joint)
    variance = 1 / np.diag(inverse)[own]
    mean = center[:, own] + (apart[:, own] - (apart @ inverse)[:, own] * variance)
    log_scale = np.broadcast_to(np.log(np.sqrt(variance)), mean.shape)
    eta = np.stack([mean, log_scale], axis=-1).reshape(-1, 2)
    exact = Mixture(Gaussian(), torch.from_numpy(eta)[None])
    return Prediction(exact, np.arange(len(eta)), len(eta))
