"""Compiled passes over the cells of groups; their callers import them late, as numba is slow."""

from typing import no_type_check

import numpy as np
from numba import njit

from exfam.kernels.packed import invert


@njit(cache=True, nogil=True)
@no_type_check
def sum_others(offset, rows, classes, share, causal, others, expected):
    """Fill `others` and `expected` by counts of other values' classes, and what items expect."""
    n_classes = share.shape[1]
    seen, wanted = np.empty(n_classes), np.empty(n_classes)
    for u in range(len(offset) - 1):
        seen[:] = 0.0
        wanted[:] = 0.0
        for n in range(offset[u], offset[u + 1]):
            for k in range(n_classes):
                others[n, k], expected[n, k] = seen[k], wanted[k]
            if classes[n] >= 0:
                seen[classes[n]] += 1.0
                for k in range(n_classes):
                    wanted[k] += share[rows[n], k]
        if causal:
            continue
        for n in range(offset[u], offset[u + 1]):
            for k in range(n_classes):
                others[n, k], expected[n, k] = seen[k], wanted[k]
            if classes[n] >= 0:
                others[n, classes[n]] -= 1.0
                for k in range(n_classes):
                    expected[n, k] -= share[rows[n], k]


@njit(cache=True, nogil=True)
@no_type_check
def sum_amounts(offset, value, causal, found):
    """Fill columns 1 and 2 of `found` by sums of other values, and of their cells' column 0.

    From both sides, not by differences: an own value that is large would take digits with it.
    """
    for u in range(len(offset) - 1):
        low, high = offset[u], offset[u + 1]
        total, wanted = 0.0, 0.0
        for n in range(low, high):
            found[n, 1], found[n, 2] = total, wanted
            if not np.isnan(value[n]):
                total, wanted = total + value[n], wanted + found[n, 0]
        total, wanted = 0.0, 0.0
        for back in range(0 if causal else high - low):
            n = high - 1 - back
            found[n, 1] += total
            found[n, 2] += wanted
            if not np.isnan(value[n]):
                total, wanted = total + value[n], wanted + found[n, 0]


@njit(cache=True, nogil=True)
@no_type_check
def near_means(offset, rest, tied, decay, causal, near):
    """Means of the residuals before, and after unless causal, by weights decay^(steps - 1).

    A step leads to the next point of the order; others at the same point have a weight of 1.
    """
    for u in range(len(offset) - 1):
        low, high = offset[u], offset[u + 1]
        weights = np.ones(high - low)
        total, weight = 0.0, 0.0
        start = low
        while start < high:
            stop, here, n_here = start, 0.0, 0.0
            while stop < high and (stop == start or tied[stop]):
                if not np.isnan(rest[stop]):
                    here, n_here = here + rest[stop], n_here + 1.0
                stop += 1
            for n in range(start, stop):
                near[n] = total
                weights[n - low] += weight
                if stop - start > 1:
                    own = not np.isnan(rest[n])
                    near[n] += here - (rest[n] if own else 0.0)
                    weights[n - low] += n_here - own
            total, weight, start = decay * total + here, decay * weight + n_here, stop
        total, weight = 0.0, 0.0
        stop = high
        while stop > low and not causal:
            start, here, n_here = stop, 0.0, 0.0
            while start == stop or tied[start]:
                start -= 1
                if not np.isnan(rest[start]):
                    here, n_here = here + rest[start], n_here + 1.0
                if start == low:
                    break
            for n in range(start, stop):
                near[n] += total
                weights[n - low] += weight
            total, weight, stop = decay * total + here, decay * weight + n_here, start
        for n in range(low, high):
            near[n] /= weights[n - low]


@njit(cache=True, nogil=True)
@no_type_check
def filter_cells(offset, rows, rest, loading, noise, found):
    """Fill `found` by mean (less the item's), variance, chi-square and number of earlier values."""
    size = loading.shape[1]
    covariance = np.empty((size, size))
    center, onto = np.empty(size), np.empty(size)
    for u in range(len(offset) - 1):
        covariance[:] = 0.0
        center[:] = 0.0
        for k in range(size):
            covariance[k, k] = 1.0
        chi_square, count = 0.0, 0
        for n in range(offset[u], offset[u + 1]):
            i = rows[n]
            mean, variance = 0.0, noise[i]
            for k in range(size):
                onto[k] = 0.0
                for j in range(size):
                    onto[k] += covariance[k, j] * loading[i, j]
                mean += loading[i, k] * center[k]
                variance += loading[i, k] * onto[k]
            found[0, n], found[1, n] = mean, variance
            found[2, n], found[3, n] = chi_square, count
            if np.isnan(rest[n]):
                continue
            error = (rest[n] - mean) / variance
            chi_square += error * (rest[n] - mean)
            count += 1
            for k in range(size):
                center[k] += onto[k] * error
                for j in range(size):
                    covariance[k, j] -= onto[k] * onto[j] / variance


@njit(cache=True, nogil=True)
@no_type_check
def leave_out(offset, rows, rest, loading, noise, found):
    """Fill `found` by mean (less the item's), variance, chi-square and number of others."""
    size = loading.shape[1]
    precision, covariance = np.empty((size, size)), np.empty((size, size))
    total, solved, onto = np.empty(size), np.empty(size), np.empty(size)
    for u in range(len(offset) - 1):
        low, high = offset[u], offset[u + 1]
        precision[:] = 0.0
        total[:] = 0.0
        square, count = 0.0, 0
        for k in range(size):
            precision[k, k] = 1.0
        for n in range(low, high):
            r = rest[n]
            if np.isnan(r):
                continue
            count += 1
            i = rows[n]
            scale = 1.0 / noise[i]
            square += r * r * scale
            for k in range(size):
                part = loading[i, k] * scale
                total[k] += part * r
                for j in range(k + 1):
                    precision[k, j] += part * loading[i, j]
        invert(precision, covariance)
        for k in range(size):
            solved[k] = 0.0
            for j in range(size):
                solved[k] += covariance[k, j] * total[j]
        chi_square = square
        for k in range(size):
            chi_square -= total[k] * solved[k]
        for n in range(low, high):
            i, r = rows[n], rest[n]
            center, h = 0.0, 0.0
            for k in range(size):
                onto[k] = 0.0
                for j in range(size):
                    onto[k] += covariance[k, j] * loading[i, j]
                h += onto[k] * loading[i, k]
                center += loading[i, k] * solved[k]
            if np.isnan(r):
                found[0, n], found[1, n] = center, noise[i] + h
                found[2, n], found[3, n] = max(chi_square, 0.0), count
                continue
            left = 1.0 - h / noise[i]
            mean = (center - h * r / noise[i]) / left
            variance = noise[i] / left
            found[0, n], found[1, n] = mean, variance
            found[2, n] = max(chi_square - (r - mean) ** 2 / variance, 0.0)
            found[3, n] = count - 1
