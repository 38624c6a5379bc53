"""Exact scores of columns: nats of cells, accuracy of labels, R^2 of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.tables.answers.distributions import TableModel, distribution_blocks, value_log_prob
from exfam.tables.answers.imputation import decide, usual_rule
from exfam.tables.data import LABEL_KINDS, Cells, Column


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
    def nats_sum(self) -> float:
        """The sum of `nats`."""
        return float(np.nansum(self.nats))

    @property
    def mean(self) -> float:
        """The mean of `nats`; NaN without a cell."""
        return float(np.nanmean(self.nats)) if self.n else np.nan


def decision_rules(model: Any, names: Sequence[str]) -> dict[str, str]:
    """By which rule each column is predicted: the response by the model's own, others as filled."""
    return {
        name: model.decision if name == model.response_ else usual_rule(model.schema_.column(name))
        for name in names
    }


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
