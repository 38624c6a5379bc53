"""Fits of models to tables, each once and kept, and the rows they make."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store
from exfam_studies.common.rows import Row, row_over_seeds

# Name of a loss -> its value in each row, or the mean alone.
Losses = Mapping[str, np.ndarray]
Results = Mapping[str, Sequence[Measured]]


def run_tables(tasks: Sequence[Any], options: Options) -> list[Row]:
    """Fit and measure all models on all tasks, `CodedTask` or `ShiftTask`, but what is kept."""
    folder = options.folder
    if folder is not None and options.fast:
        folder = folder / "fast"  # of other data
    store = Store(folder)
    jobs = [
        Job(f"{task.label} {name}", partial(_fitted_rows, task, name, store))
        for task in tasks
        for name in task.models()
    ]
    rows = gather(jobs)
    for task in tasks:
        rows += task.further_rows({name: _kept(task, name, store) for name in task.models()})
    return rows


def fit_missing(task: Any, name: str, store: Store) -> None:
    """Fit the wanted fits of a model that have no result yet, each with its number as the seed."""
    contender, together = task.models()[name], task.together(name)
    missing = [key for key in task.keys(name) if store.get(key) is None]
    if contender.package is not None:
        import_module(contender.package)  # no part of what a fit costs
    for keys in [missing] if together and missing else [[key] for key in missing]:
        tables, seed = [task.table(key) for key in keys], keys[0].seed
        start = time.process_time()
        if together:
            fits = together(tables, seed=seed)
        else:
            fits = [contender.fit(table, seed=seed) for table in tables]
        seconds = (time.process_time() - start) / len(keys)
        for key, table, fitted in zip(keys, tables, fits, strict=True):
            losses = task.losses(fitted, table, key)
            store.put(Measured({}, losses, fitted.chosen, seconds, key))


def _fitted_rows(task: Any, name: str, store: Store) -> list[Row]:
    if not task.models()[name].is_installed:
        return [task.not_installed(name)]
    fit_missing(task, name, store)
    return task.model_rows(name, _kept(task, name, store))


def _kept(task: Any, name: str, store: Store) -> list[Measured]:
    return [result for key in task.keys(name) if (result := store.get(key)) is not None]


def loss_row(
    row: Row, results: Sequence[Measured], loss: str, *, held: Sequence[Measured] = ()
) -> Row:
    """`row` with the mean of a loss over rows, then over fits; in words where it is infinite."""
    means, held_means = (
        [float(result.arrays[loss].mean()) for result in some] for some in (results, held)
    )
    if not np.isfinite(means).all():
        # A row cannot hold infinity.
        return replace(row, note="infinite: no chance for what happened")
    return row_over_seeds(
        row,
        values=means,
        validations=[value for value in held_means if math.isfinite(value)],
        cpu_seconds=[result.cpu_seconds for result in results],
    )


def pairs_of(
    ours: Sequence[Measured], theirs: Sequence[Measured]
) -> list[tuple[Measured, Measured]]:
    """The results of both models that are of the same data set or seed."""
    own = {result.key.seed: result for result in ours}
    return [(own[r.key.seed], r) for r in theirs if r.key.seed in own]


def difference_row(
    row: Row, pairs: Sequence[tuple[Measured, Measured]], loss: str
) -> tuple[Row, np.ndarray]:
    """`row` with how much our losses differ from theirs, and the mean over fits of each row."""
    with np.errstate(invalid="ignore"):  # what both gave no chance
        apart = [ours.arrays[loss] - other.arrays[loss] for ours, other in pairs]
    by_row = np.mean(apart, axis=0)
    if not np.isfinite(by_row).all():
        return row, by_row
    return row_over_seeds(row, values=[float(rows.mean()) for rows in apart]), by_row


def with_error(row: Row, error: float) -> Row:
    """`row` with, in words, how many standard errors a difference is from 0."""
    assert row.value is not None
    return replace(row, note=f"{row.value / error:+.1f} standard errors") if error > 0 else row
