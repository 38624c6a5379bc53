"""What a prediction costs in each row, by the decision rules that all models share."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Shaped

from exfam_studies.experts.public_tables import TableShift
from exfam_studies.experts.shift_peers import Predicted, y_codes, y_levels

__all__ = ["MIXED_IN", "names_of", "row_losses"]

# Of a uniform law in the nats that are always finite.
MIXED_IN = 1e-3
# By task: metric and decision rule, of which "rounded" is the label nearest to the mean.
_NAMES = {
    "regression": ("mse mean", "nats"),
    "ordinal": (
        "accuracy argmax",
        "accuracy rounded",
        "mse argmax",
        "mse mean",
        "nats",
        "nats-mixed",
    ),
    "classification": ("accuracy argmax", "nats", "nats-mixed"),
}


def names_of(task: str) -> Sequence[str]:
    """The losses of a task: a metric and, where one is needed, a decision rule.

    >>> names_of("regression")
    ('mse mean', 'nats')
    """
    return _NAMES[task]


def row_losses(
    predicted: Predicted, y: Shaped[np.ndarray, "rows"], *, shift: TableShift
) -> Mapping[str, Float[np.ndarray, "rows"]]:
    """Each row's losses by name: 1 for a right decision, a squared error, -log p(y) in nats.

    Squared errors of levels are those of places among them. "nats-mixed" have a thousandth of a
    uniform law mixed in; nats are infinite where what happened had no chance.
    """
    if predicted.chances is None:
        return _of_number(predicted, y.astype(np.float64))
    codes, chances = y_codes(y, y_levels(shift)), predicted.chances
    p = chances[np.arange(len(codes)), codes]
    mean, likeliest = chances @ np.arange(chances.shape[1]), chances.argmax(axis=1)
    with np.errstate(divide="ignore"):
        known = {
            "accuracy argmax": likeliest == codes,
            "accuracy rounded": np.rint(mean) == codes,
            "mse argmax": (likeliest - codes) ** 2,
            "mse mean": (mean - codes) ** 2,
            "nats": -np.log(p),
            "nats-mixed": -np.log(p * (1 - MIXED_IN) + MIXED_IN / chances.shape[1]),
        }
    return {name: known[name].astype(np.float64) for name in names_of(shift.task)}


def _of_number(
    predicted: Predicted, y: Float[np.ndarray, "rows"]
) -> dict[str, Float[np.ndarray, "rows"]]:
    assert predicted.mean is not None
    squared = (predicted.mean - y) ** 2
    if predicted.log_prob is not None:
        return {"mse mean": squared, "nats": -predicted.log_prob(y)}
    sd = predicted.sd
    assert sd is not None
    return {
        "mse mean": squared,
        "nats": 0.5 * squared / sd**2 + np.log(sd) + 0.5 * np.log(2 * np.pi),
    }
