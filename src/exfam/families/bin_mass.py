"""The mass that Student's t has in an interval, in logarithms and with derivatives, in both tails.

With x = sqrt(df) tan(theta) the density of theta is c cos(theta)^(df - 1). It is integrated over
the angle from the outer end, t = pi/2 - |theta|, by Gauss-Legendre nodes that gather at that end.
Derivatives are means over the same nodes, exact however narrow the interval.
"""

import math
from typing import Any, no_type_check

import numpy as np
import torch
from jaxtyping import Float64
from numba import njit
from scipy.special import gammaln
from torch import Tensor

_X, _W = np.polynomial.legendre.leggauss(32)
# Cubes of nodes in [0, 1], and the weights' change with it.
_AT, _SHARE = ((_X + 1) / 2) ** 3, _W * 1.5 * ((_X + 1) / 2) ** 2
# Fewer nodes, evenly, for a short interval far from the outer end.
_X, _W = np.polynomial.legendre.leggauss(12)
_FEW_AT, _FEW_SHARE = (_X + 1) / 2, _W / 2
_MOST_BY_FEW = 15.0
# And of one in which the density hardly changes.
_X, _W = np.polynomial.legendre.leggauss(4)
_FEWEST_AT, _FEWEST_SHARE = (_X + 1) / 2, _W / 2
_MOST_BY_FEWEST = 0.05
# Where the density is exp(-45) of the interval's largest, the interval ends.
_MOST_BELOW = 45.0


@njit(cache=True, nogil=True, error_model="numpy")
@no_type_check
def _piece(low, width, df):
    """Integral of cos^(df-1) from x = `low` >= 0 to `low + width`, by its value at `low`.

    Returns its logarithm, and the means of log cos, sin cos and sin^2 there.
    """
    root = np.sqrt(df)
    inner = np.arctan2(root, low)
    top = np.log(np.sin(inner))
    span = inner if np.isinf(width) else np.arctan2(root * width, df + low * (low + width))
    least = np.exp(top - _MOST_BELOW / (df - 1.0))
    reach = inner - np.arcsin(least)
    span = min(span, reach)
    outer = inner - span
    change = (df - 1.0) * (top - np.log(np.sin(outer)))
    if span < 0.05 * outer and change < _MOST_BY_FEWEST:
        at, share = _FEWEST_AT, _FEWEST_SHARE
    elif span < outer and change < _MOST_BY_FEW:
        at, share = _FEW_AT, _FEW_SHARE
    else:
        at, share = _AT, _SHARE
    total, of_log, of_product, of_square = 0.0, 0.0, 0.0, 0.0
    for k in range(len(at)):
        angle = outer + span * at[k]
        cos, sin = np.sin(angle), np.cos(angle)
        log_cos = np.log(cos)
        part = share[k] * np.exp((df - 1.0) * (log_cos - top))
        total += part
        of_log += part * log_cos
        of_product += part * sin * cos
        of_square += part * sin * sin
    log_integral = np.log(span * total) + (df - 1.0) * top
    return log_integral, of_log / total, of_product / total, of_square / total


@njit(cache=True, nogil=True, error_model="numpy")
@no_type_check
def _interval(low, width, df):
    """As `_piece`, from any `low`, -inf for an open interval that ends at `width`."""
    if np.isinf(low):
        if width <= 0.0:
            log_integral, of_log, of_product, of_square = _piece(-width, np.inf, df)
            return log_integral, of_log, -of_product, of_square
        left = _piece(0.0, np.inf, df)
        right = _piece(0.0, width, df)
    elif low >= 0.0:
        return _piece(low, width, df)
    elif low + width <= 0.0:
        log_integral, of_log, of_product, of_square = _piece(-(low + width), width, df)
        return log_integral, of_log, -of_product, of_square
    else:
        left = _piece(0.0, -low, df)
        right = _piece(0.0, low + width, df)
    most = max(left[0], right[0])
    a, b = np.exp(left[0] - most), np.exp(right[0] - most)
    total = a + b
    a, b = a / total, b / total
    return (
        most + np.log(total),
        a * left[1] + b * right[1],
        b * right[2] - a * left[2],
        a * left[3] + b * right[3],
    )


@njit(cache=True, nogil=True, error_model="numpy")
@no_type_check
def _fill(low, width, location, log_scale, df, out):
    """Log integral of every interval and its derivatives by location, log scale and df."""
    for n in range(len(location)):
        scale, nu = np.exp(log_scale[n]), df[n]
        if np.isinf(low[n]):
            lower, upper = -np.inf, (width[n] - location[n]) / scale
        else:
            lower, upper = (low[n] - location[n]) / scale, width[n] / scale
        log_integral, of_log, of_product, of_square = _interval(lower, upper, nu)
        # The density f of x has f' / f = -(df + 1) sin cos / sqrt(df) and x f' / f = -(df + 1)
        # sin^2; the integrals of f' and of (x f)' are the changes with location and scale.
        by_log_scale = (nu + 1.0) * of_square - 1.0
        out[0, n] = log_integral
        out[1, n] = (nu + 1.0) * of_product / (scale * np.sqrt(nu))
        out[2, n] = by_log_scale
        out[3, n] = of_log + by_log_scale / (2.0 * nu)


class _LogIntegral(torch.autograd.Function):
    """The compiled integral with the derivatives that it computes beside."""

    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        device = given[2].device
        arrays = [tensor.detach().cpu().contiguous().numpy() for tensor in given]
        out = np.empty((4, len(arrays[2])))
        _fill(*arrays, out)
        filled = torch.from_numpy(out).to(device)
        ctx.save_for_backward(filled)
        return filled[0]

    @staticmethod
    def backward(ctx: Any, *received: Tensor) -> tuple[Tensor | None, ...]:
        (filled,) = ctx.saved_tensors
        (gradient,) = received
        return None, None, gradient * filled[1], gradient * filled[2], gradient * filled[3]


def log_bin_mass(
    low: Float64[Tensor, "cells"],
    width: Float64[Tensor, "cells"],
    location: Float64[Tensor, "cells"],
    log_scale: Float64[Tensor, "cells"],
    df: Float64[Tensor, "*#cells"],
) -> Float64[Tensor, "cells"]:
    """log P(low < location + scale T < low + width); with `low` -inf, of everything below `width`.

    Exact to about 1e-10 for `df` from 1.1 to 150, one for all cells or one a cell; gradients reach
    location, log scale and df.

    >>> zero = torch.zeros(1, dtype=torch.float64)
    >>> log_bin_mass(zero - torch.inf, zero, zero, zero, torch.tensor(3.0).double()).exp()
    tensor([0.5000], dtype=torch.float64)
    """
    log_constant = ((df + 1) / 2).lgamma() - (df / 2).lgamma() - 0.5 * math.log(math.pi)
    integral: Tensor = _LogIntegral.apply(low, width, location, log_scale, df.expand(len(location)))
    return integral + log_constant


def bin_masses(
    low: Float64[np.ndarray, "cells"],
    width: Float64[np.ndarray, "cells"],
    location: Float64[np.ndarray, "cells"],
    log_scale: Float64[np.ndarray, "cells"],
    df: float,
) -> tuple[
    Float64[np.ndarray, "cells"], Float64[np.ndarray, "cells"], Float64[np.ndarray, "cells"]
]:
    """The same of arrays, and its derivatives by location and by log scale.

    >>> zero, one = np.zeros(1), np.ones(1)
    >>> log_mass, by_location, by_log_scale = bin_masses(-one, 2 * one, zero, zero, 3.0)
    >>> log_mass.round(3), abs(by_location) < 1e-12
    (array([-0.496]), array([ True]))
    """
    out = np.empty((4, len(location)))
    _fill(low, width, location, log_scale, np.full(len(location), df), out)
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * math.log(math.pi)
    return out[0] + constant, out[1], out[2]
