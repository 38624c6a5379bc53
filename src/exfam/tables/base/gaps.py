"""How sure a pool is of a number by which cells of the row are missing, beyond how many."""

import numpy as np
from jaxtyping import Bool, Float64
from scipy.optimize import minimize

# The standard deviation that effects of columns are expected to have: of log scales.
_USUAL = 0.5
_STEPS = 100


def unevenness(missing: Bool[np.ndarray, "rows columns"]) -> Float64[np.ndarray, "rows columns"]:
    """Which cells of a row are missing, less the share that is: 0 if all are, or none."""
    marks = missing.astype(np.float64)
    return marks - marks.mean(1, keepdims=True) if marks.size else marks


def fit_gap_effects(
    error: Float64[np.ndarray, "rows"],
    missing: Bool[np.ndarray, "rows columns"],
    weight: Float64[np.ndarray, "rows"],
    *,
    df: float,
) -> Float64[np.ndarray, "columns"]:
    """What a missing cell of each column adds to the log scale, compared with the others'.

    The effects under which a Student t of `df` degrees of freedom has the least nats, shrunk to 0.

    `error`: in units of the scale
    """
    uneven, share = unevenness(missing), weight / weight.sum()
    penalty = 0.5 / (_USUAL**2 * len(error))

    def nats(effects: np.ndarray) -> tuple[float, np.ndarray]:
        added = uneven @ effects
        square = (error * np.exp(-added)) ** 2
        own = (df + 1) / 2 * np.log1p(square / df) + added
        slope = 1 - (df + 1) * square / (df + square)
        value = share @ own + penalty * (effects @ effects)
        return float(value), (share * slope) @ uneven + 2 * penalty * effects

    start, options = np.zeros(missing.shape[1]), {"maxiter": _STEPS}
    effects: np.ndarray = minimize(nats, start, jac=True, method="L-BFGS-B", options=options).x
    return effects
