"""Heads of families with a location and a spread: reals, amounts, counts, shares.

loc and log s, on the working scale, become the family's parameters:
reals and their logarithms   (mu + sd loc, log sd + log s, log(df - 2))
one parameter, a log mean    mu + sd loc / s
mean and dispersion          (mu + sd loc, -2 (log sd + log s))
lifetimes                    (mu + sd loc, -log sd - log s)
compound amounts             (mu + sd loc, 2 (log sd + log s))
shares                       (mu + sd loc, -2 (log sd + log s) - log(m (1 - m)))

Families made of another have its parameters; log weights of their atoms are constants, but for that
of zeros of amounts and counts, which is a line in loc and in how much more often than others the
item and the group's others are 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.efa.values.class_tables import Counted
from exfam.efa.values.head_numbers import (
    N_LOCATION,
    N_SCALE,
    Found,
    HeadData,
    Numbers,
    Values,
    amounts_start,
    fit_head_numbers,
    head_inputs,
    location_and_log_scale,
    location_start,
    scale_start,
)
from exfam.efa.values.working_scale import WorkingScale
from exfam.families import Family
from exfam.families.atoms import WithAtoms
from exfam.families.between import has_jumps
from exfam.families.wrapped import Wrapped

# Of Student's t: log(df - 2), and where it is kept.
_START_EXCESS, _EXCESS = math.log(5.0), (-3.0, 5.0)
_START_WEIGHT = -2.0  # of atoms, beside 0
_AT_EXCESS = N_LOCATION + N_SCALE
_MOST_LOGIT, _MOST_SPREAD = 30.0, 3.0
# How many cells the shares of zeros of all values count as in those of an item and of a group.
_MARGIN_CELLS = 5.0

Column = Float64[Tensor, "cells"]
Columns = Float64[Tensor, "cells params"]


@dataclass(frozen=True)
class Link:
    """How location, log scale and one more number become parameters, and what moves these.

    `transform`: the working scale, of values and a shift, of "asinh" the bend. `spread`: the unit
    of a change of the first parameter; the second one, if any, is `dispersion` times log s, and
    changes by it. `reads_amounts`: whether sums of values say something that those of their
    logarithms do not.
    """

    transform: str
    parameters: "Callable[[LocationHead, WorkingScale, Column, Column, Tensor], list[Tensor]]"
    spread: Callable[[Tensor], Tensor]
    dispersion: float = 0.0
    shift: Callable[[Family], float] = lambda family: 0.0
    reads_amounts: bool = False


def _both(
    head: "LocationHead", working: WorkingScale, location: Column, log_scale: Column, _: Tensor
) -> list[Tensor]:
    log_s = math.log(working.sd) + log_scale
    return [working.mean + working.sd * location, head.link.dispersion * log_s]


def _reals(
    head: "LocationHead", working: WorkingScale, location: Column, log_scale: Column, last: Tensor
) -> list[Tensor]:
    both = _both(head, working, location, log_scale, last)
    return [*both, last.clamp(*_EXCESS).expand(len(location))][: head.core.n_params]


def _log_means(
    head: "LocationHead", working: WorkingScale, location: Column, log_scale: Column, _: Tensor
) -> list[Tensor]:
    return [working.mean + working.sd * location * (-log_scale).exp()]


def _log_odds(
    head: "LocationHead", working: WorkingScale, location: Column, log_scale: Column, _: Tensor
) -> list[Tensor]:
    trials = len(head.core.categories) - 1
    rate = min(max(working.mean / trials, 1e-6), 1 - 1e-6)
    slope = working.sd / (trials * rate * (1 - rate))
    logit = math.log(rate / (1 - rate)) + slope * location * (-log_scale).exp()
    return [logit.clamp(-_MOST_LOGIT, _MOST_LOGIT)]


def _shares(
    head: "LocationHead", working: WorkingScale, location: Column, log_scale: Column, last: Tensor
) -> list[Tensor]:
    location, dispersion = _both(head, working, location, log_scale, last)
    logit = location.clamp(-_MOST_LOGIT, _MOST_LOGIT)
    product = torch.nn.functional.logsigmoid(logit) + torch.nn.functional.logsigmoid(-logit)
    return [logit, dispersion - product]


def _by_log_scale(eta: Tensor) -> Tensor:
    return eta[..., 1].exp() if eta.shape[-1] > 1 else torch.ones_like(eta[..., 0])


def _by_shape(eta: Tensor) -> Tensor:
    return (-0.5 * eta[..., 1]).exp().clamp(max=_MOST_SPREAD)


def _by_lifetimes(eta: Tensor) -> Tensor:
    return (-eta[..., 1]).exp().clamp(max=_MOST_SPREAD)


def _one(eta: Tensor) -> Tensor:
    return torch.ones_like(eta[..., 0])


# What is added to amounts that may be 0, in units of their median.
_OF_ZERO = 0.1


def _half(family: Family) -> float:
    """Counts from the family's own start are moved by a half: their least has a logarithm."""
    return 0.5 - float(getattr(family, "shift", 0))


def _bend(family: Family) -> float:
    return float(getattr(family, "bend", 1.0))


LINKS = {
    "gaussian": Link("identity", _reals, _by_log_scale, 1.0),
    "student-t": Link("identity", _reals, _by_log_scale, 1.0),
    "log-normal": Link("log", _reals, _by_log_scale, 1.0),
    "log-student-t": Link("log", _reals, _by_log_scale, 1.0),
    "sinh-student-t": Link("asinh", _reals, _by_log_scale, 1.0, shift=_bend),
    "poisson": Link("log", _log_means, _one, shift=_half, reads_amounts=True),
    "negative-binomial": Link("log", _both, _by_shape, -2.0, shift=_half, reads_amounts=True),
    "gamma": Link("log", _both, _by_shape, -2.0, reads_amounts=True),
    "exponential": Link("log", _log_means, _one, shift=lambda family: _OF_ZERO, reads_amounts=True),
    "weibull": Link("log", _both, _by_lifetimes, -1.0, reads_amounts=True),
    "tweedie": Link("log", _both, _one, 2.0, shift=lambda family: _OF_ZERO, reads_amounts=True),
    "binomial": Link("identity", _log_odds, _one),
    "beta": Link("logit", _shares, _one, -2.0),
}


def core_of(family: Family) -> Family:
    """The family that one is made of, of all layers; itself if it is made of none."""
    while isinstance(family, Wrapped):
        family = family.family
    return family


def _zeros(data: HeadData) -> Tensor:
    """Log odds of 0 of the item, and of the group's others beside what their items expect."""
    if data.table is None:
        return torch.zeros(0)
    few, margin = _MARGIN_CELLS * data.table.margin, np.log(data.table.margin)
    odds = np.log(data.features.share) - margin
    found = np.log((data.features.others + few) / (data.features.expected + few))
    return torch.from_numpy(np.column_stack([odds[:, 0] - odds[:, 1], found[:, 0] - found[:, 1]]))


@dataclass(frozen=True)
class LocationHead:
    """A family whose parameters are a location and a spread; see `LINKS`."""

    family: Family

    @property
    def core(self) -> Family:
        """What the family is made of."""
        return core_of(self.family)

    @property
    def link(self) -> Link:
        return LINKS[self.core.name]

    @property
    def transform(self) -> str:
        return self.link.transform if self.counted() is None else "log above 0"

    @property
    def shift(self) -> float:
        shift = self.link.shift(self.core)
        if shift or self.transform != "log" or not self._has_zeros:
            return shift
        return self.family.spacing / 2 if has_jumps(self.family) else _OF_ZERO

    @property
    def _has_zeros(self) -> bool:
        """Whether 0 is a value of a family made of one above 0."""
        zero = torch.zeros(1, dtype=torch.float64)
        return isinstance(self.family, Wrapped) and bool(self.family.in_support(zero).all())

    @property
    def n_weights(self) -> int:
        """Parameters beside those of the family that this one is made of."""
        return self.family.n_params - self.core.n_params

    def _parameters(
        self, data: HeadData, zeros: Tensor, location: Column, log_scale: Column, numbers: Tensor
    ) -> list[Tensor]:
        """The parameters' columns by the numbers after those of location and scale."""
        excess = numbers[_AT_EXCESS]
        columns = self.link.parameters(self, data.working, location, log_scale, excess)
        weights = numbers[_AT_EXCESS + 1 :]
        if data.table is not None:
            inputs = torch.cat([location[:, None], zeros], 1)
            return [*columns, weights[0] + inputs @ weights[1 : 1 + inputs.shape[1]]]
        return columns + [weight.expand(len(location)) for weight in weights[: self.n_weights]]

    @property
    def reads_amounts(self) -> bool:
        return self.link.reads_amounts

    def counted(self) -> Counted | None:
        """Zeros that have a weight of their own, of values that are not below 0."""
        below = torch.full((1,), -1.0, dtype=torch.float64)
        has_zeros = isinstance(self.family, WithAtoms) and self.family.atoms == (0.0,)
        if self.n_weights != 1 or not has_zeros or bool(self.family.in_support(below).all()):
            return None
        return Counted((0.0,), _MARGIN_CELLS, are_edges=True)

    @property
    def n_changes(self) -> int:
        """Outputs of a correction: of the location, in units of the spread, and of log s."""
        return 2 if self.link.dispersion and self.core.n_params > 1 else 1

    def fit(self, data: HeadData, value: Values) -> Found:
        """Numbers of the location, the scale, and of t of its tails."""
        moved = 0.0 if data.log_size is None else torch.from_numpy(data.log_size)
        inputs, y, zeros = head_inputs(data.features), torch.from_numpy(value), _zeros(data)
        # The loss is that of standardized values: the same steps whatever the unit.
        has_unit = self.family.equivariance != "none"
        slope = torch.from_numpy(data.working.log_slope(value)) if has_unit else 0.0

        def nats(numbers: Numbers) -> Tensor:
            parts = *location_and_log_scale(inputs, numbers), numbers
            columns = self._parameters(data, zeros, *parts)
            columns = [columns[0] + moved, *columns[1:]]
            return slope - self.family.log_prob(y, torch.stack(columns, -1))

        # Of one parameter the scale divides the location, and starts at 1.
        scale = scale_start() if self.n_changes == 2 else [0.0] * 6 + scale_start()[-1:]
        weights = [_START_WEIGHT] * self.n_weights
        if data.table is not None:
            weights = [_START_WEIGHT, 0.0, 1.0, 0.5]
        start = [*location_start(), *scale, _START_EXCESS, *weights, *amounts_start(data.features)]
        return fit_head_numbers(nats, start, inputs.n_context)

    def eta(self, data: HeadData, numbers: Found) -> Columns:
        """Parameters of all cells."""
        at = torch.from_numpy(numbers)
        parts = *location_and_log_scale(head_inputs(data.features), at), at
        return torch.stack(self._parameters(data, _zeros(data), *parts), -1)

    def changed(self, eta: Tensor, change: Tensor) -> Tensor:
        """Parameters with a correction's outputs."""
        spread = self.link.spread(eta[..., : self.core.n_params])
        columns = [eta[..., 0] + spread * change[..., 0]]
        if self.n_changes == 2:
            columns.append(eta[..., 1] + self.link.dispersion * change[..., 1])
        return torch.cat([torch.stack(columns, -1), eta[..., len(columns) :]], -1)
