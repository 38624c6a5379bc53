"""Ridge regression in closed form."""

import numpy as np

from exfam.tables.base.linear_heads import HeadRows, LinearHead
from exfam.tables.base.products import no_pairs

# Penalties on squared weights, of which leaving out a row at a time chooses one.
PENALTIES = np.logspace(-9, 2, 34)
_LEAST_SPREAD = 1e-9


def fit_plain_ridge(train: HeadRows) -> LinearHead:
    """Ridge regression on the features that vary, of the penalty that leaving out rows prefers."""
    features, share = train.features, train.weight / train.weight.sum()
    center, mean = share @ features, float(share @ train.y)
    spread = np.sqrt(share @ (features - center) ** 2)
    varies = spread > _LEAST_SPREAD
    spread = np.where(varies, spread, 1.0)
    root = np.sqrt(share)[:, None]
    x = root * ((features - center) / spread)[:, varies]
    own, sizes, directions = np.linalg.svd(x, full_matrices=False)
    aim = root[:, 0] * (train.y - mean)
    along, best = own.T @ aim, (np.inf, 0.0)
    for penalty in PENALTIES:
        kept = sizes**2 / (sizes**2 + penalty)
        leverage = np.minimum(own**2 @ kept + share, 1 - 1e-9)
        error = float((((aim - own @ (kept * along)) / (1 - leverage)) ** 2).sum())
        best = min(best, (error, float(penalty)))
    error, penalty = best
    weights = np.zeros((features.shape[1], 1))
    weights[varies, 0] = directions.T @ (along * sizes / (sizes**2 + penalty))
    bias = np.full(1, mean)
    return LinearHead(center, spread, weights, bias, np.empty(0), no_pairs(), penalty, error)
