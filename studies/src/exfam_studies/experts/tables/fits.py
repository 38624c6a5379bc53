"""Fits of models to tables, each once and kept, and the rows they make."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module

import numpy as np

from exfam_studies.common.fits import Contender, Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Kept, Key, Store
from exfam_studies.common.rows import Row
from exfam_studies.experts.tables.predictions import Fitted
from exfam_studies.experts.tables.public import TableShift

# Results of smoke runs are of other data: they have a folder of their own.
FAST_FOLDER = "fast"
# Name of a loss -> its value in each row, or the mean alone.
Losses = Mapping[str, np.ndarray]
Results = Mapping[str, Sequence[Kept]]


class TableTask(ABC):
    """Tables that models are fitted to and measured on, and how their rows look."""

    label: str

    @abstractmethod
    def models(self) -> Mapping[str, Contender]:
        """The models that are fitted, by name."""

    def together(self, name: str) -> Callable[..., Sequence[Fitted]] | None:
        """What fits a model to several tables at once; None to fit it to one at a time."""
        return None

    @abstractmethod
    def keys(self, name: str) -> list[Key]:
        """The fits of a model that are wanted."""

    @abstractmethod
    def table(self, key: Key) -> TableShift:
        """The table of a fit."""

    @abstractmethod
    def losses(self, fitted: Fitted, table: TableShift, key: Key) -> Losses:
        """What is kept of a fit's losses on the test rows."""

    @abstractmethod
    def model_rows(self, name: str, results: Sequence[Kept]) -> list[Row]:
        """Rows of one model's results; none of a model without a result that was wanted."""

    @abstractmethod
    def further_rows(self, results: Results) -> list[Row]:
        """Rows of differences between models, and of the paper's figures."""

    @abstractmethod
    def not_installed(self, name: str) -> Row:
        """The row of a model whose package is not there."""


def run_tables(tasks: Sequence[TableTask], options: Options) -> list[Row]:
    """Fit and measure all models on all tasks; results already kept are not fitted again."""
    store = _store(options)
    jobs = [
        Job(f"{task.label} {name}", partial(_fitted_rows, task, name, store))
        for task in tasks
        for name in task.models()
    ]
    return gather(jobs) + _further(tasks, store)


def kept_rows(tasks: Sequence[TableTask], options: Options) -> list[Row]:
    """The rows of results that are kept; nothing is fitted."""
    store = _store(options)
    rows = [
        row
        for task in tasks
        for name in task.models()
        for row in task.model_rows(name, _kept(task, name, store))
    ]
    return rows + _further(tasks, store)


def fit_missing(task: TableTask, name: str, store: Store) -> None:
    """Fit the wanted fits of a model that have no result yet, each with its number as the seed.

    Models that are fitted together have the first one's number as theirs.
    """
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
            store.put(Kept(key, {}, seconds, losses, fitted.chosen))


def _fitted_rows(task: TableTask, name: str, store: Store) -> list[Row]:
    if not task.models()[name].is_installed:
        return [task.not_installed(name)]
    fit_missing(task, name, store)
    return task.model_rows(name, _kept(task, name, store))


def _kept(task: TableTask, name: str, store: Store) -> list[Kept]:
    return [result for key in task.keys(name) if (result := store.get(key)) is not None]


def _further(tasks: Sequence[TableTask], store: Store) -> list[Row]:
    return [
        row
        for task in tasks
        for row in task.further_rows({name: _kept(task, name, store) for name in task.models()})
    ]


def _store(options: Options) -> Store:
    folder = options.folder
    return Store(folder / FAST_FOLDER if folder is not None and options.fast else folder)
