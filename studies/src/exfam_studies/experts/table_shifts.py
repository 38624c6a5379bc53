"""Tables whose rows to report on are of another kind than those to fit on, with nothing simulated.

Bikes hired in 2011, then 2012, by day and by hour; red wines, then white ones, whose grades are
labels in order from 0 to 10; American incomes of white-collar occupations, then of all others, and
of people born in the United States, then elsewhere (10,000 training rows drawn for all models).

"dropped" is the share of cells that are missing at test: each cell at random or whole columns
("by"). Models named "-dropped" are tuned ones fitted to rows with cells dropped in the same shares;
`masked-table-missing` hides up to 70% of the cells of training rows.

"rule" is the decision: the most probable label ("argmax"), the mean, or the label nearest to it
("rounded"). All models have five seeds. "error" is a standard error over test rows as if they were
independent. Validation figures are of one more fit, to four fifths of the training rows.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from exfam_studies.common.fits import Contender
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Key, Measured
from exfam_studies.common.rows import Row
from exfam_studies.experts.tables import data, fits
from exfam_studies.experts.tables.models import OURS, model_parameters, shift_models

SEEDS = 5
# Draws of the cells that are dropped, for each fit.
DRAWS = 2
HELD_OUT = 0.2
FAST_ROWS = 120
ADULT_ROWS = 10_000
WHOLE = "0"  # of rows without dropped cells
TEST, VALIDATION = "test", "validation"


@dataclass(frozen=True, eq=False)
class ShiftTask:
    """A table of the experiment; of `n_rows` training rows, None for all.

    `kind`: "classification", "ordinal" or "regression"; `dropped`: whether test cells are dropped
    """

    label: str
    kind: str
    read: Callable[[], data.TableShift]
    dropped: bool = False
    n_rows: int | None = None
    options: Options = Options()

    def models(self) -> Mapping[str, Contender]:
        """The models of the kind of table, those of dropped cells where cells are dropped."""
        models = shift_models(self.kind, fast=self.options.fast)
        left_out = () if self.dropped else ("-dropped", "-missing")
        return {name: model for name, model in models.items() if not name.endswith(left_out)}

    def together(self, name: str) -> None:
        """Nothing: all models are fitted to one table at a time."""

    def keys(self, name: str) -> list[Key]:
        """One fit measured on held-out training rows, then one for each seed."""
        numbers = range(self.options.n_seeds(SEEDS))
        held = Key((self.label, VALIDATION, name))
        return [held, *(Key((self.label, TEST, name), number) for number in numbers)]

    def table(self, key: Key) -> data.TableShift:
        """The table, or its training rows parted; the first rows in a smoke run."""
        table = self.read()
        train, test = np.arange(len(table.train_y)), np.arange(len(table.test_y))
        if self.options.fast:
            train, test = train[:FAST_ROWS], test[:FAST_ROWS]
        elif self.n_rows is not None:
            train = np.sort(np.random.default_rng(0).permutation(train)[: self.n_rows])
        if VALIDATION not in key.names:
            return table.parted(train, test)
        # Four fifths of the training rows to fit to, the others to report on.
        order = np.random.default_rng(len(train)).permutation(len(train))
        held, rest = np.split(order, [round(HELD_OUT * len(train))])
        whole = replace(table, test=table.train, test_y=table.train_y)
        return whole.parted(train[np.sort(rest)], train[np.sort(held)])

    def losses(
        self, fitted: fits.Fitted, table: data.TableShift, key: Key
    ) -> Mapping[str, np.ndarray]:
        """The losses of all test rows by share dropped: "0", "0.1 cell", …; means over draws."""
        losses, draws = {}, range(key.seed * DRAWS, (key.seed + 1) * DRAWS)
        columns, y, shares = table.test, table.test_y, data.SHARES[1:] if self.dropped else ()
        parts = {WHOLE: [columns]}
        for share, by in itertools.product(shares, ("cell", "column")):
            parts[f"{share:g} {by}"] = [
                data.with_missing(columns, share=share, by=by, seed=draw) for draw in draws
            ]
        for share_by, drawn in parts.items():
            of_draws = [fits.row_losses(fitted.predict(own), y, table=table) for own in drawn]
            for name in of_draws[0]:
                losses[f"{share_by} | {name}"] = np.mean([own[name] for own in of_draws], axis=0)
        return losses

    def model_rows(self, name: str, results: Sequence[Measured]) -> list[Row]:
        """One row for each loss and share; "error" is the standard error over the test rows."""
        test, held = _of(TEST, results), _of(VALIDATION, results)
        note = "" if self.n_rows is None else f"{self.n_rows:,} training rows drawn"
        tried = self.models()[name].n_configurations
        model = Row(task=self.label, model=name, metric="", n_configurations=tried, note=note)
        rows = []
        for loss in test[0].arrays:
            row = fits.loss_row(_named(model, loss), test, loss, held=held)
            if row.value is not None:
                row, _ = _with_error(row, np.mean([own.arrays[loss] for own in test], axis=0))
            rows.append(row)
        return rows

    def further_rows(self, results: fits.Results) -> list[Row]:
        """How much losses of our models differ from others', fit by fit, row by row: "minus-…".

        "error" is over rows of the mean difference over fits, `sd` over fits; none where infinite.
        """
        test, rows = {name: _of(TEST, some) for name, some in results.items()}, []
        for ours, name in itertools.product(OURS, test):
            pairs = fits.pairs_of(test.get(ours, ()), test[name])
            if name.startswith(OURS[0]) or not pairs:
                continue
            for loss in pairs[0][0].arrays:
                row = _named(Row(task=self.label, model=ours, metric=""), loss)
                # Where cells are missing, only models fitted to rows with cells dropped count.
                if row.settings["dropped"] and not name.endswith("-dropped"):
                    continue
                settings = {**row.settings, "against": name}
                row = replace(row, metric=f"minus-{row.metric}", settings=settings)
                row, by_row = fits.difference_row(row, pairs, loss)
                if row.value is not None:
                    rows.append(fits.with_error(*_with_error(row, by_row)))
        return rows

    def not_installed(self, name: str) -> Row:
        return Row(task=self.label, model=name, metric="nats", note="not installed")


_TASKS = {
    task.label: task
    for task in (
        ShiftTask("wine", "ordinal", data.wine_quality, dropped=True),
        ShiftTask("bike-day", "regression", data.bike_sharing, dropped=True),
        ShiftTask(
            "adult-country", "classification", partial(data.adult, "country"), True, ADULT_ROWS
        ),
        ShiftTask("adult-occupation", "classification", data.adult, n_rows=ADULT_ROWS),
        ShiftTask("bike-hour", "regression", partial(data.bike_sharing, "hour")),
    )
}
TASKS = tuple(_TASKS)
PLOTTED = dict.fromkeys(("accuracy", "mse", "nats"))


def run(options: Options) -> list[Row]:
    """Fit and measure all models on the wanted tables."""
    tasks = [replace(task, options=options) for task in _TASKS.values()]
    return fits.run_tables([task for task in tasks if options.wants(task.label)], options)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults, or what they are chosen from."""
    return model_parameters(row.model, task=_TASKS[row.task].kind)


def _of(part: str, results: Sequence[Measured]) -> list[Measured]:
    return [result for result in results if part in result.key.names]


def _named(row: Row, loss: str) -> Row:
    """`row` with what its figure is of, such as "0.1 cell | mse mean"."""
    (dropped, *by), (metric, *rule) = map(str.split, loss.split("|"))
    settings = {**row.settings, "dropped": float(dropped)}
    settings |= {"by": by[0]} if by else {}
    settings |= {"rule": rule[0]} if rule else {}
    return replace(row, metric=metric, settings=settings)


def _with_error(row: Row, by_row: np.ndarray) -> tuple[Row, float]:
    """`row` with the standard error over rows among its settings, and that error."""
    error = float(by_row.std(ddof=1) / np.sqrt(len(by_row)))
    return replace(row, settings={**row.settings, "error": float(f"{error:.4g}")}), error
