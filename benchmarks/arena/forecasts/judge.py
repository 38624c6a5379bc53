"""How forecasts are judged: CRPS, squared error and coverage by step, in blocks of starts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from benchmarks.arena.fields.judge import blocks
from benchmarks.arena.forecasts.data import ForecastData
from benchmarks.arena.forecasts.draws import OfDraws
from benchmarks.arena.kind import Fitted, Judging, Measure

from exfam.scores.calibration import central_share


def sums(fitted: Fitted, data: ForecastData) -> dict[str, list[float]]:
    """Of each block of starts: scores of all steps, and those of every step."""
    starts = data.starts
    predicted, value = fitted.predict(starts), starts.truth
    of_start, step, _ = starts.target.nonzero()
    below, at_most = predicted.below(value), predicted.at_most(value)
    is_drawn = isinstance(predicted, OfDraws)
    numbers = {
        "crps": predicted.crps(value),
        "error": predicted.error(value) if is_drawn else (value - predicted.center()) ** 2,
        "in_80": central_share(below, at_most, level=0.8),
        "in_90": central_share(below, at_most, level=0.9),
        "elements": np.ones(len(value)),
    }
    by_step = {
        f"{name}_{1 + ahead}": number * (step == ahead)
        for name, number in numbers.items()
        for ahead in range(starts.n_steps)
    }
    last = {f"{name}_last": by_step[f"{name}_{starts.n_steps}"] for name in ("crps", "elements")}
    block = blocks(starts.time[starts.row], data.fields.block)
    return {
        name: np.bincount(block[of_start], weights=number, minlength=block.max() + 1)
        .round(5)
        .tolist()
        for name, number in (numbers | by_step | last).items()
    }


def _describe(data: Mapping[str, Any]) -> str:
    return (
        f"Items are sites; groups are maps, of test maps that forecasts of 1 to {data['steps']} "
        f"steps start from. Standard errors are by blocks of {data['block']} of starts."
    )


def judging(reference: str) -> Judging:
    """Of forecasts, with the label of the reference in headers."""
    return Judging(
        finished=lambda fitted, data: fitted,
        sums=sums,
        measures=(
            Measure(header="CRPS", name="crps", compared=f"more than {reference}"),
            Measure(header="MSE", name="error", compared=f"error more than {reference}"),
            Measure(header="CRPS, first step", name="crps_1", per="elements_1"),
            Measure(header="CRPS, last step", name="crps_last", per="elements_last"),
            Measure(header="80 % holds", name="in_80", digits=3),
            Measure(header="90 % holds", name="in_90", digits=3),
        ),
        describe=_describe,
        ranked_by="crps",
    )
