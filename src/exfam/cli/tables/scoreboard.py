"""The score of a table's model beside that of columns that know nothing of each other."""

import math
import time
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.cli.common import TRAINING_FLATTERS
from exfam.cli.tables.facts import label_notes
from exfam.cli.tables.scores import (
    ColumnScore,
    cells_of,
    chosen_columns,
    column_scores,
    decision_rules,
)
from exfam.tables.data import Cells, TableSchema
from exfam.tables.data.table_files import TableFile
from exfam.tables.estimator.choice import best_recipe
from exfam.tables.estimator.plan import split_rows
from exfam.tables.networks.independent import independent_columns

__all__ = ["compare_tables", "table_scoreboard"]


def table_scoreboard(
    model: Any, train: TableFile, held_out: TableFile | None, *, seconds: float
) -> tuple[pa.Table, list[str]]:
    """Nats per cell, and accuracy or R^2, of the model and of its columns' marginal distributions.

    And what must be said of them, in lines. On rows held out if there are any, else on those of
    training. Marginals are of the training rows: of labels, the most probable is predicted.
    `seconds`: what the model's fit took
    """
    which, kept, scored = _parts(model, train, held_out)
    own = column_scores(model.model_, scored, decision_rules(model, chosen_columns(model)))
    started = time.perf_counter()
    rows = {type(model).__name__: own, "Marginal": _marginal_scores(model, kept, scored)}
    nats = [_mean(scores) for scores in rows.values()]
    board: dict[str, Any] = {
        "model": list(rows),
        "nats": nats,
        **_measures(model, rows),
        "epochs": pa.array([sum(map(len, model.histories_)), None], pa.int64()),
        "seconds": [seconds, time.perf_counter() - started],
    }
    what = "per cell" if model.response_ is None else f"of {model.response_!r}"
    notes = [f"nats {what} on {len(scored):,} {which} rows; higher is better"]
    notes += label_notes(model, len(train))
    if model.trials_ and model.response_ is not None:
        chosen = best_recipe(model.trials_)
        tried = next(trial.nats for trial in model.trials_ if trial.recipe == chosen)
        notes.append(f"{tried:.6g} nats on training rows that its own trials held out")
    if which == "training":
        notes.append(TRAINING_FLATTERS.format("rows"))
    elif ahead := _ahead(model, nats, f"{which} rows"):
        notes.append(ahead)
    notes += [
        f"{name} has -inf nats: it met a cell of probability 0"
        for name, value in zip(rows, nats, strict=True)
        if math.isinf(value)
    ]
    return pa.table(board), notes


def compare_tables(model: Any, train: TableFile, table: TableFile) -> list[str]:
    """How the model does beside marginal distributions of `train`, on rows new to it, in lines.

    Raises ExfamError for a file that a model cannot take.
    """
    names = chosen_columns(model)
    scored = cells_of(model, table)
    overlap = model._seen(scored)
    if not overlap.is_chance:
        scored = scored[np.flatnonzero(overlap.seen == 0)]
    if not scored.columns([model.schema_.index(name) for name in names]).present.any():
        return ["nothing is compared: the model has seen all rows in its fit"]
    nats = [
        _mean(column_scores(model.model_, scored, decision_rules(model, names))),
        _mean(_marginal_scores(model, cells_of(model, train), scored)),
    ]
    kind, new = type(model).__name__, f"{len(scored):,} rows"
    return [
        f"{kind} has {nats[0]:.6g} nats, Marginal {nats[1]:.6g} on {new}",
        _ahead(model, nats, new) or f"{kind} is ahead of Marginal on {new}",
    ]


def _marginal_scores(model: Any, train: Cells, scored: Cells) -> dict[str, ColumnScore]:
    """Those of the model's columns, each from its own distribution in `train`."""
    names = chosen_columns(model)
    columns = [model.schema_.index(name) for name in names]
    marginal = independent_columns(
        train.columns(columns),
        schema=TableSchema(tuple(model.schema_.columns[column] for column in columns)),
        families=[model.families_[column] for column in columns],
    )
    return column_scores(marginal, scored.columns(columns), decision_rules(model, names))


def _ahead(model: Any, nats: list[float], rows: str) -> str:
    """By how much marginal distributions are ahead, and what that means; or nothing."""
    own, marginal = nats
    if not marginal > own:
        return ""
    return (
        f"Marginal is ahead of {type(model).__name__} by {marginal - own:.3f} nats on {rows}: "
        "the columns say little of each other, or there are too few rows"
    )


def _parts(model: Any, train: TableFile, held_out: TableFile | None) -> tuple[str, Cells, Cells]:
    """What the scored rows are, the rows that were learned from, and those that are scored."""
    cells = cells_of(model, train)
    if held_out is not None:
        return "held-out", cells, cells_of(model, held_out)
    scored = cells.present
    if model.response_ is not None:
        scored = scored[:, [model.schema_.index(model.response_)]]
    rows = np.asarray(scored.any(1))
    kept, held = split_rows(rows, fraction=model.validation_fraction, seed=model.seed)
    if len(held):
        return "held-out", cells[kept], cells[held]
    return "training", cells, cells[np.flatnonzero(rows)]


def _mean(scores: dict[str, ColumnScore]) -> float:
    return float(np.nanmean(np.concatenate([score.nats for score in scores.values()])))


def _measures(model: Any, rows: dict[str, dict[str, ColumnScore]]) -> dict[str, Any]:
    if model.response_ is None:
        return {}
    name = "r2" if model.schema_.column(model.response_).labels is None else "accuracy"
    return {name: [getattr(scores[model.response_], name) for scores in rows.values()]}
