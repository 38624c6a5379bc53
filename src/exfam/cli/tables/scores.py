"""Exact scores of tables: nats of cells, accuracy of labels, R^2 of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from exfam.checks import ExfamError
from exfam.cli.sources import as_array
from exfam.cli.tables.errors import told_of
from exfam.tables.answers.decisions import decide
from exfam.tables.answers.distributions import column_laws, row_blocks, table_schema
from exfam.tables.data import FINITE, Cells, Column
from exfam.tables.data.table_files import TableFile
from exfam.tables.networks.table_model import TableModel

__all__ = ["ColumnScore", "cells_of", "column_scores", "rules_of", "table_scores", "targets_of"]

_RULES = {"categorical": "argmax", "boolean": "argmax", "ordinal": "median"}


@dataclass(frozen=True, eq=False)
class ColumnScore:
    """How well the cells of one column are predicted from the others of their rows.

    `nats`: log-probability of each cell, NaN where it is missing
    `accuracy`: of labels, the share that is predicted; NaN of numbers
    `r2`: of numbers, 1 less the squared error over that of their mean; NaN of labels, and of
        numbers that are all the same
    """

    nats: Float64[np.ndarray, "rows"]
    accuracy: float
    r2: float

    @property
    def n(self) -> int:
        """How many cells there are."""
        return int((~np.isnan(self.nats)).sum())

    @property
    def mean(self) -> float:
        """The mean of `nats`; NaN without a cell."""
        return float(np.nanmean(self.nats)) if self.n else np.nan


def targets_of(model: Any) -> list[str]:
    """The columns that a model is asked for: its response, or all without one."""
    return list(model.schema_.targets) if model.response_ is None else [model.response_]


def rules_of(model: Any, names: Sequence[str]) -> list[str]:
    """By which rule each column is predicted: the response by the model's own, others as filled."""
    return [
        model.decision
        if name == model.response_
        else _RULES.get(model.schema_.column(name).kind, "mean")
        for name in names
    ]


def cells_of(model: Any, table: TableFile) -> Cells:
    """The cells of a table as a model reads them. Raises ExfamError naming file and row."""
    with told_of(table):
        left_out = {model.response_: "are left out"} if model.response_ else None
        return model._cells(table.frame, becomes=left_out)


def column_scores(
    model: TableModel, cells: Cells, names: Sequence[str], rules: Sequence[str]
) -> dict[str, ColumnScore]:
    """Scores of the cells of these columns, each predicted by its rule."""
    schema = table_schema(model)
    n_params = sum(model.families[schema.place(name)].n_params for name in names)
    nats, told = (np.full((len(names), len(cells)), np.nan) for _ in range(2))
    for block in row_blocks(len(cells), numbers=n_params):
        part = cells[block]
        laws = column_laws(model, part, names)
        for k, (name, rule) in enumerate(zip(names, rules, strict=True)):
            value = torch.from_numpy(part.value[:, schema.place(name)].copy())
            log_prob = laws[name].log_prob(value)
            nats[k, block] = torch.where(value.isnan(), torch.nan, log_prob).numpy()
            told[k, block] = decide(laws[name], schema.column(name), rule=rule)
    return {
        name: _score(schema.column(name), cells.value[:, schema.place(name)], nats[k], told[k])
        for k, name in enumerate(names)
    }


def _score(column: Column, truth: np.ndarray, nats: np.ndarray, told: np.ndarray) -> ColumnScore:
    known = ~np.isnan(truth)
    truth, told = truth[known], told[known]
    if not len(truth):
        return ColumnScore(nats, np.nan, np.nan)
    if column.kind in FINITE:
        return ColumnScore(nats, float((truth == told).mean()), np.nan)
    spread = float(np.square(truth - truth.mean()).sum())
    error = float(np.square(truth - told).sum())
    return ColumnScore(nats, np.nan, 1 - error / spread if spread else np.nan)


def table_scores(model: Any, table: TableFile, chosen: Any) -> dict[str, Any]:
    """Nats of every row, or their means with accuracy and R^2, of the response or of all columns.

    Raises ExfamError if there is no cell to score.
    """
    names = targets_of(model)
    if model.response_ is not None and model.response_ not in table.frame.column_names:
        raise ExfamError(
            f"`FILE` must have the response {model.response_!r} to score, got {chosen.file} "
            "without it. `exfam predict` needs none."
        )
    scores = column_scores(model.model_, cells_of(model, table), names, rules_of(model, names))
    if not sum(each.n for each in scores.values()):
        raise ExfamError(f"`FILE` must hold a cell to score, got none in {chosen.file}.")
    return _rows(model, table, scores) if chosen.per_row else _means(scores)


def _rows(model: Any, table: TableFile, scores: dict[str, ColumnScore]) -> dict[str, Any]:
    each = np.stack([score.nats for score in scores.values()])
    total = np.where(np.isnan(each).all(0), np.nan, np.nansum(each, axis=0))
    told: dict[str, Any] = {"row": np.arange(len(table))}
    if model.response_ is not None:
        return told | {model.response_: table.frame[model.response_], "nats": total}
    return told | {"nats": total} | {f"nats_{name}": one.nats for name, one in scores.items()}


def _means(scores: dict[str, ColumnScore]) -> dict[str, Any]:
    several, each = len(scores) > 1, list(scores.values())
    whole = np.concatenate([score.nats for score in each])
    first = [ColumnScore(whole, np.nan, np.nan)] if several else []
    parts = first + each
    measures = {
        "nats": [part.mean for part in parts],
        "accuracy": [part.accuracy for part in parts],
        "r2": [part.r2 for part in parts],
    }
    kept = {name: told for name, told in measures.items() if not np.isnan(told).all()}
    names = (["all"] if several else []) + list(scores)
    counts = {"part": as_array(np.array(names)), "targets": [part.n for part in parts]}
    return counts | {name: np.array(told) for name, told in kept.items()}
