"""Logistic regression on vectors: classes by their probabilities, all weights penalized alike."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64
from scipy.optimize import minimize
from scipy.special import log_softmax

STEPS = 500


@dataclass(frozen=True, eq=False)
class SoftmaxFit:
    """A fitted logistic regression.

    `center`, `scale`: what vectors are moved and divided by first, one number for all dimensions
    """

    weights: Float[np.ndarray, "dim classes"]
    offsets: Float[np.ndarray, "classes"]
    center: Float[np.ndarray, "dim"]
    scale: float

    def log_prob(
        self, features: Float[np.ndarray, "sentences dim"]
    ) -> Float[np.ndarray, "sentences classes"]:
        """Log probability of each class, in nats."""
        scaled = (features - self.center) / self.scale
        return np.asarray(log_softmax(scaled @ self.weights + self.offsets, axis=1))

    def predict(self, features: Float[np.ndarray, "sentences dim"]) -> Int64[np.ndarray, "_"]:
        """The most probable class of each, the first of equals."""
        return self.log_prob(features).argmax(1)


def fit_softmax(
    features: Float[np.ndarray, "sentences dim"],
    codes: Int64[np.ndarray, "sentences"],
    *,
    n_classes: int,
    penalty: float,
) -> SoftmaxFit:
    """Minimize mean nats + penalty / 2 * sum of squared weights, by L-BFGS of at most 500 steps.

    Dimensions are centered, and divided by one number, the root of their mean variance, so that
    neither the scale of vectors nor a constant added to all matters.

    >>> x = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    >>> fit_softmax(x, np.array([0, 0, 1, 1]), n_classes=2, penalty=0.1).predict(x)
    array([0, 0, 1, 1])
    """
    center = features.mean(0)
    scale = float(np.sqrt(features.var(0).mean())) or 1.0
    scaled = (features - center) / scale
    n, dim = scaled.shape
    targets = np.eye(n_classes)[codes]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights, offsets = flat[:-n_classes].reshape(dim, n_classes), flat[-n_classes:]
        log_prob = log_softmax(scaled @ weights + offsets, axis=1)
        error = (np.exp(log_prob) - targets) / n
        slope = scaled.T @ error + penalty * weights
        nats = -(targets * log_prob).sum() / n + penalty / 2 * (weights**2).sum()
        return float(nats), np.concatenate([slope.ravel(), error.sum(0)])

    start = np.zeros((dim + 1) * n_classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    return SoftmaxFit(found[:-n_classes].reshape(dim, n_classes), found[-n_classes:], center, scale)
