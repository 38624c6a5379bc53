"""Tables of results: means over seeds, and differences to exfam's default by test group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.arena.kind import Kind, Measure
from benchmarks.arena.results import Row
from jaxtyping import Float

COSTS = ("fit CPU s", "predict CPU s", "GB", "seeds", "nats from")


def headers(kind: Kind) -> tuple[str, ...]:
    """Of the columns of a kind's tables."""
    names = ["contender"]
    for measure in kind.judging.measures:
        names += [measure.header, *([measure.compared] if measure.compared else [])]
    return (*names, *COSTS)


@dataclass(frozen=True, eq=False)
class Standing:
    """A contender on a data set, mean over seeds; sums are those of the test groups."""

    contender: str
    label: str
    ours: bool
    rows: Sequence[Row]

    def sums(self, name: str) -> Float[np.ndarray, "groups"]:
        return np.mean([row["by_group"][name] for row in self.rows], axis=0)

    def mean(self, name: str, per: str) -> float:
        return float(self.sums(name).sum() / self.sums(per).sum())

    @property
    def nats(self) -> float:
        return self.mean("nats", "elements")

    def cost(self, name: str) -> float:
        return float(np.mean([row[name] for row in self.rows]))


def difference(
    standing: Standing, reference: Standing, *, name: str = "nats", per: str = "elements"
) -> tuple[float, float]:
    """Nats, or another mean, less that of the reference, and the standard error by test group."""
    less, size = standing.sums(name) - reference.sums(name), reference.sums(per)
    mean, n = less.sum() / size.sum(), len(size)
    rest = less - mean * size
    return float(mean), float(np.sqrt((rest**2).sum() * n / (n - 1)) / size.sum())


def standings(rows: Sequence[Row], kind: Kind, dataset: str) -> list[Standing]:
    """The contenders that took part, the best first."""
    result = []
    for name, contender in kind.contenders.items():
        own = [row for row in _of(rows, kind, dataset, name) if row["missing"] is None]
        if own:
            result.append(Standing(name, contender.label, contender.ours, own))
    by = kind.judging.ranked_by
    return sorted(result, key=lambda standing: standing.mean(by, "elements"))


def table(rows: Sequence[Row], kind: Kind, dataset: str) -> list[tuple[str, ...]]:
    """Cells of a data set's table, by `headers`."""
    ranked = standings(rows, kind, dataset)
    reference = next((row for row in ranked if row.contender == kind.reference), None)
    cells = [_cells(kind, standing, reference) for standing in ranked]
    for name, contender in kind.contenders.items():
        for row in _of(rows, kind, dataset, name)[:1]:
            if row["missing"] is not None:
                cells.append((contender.label, row["missing"], *[""] * (len(headers(kind)) - 2)))
    return cells


def describe(rows: Sequence[Row], kind: Kind, dataset: str) -> str:
    """What the data set is, in a line."""
    data = next(row["data"] for row in rows if row["dataset"] == dataset)
    groups, elements = data["groups"], data["elements"]
    parts = [f"{groups[part]:,} groups ({elements[part]:,} elements) of {part}" for part in groups]
    left = {part: n for part, n in data["left_out"].items() if n}
    text = f"{data['n_items']:,} items; {', '.join(parts)}."
    if left:
        counts = ", ".join(f"{n:,} in {part}" for part, n in left.items())
        text += f" Left out since training lacks their items: {counts}."
    if data.get("folds"):
        text += f" These are of the first of {data['folds']} folds."
    text += f" {kind.judging.describe(data)}"
    remark = kind.sources[dataset].remark
    return f"{text} Cut or split: {remark}." if remark else text


def ahead_of_reference(rows: Sequence[Row], kind: Kind, dataset: str) -> str:
    """Who is ahead of the reference by more than a standard error, in what, and why; or nothing."""
    ranked = standings(rows, kind, dataset)
    reference = next((row for row in ranked if row.contender == kind.reference), None)
    if reference is None:
        return ""
    compared = [measure for measure in kind.judging.measures if measure.compared]
    found = {measure.header: _ahead(measure, ranked, reference) for measure in compared}
    parts = [f"in {header} {', '.join(labels)}" for header, labels in found.items() if labels]
    if not parts:
        return ""
    text = f"Ahead of {reference.label} by more than a standard error: {'; '.join(parts)}."
    return f"{text} {kind.sources[dataset].behind}".rstrip()


def _ahead(measure: Measure, ranked: Sequence[Standing], reference: Standing) -> list[str]:
    """Labels of those ahead in a measure, with by how much."""
    found = []
    for standing in ranked:
        if standing is not reference:
            mean, error = _differs(measure, standing, reference)
            if -mean > error:
                found.append((mean, f"{standing.label} ({-mean:.4f} ± {error:.4f})"))
    return [text for _, text in sorted(found)]


def _of(rows: Sequence[Row], kind: Kind, dataset: str, contender: str) -> list[Row]:
    wanted = (kind.name, dataset, contender)
    return [row for row in rows if (row["kind"], row["dataset"], row["contender"]) == wanted]


def _cells(kind: Kind, standing: Standing, reference: Standing | None) -> tuple[str, ...]:
    cells = [standing.label]
    for measure in kind.judging.measures:
        cells.append(f"{standing.mean(measure.name, measure.per):.{measure.digits}f}")
        if measure.compared:
            cells.append(_compared(measure, standing, reference))
    settings: dict[str, Any] = standing.rows[0]["settings"]
    return (
        *cells,
        f"{standing.cost('fit_cpu_seconds'):,.1f}",
        f"{standing.cost('judge_cpu_seconds'):,.1f}",
        f"{standing.cost('peak_gigabytes'):.2f}",
        str(len(standing.rows)),
        settings.get("nats_from", "scores") if "calibration" in settings else "model",
    )


def _compared(measure: Measure, standing: Standing, reference: Standing | None) -> str:
    """The difference to the reference, positive where that is better."""
    if reference is None or reference is standing:
        return ""
    return "{:+.4f} ± {:.4f}".format(*_differs(measure, standing, reference))


def _differs(measure: Measure, standing: Standing, reference: Standing) -> tuple[float, float]:
    pair = (reference, standing) if measure.more_is_better else (standing, reference)
    return difference(*pair, name=measure.name, per=measure.per)
