"""The mass that Student's t has in an interval, in logarithms and with derivatives, in both tails.

With x = sqrt(df) tan(theta) the density of theta is c cos(theta)^(df - 1). It is integrated over
the angle from the outer end, t = pi/2 - |theta|, by Gauss-Legendre nodes that gather at that end.
"""

from typing import Any, no_type_check

import numpy as np
import scipy.special
import torch
from jaxtyping import Float64
from numba import njit
from torch import Tensor

_X, _W = np.polynomial.legendre.leggauss(32)
# Cubes of nodes in [0, 1], and the weights' change with it.
_AT, _SHARE = ((_X + 1) / 2) ** 3, _W * 1.5 * ((_X + 1) / 2) ** 2
# Fewer nodes, evenly, for a short interval far from the outer end.
_X, _W = np.polynomial.legendre.leggauss(12)
_FEW_AT, _FEW_SHARE = (_X + 1) / 2, _W / 2
_MOST_BY_FEW = 15.0
# Where the density is exp(-45) of the interval's largest, the interval ends.
_MOST_BELOW = 45.0


@njit(cache=True, nogil=True)
@no_type_check
def _piece(low, width, df):
    """Integral of cos^(df-1) from x = `low` >= 0 to `low + width`, by its value at `low`.

    Returns its logarithm, and the mean of log cos there.
    """
    root = np.sqrt(df)
    inner = np.arctan2(root, low)
    top = np.log(np.sin(inner))
    span = inner if np.isinf(width) else np.arctan2(root * width, df + low * (low + width))
    least = np.exp(top - _MOST_BELOW / (df - 1.0))
    reach = inner - np.arcsin(least)
    span = min(span, reach)
    outer = inner - span
    if span < outer and (df - 1.0) * (top - np.log(np.sin(outer))) < _MOST_BY_FEW:
        at, share = _FEW_AT, _FEW_SHARE
    else:
        at, share = _AT, _SHARE
    total, mean = 0.0, 0.0
    for k in range(len(at)):
        log_cos = np.log(np.sin(outer + span * at[k]))
        part = share[k] * np.exp((df - 1.0) * (log_cos - top))
        total += part
        mean += part * log_cos
    return np.log(span * total) + (df - 1.0) * top, mean / total


@njit(cache=True, nogil=True)
@no_type_check
def _interval(low, width, df):
    """As `_piece`, from any `low`, -inf for an open interval that ends at `width`."""
    if np.isinf(low):
        if width <= 0.0:
            return _piece(-width, np.inf, df)
        left = _piece(0.0, np.inf, df)
        right = _piece(0.0, width, df)
    elif low >= 0.0:
        return _piece(low, width, df)
    elif low + width <= 0.0:
        return _piece(-(low + width), width, df)
    else:
        left = _piece(0.0, -low, df)
        right = _piece(0.0, low + width, df)
    most = max(left[0], right[0])
    a, b = np.exp(left[0] - most), np.exp(right[0] - most)
    return most + np.log(a + b), (a * left[1] + b * right[1]) / (a + b)


@njit(cache=True, nogil=True)
@no_type_check
def _fill(low, width, location, log_scale, df, log_constant, slope, found):
    """Log mass of every interval and its derivatives by location, log scale and df."""
    for n in range(len(location)):
        scale = np.exp(log_scale[n])
        is_open = np.isinf(low[n])
        a = -np.inf if is_open else (low[n] - location[n]) / scale
        b = (width[n] - location[n]) / scale if is_open else a + width[n] / scale
        log_mass, mean = _interval(a, b if is_open else width[n] / scale, df)
        log_mass += log_constant
        # The density of x is c cos^(df + 1) / sqrt(df), as d theta = dx cos^2 / sqrt(df).
        of_b = np.exp(
            log_constant - 0.5 * np.log(df) - 0.5 * (df + 1.0) * np.log1p(b * b / df) - log_mass
        )
        of_a = 0.0
        if not is_open:
            of_a = np.exp(
                log_constant - 0.5 * np.log(df) - 0.5 * (df + 1.0) * np.log1p(a * a / df) - log_mass
            )
        near_a = 0.0 if is_open else a * of_a
        found[0, n] = log_mass
        found[1, n] = (of_a - of_b) / scale
        found[2, n] = near_a - b * of_b
        found[3, n] = slope + mean + (near_a - b * of_b) / (2.0 * df)


class _LogMass(torch.autograd.Function):
    """The compiled integral with the derivatives that it computes beside."""

    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        low, width, location, log_scale, df = (tensor.detach().numpy() for tensor in given)
        nu = float(df)
        log_constant = (
            scipy.special.gammaln((nu + 1) / 2)
            - scipy.special.gammaln(nu / 2)
            - 0.5 * np.log(np.pi)
        )
        slope = 0.5 * (scipy.special.digamma((nu + 1) / 2) - scipy.special.digamma(nu / 2))
        found = np.empty((4, len(location)))
        _fill(low, width, location, log_scale, nu, log_constant, slope, found)
        ctx.save_for_backward(torch.from_numpy(found))
        return torch.from_numpy(found[0])

    @staticmethod
    def backward(ctx: Any, *received: Tensor) -> tuple[Tensor | None, ...]:
        (found,) = ctx.saved_tensors
        (gradient,) = received
        return None, None, gradient * found[1], gradient * found[2], (gradient * found[3]).sum()


def log_bin_mass(
    low: Float64[Tensor, "cells"],
    width: Float64[Tensor, "cells"],
    location: Float64[Tensor, "cells"],
    log_scale: Float64[Tensor, "cells"],
    df: Float64[Tensor, ""],
) -> Float64[Tensor, "cells"]:
    """log P(low < location + scale T < low + width); with `low` -inf, of everything below `width`.

    Exact to about 1e-10 for df from 1.1 to 150; gradients reach location, log scale and df.

    >>> zero = torch.zeros(1, dtype=torch.float64)
    >>> log_bin_mass(zero - torch.inf, zero, zero, zero, torch.tensor(3.0).double()).exp()
    tensor([0.5000], dtype=torch.float64)
    """
    mass: Tensor = _LogMass.apply(low, width, location.contiguous(), log_scale.contiguous(), df)
    return mass
