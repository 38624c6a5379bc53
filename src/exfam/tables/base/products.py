"""Products of pairs of features, chosen by how they go with what a linear predictor leaves."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

# Indicators that are rarer, with a smaller spread, have no products.
LEAST_SPREAD = 0.15

Pairs = Int64[np.ndarray, "pairs 2"]
Standardized = Float64[np.ndarray, "rows features"]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Features that may be multiplied, and the column of each: only two columns' are."""

    feature: Int64[np.ndarray, " candidates"]
    column: Int64[np.ndarray, " candidates"]

    def where(self, kept: np.ndarray) -> "Candidates":
        """Those where `kept` is True."""
        return Candidates(self.feature[kept], self.column[kept])


def no_pairs() -> Pairs:
    """None at all."""
    return np.empty((0, 2), dtype=np.int64)


def products_of(x: Standardized, pairs: Pairs) -> Float64[np.ndarray, "rows pairs"]:
    """The products of standardized features."""
    return x[:, pairs[:, 0]] * x[:, pairs[:, 1]]


def best_pairs(
    x: Standardized,
    residual: Float64[np.ndarray, "rows outputs"],
    *,
    candidates: Candidates,
    taken: Int64[np.ndarray, "taken 2"],
    n: int,
) -> Pairs:
    """The pairs whose products correlate best with the residuals, beside those taken already.

    `residual`: the weighted derivatives of nats by each output
    """
    own = x[:, candidates.feature]
    sums = np.stack([(own * column[:, None]).T @ own for column in residual.T])
    mean = own.T @ own / len(own)
    sums -= residual.sum(0)[:, None, None] * mean
    variance = np.maximum((own**2).T @ own**2 / len(own) - mean**2, 1e-3)
    noise = np.maximum((residual**2).sum(0), 1e-30)
    strength = (sums**2 / noise[:, None, None]).sum(0) / variance
    strength[candidates.column[:, None] <= candidates.column] = 0.0
    for a, b in taken:
        strength[np.ix_(candidates.feature == a, candidates.feature == b)] = 0.0
    order = np.argsort(-strength, axis=None, kind="stable")[:n]
    order = order[strength.ravel()[order] > 0]
    first, second = np.unravel_index(order, strength.shape)
    return np.column_stack([candidates.feature[first], candidates.feature[second]])
