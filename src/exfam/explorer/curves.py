"""A distribution as the page draws it: bars of labels, or a curve with its interval."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from exfam.explorer.questions import number_or_none
from exfam.scores.prediction import Prediction

_POINTS, _LABELS = 60, 12
_TAIL = 0.005


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
    `value`: what is there, NaN for none; `tail` is then the probability of one as far out
    """
    low, high = (float(end[0]) for end in prediction.interval())
    first, last = (float(prediction.quantile(p)[0]) for p in (_TAIL, 1 - _TAIL))
    points = np.linspace(first, last, _POINTS)
    if is_count:
        points = np.unique(np.rint(points))
    rows = torch.zeros(len(points), dtype=torch.int64)
    density = prediction.mixture[rows].double().log_prob(torch.from_numpy(points)).exp()
    tail = None
    if not np.isnan(value[0]):
        below = float(prediction.cdf(value)[0])
        tail = 2 * min(below, 1 - below)
    return {
        "center": number_or_none(prediction.center[0]),
        "low": number_or_none(low),
        "high": number_or_none(high),
        "points": points.tolist(),
        "density": [number_or_none(one) for one in density],
        "tail": tail,
    }
