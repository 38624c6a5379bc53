"""Tables whose rows to report on are of another kind than those to fit on, with nothing simulated.

Bikes hired in 2011, then 2012, by day and by hour; red wines, then white ones, whose grades are
labels in order from 0 to 10; American incomes of people in white-collar occupations (executive,
professional, clerical, sales, technical support), then in all others; incomes of people born in the
United States, then elsewhere. For incomes 10,000 training rows are drawn, the same for all models.

"dropped" is the share of cells that are missing at test: each cell at random ("by" cell) or whole
columns ("by" column), in draws of their own for each fit. Models named "-dropped" are tuned ones
fitted to rows with cells dropped in the same shares, each row once with every share if the table is
short; `masked-table-missing` hides up to 70% of the cells of training rows. Nothing else is told
about what is missing.

"rule" is the decision: the most probable label ("argmax"), the mean, or the label nearest to it
("rounded"): the same rules for all models. All models are fitted with five seeds. The setting
"error" is a standard error over test rows as if they were independent, which days that follow each
other are not. Validation figures are those of one more fit, to four fifths of the training rows, on
the others. Give `--folder` to keep each fit and to go on after a break.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, Shaped

from exfam_studies.common.bars import draw_bars
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.result_store import ResultStore
from exfam_studies.common.rows import Row
from exfam_studies.experts.adult import adult
from exfam_studies.experts.public_tables import TableShift, bike_sharing, wine_quality
from exfam_studies.experts.shift_features import with_missing
from exfam_studies.experts.shift_losses import row_losses
from exfam_studies.experts.shift_models import (
    OURS,
    SHARES,
    ShiftModel,
    shift_models,
    shift_parameters,
)
from exfam_studies.experts.shift_peers import ShiftFitted
from exfam_studies.experts.shift_rows import difference_rows, figure_rows
from exfam_studies.experts.shift_store import ShiftKey, ShiftResult, shift_store

__all__ = ["TASKS", "ShiftTask", "kept", "parameters", "plot", "result_of", "run"]

Columns = Mapping[str, Shaped[np.ndarray, "rows"]]
Losses = Mapping[tuple[str, str], Float[np.ndarray, "rows"]]
SEEDS = 5
# Draws of the cells that are dropped, for each fit.
DRAWS = 2
HELD_OUT = 0.2
FAST_ROWS = 120
ADULT_ROWS = 10_000
GRADES = tuple(range(11))
FAST_FOLDER = "fast"


@dataclass(frozen=True, eq=False)
class ShiftTask:
    """A table of the experiment.

    `dropped`: whether cells are also dropped at test
    `rows`: how many training rows are drawn, None for all
    """

    name: str
    kind: str
    table: Callable[[], TableShift]
    dropped: bool = False
    rows: int | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """How many cells are dropped at test, and by what: "0", "0.1 cell", …"""
        if not self.dropped:
            return ("0",)
        return ("0", *(f"{share:g} {by}" for share in SHARES[1:] for by in ("cell", "column")))

    def read(self, *, fast: bool) -> TableShift:
        """The table; its first rows in a smoke run."""
        shift = self.table()
        train, test = np.arange(len(shift.train_y)), np.arange(len(shift.test_y))
        if fast:
            return _rows_of(shift, train[:FAST_ROWS], test[:FAST_ROWS])
        if self.rows is None:
            return shift
        drawn = np.random.default_rng(0).permutation(train)[: self.rows]
        return _rows_of(shift, np.sort(drawn), test)


def _wine() -> TableShift:
    return replace(wine_quality(), levels={"y": GRADES})


_TASKS = {
    each.name: each
    for each in (
        ShiftTask("wine", "ordinal", _wine, dropped=True),
        ShiftTask("bike-day", "regression", bike_sharing, dropped=True),
        ShiftTask(
            "adult-country", "classification", partial(adult, "country"), True, rows=ADULT_ROWS
        ),
        ShiftTask("adult-occupation", "classification", adult, rows=ADULT_ROWS),
        ShiftTask("bike-hour", "regression", partial(bike_sharing, "hour")),
    )
}
TASKS = tuple(_TASKS)


def run(options: Options) -> list[Row]:
    """Fit and measure all models on the wanted tables."""
    store, tasks = _store(options), _wanted(options)
    jobs = [
        Job(f"{task.name} {model}", partial(_fitted, task, model, options, store))
        for task in tasks
        for model in _models(task, options)
    ]
    return gather(jobs) + _differences(tasks, options, store)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults, or what they are chosen from."""
    return shift_parameters(row.model, task=_TASKS[row.task].kind)


def kept(options: Options) -> list[Row]:
    """The rows of what `options.folder` keeps; nothing is fitted."""
    store, tasks = _store(options), _wanted(options)
    rows = [
        row
        for task in tasks
        for model in _models(task, options)
        for row in _told(task, model, options, store)
    ]
    return rows + _differences(tasks, options, store)


def plot(rows: list[Row], folder: Path) -> None:
    """Bars of all models on rows of which nothing is dropped."""
    for metric, rule in _DRAWN.items():
        shown = [
            replace(row, settings={})
            for row in rows
            if row.settings.get("dropped") == 0 and row.settings.get("rule") == rule
        ]
        draw_bars(shown, folder, experiment="table", metric=metric)


_DRAWN = {"accuracy": "argmax", "mse": "mean", "nats": None}


def result_of(
    task: ShiftTask,
    model: ShiftModel,
    *,
    key: ShiftKey,
    store: ResultStore[ShiftKey, ShiftResult],
    fast: bool,
) -> ShiftResult:
    """The result of that fit from the store; fitted, with `key.number` as its seed, if need be."""
    kept = store.get(key)
    if kept is not None:
        return kept
    if model.package is not None:
        import_module(model.package)  # no part of what a fit costs
    shift = task.read(fast=fast)
    shift = _held_out(shift) if key.part == "validation" else shift
    start = time.process_time()
    fitted = model.fit(shift, seed=key.number)
    seconds = time.process_time() - start
    losses = {
        (place, name): rows
        for place in task.places
        for name, rows in _losses(fitted, shift, place, number=key.number).items()
    }
    result = ShiftResult(key, losses, seconds, fitted.chosen)
    store.put(result)
    return result


def _losses(
    fitted: ShiftFitted, shift: TableShift, place: str, *, number: int
) -> Mapping[str, Float[np.ndarray, "rows"]]:
    """The losses of rows to report on, means over draws of what is dropped."""
    share, *by = place.split()
    if not by:
        return row_losses(fitted.predict(shift.test), shift.test_y, shift=shift)
    drawn = []
    for draw in range(DRAWS):
        seed = number * DRAWS + draw
        columns = with_missing(shift.test, share=float(share), by=by[0], seed=seed)
        drawn.append(row_losses(fitted.predict(columns), shift.test_y, shift=shift))
    return {name: np.mean([each[name] for each in drawn], axis=0) for name in drawn[0]}


def _held_out(shift: TableShift) -> TableShift:
    """Four fifths of the training rows to fit to, the others to report on."""
    n_rows = len(shift.train_y)
    order = np.random.default_rng(n_rows).permutation(n_rows)
    held, rest = np.split(order, [round(HELD_OUT * n_rows)])
    whole = replace(shift, test=shift.train, test_y=shift.train_y)
    return _rows_of(whole, np.sort(rest), np.sort(held))


def _rows_of(
    shift: TableShift, train: Int64[np.ndarray, "train"], test: Int64[np.ndarray, "test"]
) -> TableShift:
    return replace(
        shift,
        train={name: column[train] for name, column in shift.train.items()},
        train_y=shift.train_y[train],
        test={name: column[test] for name, column in shift.test.items()},
        test_y=shift.test_y[test],
    )


def _store(options: Options) -> ResultStore[ShiftKey, ShiftResult]:
    folder = options.folder
    return shift_store(folder / FAST_FOLDER if folder is not None and options.fast else folder)


def _wanted(options: Options) -> list[ShiftTask]:
    return [task for name, task in _TASKS.items() if options.wants(name)]


def _models(task: ShiftTask, options: Options) -> dict[str, ShiftModel]:
    models = shift_models(task.kind, fast=options.fast)
    return {name: each for name, each in models.items() if task.dropped or not each.of_dropped}


def _keys(task: ShiftTask, model: str, options: Options) -> list[ShiftKey]:
    return [ShiftKey(task.name, "test", number, model) for number in range(options.n_seeds(SEEDS))]


def _fitted(
    task: ShiftTask, model: str, options: Options, store: ResultStore[ShiftKey, ShiftResult]
) -> list[Row]:
    contender = _models(task, options)[model]
    if contender.is_installed:
        held = ShiftKey(task.name, "validation", 0, model)
        for key in (held, *_keys(task, model, options)):
            result_of(task, contender, key=key, store=store, fast=options.fast)
        return _told(task, model, options, store)
    return [Row(task=task.name, model=model, metric="nats", note="not installed")]


def _told(
    task: ShiftTask, model: str, options: Options, store: ResultStore[ShiftKey, ShiftResult]
) -> list[Row]:
    results = _results(task, model, options, store)
    if not results:
        return []
    row = Row(
        task=task.name,
        model=model,
        metric="",
        n_configurations=_models(task, options)[model].n_configurations,
        note="" if task.rows is None else f"{task.rows:,} training rows drawn",
    )
    validation = store.get(ShiftKey(task.name, "validation", 0, model))
    return figure_rows(results, validation=validation, row=row)


def _results(
    task: ShiftTask, model: str, options: Options, store: ResultStore[ShiftKey, ShiftResult]
) -> Sequence[ShiftResult]:
    found = (store.get(key) for key in _keys(task, model, options))
    return [result for result in found if result is not None]


def _differences(
    tasks: Sequence[ShiftTask], options: Options, store: ResultStore[ShiftKey, ShiftResult]
) -> list[Row]:
    rows = []
    for task in tasks:
        results = {model: _results(task, model, options, store) for model in _models(task, options)}
        for ours in OURS:
            rows += difference_rows(results, ours=ours, task=task.name)
    return rows
