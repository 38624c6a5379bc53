"""Results of single fits, kept in a folder so that an interrupted experiment goes on."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import DataError
from exfam.files import write_atomically
from exfam_studies.common.rows import Row, row_over_seeds

# Before the name of a metric: the same figure on the validation part.
VALIDATION = "validation-"


@dataclass(frozen=True)
class Key:
    """Which fit: names from the general to the special, and a seed."""

    names: tuple[str, ...]
    seed: int = 0

    @property
    def path(self) -> Path:
        return Path(*self.names, f"{self.seed:02}.json")


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured of a fit.

    `figures`: by metric, None where not finite; validation figures as "validation-<metric>"
    `details`: what else is to be known, as JSON; `cpu_seconds`: 0 for the whole measurement
    """

    figures: Mapping[str, float | int | None] = field(default_factory=dict)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    key: Key = Key(())


class Store:
    """One JSON file per result in a folder; without a folder results are kept while it lives."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._kept: dict[Key, Measured] = {}

    def get(self, key: Key) -> Measured | None:
        """The result of a fit; None if there is none yet. Raises DataError for another file."""
        if key in self._kept or self.folder is None:
            return self._kept.get(key)
        path = self.folder / key.path
        if not path.is_file():
            return None
        try:
            parsed = json.loads(path.read_bytes())
            arrays = {name: np.array(array) for name, array in parsed["arrays"].items()}
            figures, seconds = dict(parsed["figures"]), parsed["cpu_seconds"]
            kept = Measured(figures, arrays, parsed.get("details", {}), seconds, key)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataError(
                f"`folder` must hold results as they were written, got another file at {path} "
                f"({error!r}). Remove that file to fit the model again."
            ) from error
        self._kept[key] = kept
        return kept

    def put(self, kept: Measured) -> None:
        """Keep a result by its key; its file is either whole or not there."""
        self._kept[kept.key] = kept
        if self.folder is not None:
            arrays = {name: array.tolist() for name, array in kept.arrays.items()}
            content = asdict(replace(kept, arrays=arrays))
            write_atomically(self.folder / kept.key.path, json.dumps(content) + "\n")

    def measured(self, key: Key, measure: Callable[[], Measured]) -> Measured:
        """The kept result of a measurement, which is made if there is none."""
        kept = self.get(key)
        if kept is None:
            start = time.process_time()
            made = measure()
            kept = Measured(
                {name: None if x is None else float(x) for name, x in made.figures.items()},
                {name: np.asarray(array) for name, array in made.arrays.items()},
                made.details,
                made.cpu_seconds or time.process_time() - start,
                key,
            )
            self.put(kept)
        return kept


def kept_seeds(
    store: Store, names: tuple[str, ...], n_seeds: int, measure: Callable[[int], Measured]
) -> list[Measured]:
    """The kept results of seeds 0, 1, …; what is missing is measured, by its seed."""
    return [store.measured(Key(names, seed), partial(measure, seed)) for seed in range(n_seeds)]


def metric_rows(
    row: Row, kept: Sequence[Measured], metrics: Iterable[str] | None = None
) -> list[Row]:
    """`row` with each metric over the fits; all metrics of the first fit if none are named."""
    if metrics is None:
        metrics = [name for name in kept[0].figures if not name.startswith(VALIDATION)]
    return [metric_row(replace(row, metric=metric), kept) for metric in metrics]


def metric_row(row: Row, kept: Sequence[Measured]) -> Row:
    """`row` with its metric over the fits; without a value where one of them has none."""
    values, validations = (
        [figure for fit in kept if (figure := fit.figures.get(metric)) is not None]
        for metric in (row.metric, VALIDATION + row.metric)
    )
    if len(values) < len(kept):
        return replace(row, n_seeds=len(kept))
    return row_over_seeds(
        row,
        values=values,
        validations=validations,
        cpu_seconds=[fit.cpu_seconds for fit in kept],
        steps=[fit.details["steps"] for fit in kept if "steps" in fit.details],
    )
