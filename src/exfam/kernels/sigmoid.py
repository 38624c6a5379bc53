"""The logistic function by a table, and the exact nats of a yes or no."""

import math
from typing import no_type_check

import numpy as np
from jaxtyping import Float32
from numba import njit

__all__ = ["LARGEST_LOGIT", "nats_of", "sigmoid", "sigmoid_table"]

LARGEST_LOGIT = np.float32(6.0)
_ENTRIES = 2048
_PER_LOGIT = np.float32(_ENTRIES / 12.0)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


def sigmoid_table() -> Float32[np.ndarray, "entries"]:
    """The function between logits of -6 and 6, each entry that of its interval's middle.

    >>> sigmoid_table()[[0, 1023, 1024, -1]].round(3)
    array([0.002, 0.499, 0.501, 0.998], dtype=float32)
    """
    logit = (np.arange(_ENTRIES) + 0.5) / _ENTRIES * 12.0 - 6.0
    return (1.0 / (1.0 + np.exp(-logit))).astype(np.float32)


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def sigmoid(logit, table):
    """1 / (1 + exp(-logit)), within 0.0008 up to logits of 6; 0 and 1 beyond, as in word2vec.

    >>> table = sigmoid_table()
    >>> bool(abs(sigmoid(np.float32(1.0), table) - 0.7311) < 1e-3), sigmoid(7.0, table)
    (True, 1.0)
    """
    if logit >= LARGEST_LOGIT:
        return _ONE
    # NaN is neither: it may not choose an entry.
    if logit > -LARGEST_LOGIT:
        return table[int((logit + LARGEST_LOGIT) * _PER_LOGIT)]
    return _ZERO


@njit(cache=True, nogil=True, inline="always")
@no_type_check
def nats_of(logit, label):
    """Minus the log-probability of `label`, 1 or 0, exact for every logit.

    >>> round(nats_of(0.0, 1), 4), nats_of(-800.0, 1), nats_of(-800.0, 0)
    (0.6931, 800.0, 0.0)
    """
    wrong = -float(logit) if label else float(logit)
    return max(wrong, 0.0) + math.log1p(math.exp(-abs(wrong))) if wrong == wrong else math.nan
