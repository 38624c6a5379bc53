"""Negative binomial regression of counts on items, with offsets of groups.

Both are normal on the log scale. A group's offset given its other counts is the most probable one.
"""

from functools import partial
from typing import Any

import numpy as np
import scipy.stats
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.calibration import least, some_groups
from benchmarks.arena.values.data import Flat, ValueData, flat
from benchmarks.arena.values.distributions import NegativeBinomial
from benchmarks.arena.values.judge import best_on_validation
from jaxtyping import Float

SETTINGS: tuple[dict[str, Any], ...] = tuple(
    {"of_item": of_item, "of_group": of_group}
    for of_item in (0.3, 1.0, 3.0)
    for of_group in (0.3, 1.0, 3.0, 10.0)
)
SIZES, _MOST_FOR_SIZE = np.geomspace(0.05, 200, 16), 5_000
PASSES, NEWTON_STEPS, LONGEST_STEP = 12, 8, 1.0


def fit_negative_binomial(data: ValueData, seed: int) -> Fitted:
    candidates = ((settings, _chosen(settings, data)) for settings in SETTINGS)
    return best_on_validation(candidates, data)


def _chosen(settings: dict[str, Any], data: ValueData) -> Fitted:
    """With a line of the log means and the size, fitted on validation."""
    model = _Regression(data, **settings)
    shown = flat(some_groups(data.validation, most=8_000))
    log_mean = model.log_mean(shown)

    def nats(numbers: np.ndarray) -> float:
        return -model.distribution(log_mean, numbers).log_prob(shown.value).mean()

    numbers = least(nats, np.array([0.0, 1.0, np.log(model.size)]))
    return _with(settings, numbers, data, model)


def _with(
    settings: dict[str, Any],
    numbers: np.ndarray,
    data: ValueData,
    model: "_Regression | None" = None,
) -> Fitted:
    own = _Regression(data, **settings) if model is None else model
    return Fitted(
        lambda groups: own.distribution(own.log_mean(flat(groups)), numbers),
        settings={"line_and_log_size": numbers.round(3).tolist()},
        refit=partial(_with, settings, numbers),
    )


class _Regression:
    """log mean = common + item + group, of counts above the least."""

    def __init__(self, data: ValueData, *, of_item: float, of_group: float) -> None:
        self.least, self.of_group = int(data.limits[0] > 0), of_group
        own, count = data.learned, data.learned.value - self.least
        self.common, self.size = float(np.log(count.mean() + 1e-3)), 1.0
        self.item, group = np.zeros(data.n_items), np.zeros(len(own.lengths))
        for _ in range(PASSES):
            log_mean = self.common + self.item[own.item] + group[own.group]
            self.size = _size(count, np.exp(log_mean))
            slope, curve = self._terms(count, log_mean)
            by_item = {"minlength": data.n_items}
            step = np.bincount(own.item, weights=slope, **by_item) - of_item * self.item
            bend = np.bincount(own.item, weights=curve, **by_item) + of_item
            self.item = self.item + np.clip(step / bend, -LONGEST_STEP, LONGEST_STEP)
            slope, curve = self._terms(count, self.common + self.item[own.item] + group[own.group])
            step = np.bincount(own.group, weights=slope) - of_group * group
            bend = np.bincount(own.group, weights=curve) + of_group
            group = group + np.clip(step / bend, -LONGEST_STEP, LONGEST_STEP)
            self.common += group.mean()
            group = group - group.mean()

    def _terms(self, count: np.ndarray, log_mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the log-likelihood by the log mean, the second expected and negative."""
        mean = np.exp(np.clip(log_mean, -20, 20))
        share = self.size / (self.size + mean)
        return (count - mean) * share, mean * share

    def log_mean(self, elements: Flat) -> Float[np.ndarray, "elements"]:
        """Given the other counts of the group."""
        out = np.zeros(len(elements.item))
        stop = elements.start + elements.lengths
        for first, last in zip(elements.start, stop, strict=True):
            rows = slice(first, last)
            base = self.common + self.item[elements.item[rows]]
            out[rows] = base + self._offsets(base, elements.value[rows] - self.least)
        return out

    def _offsets(self, base: np.ndarray, count: np.ndarray) -> np.ndarray:
        sees = 1 - np.eye(len(base))
        offset = np.zeros(len(base))
        for _ in range(NEWTON_STEPS):
            slope, curve = self._terms(count, base + offset[:, None])
            step = (sees * slope).sum(1) - self.of_group * offset
            bend = (sees * curve).sum(1) + self.of_group
            offset = offset + np.clip(step / bend, -LONGEST_STEP, LONGEST_STEP)
        return offset

    def distribution(self, log_mean: np.ndarray, numbers: np.ndarray) -> NegativeBinomial:
        line = np.clip(numbers[0] + numbers[1] * log_mean, -20, 20)
        return NegativeBinomial(
            np.exp(line), float(np.exp(np.clip(numbers[2], -8, 12))), self.least
        )


def _size(count: np.ndarray, mean: np.ndarray) -> float:
    """The most probable one of a grid, on at most some thousand counts."""
    step = max(1, len(count) // _MOST_FOR_SIZE)
    count, mean = count[::step], np.clip(mean[::step], 1e-9, 1e9)
    nats = [-scipy.stats.nbinom.logpmf(count, size, size / (size + mean)).mean() for size in SIZES]
    return float(SIZES[int(np.argmin(nats))])


CONTENDERS = {
    "negative-binomial": Contender(label="negative binomial regression", fit=fit_negative_binomial),
}
