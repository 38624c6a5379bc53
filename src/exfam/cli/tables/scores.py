"""Exact scores of tables: nats of cells, accuracy of labels, R^2 of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import ExfamError
from exfam.cli.output import arrow_column
from exfam.cli.sorts.base import Answer
from exfam.cli.tables.files import errors_of_files
from exfam.tables.answers.distributions import TableModel, distribution_blocks, value_log_prob
from exfam.tables.answers.imputation import decide, usual_rule
from exfam.tables.data import LABEL_KINDS, Cells, Column
from exfam.tables.data.table_files import TableFile


@dataclass(frozen=True, eq=False)
class ColumnScore:
    """How well the cells of one column are predicted from the others of their rows.

    `nats`: log-probability of each cell, NaN where it is missing
    `measures`: "accuracy" of labels, the share that is predicted; "r2" of numbers, 1 less the
        squared error over that of their mean; NaN without cells and of numbers that are all alike
    """

    nats: Float64[np.ndarray, "rows"]
    measures: dict[str, float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many cells there are."""
        return int((~np.isnan(self.nats)).sum())

    @property
    def mean(self) -> float:
        """The mean of `nats`; NaN without a cell."""
        return float(np.nanmean(self.nats)) if self.n else np.nan


def chosen_columns(model: Any, of: str | None = None) -> list[str]:
    """The column that `--of` names, or else the response, or all columns without one."""
    if of is None:
        return list(model.schema_.targets) if model.response_ is None else [model.response_]
    if of not in model.schema_.targets:
        listed = ", ".join(map(repr, model.schema_.targets))
        raise ExfamError(f"`--of` must be a column of the model, one of {listed}, got {of!r}.")
    return [of]


def decision_rules(model: Any, names: Sequence[str]) -> dict[str, str]:
    """By which rule each column is predicted: the response by the model's own, others as filled."""
    return {
        name: model.decision if name == model.response_ else usual_rule(model.schema_.column(name))
        for name in names
    }


def cells_of(model: Any, table: TableFile) -> Cells:
    """The cells of a table as a model reads them. Raises ExfamError naming file and row."""
    with errors_of_files(table):
        left_out = {model.response_: "are left out"} if model.response_ else None
        return model._cells(table.frame, becomes=left_out)


def column_scores(model: TableModel, cells: Cells, rules: dict[str, str]) -> dict[str, ColumnScore]:
    """Scores of the cells of these columns, each predicted by its rule."""
    index = {name: model.schema.index(name) for name in rules}
    nats, decided = ({name: np.full(len(cells), np.nan) for name in rules} for _ in range(2))
    for block, part, distributions in distribution_blocks(model, cells, list(rules)):
        for name, distribution in distributions.items():
            column = model.schema.column(name)
            nats[name][block] = value_log_prob(distribution, part.value[:, index[name]])
            decided[name][block] = decide(distribution, column, rule=rules[name])
    return {
        name: _score(model.schema.column(name), cells.value[:, index[name]], nats[name], values)
        for name, values in decided.items()
    }


def _score(column: Column, truth: np.ndarray, nats: np.ndarray, decided: np.ndarray) -> ColumnScore:
    present = ~np.isnan(truth)
    truth, decided = truth[present], decided[present]
    if column.kind in LABEL_KINDS:
        return ColumnScore(
            nats, {"accuracy": float((truth == decided).mean()) if len(truth) else np.nan}
        )
    spread = float(np.square(truth - truth.mean()).sum()) if len(truth) else 0.0
    error = float(np.square(truth - decided).sum())
    return ColumnScore(nats, {"r2": 1 - error / spread if spread else np.nan})


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
