"""The score of a table's model beside that of columns that know nothing of each other."""

import math
import time
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.cli.common import TRAINING_FLATTERS
from exfam.cli.tables.facts import label_notes
from exfam.cli.tables.scores import ColumnScore, cells_of, column_scores, rules_of, targets_of
from exfam.tables.choice import best_of
from exfam.tables.data import Cells, TableSchema
from exfam.tables.data.table_files import TableFile
from exfam.tables.networks.independent import IndependentColumns, independent_columns
from exfam.tables.plan import split_rows

__all__ = ["compare_tables", "table_scoreboard"]


def table_scoreboard(
    model: Any, train: TableFile, held_out: TableFile | None, *, seconds: float
) -> tuple[pa.Table, list[str]]:
    """Nats a cell, and accuracy or R^2, of the model and of the marginal laws of its columns.

    And what must be said of them, in lines. On rows held out if there are any, else on those of
    training. Marginal laws are of the training rows: of labels, the most probable is predicted.
    `seconds`: what the model's fit took
    """
    names, rules = targets_of(model), rules_of(model, targets_of(model))
    which, kept, scored = _parts(model, train, held_out)
    ours = column_scores(model.model_, scored, names, rules)
    started = time.perf_counter()
    marginal = _marginal(model, kept, names)
    places = [model.schema_.place(name) for name in names]
    theirs = column_scores(marginal, _columns(scored, places), names, rules)
    rows = {type(model).__name__: ours, "Marginal": theirs}
    told = [_told(model, which, len(scored)), *label_notes(model, len(train))]
    if model.trials_ and model.response_ is not None:
        chosen = best_of(model.trials_)
        nats = next(trial.nats for trial in model.trials_ if trial.recipe == chosen)
        told.append(f"{nats:.6g} nats on training rows that its own trials held out")
    columns: dict[str, Any] = {
        "model": list(rows),
        "nats": [_mean(scores) for scores in rows.values()],
        **_measures(model, rows),
        "epochs": pa.array([sum(map(len, model.histories_)), None], pa.int64()),
        "seconds": [seconds, time.perf_counter() - started],
    }
    if which == "training":
        told.append(TRAINING_FLATTERS.format("rows"))
    elif ahead := _ahead(model, columns["nats"], f"{which} rows"):
        told.append(ahead)
    told += [
        f"{name} has -inf nats: it met a cell of probability 0"
        for name, nats in zip(rows, columns["nats"], strict=True)
        if math.isinf(nats)
    ]
    return pa.table(columns), told


def compare_tables(model: Any, train: TableFile, table: TableFile) -> list[str]:
    """How the model does beside marginal laws of `train`, on rows new to it, in lines.

    Raises ExfamError for a file that a model cannot take.
    """
    names, rules = targets_of(model), rules_of(model, targets_of(model))
    scored = cells_of(model, table)
    overlap = model._seen(scored)
    if not overlap.is_chance:
        scored = scored[np.flatnonzero(overlap.seen == 0)]
    if not scored.present[:, [model.schema_.place(name) for name in names]].any():
        return ["nothing is compared: the model has seen all rows in its fit"]
    marginal = _marginal(model, cells_of(model, train), names)
    places = [model.schema_.place(name) for name in names]
    nats = [
        _mean(column_scores(model.model_, scored, names, rules)),
        _mean(column_scores(marginal, _columns(scored, places), names, rules)),
    ]
    kind, new = type(model).__name__, f"{len(scored):,} rows"
    return [
        f"{kind} has {nats[0]:.6g} nats, Marginal {nats[1]:.6g} on {new}",
        _ahead(model, nats, new) or f"{kind} is ahead of Marginal on {new}",
    ]


def _ahead(model: Any, nats: list[float], rows: str) -> str:
    """By how much marginal laws are ahead, and what that means; or nothing."""
    mine, marginal = nats
    if not marginal > mine:
        return ""
    return (
        f"Marginal is ahead of {type(model).__name__} by {marginal - mine:.3f} nats on {rows}: "
        "the columns say little of each other, or there are too few rows"
    )


def _parts(model: Any, train: TableFile, held_out: TableFile | None) -> tuple[str, Cells, Cells]:
    """What the scored rows are, the rows that were learned from, and those that are scored."""
    cells = cells_of(model, train)
    if held_out is not None:
        return "held-out", cells, cells_of(model, held_out)
    present = cells.present
    told = present.any(1) if model.response_ is None else present[:, _place(model)]
    kept, held = split_rows(np.asarray(told), fraction=model.validation_fraction, seed=model.seed)
    if len(held):
        return "held-out", cells[kept], cells[held]
    return "training", cells, cells[np.flatnonzero(told)]


def _place(model: Any) -> int:
    return int(model.schema_.place(model.response_))


def _marginal(model: Any, cells: Cells, names: list[str]) -> IndependentColumns:
    places = [model.schema_.place(name) for name in names]
    return independent_columns(
        _columns(cells, places),
        schema=TableSchema(tuple(model.schema_.columns[place] for place in places)),
        families=[model.families_[place] for place in places],
    )


def _columns(cells: Cells, places: list[int]) -> Cells:
    return Cells(cells.code[:, places], cells.fraction[:, places], cells.value[:, places])


def _mean(scores: dict[str, ColumnScore]) -> float:
    whole = np.concatenate([score.nats for score in scores.values()])
    return float(np.nanmean(whole))


def _measures(model: Any, rows: dict[str, dict[str, ColumnScore]]) -> dict[str, Any]:
    if model.response_ is None:
        return {}
    name = "r2" if model.schema_.column(model.response_).labels is None else "accuracy"
    return {name: [getattr(scores[model.response_], name) for scores in rows.values()]}


def _told(model: Any, which: str, n_rows: int) -> str:
    what = "a cell" if model.response_ is None else f"of {model.response_!r}"
    told = f"nats {what} on {n_rows:,} {which} rows; higher is better"
    return told
