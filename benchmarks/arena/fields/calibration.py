"""Scores as distributions: a Student t about each, of few numbers fitted on validation."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.kind import Fitted
from benchmarks.arena.values.calibration import least
from benchmarks.arena.values.distributions import StudentT
from jaxtyping import Float

NATS_FROM = "scores, Student t"
_LEAST_DF, _MOST_DF = 1.2, 150.0


@dataclass(frozen=True, eq=False)
class Scores:
    """A number for every target, and what the logarithm of the scale about it is linear in."""

    center: Float[np.ndarray, "targets"]
    features: Float[np.ndarray, "targets features"]


@dataclass(frozen=True, eq=False)
class Head:
    """The Student t about scores: shift, slope, log scale at the middle, log df, then weights."""

    numbers: Float[np.ndarray, "numbers"]
    center: tuple[float, float]
    spread: float
    middle: Float[np.ndarray, "features"]
    units: Float[np.ndarray, "features"]

    def __call__(self, scores: Scores) -> StudentT:
        shift, slope, log_scale, log_df = self.numbers[:4]
        unit = (scores.center - self.center[0]) / self.center[1]
        feature = np.clip((scores.features - self.middle) / self.units, -5, 5)
        log_scale = np.clip(log_scale + feature @ self.numbers[4:], -10, 10)
        df = float(np.clip(_LEAST_DF + np.exp(min(log_df, 10.0)), _LEAST_DF, _MOST_DF))
        loc = scores.center + self.spread * (shift + slope * unit)
        return StudentT(loc, self.spread * np.exp(log_scale), df)


def calibrated(fitted: Fitted, data: FieldData) -> Fitted:
    """Scores with a Student t about them; distributions as they are."""
    if fitted.exact:
        return fitted
    n_sites = int(data.validation.target.any(0).sum())
    head = _head(fitted.predict(data.validation), data.validation.truth, n_sites=n_sites)

    def headed(fitted: Fitted) -> Fitted:
        def predict(maps: Maps) -> Any:
            return head(fitted.predict(maps))

        return Fitted(predict)

    refit = fitted.refit
    calibration = {"head": head.numbers.round(4).tolist(), "spread": round(head.spread, 5)}
    return replace(
        headed(fitted),
        settings={**fitted.settings, "calibration": calibration, "nats_from": NATS_FROM},
        refit=None if refit is None else lambda other: headed(refit(other)),
    )


def _head(scores: Scores, value: Float[np.ndarray, "targets"], *, n_sites: int) -> Head:
    features = scores.features
    center = float(scores.center.mean()), max(float(scores.center.std()), 1e-12)
    spread = max(float((value - scores.center).std()), 1e-9)
    middle, units = features.mean(0), np.maximum(features.std(0), 1e-6)
    start = np.array([0.0, 0.0, 0.0, np.log(7.0), *np.zeros(features.shape[1])])

    def head(numbers: Any) -> Head:
        return Head(numbers, center, spread, middle, units)

    def nats(numbers: Any) -> float:
        given = -head(numbers)(scores).log_prob(value).mean()
        # Numbers are as if normal with variance 1 about where they start. Features differ between
        # sites and hardly in time: their weights are learned from as many values as sites.
        apart = (numbers - start) ** 2
        return float(given + apart[:4].sum() / 2 / len(value) + apart[4:].sum() / 2 / n_sites)

    return head(least(nats, start))
