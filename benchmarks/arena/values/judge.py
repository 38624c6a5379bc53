"""How contenders of values are judged: exact nats, squared error, and coverage."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from benchmarks.arena.kind import Fitted, Judging, Measure
from benchmarks.arena.protocol import pieces
from benchmarks.arena.values.calibration import calibrated
from benchmarks.arena.values.data import ValueData, flat
from jaxtyping import Float, Int64

from exfam.groups import Groups
from exfam.groups.arrange import compact, concatenate
from exfam.scores.calibration import central_share

LEVEL = 0.8
_MOST_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class Judged:
    """Of elements: nats, squared errors, shares of their intervals, and their groups."""

    nats: Float[np.ndarray, "elements"]
    error: Float[np.ndarray, "elements"]
    covered: Float[np.ndarray, "elements"]
    group: Int64[np.ndarray, "elements"]

    def by_group(self) -> dict[str, list[float]]:
        """Sums of each group."""
        numbers = {"nats": self.nats, "error": self.error, "covered": self.covered}
        numbers["elements"] = np.ones(len(self.group))
        return {
            name: np.bincount(self.group, weights=number).round(5).tolist()
            for name, number in numbers.items()
        }


def judge(fitted: Fitted, groups: Groups, data: ValueData) -> Judged:
    """All elements of the groups, each by its distribution given the others or the earlier ones."""
    parts = []
    for piece in pieces(groups, most=_MOST_AT_ONCE):
        value, predicted = flat(piece).value, fitted.predict(piece)
        low, high = predicted.below(value), predicted.at_most(value)
        parts.append(
            (
                -predicted.log_prob(value),
                (data.judged(value) - predicted.center()) ** 2,
                covered(low, high),
            )
        )
    nats, error, inside = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Judged(nats, error, inside, flat(groups).group)


def covered(
    below: Float[np.ndarray, "elements"], at_most: Float[np.ndarray, "elements"]
) -> Float[np.ndarray, "elements"]:
    """How much of each value is in its central interval of probability LEVEL, in [0, 1].

    Values of discrete distributions are divided, so that the true one is at LEVEL.
    """
    return central_share(below, at_most, level=LEVEL)


def refitted(fitted: Fitted, data: ValueData) -> Fitted:
    """The same settings fitted to training and validation groups together, where that is quick."""
    if fitted.refit is None:
        return fitted
    both = replace(data, train=compact(concatenate([data.train, data.validation])))
    return replace(fitted.refit(both), settings=fitted.settings)


def best_on_validation(
    candidates: Iterable[tuple[dict[str, Any], Fitted]], data: ValueData
) -> Fitted:
    """The candidate of least nats on validation; of scores, of least squared error after a line."""
    best, least, tried = None, np.inf, []
    for settings, fitted in candidates:
        if fitted.exact:
            name, number = "nats", float(judge(fitted, data.validation, data).nats.mean())
        else:
            name, number = "error", _error_after_a_line(fitted, data)
        tried.append({**settings, name: round(number, 4)})
        if number < least:
            least, best = number, replace(fitted, settings={**fitted.settings, **settings})
    assert best is not None
    return replace(best, settings={**best.settings, "tried": tried})


def _error_after_a_line(fitted: Fitted, data: ValueData) -> float:
    """On the working scale."""
    score = np.asarray(fitted.predict(data.validation), dtype=np.float64)
    aim = data.working(flat(data.validation).value)
    design = np.stack([np.ones_like(score), score], axis=1)
    line = np.linalg.lstsq(design, aim, rcond=None)[0]
    return float(((aim - design @ line) ** 2).mean())


def _describe(data: Mapping[str, Any]) -> str:
    seen = "the earlier values" if data["direction"] == "causal" else "all other values"
    return f"Values are {data['form']}; each is predicted from {seen} of its group."


def _measures(error: str) -> tuple[Measure, ...]:
    return (
        Measure(header="nats", name="nats", compared="more than EFA()"),
        Measure(header=error, name="error", compared="error more than EFA()"),
        Measure(header="80 % holds", name="covered", digits=3),
    )


def judging(error: str) -> Judging:
    """Of values, with the header of squared errors."""
    return Judging(
        finished=lambda fitted, data: refitted(calibrated(fitted, data), data),
        sums=lambda fitted, data: judge(fitted, data.test, data).by_group(),
        measures=_measures(error),
        describe=_describe,
    )
