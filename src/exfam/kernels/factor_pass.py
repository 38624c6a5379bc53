"""Compiled passes of the factor model's fit: over the cells of groups, then over items.

Moments E[h h'] of items, h = (b, l_0, .. l_r), and E[g g'] of groups, g = (1, a, f_1 .. f_r), are
packed: entry (i, j), j <= i, is at i (i + 1) / 2 + j.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from exfam.kernels.packed import FASTMATH, invert


@njit(cache=True, nogil=True, fastmath=FASTMATH)
@no_type_check
def _add_cells(low, high, item, value, mean, moments, noise, packed, first):
    """Sums over a group's cells of E[h h'] / s^2 and z E[h] / s^2; returns that of z^2 / s^2."""
    packed[:] = 0.0
    first[:] = 0.0
    square = 0.0
    for n in range(low, high):
        i = item[n]
        inverse_noise = 1.0 / noise[i]
        scaled = value[n] * inverse_noise
        square += value[n] * scaled
        for k in range(moments.shape[1]):
            packed[k] += inverse_noise * moments[i, k]
        for k in range(mean.shape[1]):
            first[k] += scaled * mean[i, k]
    return square


@njit(cache=True, nogil=True, fastmath=FASTMATH)
@no_type_check
def _solve_group(packed, first, variance, precision, covariance, center):
    """Fill the covariance, for weight 1, and the mean (1, a, f).

    Returns log |A| and mean' T^-1 mean.
    """
    n_factors = len(variance)
    for k in range(n_factors):
        start = (k + 1) * (k + 2) // 2 + 1
        for j in range(k + 1):
            precision[k, j] = packed[start + j]
        precision[k, k] += 1.0 / variance[k]
    log_determinant = invert(precision, covariance)
    center[0] = 1.0
    prior_square = 0.0
    for k in range(n_factors):
        total = 0.0
        for j in range(n_factors):
            total += covariance[k, j] * (first[j + 1] - packed[(j + 1) * (j + 2) // 2])
        center[k + 1] = total
        prior_square += total * total / variance[k]
    return log_determinant, prior_square


@njit(cache=True, nogil=True, fastmath=FASTMATH)
@no_type_check
def _quadratic(packed, center):
    """center' M center of a packed M."""
    total, at = 0.0, 0
    for k in range(len(center)):
        for j in range(k):
            total += 2.0 * packed[at] * center[k] * center[j]
            at += 1
        total += packed[at] * center[k] * center[k]
        at += 1
    return total


@njit(cache=True, nogil=True, fastmath=FASTMATH)
@no_type_check
def _pack_group(center, covariance, weight, moments):
    """E[g g'] of a group."""
    at = 0
    for k in range(len(center)):
        for j in range(k + 1):
            moments[at] = center[k] * center[j]
            if j > 0:
                moments[at] += covariance[k - 1, j - 1] / weight
            at += 1


@njit(cache=True, nogil=True, fastmath=FASTMATH)
@no_type_check
def group_pass(
    offset, item, value, weight, mean, moments, noise, variance, prior_weight,
    sums, linear, squares, spread,
):  # fmt: skip
    """Factors of all groups given the items, and what they add to the items' sums.

    `variance` is that of (a, f); groups' weights are renewed if `prior_weight` > 0. Added to are
    `sums`, `linear` and `squares` of items, sum w E[g g'], sum w z E[g] and sum w E[(z - g'h)^2],
    and `spread`, sum w E[a^2], sum w E[f_k^2]. Returns the groups' part of the bound.
    """
    size, n_packed, n_factors = mean.shape[1], moments.shape[1], mean.shape[1] - 1
    packed, of_group, doubled = np.empty(n_packed), np.empty(n_packed), np.empty(n_packed)
    first, center = np.empty(size), np.empty(size)
    precision, covariance = np.empty((n_factors, n_factors)), np.empty((n_factors, n_factors))
    bound = 0.0
    for u in range(len(offset) - 1):
        low, high = offset[u], offset[u + 1]
        if low == high:
            continue
        square = _add_cells(low, high, item, value, mean, moments, noise, packed, first)
        log_determinant, prior = _solve_group(
            packed, first, variance, precision, covariance, center
        )
        for k in range(size):
            square -= 2.0 * first[k] * center[k]
        square = max(square + prior + _quadratic(packed, center), 1e-12)
        if prior_weight > 0.0:
            weight[u] = (prior_weight + high - low) / (prior_weight + square)
        w = weight[u]
        bound += 0.5 * ((high - low) * np.log(w) - w * square - log_determinant)
        bound += 0.5 * prior_weight * (np.log(w) - w)
        _pack_group(center, covariance, w, of_group)
        at = 0
        for k in range(size):
            for j in range(k + 1):
                doubled[at] = of_group[at] if j == k else 2.0 * of_group[at]
                at += 1
            if k > 0:
                spread[k - 1] += w * of_group[at - 1]
        for n in range(low, high):
            i = item[n]
            z = value[n]
            scaled = w * z
            fit, second = 0.0, 0.0
            for k in range(size):
                fit += mean[i, k] * center[k]
                linear[i, k] += scaled * center[k]
            for k in range(n_packed):
                second += moments[i, k] * doubled[k]
                sums[i, k] += w * of_group[k]
            squares[i] += w * max(z * z - 2.0 * z * fit + second, 0.0)
    return bound


@njit(cache=True, nogil=True, fastmath=FASTMATH)
@no_type_check
def item_pass(sums, linear, noise, prior_mean, prior_variance, mean, moments):
    """Mean and E[h h'] of all items given their sums; returns the items' part of the bound."""
    n_items, size = mean.shape
    precision, covariance = np.empty((size, size)), np.empty((size, size))
    right = np.empty(size)
    bound = 0.0
    for i in range(n_items):
        inverse_noise = 1.0 / noise[i]
        at = 0
        for k in range(size):
            for j in range(k + 1):
                precision[k, j] = sums[i, at] * inverse_noise
                at += 1
            precision[k, k] += 1.0 / prior_variance[k]
            right[k] = linear[i, k] * inverse_noise + prior_mean[k] / prior_variance[k]
        bound -= 0.5 * invert(precision, covariance)
        at = 0
        for k in range(size):
            total = 0.0
            for j in range(size):
                total += covariance[k, j] * right[j]
            mean[i, k] = total
            for j in range(k + 1):
                moments[i, at] = mean[i, k] * mean[i, j] + covariance[k, j]
                at += 1
            bound -= 0.5 * (total - prior_mean[k]) ** 2 / prior_variance[k]
            bound -= 0.5 * (covariance[k, k] / prior_variance[k] + np.log(prior_variance[k]) - 1.0)
    return bound
