"""Fields to fit temperature models on: the real one, simulated ones, and sites left out.

All have the layout of the real one: maps of October days, 6 years to train, 4 to choose by, the
rest to report on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from exfam.fields.data import has_history, only_observed, read_field, with_lags
from exfam.groups import Groups
from exfam.reading.public_sets.named import temperature_table
from exfam.simulators import FieldProcess, FieldSettings, simulate_field
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


def simulated_temperatures(*, settings: FieldSettings, seed: int) -> tuple[Groups, FieldProcess]:
    """October days of a simulated daily field, and the process that drew it."""
    last = FIRST_SIMULATED.astype("datetime64[Y]") + N_YEARS
    n_steps = int((last.astype("datetime64[D]") - FIRST_SIMULATED).astype(int))
    field = simulate_field(N_SITES, n_steps, settings=settings, seed=seed)
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


@dataclass(frozen=True, eq=False)
class NewSites:
    """A draw of sites that training never saw.

    `splits`: `train` and `validation` without these sites; `test` with all sites, of which the new
        ones are hidden from all others and from each other, but keep their values to be scored by
    `validation`: the maps of the validation part, in the form of `test`
    """

    splits: Splits
    validation: Groups


def draw_sites(labels: Sequence[str], *, draws: int, size: int, seed: int) -> list[tuple[str, ...]]:
    """Draws of `size` sites each; none is drawn again while enough others are left."""
    random = np.random.default_rng(seed)
    whole = len(labels) // size * size
    rounds = [random.permutation(len(labels))[:whole] for _ in range(-(-draws * size // whole))]
    drawn = np.concatenate(rounds).reshape(-1, size)[:draws]
    return [tuple(labels[index] for index in sorted(row)) for row in drawn.tolist()]


def new_sites(sites: Sequence[str]) -> NewSites:
    """The field with these sites left out of all that is fitted."""
    table = temperature_table()
    left_out = pc.is_in(table["site"], value_set=pa.array(sites))
    known = field_splits(read_temperatures(table.filter(pc.invert(left_out))))
    whole = field_splits(read_temperatures(table))
    return NewSites(
        splits=Splits(known.train, known.validation, _hidden(whole.test, sites)),
        validation=_hidden(whole.validation, sites),
    )


def _hidden(groups: Groups, sites: Sequence[str]) -> Groups:
    assert groups.item is not None
    labels = groups.vocabulary["item"][groups.item[groups.elements()]]
    return only_observed(groups, ~np.isin(labels.astype(str), list(sites)))
