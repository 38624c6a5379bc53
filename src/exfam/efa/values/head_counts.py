"""The head of heavy-tailed counts: a rounded Student t of log(y + c), and counts that are common.

The most frequent counts have a probability of their own beside t, by a pool of what t, all training
values, the item's and the group's others say of them (see `pool`), and together a weight that is a
line in log(1 + n), log(1 + n_i) and the location.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.efa.values.class_tables import Counted
from exfam.efa.values.head_numbers import (
    LOG_DF,
    N_LOCATION,
    N_SCALE,
    Found,
    HeadData,
    HeadInputs,
    Numbers,
    Values,
    amounts_start,
    fit_head_numbers,
    head_inputs,
    location_and_log_scale,
    location_start,
    scale_start,
)
from exfam.efa.values.pool import N_POOL, POOL_START, PoolInputs, pool_logits
from exfam.efa.values.working_scale import WorkingScale
from exfam.families import RoundedStudentT

_AT_DF = N_LOCATION + N_SCALE
_AT_POOL = _AT_DF + 1
_AT_SIZES = _AT_POOL + N_POOL
_START_DF, _START_BIAS, _N_SIZES = 7.0, -1.0, 4
# Of that many most frequent counts each has a probability of its own.
MOST_ATOMS = 40
# Parameters before those of atoms, and a weight of none.
_N_SMOOTH, _NO_WEIGHT = 3, -1e3
# All atoms of so many cells are gone through in a step.
_MOST_CELLS = 15_000


def with_atoms(
    family: RoundedStudentT, value: Float64[np.ndarray, "cells"], *, most: int = MOST_ATOMS
) -> RoundedStudentT:
    """The family with atoms at the most frequent of some values, those that occur twice at least.

    One that has atoms keeps them.
    """
    if family.atoms:
        return family
    known, count = np.unique(value[np.isfinite(value)], return_counts=True)
    often = np.argsort(-count, kind="stable")[:most]
    atoms = sorted(known[often[count[often] > 1]].astype(np.int64).tolist())
    return RoundedStudentT(start=family.start, atoms=tuple(atoms))


def counts_of(value: Float64[np.ndarray, "cells"]) -> Int64[np.ndarray, "cells"]:
    """How many cells have the value of each."""
    _, index, count = np.unique(value, return_inverse=True, return_counts=True)
    return count[index]


def own_atoms(
    family: RoundedStudentT, value: Values, n_equal: Int64[np.ndarray, "cells"]
) -> Int64[np.ndarray, "three own"]:
    """Cells at an atom, which parameter is its weight, and how many cells have its value."""
    atoms = np.array(family.atoms, dtype=np.float64)
    cells = np.flatnonzero(np.isin(value, atoms))
    return np.stack([cells, _N_SMOOTH + np.searchsorted(atoms, value[cells]), n_equal[cells]])


def without_own_value(
    eta: Float64[Tensor, "cells params"], own: Int64[np.ndarray, "three own"]
) -> Tensor:
    """Parameters where these weights are what they would be without the cell's own value.

    An atom that occurs twice would then be none.
    """
    if not own.shape[1]:
        return eta
    row, column, n = torch.from_numpy(own)
    less = torch.where(n > 2, torch.log1p(-1 / n.clamp_min(2).to(eta.dtype)), _NO_WEIGHT)
    return eta.index_put((row, column), less, accumulate=True)


@dataclass(frozen=True)
class CountHead:
    """Counts with heavy tails, of which some are common."""

    family: RoundedStudentT
    transform: ClassVar[str] = "log"
    reads_amounts: ClassVar[bool] = True

    @property
    def shift(self) -> float:
        """Counts from 0 are moved by a half: 0 has a logarithm."""
        return 0.0 if self.family.start else 0.5

    def counted(self) -> Counted | None:
        """The atoms."""
        atoms = tuple(map(float, self.family.atoms))
        return Counted(atoms, margin_cells=5.0) if atoms else None

    @property
    def n_changes(self) -> int:
        """Outputs of a correction: of the location, in units of the scale, log s and all atoms."""
        return 3 if self.family.atoms else 2

    def fit(self, data: HeadData, value: Values) -> Found:
        """Numbers of the location, the scale, log(df - 1), and of the atoms' pool and weight."""
        few = np.arange(min(len(value), _MOST_CELLS))
        none = np.zeros((3, 0), dtype=np.int64)
        n_equal, value = data.n_equal, value[few]
        own = none if n_equal is None else own_atoms(self.family, value, n_equal[few])
        data = replace(data, features=data.features.take(few))
        inputs, y = _inputs(data), torch.from_numpy(value)

        def nats(numbers: Numbers) -> Tensor:
            eta = self._eta(inputs, data.working, numbers)
            return -self.family.log_prob(y, without_own_value(eta, own))

        start = [*location_start(), *scale_start(), math.log(_START_DF - 1)]
        if data.table is not None:
            start += [*POOL_START, _START_BIAS, *(_N_SIZES - 1) * [0.0]]
        start += amounts_start(data.features)
        return fit_head_numbers(nats, start, inputs.features.n_context)

    def eta(self, data: HeadData, numbers: Found) -> Float64[Tensor, "cells params"]:
        """Parameters of all cells."""
        return self._eta(_inputs(data), data.working, torch.from_numpy(numbers))

    def _eta(self, parts: "_CountInputs", working: WorkingScale, numbers: Numbers) -> Tensor:
        location, log_scale = location_and_log_scale(parts.features, numbers)
        log_df = numbers[_AT_DF].clamp(*LOG_DF)
        own = working.mean + working.sd * location, math.log(working.sd) + log_scale
        smooth = torch.stack([*own, log_df.expand(len(location))], 1)
        if parts.pool is None:
            return smooth
        # What t says of the atoms, but for constants: its density times an interval's width.
        atoms = torch.tensor(self.family.atoms, dtype=smooth.dtype)
        at = (atoms + self.shift).log()
        r = (at - own[0][:, None]) * (-own[1])[:, None].exp()
        df = 1 + log_df.exp()
        log_t = -(df + 1) / 2 * torch.log1p(r.square() / df) - own[1][:, None] - at
        pool = pool_logits(parts.pool, log_t, numbers[_AT_POOL:_AT_SIZES])
        weight = (
            torch.cat([parts.sizes, location[:, None]], 1)
            @ numbers[_AT_SIZES : _AT_SIZES + _N_SIZES]
        )
        return torch.cat([smooth, pool + weight[:, None]], 1)

    def changed(self, eta: Tensor, change: Tensor) -> Tensor:
        """Parameters with a correction's outputs."""
        columns = [
            eta[..., :1] + eta[..., 1:2].exp() * change[..., :1],
            eta[..., 1:2] + change[..., 1:2],
            eta[..., 2:3],
        ]
        if self.family.atoms:
            columns.append(eta[..., _N_SMOOTH:] + change[..., 2:])
        return torch.cat(columns, -1)


class _CountInputs(NamedTuple):
    """What the head has of cells, which its numbers do not change."""

    features: HeadInputs
    sizes: Float64[Tensor, "cells three"]
    pool: PoolInputs | None


def _inputs(data: HeadData) -> _CountInputs:
    features, table = data.features, data.table
    logs = np.log1p(features.n_context), np.log1p(features.item_count)
    sizes = np.column_stack([np.ones(len(features.mean)), *logs])
    pool = None if table is None else PoolInputs.of(features, table.margin)
    return _CountInputs(head_inputs(features), torch.from_numpy(sizes), pool)
