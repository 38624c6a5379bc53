"""How the distribution of one column moved, as it is predicted and as it is observed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.tables.answers.distributions import distribution_blocks
from exfam.tables.data import Cells
from exfam.tables.networks.table_model import TableModel
from exfam.tables.shift.moves import Moved, finite_or_none, moved


@dataclass(frozen=True)
class TargetShift:
    """The average distribution of the target over training and over new rows.

    `labels`: of a finite column; empty for numbers
    `predicted`: mean predicted probability of each label, or the predicted mean
    `observed`: share of each label, or mean, of the cells that are there; NaN if there is none
    `predicted_sd`, `observed_sd`: of numbers, for training and new rows, the standard deviation of
        the average predictive distribution and of the cells; None for labels
    """

    name: str
    labels: tuple[Any, ...]
    predicted: tuple[Moved, ...]
    observed: tuple[Moved, ...]
    predicted_sd: tuple[float, float] | None = None
    observed_sd: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; None for what is not a finite number."""
        plain: dict[str, Any] = {"name": self.name, "labels": list(self.labels)}
        for key in ("predicted", "observed"):
            plain[key] = [move.as_dict() for move in getattr(self, key)]
            pair = getattr(self, f"{key}_sd")
            plain[f"{key}_sd"] = pair and [finite_or_none(sd) for sd in pair]
        return plain


def target_shift(model: TableModel, train: Cells, new: Cells, *, target: str) -> TargetShift:
    """The move of one column, predicted from the other cells of each row, and observed.

    Raises DataError for an unknown target.
    """
    index = model.schema.index(target)
    labels = model.schema.columns[index].labels
    values = [cells.value[:, index] for cells in (train, new)]
    predicted = [_predicted(model, cells, target) for cells in (train, new)]
    if labels is not None:
        observed = [_indicators(value, len(labels)) for value in values]
        names = tuple(labels.tolist())
        return TargetShift(target, names, _moves(predicted), _moves(observed))
    means = [moments[:, :1] for moments in predicted]
    return TargetShift(
        target,
        labels=(),
        predicted=_moves(means),
        observed=(moved(*values),),
        predicted_sd=(_mixture_sd(predicted[0]), _mixture_sd(predicted[1])),
        observed_sd=(_sd(values[0]), _sd(values[1])),
    )


def _predicted(model: TableModel, cells: Cells, target: str) -> Float64[np.ndarray, "rows numbers"]:
    """Of each row the probabilities of labels, or mean and variance of numbers."""
    parts = []
    for _, _, distributions in distribution_blocks(model, cells, [target]):
        distribution = distributions[target]
        if model.schema.column(target).labels is not None:
            parts.append(distribution.probs().double().numpy())
        else:
            moments = distribution.mean(), distribution.variance()
            parts.append(np.stack([part.double().numpy() for part in moments], axis=1))
    return np.concatenate(parts)


def _indicators(
    code: Float64[np.ndarray, "rows"], n_labels: int
) -> Float64[np.ndarray, "rows labels"]:
    """1 at each row's label, 0 at others, NaN where it is absent."""
    same = (code[:, None] == np.arange(n_labels)).astype(np.float64)
    return np.where(np.isnan(code)[:, None], np.nan, same)


def _moves(samples: Sequence[np.ndarray]) -> tuple[Moved, ...]:
    return tuple(moved(train, new) for train, new in zip(samples[0].T, samples[1].T, strict=True))


def _mixture_sd(moments: Float64[np.ndarray, "rows 2"]) -> float:
    """Of the average of distributions: their mean variance, and that of their means."""
    return float(np.sqrt(moments[:, 1].mean() + moments[:, 0].var()))


def _sd(value: Float64[np.ndarray, "rows"]) -> float:
    value = value[~np.isnan(value)]
    return float(value.std()) if len(value) else math.nan
