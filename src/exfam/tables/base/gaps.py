"""How sure a pool is of a number by which cells of the row are missing, beyond how many."""

import numpy as np
from jaxtyping import Bool, Float64
from scipy.optimize import minimize

# Effects of columns are shrunk as by a Cauchy distribution of this scale: small ones to almost 0,
# large ones hardly.
_USUAL = 0.1
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
    uneven, share, n_rows = unevenness(missing), weight / weight.sum(), len(error)

    def nats(effects: np.ndarray) -> tuple[float, np.ndarray]:
        added = uneven @ effects
        square = (error * np.exp(-added)) ** 2
        own = (df + 1) / 2 * np.log1p(square / df) + added
        slope = 1 - (df + 1) * square / (df + square)
        value = share @ own + np.log1p((effects / _USUAL) ** 2).sum() / n_rows
        shrunk = 2 * effects / (_USUAL**2 + effects**2) / n_rows
        return float(value), (share * slope) @ uneven + shrunk

    start, options = np.zeros(missing.shape[1]), {"maxiter": _STEPS}
    effects: np.ndarray = minimize(nats, start, jac=True, method="L-BFGS-B", options=options).x
    return effects
