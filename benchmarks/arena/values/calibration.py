"""Scores as distributions: a head of few numbers, fitted on validation.

About a location linear in the score stands a Student t of real values or of the logarithms of
counts, rounded; of ordinal values, thresholds of a logistic distribution. The logarithm of the
scale is linear in the score and in 1 / sqrt(1 + size of the context).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from benchmarks.arena.kind import Fitted
from benchmarks.arena.values.data import ValueData, flat
from benchmarks.arena.values.distributions import Atoms, Cells, RoundedT, StudentT
from jaxtyping import Float

from exfam.groups import Groups
from exfam.groups.arrange import compact

Numbers = Float[np.ndarray, "numbers"]
NATS_FROM = {
    "real": "scores, Student t",
    "count": "scores, rounded t",
    "ordinal": "scores, thresholds",
}
# Validation elements that are worth looking at.
_MOST_ELEMENTS = 8_000
_LEAST_DF, _MOST_DF = 1.2, 150.0


def calibrated(fitted: Fitted, data: ValueData) -> Fitted:
    """Scores with the distribution of the data's form about them."""
    if fitted.exact:
        return fitted
    groups = some_groups(data.validation, most=_MOST_ELEMENTS)
    score, value = np.asarray(fitted.predict(groups), dtype=np.float64), flat(groups).value
    n = flat(groups).n_context(causal=data.causal)
    unit = score.mean(), max(score.std(), 1e-12)
    build = _BUILDERS[data.form]

    start = _start(score, value, data)

    def nats(numbers: Numbers) -> float:
        given = build(numbers, (score - unit[0]) / unit[1], n, data)
        # Numbers are as if normal with variance 1 about where they start.
        return float(-given.log_prob(value).mean() + ((numbers - start) ** 2).sum() / 2 / len(n))

    head = least(nats, start)

    def headed(fitted: Fitted) -> Fitted:
        def predict(groups: Groups) -> Any:
            score = (np.asarray(fitted.predict(groups), dtype=np.float64) - unit[0]) / unit[1]
            return build(head, score, flat(groups).n_context(causal=data.causal), data)

        return Fitted(predict)

    refit = fitted.refit
    numbers = {"score_mean": unit[0], "score_sd": unit[1], "head": head.round(4).tolist()}
    return replace(
        headed(fitted),
        settings={
            **fitted.settings,
            "calibration": numbers,
            "nats_from": NATS_FROM[data.form],
        },
        refit=None if refit is None else lambda other: headed(refit(other)),
    )


def least(loss: Callable[[Numbers], float], start: Numbers) -> Numbers:
    """Where a smooth loss of few numbers is least, by L-BFGS."""
    return scipy.optimize.minimize(loss, start, method="L-BFGS-B", options={"maxiter": 80}).x


def some_groups(groups: Groups, *, most: int) -> Groups:
    """Groups drawn with seed 0 that have about as many elements."""
    order = np.random.default_rng(0).permutation(len(groups))
    reached = np.cumsum((groups.stop - groups.start)[order])
    return compact(groups[np.sort(order[: int(np.searchsorted(reached, most)) + 1])])


def _start(score: np.ndarray, value: np.ndarray, data: ValueData) -> Numbers:
    """The least squares line and its residuals' spread; thresholds of the margin."""
    if data.form == "ordinal":
        low, high = data.limits
        counts = np.array([(value == level).sum() + 0.5 for level in np.arange(low, high + 1)])
        cut = scipy.special.logit(np.cumsum(counts / counts.sum())[:-1])
        return np.concatenate([[1.0, 0.0, 0.0], cut[:1], np.log(np.maximum(np.diff(cut), 1e-3))])
    aim = data.working(value)
    unit = (score - score.mean()) / max(score.std(), 1e-12)
    slope = float((unit * (aim - aim.mean())).mean())
    rest = max(float((aim - aim.mean() - slope * unit).std()), 1e-6)
    return np.array([aim.mean(), slope, np.log(rest), 0.0, 0.0, np.log(7.0)])


def _spread(c0: float, c1: float, c2: float, score: np.ndarray, n: np.ndarray) -> np.ndarray:
    log_scale = c0 + c1 * np.clip(score, -5, 5) + c2 / np.sqrt(1 + n)
    return np.exp(np.clip(log_scale, -30, 30))


def _df(number: float) -> float:
    return float(np.clip(_LEAST_DF + np.exp(min(number, 10.0)), _LEAST_DF, _MOST_DF))


def _student(numbers: Numbers, score: np.ndarray, n: np.ndarray, data: ValueData) -> StudentT:
    l0, l1, c0, c1, c2, df = numbers
    return StudentT(l0 + l1 * score, _spread(c0, c1, c2, score, n), _df(df))


def _rounded(numbers: Numbers, score: np.ndarray, n: np.ndarray, data: ValueData) -> RoundedT:
    l0, l1, c0, c1, c2, df = numbers
    scale = _spread(c0, c1, c2, score, n)
    return RoundedT(l0 + l1 * score, scale, _df(df), data.offset)


def _ordinal(numbers: Numbers, score: np.ndarray, n: np.ndarray, data: ValueData) -> Cells:
    slope, c1, c2 = numbers[:3]
    gaps = np.exp(np.clip(numbers[4:], -20, 5))
    cut = numbers[3] + np.concatenate([[0.0], np.cumsum(gaps)])
    scale = _spread(0.0, c1, c2, score, n)
    up_to = scipy.special.expit((cut - slope * score[:, None]) / scale[:, None])
    ends = np.concatenate([np.zeros((len(score), 1)), up_to, np.ones((len(score), 1))], axis=1)
    probs = np.diff(ends, axis=1)
    return of_levels((probs + 1e-9) / (1 + 1e-9 * probs.shape[1]), data)


def of_levels(probs: Float[np.ndarray, "elements levels"], data: ValueData) -> Cells:
    """Probabilities of the levels of an ordinal value."""
    levels = np.arange(data.limits[0], data.limits[1] + 1)
    shared = Atoms(levels, np.full(len(levels), 1 / len(levels)))
    return Cells(probs, levels[:-1], shared, levels)


_BUILDERS: dict[str, Callable[..., Any]] = {
    "real": _student,
    "count": _rounded,
    "ordinal": _ordinal,
}
