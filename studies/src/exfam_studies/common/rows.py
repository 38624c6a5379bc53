"""One figure of a table, and the JSON form that every experiment shares."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import DataError, ExfamError
from exfam.files import write_atomically
from exfam.scores.metrics import Interval
from exfam_studies.common.provenance import Run

_RISING = ("recall@", "ndcg@", "mrr", "accuracy", "r2", "spearman", "pearson", "cosine")
_UNRANKED = (
    "cosine-others-", "auc-", "share-",
    "mean-given-", "ratio-", "count-", "coverage-", "max-difference", "minus-", "spectrum-",
    "reflection-", "position-", "shuffled-", "change-", "paraphrase-", "factor-", "slope-",
    "rate-term", "alike-", "divergence-", "condition-",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """A test figure with what it took to get it; None where there is none.

    `value`, `sd`: over `n_seeds` fits; no `n_seeds` where chance plays no part
    `validation`: the same figure on the validation part; `paper`: what the paper prints
    `n_configurations`: how many were tried before this one was chosen by validation
    `cpu_seconds`, `steps`: of one fit; `note`: for the printed table alone
    `parameters`: the model's class and its settings that differ from the defaults

    Raises ExfamError if a figure is not finite.
    """

    task: str
    model: str
    settings: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    metric: str
    value: float | None = None
    sd: float | None = None
    validation: float | None = None
    n_seeds: int | None = None
    n_configurations: int | None = None
    paper: float | None = None
    cpu_seconds: float | None = None
    steps: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    run: Run | None = None
    note: str = ""

    @property
    def is_of_one_seed(self) -> bool:
        """Whether chance plays a part, and nothing says how large a one."""
        together = "members" in self.settings or self.model.endswith("-ensemble")
        return self.n_seeds == 1 and not together

    def __post_init__(self) -> None:
        for name in ("value", "sd", "validation", "paper", "cpu_seconds"):
            figure = getattr(self, name)
            if figure is not None and not math.isfinite(figure):
                raise ExfamError(
                    f"`{name}` must be finite or None, got {figure} "
                    f"for {self.metric} of {self.model} on {self.task}."
                )


def row_over_seeds(
    row: Row,
    *,
    values: Sequence[float],
    validations: Sequence[float] = (),
    cpu_seconds: Sequence[float] = (),
    steps: Sequence[int] = (),
) -> Row:
    """`row` with the figures of a measurement made once per seed."""
    return replace(
        row,
        value=float(np.mean(values)),
        sd=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        n_seeds=len(values),
        validation=float(np.mean(validations)) if len(validations) else None,
        cpu_seconds=float(np.mean(cpu_seconds)) if len(cpu_seconds) else None,
        steps=round(float(np.mean(steps))) if len(steps) else None,
    )


def measured_rows(
    row: Row, tests: Mapping[str, float], validations: Mapping[str, float]
) -> list[Row]:
    """`row` with each metric of what was measured once, on the test and the validation part."""
    return [
        replace(row, metric=metric, value=value, validation=validations[metric])
        for metric, value in tests.items()
    ]


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """The rows by a key, in the order of the first row of every key."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def interval_settings(interval: Interval) -> dict[str, float]:
    """The ends of an interval, as rows have them."""
    return {"low": round(interval.low, 4), "high": round(interval.high, 4)}


def higher_is_better(metric: str) -> bool | None:
    """Which way a metric improves; None where it does not rank models."""
    return None if metric.startswith(_UNRANKED) else metric.startswith(_RISING)


def write_rows(path: str | os.PathLike[str], experiment: str, rows: Sequence[Row]) -> Path:
    """Write rows as JSON, one a line; runs are listed once, and a row has the number of its own."""
    runs, plain = list[Run](), list[dict[str, Any]]()
    for row in rows:
        if row.run is not None and row.run not in runs:
            runs.append(row.run)
        plain.append(asdict(row) | {"run": None if row.run is None else runs.index(row.run)})
        del plain[-1]["note"]
    # One row a line: files that are kept can be read, and compared line by line.
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in plain)
    head = ",\n".join(json.dumps(asdict(run)) for run in runs)
    text = (
        f'{{"experiment": {json.dumps(experiment)}, "runs": [\n{head}\n], "rows": [\n{lines}\n]}}\n'
    )
    return write_atomically(path, text)


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a file that `write_rows` wrote; raises DataError, naming any other file."""
    try:
        whole = json.loads(Path(path).read_text(encoding="utf-8"))
        runs = [Run(**run) for run in whole["runs"]]
        return [
            Row(**row | {"run": None if row["run"] is None else runs[row["run"]]})
            for row in whole["rows"]
        ]
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"`path` must name a file written by `exfam reproduce --json`, got {path} ({error!r})."
        ) from error
