"""Sums over the past of a stream that fade exponentially, and their gradients."""

from typing import no_type_check

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
@no_type_check
def decayed_sums(time, start, stop, weight, rates):
    """sums[n, k]: of event n and those before it in its stream, weight * exp(-rate_k * age)."""
    sums = np.zeros((len(time), len(rates)))
    for stream in range(len(start)):
        for n in range(start[stream], stop[stream]):
            for k in range(len(rates)):
                past = 0.0
                if n > start[stream]:
                    past = sums[n - 1, k] * np.exp(-rates[k] * (time[n] - time[n - 1]))
                sums[n, k] = past + weight[n]
    return sums


@njit(cache=True, nogil=True)
@no_type_check
def decayed_gradients(time, start, stop, upstream, rates):
    """The gradient of each event's weight, where that of `decayed_sums` is `upstream`."""
    gradient = np.zeros(len(time))
    later = np.zeros(len(rates))
    for stream in range(len(start)):
        later[:] = 0.0
        for n in range(stop[stream] - 1, start[stream] - 1, -1):
            total = 0.0
            for k in range(len(rates)):
                if n + 1 < stop[stream]:
                    later[k] *= np.exp(-rates[k] * (time[n + 1] - time[n]))
                later[k] += upstream[n, k]
                total += later[k]
            gradient[n] = total
    return gradient
