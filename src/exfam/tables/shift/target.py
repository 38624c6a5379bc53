"""How the law of one column moved, as it is predicted and as it is observed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.families.mixtures import Mixture
from exfam.tables.answers.distributions import column_laws, row_blocks, table_schema
from exfam.tables.data.cells import Cells
from exfam.tables.networks.table_model import TableModel
from exfam.tables.shift.moves import Moved, moved

__all__ = ["TargetShift", "target_shift"]


@dataclass(frozen=True)
class TargetShift:
    """The average law of the target over training and over new rows.

    `labels`: of a finite column; empty for numbers
    `predicted`: probability of each label by the average predictive law, or its mean
    `observed`: share of each label, or mean, of the cells that are there; NaN if there is none
    `predicted_sd`, `observed_sd`: of numbers, for training and new rows, the standard deviation of
        the average predictive law and of the cells; None for labels

    >>> move = Moved(0.0, 0.1, 1.0, 0.1)
    >>> TargetShift("y", (), (move,), (move,), (1.0, 1.0), (1.0, 1.1)).predicted[0].difference
    1.0
    """

    name: str
    labels: tuple[Any, ...]
    predicted: tuple[Moved, ...]
    observed: tuple[Moved, ...]
    predicted_sd: tuple[float, float] | None = None
    observed_sd: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; None for what is not a finite number."""
        told: dict[str, Any] = {"name": self.name, "labels": list(self.labels)}
        for key in ("predicted", "observed"):
            told[key] = [move.as_dict() for move in getattr(self, key)]
            pair = getattr(self, f"{key}_sd")
            told[f"{key}_sd"] = pair and [sd if math.isfinite(sd) else None for sd in pair]
        return told


def target_shift(model: TableModel, train: Cells, new: Cells, *, target: str) -> TargetShift:
    """The move of one column, predicted from the other cells of each row, and observed.

    Raises DataError for an unknown target.

    >>> import torch
    >>> from exfam.tables.data.columns import Column
    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.families import Categorical
    >>> from exfam.tables.networks.independent import IndependentColumns
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> model = IndependentColumns(schema, (Categorical(2),), (torch.zeros(2).double(),))
    >>> code = np.array([[0], [1], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((3, 1), np.float32), code.astype(float))
    >>> told = target_shift(model, cells[:2], cells[1:], target="a")
    >>> [move.new for move in told.predicted], [move.new for move in told.observed]
    ([0.5, 0.5], [0.0, 1.0])
    """
    schema = table_schema(model)
    place = schema.place(target)
    column = schema.columns[place]
    samples = [cells.value[:, place] for cells in (train, new)]
    summary = _moments if column.labels is None else _probs
    told = [_by_rows(model, cells, target, summary) for cells in (train, new)]
    if column.labels is not None:
        n = len(column.labels)
        seen = [_indicators(value, n) for value in samples]
        return TargetShift(target, tuple(column.labels.tolist()), _moves(told, n), _moves(seen, n))
    return TargetShift(
        target,
        labels=(),
        predicted=_moves(told, 1),
        observed=(moved(*samples),),
        predicted_sd=(_mixture_sd(told[0]), _mixture_sd(told[1])),
        observed_sd=(_sd(samples[0]), _sd(samples[1])),
    )


def _by_rows(
    model: TableModel,
    cells: Cells,
    target: str,
    summary: Callable[[Mixture], Float64[np.ndarray, "_rows _numbers"]],
) -> Float64[np.ndarray, "rows numbers"]:
    """A few numbers of each row's predictive law."""
    numbers = model.families[table_schema(model).place(target)].n_params
    blocks = [cells[block] for block in row_blocks(len(cells), numbers=numbers)]
    return np.concatenate([summary(column_laws(model, rows, [target])[target]) for rows in blocks])


def _probs(law: Mixture) -> Float64[np.ndarray, "rows labels"]:
    return law.probs().double().numpy()


def _moments(law: Mixture) -> Float64[np.ndarray, "rows 2"]:
    return np.stack([law.mean().double().numpy(), law.variance().double().numpy()], axis=1)


def _indicators(
    code: Float64[np.ndarray, "rows"], n_labels: int
) -> Float64[np.ndarray, "rows labels"]:
    """1 at each row's label, 0 at others, NaN where it is absent."""
    same = (code[:, None] == np.arange(n_labels)).astype(np.float64)
    return np.where(np.isnan(code)[:, None], np.nan, same)


def _moves(samples: Sequence[np.ndarray], n: int) -> tuple[Moved, ...]:
    return tuple(moved(samples[0][:, k], samples[1][:, k]) for k in range(n))


def _mixture_sd(moments: Float64[np.ndarray, "rows 2"]) -> float:
    """Standard deviation of the average of laws: their mean variance, and that of their means."""
    return float(np.sqrt(moments[:, 1].mean() + moments[:, 0].var()))


def _sd(value: Float64[np.ndarray, "rows"]) -> float:
    known = value[~np.isnan(value)]
    return float(known.std()) if len(known) else math.nan
