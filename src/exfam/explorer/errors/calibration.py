"""Whether probabilities of a slice come true, as the library's own scores say."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64

from exfam.explorer.questions import number_or_none
from exfam.explorer.views import Answer
from exfam.families.mixtures import Mixture
from exfam.scores.calibration import (
    Reliability,
    integral_shares,
    interval_coverage,
    reliability,
)

_LEVELS = (0.5, 0.8, 0.9)
_BARS = 10


def values_come_true(mixture: Mixture, value: Float[torch.Tensor, "rows"]) -> Answer:
    """Where values fall in their distributions, and how many central intervals hold them."""
    shares = integral_shares(mixture, value, n_bars=_BARS)
    intervals = [
        {"level": own.level, "observed": own.observed, "spread": number_or_none(own.spread)}
        for own in interval_coverage(mixture, value, levels=_LEVELS)
    ]
    return {
        "kind": "values",
        "n": shares.n,
        "share": shares.share.tolist(),
        "spread": [number_or_none(own) for own in shares.spread],
        "intervals": intervals,
    }


def choices_come_true(bins: Reliability) -> Answer:
    """Of labels or items in bins of their probability: the mean of it, and how often they were."""
    held = np.flatnonzero(bins.pairs)[::-1]
    pairs = bins.pairs[held]
    return {
        "kind": "choices",
        "n": int(bins.observed.sum()),
        "error": bins.error,
        "bins": [
            {"predicted": predicted, "observed": observed, "spread": spread, "pairs": int(n)}
            for predicted, observed, spread, n in zip(
                (bins.predicted[held] / pairs).tolist(),
                (bins.observed[held] / pairs).tolist(),
                (np.sqrt(bins.variance[held]) / pairs).tolist(),
                pairs,
                strict=True,
            )
        ],
    }


def of_each_target(
    probability: Float[np.ndarray, "targets items"], item: Int64[np.ndarray, "targets"]
) -> list[Reliability]:
    """The bins of each target alone: those of any slice are sums of them."""
    return [reliability(probability[k : k + 1], item[k : k + 1]) for k in range(len(item))]


class TargetBins:
    """Bins of many targets, of which some are added."""

    def __init__(self, bins: Sequence[Reliability]) -> None:
        self._bins: dict[str, Float64[np.ndarray, "targets bins"]] = {
            field.name: np.stack([getattr(own, field.name) for own in bins])
            for field in fields(Reliability)
        }

    def added(self, targets: Int64[np.ndarray, "some"]) -> Reliability:
        """The bins of these targets together."""
        return Reliability(**{name: own[targets].sum(0) for name, own in self._bins.items()})
