"""A distribution as the page draws it: bars of labels, or a curve with its interval."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.explorer.questions import number_or_none, numbers_or_none
from exfam.scores.prediction import Prediction

_POINTS, _LABELS = 60, 12
# Where curves begin and end, and around the 90 % interval.
_LEVELS = (0.005, 0.05, 0.95, 0.995)


def bars_of(
    probability: Float64[np.ndarray, "labels"],
    labels: Sequence[Any],
    *,
    in_order: bool,
    own: int | None,
) -> dict[str, Any]:
    """The most probable labels, the first one first or `in_order`.

    `own`: index of the label that is there, None for none; `tail` is then the probability of one as
    improbable
    """
    order = np.argsort(-probability, kind="stable")[:_LABELS]
    order = np.sort(order) if in_order else order
    tail = None if own is None else float(probability[probability <= probability[own]].sum())
    bars = [{"label": labels[k], "probability": float(probability[k])} for k in order]
    return {"labels": bars, "n_labels": len(probability), "tail": tail}


def density_of(
    prediction: Prediction, value: Float64[np.ndarray, "1"], *, is_count: bool
) -> dict[str, Any]:
    """Of one row: center, 90 % interval, and a curve.

    `is_count`: whether it is of probabilities of whole numbers, not a density
    `value`: what is there, NaN for none; `nats` are of it, and `tail` is the probability of one as
        far out
    """
    own = prediction.mixture.double()
    # In one call: of a single row, calls cost more than numbers.
    ends = own[_first(len(_LEVELS))].quantile(torch.tensor(_LEVELS, dtype=torch.float64))
    first, low, high, last = ends.tolist()
    points = np.linspace(first, last, _POINTS)
    if is_count:
        points = np.unique(np.rint(points))
    nats = own[_first(len(points) + 1)].log_prob(torch.from_numpy(np.append(points, value)))
    density, tail, of_value = nats[:-1].exp(), None, None
    if not np.isnan(value[0]):
        below = float(own.cdf(torch.from_numpy(value))[0])
        tail, of_value = 2 * min(below, 1 - below), number_or_none(nats[-1])
    return {
        "nats": of_value,
        "center": number_or_none(own.center()[0]),
        "low": number_or_none(low),
        "high": number_or_none(high),
        "points": points.tolist(),
        "density": numbers_or_none(density),
        "tail": tail,
    }


def _first(times: int) -> Int64[torch.Tensor, "times"]:
    """The first row, so many times."""
    return torch.zeros(times, dtype=torch.int64)
