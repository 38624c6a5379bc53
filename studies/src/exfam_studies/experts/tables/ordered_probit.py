"""Ordered probit on normal scores: a normal variable, linear in the columns, cut into codes."""

import numpy as np
from jaxtyping import Float, Int64
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from exfam_studies.experts.tables.features import learn_features
from exfam_studies.experts.tables.predictions import (
    Columns,
    Fitted,
    Predicted,
    gaussian_bins,
    y_codes,
    y_levels,
)
from exfam_studies.experts.tables.public import TableShift

# Of cuts that fall together, where a code never occurs in training.
SMALLEST_LOG_STEP = -12.0
# Below the smallest normal number, for the logarithm of what underflows.
TINY = 1e-300


def fit_ordered_probit(table: TableShift, *, seed: int) -> Fitted:
    """Slopes and cuts of highest likelihood: p(y <= c | x) = Phi(cut_c - x . slope), x of codes."""
    n_levels, codes = len(y_levels(table)), learn_features(table).codes

    def scores_of(columns: Columns) -> Float[np.ndarray, "rows columns"]:
        # The normal quantile at the middle of each code's share, codes being quantile bins.
        return np.asarray(ndtri((codes(columns) + 0.5) / n_levels))

    scores, y = scores_of(table.train), y_codes(table.train_y, y_levels(table))
    n_slopes = scores.shape[1]
    share = np.bincount(y, minlength=n_levels).cumsum()[:-1] + 0.5
    cuts = ndtri(share / (len(y) + 1.0))
    steps = np.log(np.maximum(np.diff(cuts), np.exp(SMALLEST_LOG_STEP)))
    start = np.concatenate([np.zeros(n_slopes), cuts[:1], steps])
    bounds = [(None, None)] * (n_slopes + 1) + [(SMALLEST_LOG_STEP, None)] * len(steps)
    best = minimize(
        probit_loss, start, args=(scores, y), jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 2000, "maxfun": 4000},
    )  # fmt: skip
    slopes, cuts = _parts(best.x, n_slopes)
    return Fitted(
        lambda columns: Predicted(chances=gaussian_bins(scores_of(columns) @ slopes, 1.0, cuts))
    )


def _parts(
    parameters: Float[np.ndarray, "parameters"], n_slopes: int
) -> tuple[Float[np.ndarray, "columns"], Float[np.ndarray, "cuts"]]:
    """Slopes and increasing cuts: the first one, then logarithms of steps."""
    first, steps = parameters[n_slopes : n_slopes + 1], np.exp(parameters[n_slopes + 1 :])
    return parameters[:n_slopes], np.cumsum(np.concatenate([first, steps]))


def probit_loss(
    parameters: Float[np.ndarray, "parameters"],
    scores: Float[np.ndarray, "rows columns"],
    y: Int64[np.ndarray, "rows"],
) -> tuple[float, Float[np.ndarray, "parameters"]]:
    """Mean of -log p(y | x) and its gradient."""
    slopes, cuts = _parts(parameters, scores.shape[1])
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    latent = scores @ slopes
    low, high = edges[y] - latent, edges[y + 1] - latent
    # The mirror image has the same probability, and is exact in the upper tail.
    above = low > 0
    p = ndtr(np.where(above, -low, high)) - ndtr(np.where(above, -high, low))
    p = np.maximum(p, TINY)
    to_low, to_high = norm.pdf(low) / p, norm.pdf(high) / p
    of_edges = np.bincount(y, to_low, len(edges) - 1) - np.bincount(y + 1, to_high, len(edges))[:-1]
    # Each cut after the first moves with all steps before it.
    of_steps = np.cumsum(of_edges[:0:-1])[::-1]
    of_steps[1:] *= np.exp(parameters[len(slopes) + 1 :])
    gradient = np.concatenate([scores.T @ (to_high - to_low), of_steps]) / len(y)
    return float(-np.log(p).mean()), gradient
