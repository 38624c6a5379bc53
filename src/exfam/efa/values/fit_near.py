"""Fits the covariance of residuals by distance, if it is ahead of means over the values nearby."""

import math

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.near_kernel import SWING, NearKernel, conditional_near, near_rows, window_of

# Cells that numbers are fitted to, fewest of all, and steps at most.
MOST_TARGETS, LEAST_CELLS, MOST_STEPS = 600, 60, 40
# Rows before, and after, in an order; seasons back; and the longest period looked for.
NEXT, NEXT_ON_BOTH_SIDES, SEASONS, LONGEST = 10, 6, 3, 60
# A season's correlation is that much more, and so many standard errors, than the least one at
# shorter lags, and this near the most; of so many pairs.
_LEAST_SEASON, _ERRORS, _AS_MUCH, _LEAST_PAIRS = 0.1, 6.0, 0.05, 50
# Logs of the sizes, lengths, period and noise, and logits of shares, at the start.
_START = np.log([0.2, 0.2, 0.2, 0.1, 0.1, 3.0, 6.0, 10.0, 10.0, 0.2, *(5 * [1.0])])
# Tails of the predictions' errors; how firmly numbers are held at the start, and within what.
_DF, _HOLD, _MOST_CHANGE = 6.0, 0.5, 8.0

Numbers = Float64[np.ndarray, "numbers"]
Columns = Float64[np.ndarray, "cells"]


def fit_near(
    cells: ValueCells, residual: Columns, *, causal: bool, ordered: bool, seed: int
) -> NearKernel | None:
    """The kernel of residuals in units of their items' deviation, NaN for none; None of too few."""
    known = np.flatnonzero(np.isfinite(residual))
    if cells.point is None or len(known) < LEAST_CELLS:
        return None
    unit = _unit(cells, ordered=ordered)
    if unit is None:
        return None
    nothing = np.zeros(0)
    correlation, error = _correlations(cells, residual) if ordered else (nothing, nothing)
    period = _period(correlation, error)
    lags = _lags(period, causal=causal) if ordered else _NO_LAGS
    start = np.concatenate([_START, np.zeros(len(unit) - 1)])
    if len(correlation) > 1:
        start[SWING] = math.log(2.0 * (1 + int(correlation.argmin())))
    season = period if len(unit) == 1 and _is_regular(cells, unit) else 0
    kernel = NearKernel(start, lags, unit, float(season))
    rows = np.random.default_rng(seed).permutation(known)[:MOST_TARGETS]
    return _fitted(kernel, cells, residual, np.sort(rows), causal=causal)


def _fitted(
    kernel: NearKernel,
    cells: ValueCells,
    residual: Columns,
    rows: Int64[np.ndarray, "some"],
    *,
    causal: bool,
) -> NearKernel:
    near = near_rows(cells, rows, kernel, causal=causal)
    window = window_of(cells, residual, rows, near, kernel.unit)
    own, first = torch.from_numpy(residual[rows]), kernel.numbers

    def loss(numbers: Numbers) -> tuple[float, Numbers]:
        at = torch.from_numpy(numbers).requires_grad_()
        mean, variance, _ = conditional_near(at, window, kernel.period)
        tail = torch.log1p((own - mean).square() / variance / _DF)
        held = (at - torch.from_numpy(first)).square().sum() * _HOLD / len(rows)
        total = (0.5 * variance.log() + (_DF + 1) / 2 * tail).mean() + held
        total.backward()
        assert at.grad is not None
        return float(total.detach()), at.grad.numpy()

    from scipy.optimize import minimize

    bounds = [(start - _MOST_CHANGE, start + _MOST_CHANGE) for start in first]
    options = {"maxiter": MOST_STEPS, "ftol": 1e-6}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return NearKernel(found.x, kernel.lags, kernel.unit, kernel.period)


def _unit(cells: ValueCells, *, ordered: bool) -> Float64[np.ndarray, "coordinates"] | None:
    """Of positions: the usual step in an order, or on a map the usual distance to the nearest."""
    assert cells.point is not None
    inner = np.diff(cells.group) == 0
    if ordered and cells.point.shape[1] == 1:
        step = np.abs(np.diff(cells.point[:, 0]))[inner]
        return np.median(step[step > 0], keepdims=True) if (step > 0).any() else None
    spread = cells.point.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    rows = np.arange(0, cells.n_cells, cells.n_cells // MOST_TARGETS + 1)
    near = near_rows(cells, rows, NearKernel(_START, _NO_LAGS, spread, 0.0), causal=False)[:, 0]
    far = (cells.point[rows] - cells.point[near])[near >= 0] / spread
    distance = np.sqrt(np.square(far).sum(1))
    return spread * np.median(distance[distance > 0]) if (distance > 0).any() else None


_NO_LAGS = np.zeros(0, dtype=np.int64)


def _is_regular(cells: ValueCells, unit: Float64[np.ndarray, "coordinates"]) -> bool:
    """Whether rows of groups follow each other by one unit."""
    assert cells.point is not None
    steps = np.diff(cells.point[:, 0])[np.diff(cells.group) == 0]
    return bool(np.allclose(steps, unit[0]))


def _correlations(
    cells: ValueCells, residual: Columns
) -> tuple[Float64[np.ndarray, "lags"], Float64[np.ndarray, "lags"]]:
    """Of residuals less their group's mean with those 1, 2, ... rows later, and standard errors."""
    group, known = cells.group, np.isfinite(residual)
    n = np.bincount(group, known, cells.n_groups)
    mean = np.bincount(group, np.where(known, residual, 0.0), cells.n_groups) / n.clip(min=1)
    rest = np.where(known, residual - mean[group], 0.0)
    variance, found, errors = np.square(rest[known]).mean(), [], []
    for lag in range(1, LONGEST + 2):
        pairs = (group[lag:] == group[:-lag]) & known[lag:] & known[:-lag]
        if pairs.sum() < _LEAST_PAIRS:
            break
        found.append((rest[lag:] * rest[:-lag])[pairs].mean() / max(variance, 1e-12))
        errors.append(pairs.sum() ** -0.5)
    return np.array(found), np.array(errors)


def _period(correlation: Float64[np.ndarray, "lags"], error: Float64[np.ndarray, "lags"]) -> int:
    """The least lag of those that are correlated most, between others less so; 0 for none."""
    if len(correlation) < 3:
        return 0
    inner, least = correlation[1:-1], np.minimum.accumulate(correlation)[:-2]
    peaks = (inner > correlation[:-2]) & (inner > correlation[2:])
    peaks &= inner > least + np.maximum(_LEAST_SEASON, _ERRORS * error[1:-1])
    if not peaks.any():
        return 0
    return 2 + int(np.flatnonzero(peaks & (inner >= inner[peaks].max() - _AS_MUCH))[0])


def _lags(period: int, *, causal: bool) -> Int64[np.ndarray, "lags"]:
    lags = set(range(1, 1 + (NEXT if causal else NEXT_ON_BOTH_SIDES)))
    if period:
        lags |= {period * times for times in range(1, 1 + SEASONS)} | {period - 1, period + 1}
    return np.array(sorted(lags))
