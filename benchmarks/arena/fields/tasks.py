"""The four tasks that are made of every field: same map, one lag, new sites, gaps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.arena.fields.data import FieldData, Maps, plain, with_gaps
from benchmarks.arena.kind import Folds
from jaxtyping import Bool, Float, Int64

N_FOLDS = 9
# Folds of sites that settings are chosen by where targets are new.
N_CHOOSING = 3
HIDDEN = (0.3, 0.6)


@dataclass(frozen=True, eq=False, kw_only=True)
class Field:
    """Values at times and sites, NaN where there are none.

    `time`: whole numbers of the unit, "day" or "month", increasing
    `part`: of each time, 0 for training, 1 for validation, 2 for test
    `block`: length of the blocks that standard errors are made of, in the unit
    `offset`, `resolution`: of amounts whose logarithms the values are, as of `FieldData`
    """

    time: Float[np.ndarray, "times"]
    value: Float[np.ndarray, "times sites"]
    part: Int64[np.ndarray, "times"]
    coordinates: Float[np.ndarray, "sites space"]
    metric: str
    unit: str
    block: float
    offset: float | None = None
    resolution: float = 0.0

    @property
    def period(self) -> float:
        return 12.0 if self.unit == "month" else 365.25


def same_map(field: Field) -> FieldData:
    """Each value of a test map given all others of that map."""
    train, validation, test = (_plain(field, (part,)) for part in range(3))
    return _data(field, train, validation, _plain(field, (0, 1)), test)


def one_lag(field: Field) -> FieldData:
    """Each value given all others of its map and all of the map one step before."""
    train, validation, test = (_plain(field, (part,), lag=True) for part in range(3))
    return _data(field, train, validation, _plain(field, (0, 1), lag=True), test, lags=1)


def gaps(field: Field) -> FieldData:
    """Hidden values given the shown ones; every map hides 30 %, and once more 60 %."""
    chance = np.random.default_rng(0).random(field.value.shape)
    validation, test = (
        with_gaps(_plain(field, (part,)), HIDDEN, chance[field.part == part]) for part in (1, 2)
    )
    train, both = _plain(field, (0,)), _plain(field, (0, 1))
    return _data(field, train, validation, both, test, hide=HIDDEN)


def new_sites(field: Field) -> Folds:
    """Every site once as new, given the values of the sites that are not.

    Contenders choose on the sites of three other folds, which `train` lacks as well.
    """
    n_sites = field.value.shape[1]
    folds = np.array_split(np.random.default_rng(0).permutation(n_sites), N_FOLDS)
    splits = []
    for number, fold in enumerate(folds):
        others = [folds[(number + step) % N_FOLDS] for step in range(1, N_CHOOSING + 1)]
        new, chosen_by = (
            np.isin(np.arange(n_sites), sites) for sites in (fold, np.concatenate(others))
        )
        known = ~new
        splits.append(
            _data(
                field,
                _plain(field, (0,), sites=known & ~chosen_by),
                _of_new(field, 1, new=chosen_by, known=known & ~chosen_by),
                _plain(field, (0, 1), sites=known),
                _of_new(field, 2, new=new, known=known),
                new_sites=True,
            )
        )
    return Folds(splits, same_groups=True)


TASKS: dict[str, Callable[[Field], FieldData | Folds]] = {
    "": same_map,
    "_lag": one_lag,
    "_new": new_sites,
    "_gaps": gaps,
}


def _data(
    field: Field, train: Maps, validation: Maps, both: Maps, test: Maps, **task: Any
) -> FieldData:
    return FieldData(
        train=train,
        validation=validation,
        both=both,
        test=test,
        coordinates=field.coordinates,
        metric=field.metric,
        unit=field.unit,
        period=field.period,
        block=field.block,
        offset=field.offset,
        resolution=field.resolution,
        **task,
    )


def _plain(
    field: Field,
    parts: tuple[int, ...],
    *,
    lag: bool = False,
    sites: Bool[np.ndarray, "sites"] | None = None,
) -> Maps:
    rows = np.isin(field.part, parts)
    value = field.value if sites is None else np.where(sites, field.value, np.nan)
    return plain(
        field.time[rows], value[rows], values_before(field.time, field.value)[rows] if lag else None
    )


def _of_new(
    field: Field, part: int, *, new: Bool[np.ndarray, "sites"], known: Bool[np.ndarray, "sites"]
) -> Maps:
    maps = _plain(field, (part,), sites=new | known)
    return Maps(
        time=maps.time,
        value=maps.value,
        shown=maps.shown & known,
        target=maps.target & new,
        before=maps.before,
        hidden_share=maps.hidden_share,
    )


def values_before(
    time: Float[np.ndarray, "times"], value: Float[np.ndarray, "times sites"]
) -> Float[np.ndarray, "times sites"]:
    """The values one step before each time."""
    row = np.searchsorted(time, time - 1)
    is_there = time[row] == time - 1
    return np.where(is_there[:, None], value[row], np.nan)
