"""Location and scale of a head from features, by a few numbers, and how the numbers are fitted.

    loc   = l0 + l1 m + l2 b + l3'L
    log s = c0 + c1 log(v) / 2 + c2 g + c3 m + c4 m^2 + c5 / sqrt(1 + n)
    g     = log((nu + q) / (nu + n)) / 2

g is the group's scale, as in the conditional of a multivariate t. Where there are amounts, with the
item's mean y_i, and the sums of the others' values and of their items' means, Y and M,

    loc += a0 log y_i + a1 log((alpha + Y) / (alpha + M))

which is what a group's level is of Poisson values whose means have a gamma distribution.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.efa.values.class_tables import ClassTable
from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.working_scale import WorkingScale

MOST_STEPS = 150
LOG_NU, LOG_DF, LOG_ALPHA = (-1.0, 5.0), (-2.0, 5.0), (-5.0, 8.0)
# Conditional means are cut there, in standard deviations of all values.
_MOST_MEAN = 30.0
# In the scale they are cut here, and have a tighter prior: a parabola of few cells would make
# others that lie farther out all but certain. They say how groups differ: it is for each group.
_MOST_IN_SCALE, _STIFF = 2.5, 100.0
N_LOCATION, N_SCALE = 5, 7
_BENT = slice(N_LOCATION + 2, N_LOCATION + 4)

Numbers = Float64[Tensor, "numbers"]
Values = Float64[np.ndarray, "cells"]
Found = Float64[np.ndarray, "numbers"]


@dataclass(frozen=True, eq=False)
class HeadData:
    """Features of cells, the working scale, and the table of what is counted.

    `log_size`: what is added to the first parameter of each cell, where there are exposures;
    `n_equal`: how many cells have each one's value, where atoms were chosen by that
    """

    features: ValueFeatures
    working: WorkingScale
    table: ClassTable | None
    log_size: Values | None = None
    n_equal: Int64[np.ndarray, "cells"] | None = None


@dataclass(frozen=True, eq=False)
class HeadInputs:
    """Features as a head reads them, all in standardized units."""

    location: Float64[Tensor, "cells location"]
    scale: Float64[Tensor, "cells scale"]
    chi_square: Float64[Tensor, "cells"]
    n_context: Float64[Tensor, "cells"]
    amounts: Float64[Tensor, "cells three"]


def head_inputs(features: ValueFeatures) -> HeadInputs:
    """(1, m, b, L) of the location and (1, log(v) / 2, m, m^2, 1 / sqrt(1 + n)) of the scale."""
    m, one = features.mean.clip(-_MOST_MEAN, _MOST_MEAN), np.ones(len(features.mean))
    near = features.neighbors if features.neighbors.shape[1] else np.zeros((len(m), 2))
    half_log = 0.5 * np.log(features.variance)
    few, bent = 1 / np.sqrt(1 + features.n_context), m.clip(-_MOST_IN_SCALE, _MOST_IN_SCALE)
    return HeadInputs(
        torch.from_numpy(np.column_stack([one, m, features.level, near])),
        torch.from_numpy(np.column_stack([one, half_log, bent, bent * bent, few])),
        torch.from_numpy(features.chi_square),
        torch.from_numpy(features.n_context),
        torch.from_numpy(features.amounts),
    )


def location_start(slope: float = 1.0) -> list[float]:
    """(l0, l1, l2, l3): the conditional mean, times a slope."""
    return [0.0, slope, 0.0, 0.0, 0.0]


def scale_start(of_variance: float = 1.0) -> list[float]:
    """(c0, c1, c3, c4, c5), then c2 and log nu."""
    return [0.0, of_variance, 0.0, 0.0, 0.0, 1.0, 2.0]


def amounts_start(features: ValueFeatures) -> list[float]:
    """(a0, a1, log alpha), of features that have amounts."""
    return [0.0, 0.0, 1.5] if features.amounts.shape[1] else []


def location_and_log_scale(
    inputs: HeadInputs, numbers: Numbers
) -> tuple[Float64[Tensor, "cells"], Float64[Tensor, "cells"]]:
    """By the first `N_LOCATION + N_SCALE` numbers, and the last three where there are amounts."""
    scale = numbers[N_LOCATION : N_LOCATION + N_SCALE]
    nu = scale[6].clamp(*LOG_NU).exp()
    group = 0.5 * torch.log((nu + inputs.chi_square) / (nu + inputs.n_context))
    log_scale = inputs.scale @ scale[:5] + scale[5] * group
    location = inputs.location @ numbers[:N_LOCATION]
    if inputs.amounts.shape[1]:
        item, others, expected = inputs.amounts.T
        alpha = numbers[-1].clamp(*LOG_ALPHA).exp()
        ratio = (alpha + others) / (alpha + expected)
        location = location + torch.stack([item, ratio], 1).log() @ numbers[-3:-1]
    return location, log_scale.clamp(-20.0, 20.0)


def fit_head_numbers(
    nats: Callable[[Numbers], Tensor], start: list[float], n_context: Float64[Tensor, "cells"]
) -> Found:
    """The numbers of the least mean nats, ridged to their start, by L-BFGS.

    The first are those of `location_and_log_scale`, of which c3 and c4 are held most firmly.
    """
    first, stiff = np.array(start), torch.ones(len(start), dtype=torch.float64)
    stiff[_BENT], n_cells = _STIFF * (1.0 + float(n_context.mean())), len(n_context)

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.from_numpy(numbers).requires_grad_()
        change = at - torch.from_numpy(first)
        total = nats(at).mean() + (stiff * change.square()).sum() / (2 * n_cells)
        total.backward()
        assert at.grad is not None
        return float(total.detach()), at.grad.numpy()

    from scipy.optimize import minimize

    options = {"maxiter": MOST_STEPS, "maxcor": 20, "ftol": 1e-8, "gtol": 1e-6}
    return minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
