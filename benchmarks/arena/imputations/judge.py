"""How imputations are judged: CRPS, squared error, nats and coverage, also of every pattern."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from benchmarks.arena.fields.calibration import calibrated
from benchmarks.arena.fields.data import FieldData
from benchmarks.arena.fields.judge import judge, refitted, sums_by_block
from benchmarks.arena.imputations.panels import PATTERNS
from benchmarks.arena.kind import Fitted, Judging, Measure


def sums(fitted: Fitted, data: FieldData) -> dict[str, list[float]]:
    """Of each block of times: scores, and those of the pattern that the data have."""
    judged = judge(fitted, data.test)
    numbers = {"crps": fitted.predict(data.test).crps(data.test.truth), "error": judged.error}
    numbers |= {"nats": judged.nats, "in_80": judged.in_80, "in_90": judged.in_90}
    numbers |= {"elements": np.ones(len(judged.nats))}
    of_patterns = {
        f"{name}_{pattern}": number * (pattern == data.pattern)
        for name, number in numbers.items()
        for pattern in PATTERNS
    }
    return sums_by_block(data.test, numbers | of_patterns, length=data.block)


def _describe(data: Mapping[str, Any]) -> str:
    return (
        "Items are sites, groups are maps of one panel, from which contenders learn and whose "
        "hidden values they fill in: at random, in runs of 10 times of a site, and in outages, one "
        "of each site; numbers of elements are those of the first pattern. Standard errors are by "
        f"blocks of {data['block']}."
    )


def judging(reference: str) -> Judging:
    """Of imputations, with the label of the reference in headers."""
    return Judging(
        finished=lambda fitted, data: refitted(calibrated(fitted, data), data),
        sums=sums,
        measures=(
            Measure(header="CRPS", name="crps", compared=f"more than {reference}"),
            *(
                Measure(header=pattern, name=f"crps_{pattern}", per=f"elements_{pattern}")
                for pattern in PATTERNS
            ),
            Measure(header="MSE", name="error"),
            Measure(header="nats", name="nats"),
            Measure(header="80 % holds", name="in_80", digits=3),
            Measure(header="90 % holds", name="in_90", digits=3),
        ),
        describe=_describe,
        ranked_by="crps",
    )
