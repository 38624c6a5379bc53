"""Predictors of a coded response, and the decision rules and figures that all of them share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64

__all__ = [
    "RULES",
    "Fitted",
    "Fitter",
    "SideBySide",
    "decide",
    "figures_of",
    "gaussian_bins",
    "mean_nats",
]

RULES = ("argmax", "mean")
# Of a model that gives no chance to what happens: nats with this share of a uniform law mixed in.
MIXED_IN = 1e-3

Codes = Int64[np.ndarray, "rows columns"]
Chances = Float[np.ndarray, "rows categories"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model: probabilities of all codes of the response given rows of codes.

    `chosen`: what was chosen by validation, by name

    >>> Fitted(lambda rows: np.full((len(rows), 2), 0.5)).predict_proba(np.zeros((1, 3), int))
    array([[0.5, 0.5]])
    """

    predict_proba: Callable[[Codes], Chances]
    chosen: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@runtime_checkable
class Fitter(Protocol):
    """Fits a model to rows of codes 0 .. n_categories - 1 and the codes of their response."""

    def __call__(
        self,
        train_x: Int64[np.ndarray, "rows columns"],
        train_y: Int64[np.ndarray, "rows"],
        *,
        n_categories: int,
        seed: int,
    ) -> Fitted:
        """The model, fitted; `seed` decides all that is left to chance."""
        ...


@runtime_checkable
class SideBySide(Protocol):
    """Fits a model to each of several tables of one size, in one go."""

    def __call__(
        self,
        train_x: Sequence[Int64[np.ndarray, "rows columns"]],
        train_y: Sequence[Int64[np.ndarray, "rows"]],
        *,
        n_categories: int,
        seed: int,
    ) -> list[Fitted]:
        """One fitted model a table."""
        ...


def decide(
    chances: Float[np.ndarray, "rows categories"], *, rule: str
) -> Int64[np.ndarray, "rows"]:
    """The code that is predicted: the most probable one, or the rounded mean.

    >>> chances = np.array([[0.4, 0.3, 0.3]])
    >>> decide(chances, rule="argmax"), decide(chances, rule="mean")
    (array([0]), array([1]))
    """
    if rule == "argmax":
        return np.argmax(chances, axis=1).astype(np.int64)
    return np.rint(chances @ np.arange(chances.shape[1])).astype(np.int64)


def mean_nats(
    chances: Float[np.ndarray, "rows categories"],
    y: Int64[np.ndarray, "rows"],
    *,
    mixed_in: float = 0.0,
) -> float:
    """Mean of -log p(y), infinite if any y has no chance; `mixed_in`: share of a uniform law.

    >>> round(mean_nats(np.array([[0.5, 0.5]]), np.array([0])), 4)
    0.6931
    """
    p = chances[np.arange(len(y)), y] * (1 - mixed_in) + mixed_in / chances.shape[1]
    with np.errstate(divide="ignore"):
        return float(-np.log(p).mean())


def figures_of(
    chances: Float[np.ndarray, "rows categories"], y: Int64[np.ndarray, "rows"]
) -> dict[str, float | None]:
    """Accuracy and squared error of both rules, and nats, by name; infinite nats are None.

    "nats-mixed" are nats with a thousandth of a uniform law mixed in, always finite.

    >>> figures = figures_of(np.array([[0.4, 0.3, 0.3]]), np.array([2]))
    >>> figures["mse-argmax"], figures["mse-mean"]
    (4.0, 1.0)
    """
    figures: dict[str, float | None] = {}
    for rule in RULES:
        predicted = decide(chances, rule=rule)
        figures[f"accuracy-{rule}"] = float(np.mean(predicted == y))
        figures[f"mse-{rule}"] = float(np.mean((predicted - y) ** 2.0))
    nats = mean_nats(chances, y)
    figures["nats"] = nats if np.isfinite(nats) else None
    figures["nats-mixed"] = mean_nats(chances, y, mixed_in=MIXED_IN)
    return figures


def gaussian_bins(
    mean: Float[np.ndarray, "rows"],
    sd: Float[np.ndarray, "#rows"],
    edges: Float[np.ndarray, "edges"],
) -> Float[np.ndarray, "rows categories"]:
    """Probabilities of the intervals between increasing edges, and of those beyond them.

    >>> gaussian_bins(np.zeros(1), np.ones(1), np.zeros(1))
    array([[0.5, 0.5]])
    """
    from scipy.special import ndtr

    z = (np.concatenate([[-np.inf], edges, [np.inf]]) - mean[:, None]) / sd[:, None]
    low, high = z[:, :-1], z[:, 1:]
    # Beyond the mean the upper tail is the exact one: 1 - tiny leaves no digits to subtract.
    above = low > 0
    low, high = np.where(above, -high, low), np.where(above, -low, high)
    return np.asarray(ndtr(high) - ndtr(low))
