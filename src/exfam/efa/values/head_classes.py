"""The head of classes: what levels, items and groups say of them, pooled with free weights.

The levels say it by an ordered logistic distribution at the location and scale; see `pool`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from exfam.efa.values.class_tables import ClassTable, Counted
from exfam.efa.values.head_numbers import (
    N_LOCATION,
    N_SCALE,
    Found,
    HeadData,
    Numbers,
    Values,
    fit_head_numbers,
    location_and_log_scale,
    location_start,
    scale_start,
)
from exfam.efa.values.pool import POOL_START, PoolInputs, pool_logits
from exfam.families import Categorical, Histogram

_AT_POOL = N_LOCATION + N_SCALE
_AT_THRESHOLDS = _AT_POOL + len(POOL_START)
# How many cells the margin counts as in an item's shares.
_MARGIN_CELLS = 10.0


@dataclass(frozen=True)
class ClassHead:
    """Categories, or the bins of a histogram, with free logits."""

    family: Categorical | Histogram
    transform: ClassVar[str] = "identity"
    shift: ClassVar[float] = 0.0
    reads_amounts: ClassVar[bool] = False

    def counted(self) -> Counted:
        """All categories or bins."""
        if isinstance(self.family, Histogram):
            return Counted(self.family.edges, _MARGIN_CELLS, are_edges=True)
        return Counted(tuple(map(float, self.family.categories)), _MARGIN_CELLS)

    @property
    def n_changes(self) -> int:
        """Outputs of a correction: of all logits."""
        return self.family.n_params

    def fit(self, data: HeadData, value: Values) -> Found:
        """Numbers of the location, the scale, the pool and the thresholds."""
        inputs, table = _inputs(data)
        own = torch.from_numpy(table.index(value))[:, None]

        def nats(numbers: Numbers) -> Tensor:
            return -_log_probs(inputs, numbers).gather(1, own)[:, 0]

        thresholds = _thresholds_of(table.margin)
        start = [*location_start(1.8), *scale_start(0.5), *POOL_START, *thresholds]
        return fit_head_numbers(nats, start, inputs.features.n_context)

    def eta(self, data: HeadData, numbers: Found) -> Float64[Tensor, "cells classes"]:
        """Log-probabilities of all cells."""
        return _log_probs(_inputs(data)[0], torch.from_numpy(numbers))

    def changed(self, eta: Tensor, change: Tensor) -> Tensor:
        """Logits with a correction's outputs."""
        return eta + change


def _inputs(data: HeadData) -> tuple[PoolInputs, ClassTable]:
    assert data.table is not None
    return PoolInputs.of(data.features, data.table.margin), data.table


def _thresholds_of(margin: Float64[np.ndarray, "classes"]) -> list[float]:
    """Logistic thresholds of the margin: the first, then what softplus makes steps of."""
    below = np.cumsum(margin)[:-1].clip(1e-6, 1 - 1e-6)
    at = np.log(below / (1 - below))
    steps = np.maximum(np.diff(at), 1e-3)
    return [float(at[0]), *np.log(np.expm1(steps)).tolist()]


def ordered_log_probs(
    location: Tensor, log_scale: Tensor, steps: Tensor
) -> Float64[Tensor, "cells classes"]:
    """log F_k of ordered logistic classes, exact in both tails."""
    thresholds = torch.cat([steps[:1], steps[:1] + softplus(steps[1:]).cumsum(0)])
    at = (thresholds - location[:, None]) * (-log_scale)[:, None].exp()
    width = softplus(steps[1:]) * (-log_scale)[:, None].exp()
    inner = logsigmoid(at[:, 1:]) + logsigmoid(-at[:, :-1]) + torch.log(-torch.expm1(-width))
    return torch.cat([logsigmoid(at[:, :1]), inner, logsigmoid(-at[:, -1:])], dim=1)


def _log_probs(inputs: PoolInputs, numbers: Numbers) -> Float64[Tensor, "cells classes"]:
    location, log_scale = location_and_log_scale(inputs.features, numbers)
    ordered = ordered_log_probs(location, log_scale, numbers[_AT_THRESHOLDS:])
    return pool_logits(inputs, ordered, numbers[_AT_POOL:_AT_THRESHOLDS]).log_softmax(1)
