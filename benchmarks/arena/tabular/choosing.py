"""How rivals choose on held-out training rows, and what they are fitted to.

Settings, the scale of a number, the temperature of labels and the spread of numbers are chosen on
a fifth of the training rows, of few rows on each fifth in turn. There are three trainings: on
complete rows, on rows with cells dropped, and for missing columns on the others alone. Of these,
held-out rows shown as the task shows them choose the one for each task. All are then fitted to all
training rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.kind import Fitted
from benchmarks.arena.tabular.data import (
    COLUMNS,
    COMPLETE,
    N_FIFTHS,
    TASKS,
    Rows,
    Shown,
    TableData,
    fifths,
    shown,
)
from benchmarks.arena.tabular.heads import LabelHead, NumberHead, fit_label_head, fit_number_head
from benchmarks.arena.tabular.scales import Scale, possible_scales

# Up to so many rows each fifth is held out in turn.
FEW_ROWS = 1_000
# Of training with dropped cells: the largest share of a row, rows with all copies, most copies.
MOST_DROPPED, ROWS_WITH_COPIES, MOST_COPIES = 0.6, 8_000, 4
# Of the draws of cells that held-out rows lack.
_VALIDATION_SEED = 1

Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Learning:
    """What a model learns from beside training rows. `n_labels`: None of numbers.

    `held_out`: rows that say when to stop; None where `size` gives a number of trees or steps
    """

    settings: Settings
    n_labels: int | None
    held_out: Rows | None
    size: int | None
    seed: int


@dataclass(frozen=True, eq=False)
class Learned:
    """Logarithms of probabilities of labels up to a constant, or numbers; `size`: of trees."""

    outputs: Callable[[pd.DataFrame], np.ndarray]
    size: int | None = None


Learn = Callable[[Rows, Learning], Learned]
Head = LabelHead | NumberHead


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """One way to learn, fitted to the training rows less those held out, split by split."""

    data: TableData
    learn: Learn
    settings: Settings
    scale: Scale | None
    training: str
    seed: int
    heads: dict[str, Head] = field(default_factory=dict, init=False)

    def retrained(self, training: str) -> "Trial":
        return replace(self, training=training)

    @cached_property
    def learned(self) -> list[Learned]:
        rows, fits = self.data.train, []
        for held_out in held_out_rows(self.data):
            own, others = rows.take(~held_out), rows.take(held_out)
            stop = self._prepared(others, copies=1)
            fits.append(self.learn(self._prepared(own), self._learning(stop)))
        return fits

    def head(self, task: str) -> Head:
        """What is fitted to the outputs of held-out rows that the task shows."""
        if task not in self.heads:
            self.heads[task] = self._fitted_head(task)
        return self.heads[task]

    def _fitted_head(self, task: str) -> Head:
        rows = self.data.train
        seen = self._seen(shown(rows.cells, task, seed=_VALIDATION_SEED).cells)
        parts = held_out_rows(self.data)
        pairs = zip(self.learned, parts, strict=True)
        outputs = np.concatenate([fit.outputs(seen[part]) for fit, part in pairs])
        response = np.concatenate([rows.response[part] for part in parts])
        if self.scale is None:
            return fit_label_head(outputs, response)
        return fit_number_head(outputs, response, self.scale)

    def refitted(self) -> Callable[[pd.DataFrame], np.ndarray]:
        """Outputs of a fit to all training rows, with the mean size of the others."""
        sizes = [fit.size for fit in self.learned if fit.size is not None]
        size = max(1, round(float(np.mean(sizes)))) if sizes else None
        learned = self.learn(self._prepared(self.data.train), self._learning(None, size=size))
        return lambda cells: learned.outputs(self._seen(cells))

    def described(self) -> dict[str, Any]:
        sizes = [fit.size for fit in self.learned if fit.size is not None]
        scale = {} if self.scale is None else {"scale": self.scale.name}
        return {**self.settings, **scale, **({"sizes": sizes} if sizes else {})}

    def _learning(self, held_out: Rows | None, *, size: int | None = None) -> Learning:
        return Learning(
            settings=self.settings,
            n_labels=self.data.n_labels,
            held_out=held_out,
            size=size,
            seed=self.seed,
        )

    def _prepared(self, rows: Rows, *, copies: int | None = None) -> Rows:
        if self.training == "dropped":
            rows = with_dropped(rows, copies=copies, seed=self.seed)
        response = rows.response if self.scale is None else self.scale.to(rows.response)
        return Rows(self._seen(rows.cells), response)

    def _seen(self, cells: pd.DataFrame) -> pd.DataFrame:
        return cells.drop(columns=self.data.missing) if self.training == "others" else cells


def fitting(
    learn: Learn, settings: Sequence[Settings] | Callable[[TableData], Sequence[Settings]]
) -> Callable[[TableData, int], Fitted]:
    """Fit the settings of least nats on held-out rows; the first of them chooses the scale."""

    def fit(data: TableData, seed: int) -> Fitted:
        tried = settings(data) if callable(settings) else settings
        best, trials = _best_trial(data, learn, tried, seed)
        trained = {COMPLETE: best, "dropped": best.retrained("dropped")}
        if data.n_items > len(data.missing):
            trained["others"] = best.retrained("others")
        chosen = {task: _least(trained, task) for task in TASKS}
        outputs = {name: trained[name].refitted() for name in set(chosen.values())}

        def predict(given: Shown) -> Any:
            name = chosen[given.task]
            return trained[name].head(given.task).distribution(outputs[name](given.cells))

        heads = {task: trained[name].head(task).described() for task, name in chosen.items()}
        nats = [{**trial.described(), "nats": round(_nats(trial), 4)} for trial in trials]
        settled = {**best.described(), "training": chosen, "heads": heads, "tried": nats}
        return Fitted(predict, settings=settled)

    return fit


def _best_trial(
    data: TableData, learn: Learn, tried: Sequence[Settings], seed: int
) -> tuple[Trial, list[Trial]]:
    scales = [None] if data.labels is not None else possible_scales(data.train.response)
    first = [
        Trial(data=data, learn=learn, settings=tried[0], scale=scale, training=COMPLETE, seed=seed)
        for scale in scales
    ]
    scale = min(first, key=_nats).scale
    trials = first + [replace(first[0], settings=other, scale=scale) for other in tried[1:]]
    return min(trials, key=_nats), trials


def _nats(trial: Trial) -> float:
    return trial.head(COMPLETE).nats


def _least(trained: Mapping[str, Trial], task: str) -> str:
    possible = [name for name in trained if name != "others" or task == COLUMNS]
    return min(possible, key=lambda name: trained[name].head(task).nats)


def held_out_rows(data: TableData) -> list[np.ndarray]:
    """Rows that are held out together, each fifth of each label: of many rows the first fifth."""
    fifth = fifths(data.train.response, by_label=data.labels is not None, seed=1)
    n_splits = N_FIFTHS if len(fifth) <= FEW_ROWS else 1
    return [fifth == number for number in range(n_splits)]


def with_dropped(rows: Rows, *, copies: int | None, seed: int) -> Rows:
    """Copies of rows, each without a share of its cells between 0 and MOST_DROPPED."""
    random = np.random.default_rng([seed, len(rows)])
    if copies is None:
        copies = int(np.clip(ROWS_WITH_COPIES // len(rows), 1, MOST_COPIES))
    index = np.tile(np.arange(len(rows)), copies)
    cells = rows.cells.iloc[index]
    share = random.uniform(0, MOST_DROPPED, size=(len(index), 1))
    return Rows(cells.mask(random.random(cells.shape) < share), rows.response[index])
