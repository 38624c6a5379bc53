"""Ridge, logistic regression and ordered probit, on curves of numbers and products of columns."""

from typing import Any

import numpy as np
import pandas as pd
import scipy.optimize
import scipy.special
from benchmarks.arena.kind import Contender
from benchmarks.arena.tabular.choosing import Learned, Learning, fitting
from benchmarks.arena.tabular.coding import Features, learn_features
from benchmarks.arena.tabular.data import Rows
from jaxtyping import Float, Int64

SETTINGS: tuple[dict[str, Any], ...] = (
    {"products": True, "penalty": 10.0},
    {"products": True, "penalty": 100.0},
    {"products": True, "penalty": 1.0},
    {"products": True, "penalty": 1_000.0},
    {"products": False, "penalty": 10.0},
    {"products": False, "penalty": 100.0},
    {"products": False, "penalty": 1.0},
)
MOST_STEPS = 200
# What the probability of an ordered label is at least before its logarithm.
_LEAST = 1e-10


def learn_linear(rows: Rows, given: Learning) -> Learned:
    """Ridge regression of numbers, multinomial logistic regression of labels."""
    features = learn_features(rows.cells, curves=True, products=given.settings["products"])
    x, penalty = features.matrix(rows.cells), given.settings["penalty"]
    if given.n_labels is None:
        mean = rows.response.mean()
        gram = x.T @ x + penalty * np.eye(x.shape[1])
        weights = np.linalg.solve(gram, x.T @ (rows.response - mean))
        return Learned(lambda cells: features.matrix(cells) @ weights + mean)
    weights = _logistic(x, np.eye(given.n_labels)[rows.response], penalty)
    return Learned(lambda cells: _with_one(features.matrix(cells)) @ weights)


def _logistic(
    x: Float[np.ndarray, "rows features"], aim: Float[np.ndarray, "rows labels"], penalty: float
) -> Float[np.ndarray, "weights labels"]:
    x, shape = _with_one(x), (x.shape[1] + 1, aim.shape[1])
    # The last row is that of the constant.
    ridge = np.append(np.full(shape[0] - 1, penalty), 1e-3)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        log_prob = scipy.special.log_softmax(x @ weights, axis=1)
        value = -(aim * log_prob).sum() + (ridge * weights**2).sum() / 2
        slope = x.T @ (np.exp(log_prob) - aim) + ridge * weights
        return float(value), slope.ravel()

    return _least(loss, np.zeros(shape[0] * shape[1])).reshape(shape)


def learn_ordered(rows: Rows, given: Learning) -> Learned:
    """A normal number beyond thresholds in order."""
    features = learn_features(rows.cells, curves=True, products=given.settings["products"])
    x, n_labels = features.matrix(rows.cells), given.n_labels
    assert n_labels is not None
    label, penalty, n = rows.response, given.settings["penalty"], x.shape[1]
    count = np.bincount(label, minlength=n_labels) + 0.5
    cuts = scipy.special.ndtri(np.cumsum(count / count.sum())[:-1])
    start = np.concatenate([np.zeros(n), cuts[:1], np.log(np.diff(cuts))])

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        weights, ends = numbers[:n], _ends(numbers[n:])
        eta = x @ weights
        high, low = ends[label + 1] - eta, ends[label] - eta
        prob = np.maximum(scipy.special.ndtr(high) - scipy.special.ndtr(low), _LEAST)
        at_high, at_low = _density(high) / prob, _density(low) / prob
        by_cut = _by_cut(at_high, at_low, label, n_labels)
        # A gap moves its own threshold and all after it.
        later = np.cumsum(by_cut[::-1])[::-1]
        by_numbers = np.append(later[0], later[1:] * np.exp(numbers[n + 1 :]))
        slope = np.concatenate([x.T @ (at_high - at_low) + penalty * weights, by_numbers])
        return float(-np.log(prob).sum() + penalty * (weights**2).sum() / 2), slope

    found = _least(loss, start)
    return Learned(lambda cells: _log_probs(found, features, cells))


def _log_probs(numbers: np.ndarray, features: Features, cells: pd.DataFrame) -> np.ndarray:
    x = features.matrix(cells)
    n = x.shape[1]
    up_to = scipy.special.ndtr(_ends(numbers[n:]) - (x @ numbers[:n])[:, None])
    return np.log(np.maximum(np.diff(up_to, axis=1), _LEAST))


def _ends(numbers: np.ndarray) -> Float[np.ndarray, "ends"]:
    cuts = numbers[0] + np.concatenate([[0.0], np.cumsum(np.exp(numbers[1:]))])
    return np.concatenate([[-np.inf], cuts, [np.inf]])


def _density(at: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.square(at)) / np.sqrt(2 * np.pi)


def _by_cut(
    at_high: np.ndarray, at_low: np.ndarray, label: Int64[np.ndarray, "rows"], n_labels: int
) -> Float[np.ndarray, "cuts"]:
    """The derivative of the loss by each threshold."""
    of_high = np.bincount(label, weights=at_high, minlength=n_labels)[:-1]
    of_low = np.bincount(label, weights=at_low, minlength=n_labels)[1:]
    return of_low - of_high


def _least(loss: Any, start: np.ndarray) -> np.ndarray:
    options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS}
    return scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x


def _with_one(x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows weights"]:
    return np.column_stack([x, np.ones(len(x))])


def _without_order(data: Any) -> str | None:
    """Why the data cannot have thresholds, if so."""
    return None if data.ordered else "no labels in order"


CONTENDERS = {
    "linear": Contender(label="ridge or logistic", fit=fitting(learn_linear, SETTINGS)),
    "ordered-probit": Contender(
        label="ordered probit", fit=fitting(learn_ordered, SETTINGS), unsuited=_without_order
    ),
}
