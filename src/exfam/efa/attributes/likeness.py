"""How much new items are like those of the fit, and how popular their attributes make them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

# Penalties of the regression of log counts on features, times the number of items.
_PENALTIES = 10.0 ** np.arange(-4, 2.5, 0.5)
# Old items that a new one is like at most.
_MOST = 200


def like_items(
    new: Float[np.ndarray, "new features"],
    old: Float[np.ndarray, "items features"],
    known: Bool[np.ndarray, "items"],
    *,
    width: float,
) -> Float[np.ndarray, "new items"]:
    """How much each new item is like each old one: shares that sum to 1, near items most.

        share_k proportional to exp(-|x_new - x_k|^2 / (2 width^2 s^2))

    s^2 is the mean square of all distances between old items, of which the nearest 200 have a
    share, and others that are as near. `known`: the old items that have
    attributes; the others have no share.
    """
    some = old[known]
    spread = 2 * float(np.square(some - some.mean(0)).sum(1).mean()) if len(some) else 0.0
    apart = np.square(new).sum(1)[:, None] + np.square(some).sum(1) - 2 * new @ some.T
    if apart.shape[1] > _MOST:
        farthest = np.partition(apart, _MOST - 1, axis=1)[:, _MOST - 1 : _MOST]
        apart = np.where(apart <= farthest, apart, np.inf)
    log_share = -apart / (2 * width**2 * max(spread, 1e-12))
    share = np.exp(log_share - log_share.max(1, keepdims=True, initial=-np.inf))
    out = np.zeros((len(new), len(old)))
    out[:, known] = share / share.sum(1, keepdims=True)
    return out


class CountLine(NamedTuple):
    """Log counts of items as a line in their features, by ridge regression."""

    level: float
    slopes: Float[np.ndarray, "features"]

    @classmethod
    def of(
        cls,
        features: Float[np.ndarray, "items features"],
        log_count: Float[np.ndarray, "items"],
    ) -> "CountLine":
        """The penalty is the one of the least squared error with each item left out."""
        mean, level = features.mean(0), float(log_count.mean())
        left, size, right = np.linalg.svd(features - mean, full_matrices=False)
        along = left.T @ (log_count - level)
        best, slopes = np.inf, np.zeros(features.shape[1])
        for penalty in _PENALTIES * len(features):
            kept = np.square(size) / (np.square(size) + penalty)
            rest = log_count - level - left @ (kept * along)
            leverage = np.square(left) @ kept + 1 / len(features)
            error = float(np.square(rest / np.maximum(1 - leverage, 1e-6)).mean())
            if error < best:
                best, slopes = error, right.T @ (size / (np.square(size) + penalty) * along)
        return cls(level - float(mean @ slopes), slopes)

    def at(self, features: Float[np.ndarray, "new features"]) -> Float[np.ndarray, "new"]:
        """Log counts of items with these features."""
        return self.level + features @ self.slopes
