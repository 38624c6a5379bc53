"""Exact scores of tables: nats of cells, accuracy of labels, R^2 of numbers."""

from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.sorts.base import Answer
from exfam.cli.tables.files import errors_of_files
from exfam.columns.results import arrow_column
from exfam.tables.answers.decisions import ColumnScore, column_scores, decision_rules
from exfam.tables.data import Cells
from exfam.tables.data.table_files import TableFile


def chosen_columns(model: Any, of: str | None = None) -> list[str]:
    """The column that `--of` names, or else the response, or all columns without one."""
    if of is None:
        return list(model.schema_.targets) if model.response_ is None else [model.response_]
    if of not in model.schema_.targets:
        listed = ", ".join(map(repr, model.schema_.targets))
        raise ExfamError(f"`--of` must be a column of the model, one of {listed}, got {of!r}.")
    return [of]


def cells_of(model: Any, table: TableFile) -> Cells:
    """The cells of a table as a model reads them. Raises ExfamError naming file and row."""
    with errors_of_files(table):
        left_out = {model.response_: "are left out"} if model.response_ else None
        return model._cells(table.frame, becomes=left_out)


def score_table(model: Any, table: TableFile, chosen: Any) -> Answer:
    """Nats of every row, or means with accuracy and R^2, of the response or of all columns."""
    if model.response_ is not None and model.response_ not in table.frame.column_names:
        raise ExfamError(
            f"`FILE` must have the response {model.response_!r} to score, got {chosen.file} "
            "without it. `exfam predict` needs none."
        )
    rules = decision_rules(model, chosen_columns(model))
    scores = column_scores(model.model_, cells_of(model, table), rules)
    if not sum(score.n for score in scores.values()):
        raise ExfamError(f"`FILE` must hold a cell to score, got none in {chosen.file}.")
    return (_rows(model, table, scores) if chosen.per_row else _means(scores)), []


def _rows(model: Any, table: TableFile, scores: dict[str, ColumnScore]) -> dict[str, Any]:
    nats = np.stack([score.nats for score in scores.values()])
    total = np.where(np.isnan(nats).all(0), np.nan, np.nansum(nats, axis=0))
    rows: dict[str, Any] = {"row": np.arange(len(table))}
    if model.response_ is not None:
        return rows | {model.response_: table.frame[model.response_], "nats": total}
    by_column = {f"nats_{name}": score.nats for name, score in scores.items()}
    return rows | {"nats": total} | by_column


def _means(scores: dict[str, ColumnScore]) -> dict[str, Any]:
    parts = dict(scores)
    if len(scores) > 1:
        whole = np.concatenate([score.nats for score in scores.values()])
        parts = {"all": ColumnScore(whole), **scores}
    columns = {
        "part": arrow_column(np.array(list(parts))),
        "targets": [part.n for part in parts.values()],
    }
    for name in ("nats", "accuracy", "r2"):
        numbers = [
            {"nats": part.mean, **part.measures}.get(name, np.nan) for part in parts.values()
        ]
        if not np.isnan(numbers).all():
            columns[name] = np.array(numbers)
    return columns
