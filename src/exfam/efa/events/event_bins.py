"""Distributions of waits that are reshaped in bins of what a base expects.

Let S be the base's survival function of a wait. It is cut at fixed levels 1 = e_0 > e_1 > ... = 0
into bins of mass m_j = e_(j-1) - e_j, and the corrected one is linear in S within each of them,

    S'(S) = (sum of q_i, i > j) + q_j (S - e_j) / m_j,    q = softmax(log m + gate * network(past)).

So it is a distribution whatever the network says, exact with cells and open ends, and the base
itself where the network is 0.
"""

import numpy as np
from jaxtyping import Bool, Float

_LOWER = (0.0, 0.004, 0.015, 0.04, 0.08, 0.13, 0.2, 0.28, 0.36, 0.44, 0.5)
EDGES = np.array([*_LOWER, *(1 - level for level in _LOWER[-2::-1])])
MASS = np.diff(EDGES)
N_BINS = len(MASS)


def bin_shares(logits: Float[np.ndarray, "n bins"]) -> Float[np.ndarray, "n bins"]:
    """q, from the shortest waits to the longest."""
    tilted = MASS * np.exp(logits - logits.max(1, keepdims=True))
    shares: np.ndarray = tilted / tilted.sum(1, keepdims=True)
    return shares


def shares_of_bins(
    early: Float[np.ndarray, "n"], late: Float[np.ndarray, "n"], is_point: Bool[np.ndarray, "n"]
) -> Float[np.ndarray, "n bins"]:
    """By how much each bin's q multiplies a probability that the base has between two survivals.

    r_j, so that the corrected probability is the base's times the sum of q_j r_j, which is 1 where
    q is the mass. `is_point`: densities at `late`.
    """
    low, high = 1 - early, 1 - late
    overlap = np.minimum(high[:, None], EDGES[1:]) - np.maximum(low[:, None], EDGES[:-1])
    overlap = overlap.clip(0.0)
    where = np.searchsorted(EDGES, high, side="left").clip(1, N_BINS) - 1
    same = is_point | (where == np.searchsorted(EDGES, low, side="right").clip(1, N_BINS) - 1)
    same |= overlap.sum(1) <= 0
    point = np.zeros_like(overlap)
    point[np.arange(len(where)), where] = 1.0
    held = np.where(same[:, None], point, overlap)
    shares: np.ndarray = held / held.sum(1, keepdims=True) / MASS
    return shares


def corrected_survival(
    survival: Float[np.ndarray, "n"], shares: Float[np.ndarray, "n bins"]
) -> Float[np.ndarray, "n"]:
    """S'(S)."""
    where = np.searchsorted(EDGES, 1 - survival, side="right").clip(1, N_BINS) - 1
    row = np.arange(len(survival))
    later = shares[:, ::-1].cumsum(1)[:, ::-1] - shares
    within = (survival - (1 - EDGES[1:][where])) / MASS[where]
    return later[row, where] + shares[row, where] * within


def corrected_hazard_ratio(
    survival: Float[np.ndarray, "n"], shares: Float[np.ndarray, "n bins"]
) -> Float[np.ndarray, "n"]:
    """By how much the hazard is multiplied where the base has survived so far."""
    where = np.searchsorted(EDGES, 1 - survival, side="right").clip(1, N_BINS) - 1
    denser = shares[np.arange(len(where)), where] / MASS[where]
    return denser * survival / corrected_survival(survival, shares)


def base_survival(
    corrected: Float[np.ndarray, "n"], shares: Float[np.ndarray, "n bins"]
) -> Float[np.ndarray, "n"]:
    """The S of an S'(S)."""
    later = shares[:, ::-1].cumsum(1)[:, ::-1] - shares
    where = (later > corrected[:, None]).sum(1).clip(max=N_BINS - 1)
    row = np.arange(len(corrected))
    within = (corrected - later[row, where]) / shares[row, where]
    return 1 - EDGES[1:][where] + MASS[where] * within
