"""Whether importances of cells are faithful: what deleting and inserting cells in order does."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64

from exfam.checks import DataError, ExfamError, check_seed
from exfam.columns.results import TabularResult
from exfam.tables.answers.distributions import TableModel, cell_log_prob
from exfam.tables.data import Cells

_REPEATS = 5


@dataclass(frozen=True, eq=False, repr=False)
class DeletionInsertion(TabularResult):
    """Mean log p(target) in nats while the cells of each row go or come, most important first.

    One figure after each number of cells, from 0 on.

    `deleted`: these made absent; `inserted`: all others made absent
    """

    deleted: Float64[np.ndarray, "steps"]
    inserted: Float64[np.ndarray, "steps"]

    def to_dict(self) -> dict[str, np.ndarray]:
        """A row for each number of cells."""
        cells = np.arange(len(self.deleted))
        return {"cells": cells, "deleted": self.deleted, "inserted": self.inserted}

    @property
    def deletion_area(self) -> float:
        """Mean of `deleted` over the share of cells, in nats; lower is more faithful."""
        return _area(self.deleted)

    @property
    def insertion_area(self) -> float:
        """Mean of `inserted` over the share of cells, in nats; higher is more faithful."""
        return _area(self.inserted)


def deletion_insertion(
    model: TableModel, cells: Cells, target: str, *, importance: Float[np.ndarray, "rows columns"]
) -> DeletionInsertion:
    """Scores of a target column as cells go or come in order of their importance in their row."""
    column = model.schema.index(target)
    if importance.shape != cells.code.shape or np.isnan(importance).any():
        raise ExfamError(
            f"`importance` must be one number for each of {cells.code.shape} cells, got shape "
            f"{importance.shape} with {int(np.isnan(importance).sum())} NaN."
        )
    kept = _with_target(cells, column, target)
    shown = cells[kept]
    # The rank of each cell in its row, 0 the most important; absent cells and the target come last.
    last = ~shown.present
    last[:, column] = True
    order = np.where(last, np.inf, -importance[kept]).argsort(axis=1, kind="stable")
    rank = order.argsort(axis=1, kind="stable")
    steps = range(cells.code.shape[1])
    own = np.arange(len(steps)) == column
    return DeletionInsertion(
        deleted=np.array([_score(model, shown.where((rank >= n) | own), target) for n in steps]),
        inserted=np.array([_score(model, shown.where((rank < n) | own), target) for n in steps]),
    )


def faithfulness(
    model: TableModel,
    cells: Cells,
    target: str,
    *,
    importances: Mapping[str, Float[np.ndarray, "rows columns"]],
    seed: int,
) -> dict[str, DeletionInsertion]:
    """`deletion_insertion` by the given importances, by permutation importance and at random."""
    check_seed("seed", seed)
    by_column = permutation_importance(model, cells, target, seed=seed)
    added = {
        "permutation": np.broadcast_to(by_column, cells.code.shape),
        "random": np.random.default_rng(seed).random(cells.code.shape),
    }
    return {
        name: deletion_insertion(model, cells, target, importance=importance)
        for name, importance in {**importances, **added}.items()
    }


def permutation_importance(
    model: TableModel, cells: Cells, target: str, *, seed: int
) -> Float64[np.ndarray, "columns"]:
    """Mean loss of log p(target), in nats, when a column's cells change rows five times."""
    own = model.schema.index(target)
    shown = cells[_with_target(cells, own, target)]
    random = np.random.default_rng(seed)
    whole = _score(model, shown, target)
    loss = np.zeros(shown.code.shape[1])
    for column in range(len(loss)):
        if column == own:
            continue
        there = np.arange(len(loss)) == column
        for _ in range(_REPEATS):
            permuted = shown.replaced(there, shown[random.permutation(len(shown))])
            loss[column] += whole - _score(model, permuted, target)
    return loss / _REPEATS


def _with_target(cells: Cells, column: int, target: str) -> Bool[np.ndarray, "rows"]:
    present = cells.present[:, column]
    if not present.any():
        raise DataError(
            f"`cells` must have a row with a cell in column {target!r}, got none. Pass the "
            "response as `y`."
        )
    return present


def _score(model: TableModel, cells: Cells, target: str) -> float:
    return float(cell_log_prob(model, cells, [target]).mean())


def _area(curve: Float64[np.ndarray, "steps"]) -> float:
    if len(curve) < 2:
        return float(curve.mean())
    return float((curve[1:] + curve[:-1]).mean() / 2)
