"""Fits of models to coded tables, each once and kept, and the rows they make."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from exfam_studies.common.bars import draw_bars
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.result_store import ResultStore
from exfam_studies.common.rows import Row
from exfam_studies.experts.table_models import OURS, TableContender, models_of
from exfam_studies.experts.table_rows import model_rows, not_installed, paired_rows, paper_rows
from exfam_studies.experts.table_rules import SideBySide, figures_of
from exfam_studies.experts.table_store import Key, Result, table_store

__all__ = [
    "CodedTables",
    "TableTask",
    "draw_tables",
    "fit_side_by_side",
    "kept_rows",
    "result_of",
    "run_tables",
]

# Results of smoke runs are of other data: they have a folder of their own.
FAST_FOLDER = "fast"


@runtime_checkable
class CodedTables(Protocol):
    """A table to fit on and one to report on, all columns and y as codes from 0."""

    @property
    def train_x(self) -> Int64[np.ndarray, "train columns"]:
        """The columns of the rows to fit on."""
        ...

    @property
    def train_y(self) -> Int64[np.ndarray, "train"]:
        """Their response."""
        ...

    @property
    def test_x(self) -> Int64[np.ndarray, "test columns"]:
        """The columns of the rows to report on."""
        ...

    @property
    def test_y(self) -> Int64[np.ndarray, "test"]:
        """Their response."""
        ...

    @property
    def n_categories(self) -> int:
        """Codes of each column and of the response."""
        ...


@dataclass(frozen=True, eq=False)
class TableTask:
    """A task with one kind of bins: its tables by number, and how many fits are usual.

    `resampled`: whether each number has its own tables; it is only the seed of the fits otherwise
    """

    name: str
    bins: str
    tables: Callable[[int], CodedTables]
    usual: int
    resampled: bool = True

    def n_fits(self, contender: TableContender, options: Options) -> int:
        """How many fits of a model are wanted."""
        if not self.resampled:
            return options.n_seeds(self.usual) if contender.chance else 1
        return min(options.n_seeds(self.usual), contender.n_data_sets)


def result_of(
    tables: Callable[[int], CodedTables],
    contender: TableContender,
    *,
    key: Key,
    store: ResultStore[Key, Result],
) -> Result:
    """The result of that fit from the store; fitted, with `key.number` as its seed, if need be."""
    kept = store.get(key)
    if kept is not None:
        return kept
    if contender.package is not None:
        import_module(contender.package)  # no part of what a fit costs
    data = tables(key.number)
    start = time.process_time()
    fitted = contender.fit(
        data.train_x, data.train_y, n_categories=data.n_categories, seed=key.number
    )
    seconds = time.process_time() - start
    figures = figures_of(fitted.predict_proba(data.test_x), data.test_y)
    result = Result(key, figures, seconds, fitted.chosen)
    store.put(result)
    return result


def fit_side_by_side(
    tables: Callable[[int], CodedTables],
    fit: SideBySide,
    *,
    keys: Sequence[Key],
    store: ResultStore[Key, Result],
) -> None:
    """Fit all data sets that have no result yet in one go, with the first one's number as seed."""
    keys = [key for key in keys if store.get(key) is None]
    if not keys:
        return
    data = [tables(key.number) for key in keys]
    start = time.process_time()
    fitted = fit(
        [each.train_x for each in data],
        [each.train_y for each in data],
        n_categories=data[0].n_categories,
        seed=keys[0].number,
    )
    seconds = (time.process_time() - start) / len(keys)
    for key, each, model in zip(keys, data, fitted, strict=True):
        figures = figures_of(model.predict_proba(each.test_x), each.test_y)
        store.put(Result(key, figures, seconds, model.chosen))


def run_tables(tasks: Sequence[TableTask], options: Options) -> list[Row]:
    """Fit all models on all tasks, and tell of them; results already kept are not fitted again."""
    store = _store(options)
    jobs = [
        Job(f"{task.name} {task.bins} {model}", partial(_fitted, task, model, options, store))
        for task in tasks
        for model in models_of(fast=options.fast)
    ]
    gathered = gather(jobs)
    return gathered + _further(tasks, options, store)


def kept_rows(tasks: Sequence[TableTask], options: Options) -> list[Row]:
    """The rows of results that are kept; nothing is fitted."""
    store = _store(options)
    rows = [
        row
        for task in tasks
        for model, contender in models_of(fast=options.fast).items()
        if (results := _kept(task, model, options, store))
        for row in model_rows(results, contender, task=task.name, bins=task.bins)
    ]
    return rows + _further(tasks, options, store)


def draw_tables(rows: list[Row], folder: Path) -> None:
    """Bars of all models beside the paper's figures: pooled bins, the most probable code."""
    shown = [
        row
        for row in rows
        if row.settings.get("bins") == "pooled" and row.settings.get("rule") == "argmax"
    ]
    for metric in ("accuracy", "mse"):
        draw_bars(shown, folder, experiment="table", metric=metric)


def _store(options: Options) -> ResultStore[Key, Result]:
    folder = options.folder
    return table_store(folder / FAST_FOLDER if folder is not None and options.fast else folder)


def _fitted(
    task: TableTask, model: str, options: Options, store: ResultStore[Key, Result]
) -> list[Row]:
    contender = models_of(fast=options.fast)[model]
    if not contender.is_installed:
        return not_installed(model, task=task.name, bins=task.bins)
    keys = [
        Key(task.name, task.bins, number, model)
        for number in range(task.n_fits(contender, options))
    ]
    if contender.side_by_side is not None and task.resampled:
        fit_side_by_side(task.tables, contender.side_by_side, keys=keys, store=store)
    results = [result_of(task.tables, contender, key=key, store=store) for key in keys]
    return model_rows(results, contender, task=task.name, bins=task.bins)


def _kept(
    task: TableTask, model: str, options: Options, store: ResultStore[Key, Result]
) -> list[Result]:
    contender = models_of(fast=options.fast)[model]
    keys = (
        Key(task.name, task.bins, number, model)
        for number in range(task.n_fits(contender, options))
    )
    return [result for key in keys if (result := store.get(key)) is not None]


def _further(
    tasks: Sequence[TableTask], options: Options, store: ResultStore[Key, Result]
) -> list[Row]:
    """Paired differences, and what the paper prints of models that are not here."""
    rows = []
    models = list(models_of(fast=options.fast))
    for task in tasks:
        results = {model: _kept(task, model, options, store) for model in models}
        if task.resampled:
            rows += paired_rows(results, ours=OURS, task=task.name, bins=task.bins)
        if task.bins == "pooled":
            rows += paper_rows(task.name, known=models)
    return rows
