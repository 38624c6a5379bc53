"""How contenders of fields are judged: exact nats, squared error, coverage, by blocks of time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from benchmarks.arena.fields.calibration import calibrated
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.kind import Fitted, Judging, Measure
from jaxtyping import Float, Int64

from exfam.scores.calibration import central_share


@dataclass(frozen=True, eq=False)
class Judged:
    """Of targets: nats, squared errors, whether they are in intervals, and their maps."""

    nats: Float[np.ndarray, "targets"]
    error: Float[np.ndarray, "targets"]
    in_80: Float[np.ndarray, "targets"]
    in_90: Float[np.ndarray, "targets"]
    maps: Maps

    def by_block(self, length: float) -> dict[str, list[float]]:
        """Sums of each block, also of the maps that hide each share."""
        of_map, _ = self.maps.targets
        numbers = {"nats": self.nats, "error": self.error, "in_80": self.in_80}
        numbers |= {"in_90": self.in_90, "elements": np.ones(len(of_map))}
        share = self.maps.hidden_share[of_map]
        for level in np.unique(share[share > 0]):
            of_level = {name: numbers[name] * (share == level) for name in ("nats", "elements")}
            numbers |= {f"{name}_{level:g}": number for name, number in of_level.items()}
        return sums_by_block(self.maps, numbers, length=length)


def sums_by_block(
    maps: Maps, numbers: Mapping[str, Float[np.ndarray, "targets"]], *, length: float
) -> dict[str, list[float]]:
    """Sums over the targets of each block of times."""
    of_map, _ = maps.targets
    block = blocks(maps.time, length)
    return {
        name: np.bincount(block[of_map], weights=number, minlength=block.max() + 1)
        .round(5)
        .tolist()
        for name, number in numbers.items()
    }


def blocks(time: Float[np.ndarray, "maps"], length: float) -> Int64[np.ndarray, "maps"]:
    """The number of the block of consecutive times that each map is in.

    All sites of a day share its weather, and days in a row resemble each other: values of a block
    are one draw, and blocks about as many draws as there are. The same blocks serve all contenders
    and all folds of sites, so that differences are paired.
    """
    number = np.floor((time - time.min()) / length)
    return np.unique(number, return_inverse=True)[1]


def judge(fitted: Fitted, maps: Maps) -> Judged:
    """All targets of the maps, each by its distribution given what is shown."""
    predicted, value = fitted.predict(maps), maps.truth
    up_to = predicted.at_most(value)
    in_80, in_90 = (central_share(up_to, up_to, level=level) for level in (0.8, 0.9))
    error = (value - predicted.center()) ** 2
    return Judged(-predicted.log_prob(value), error, in_80, in_90, maps)


def refitted(fitted: Fitted, data: FieldData) -> Fitted:
    """The same settings fitted to the training and validation times together."""
    if fitted.refit is None:
        return fitted
    return replace(fitted.refit(data.with_train(data.both)), settings=fitted.settings)


def best_on_validation(
    candidates: Iterable[tuple[dict[str, Any], Fitted]], data: FieldData
) -> Fitted:
    """The candidate of least nats on validation; of scores, of least squared error."""
    best, least, tried = None, np.inf, []
    for settings, fitted in candidates:
        if fitted.exact:
            name, number = "nats", float(judge(fitted, data.validation).nats.mean())
        else:
            center = fitted.predict(data.validation).center
            name, number = "error", float(((data.validation.truth - center) ** 2).mean())
        tried.append({**settings, name: round(number, 4)})
        if number < least:
            least, best = number, replace(fitted, settings={**fitted.settings, **settings})
    assert best is not None
    return replace(best, settings={**best.settings, "tried": tried})


_TASKS = {
    "same map": "Each value is predicted from all others of its map.",
    "lag": "Each value is predicted from all others of its map, and all of the map a step before.",
    "new sites": "Every site is new once, in folds of sites: its values are in no training map, "
    "and are predicted from those of the sites of training.",
    "gaps": "Every map hides 30 % of its values, and once more 60 %: hidden ones are predicted "
    "from those shown.",
}


def _describe(data: Mapping[str, Any]) -> str:
    return (
        f"Items are sites, groups are maps. {_TASKS[data['task']]} Standard errors are by blocks "
        f"of {data['block']}."
    )


def judging(reference: str) -> Judging:
    """Of fields, with the label of the reference in headers."""
    return Judging(
        finished=lambda fitted, data: refitted(calibrated(fitted, data), data),
        sums=lambda fitted, data: judge(fitted, data.test).by_block(data.block),
        measures=(
            Measure(header="nats", name="nats", compared=f"more than {reference}"),
            Measure(header="MSE", name="error", compared=f"error more than {reference}"),
            Measure(header="80 % holds", name="in_80", digits=3),
            Measure(header="90 % holds", name="in_90", digits=3),
        ),
        describe=_describe,
    )
