"""What a report of a table is made of: a model, its rows, and those that it is scored on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from exfam.checks import ExfamError
from exfam.estimator.seen import Overlap
from exfam.report.contents import ReportRequest
from exfam.tables.data import Cells, Column, TableSchema

# Rows that are scored, and rows that baselines are fitted on.
MOST_ROWS, MOST_LEARNED = 4000, 20_000
FEWEST_LEARNED = 10
# Columns that are scored and shown where there is no response.
MOST_TARGETS = 40


@dataclass(frozen=True, eq=False)
class TableMaterial:
    """A model of a table, all rows given, and the rows that it is scored on.

    `scored`: all rows with something to predict, or a random sample; `learn`: the rows that
    baselines are fitted on, if any; `compared`: which rows of `scored` they are compared on;
    `train`: the rows given as training data, if any.
    """

    model: Any
    data: Cells | None
    scored: Cells | None
    learn: Cells | None
    compared: Bool[np.ndarray, "rows"]
    train: Cells | None
    overlap: Overlap | None
    seed: int

    @property
    def schema(self) -> TableSchema:
        """The columns."""
        schema: TableSchema = self.model.schema_
        return schema

    @property
    def targets(self) -> tuple[str, ...]:
        """The response, or the first columns that can be predicted where there is none."""
        response = self.model.response_
        return self.schema.targets[:MOST_TARGETS] if response is None else (response,)

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The columns that predictions are made from, without parts of dates."""
        return tuple(
            column
            for column in self.schema.columns
            if column.name != self.model.response_ and column.part_of is None
        )


def gather_table(model: Any, request: ReportRequest) -> TableMaterial:
    """Read the tables and choose the rows that the model is scored on."""
    data = _read(model, request.data, "data")
    train = _read(model, request.train, "train")
    scored, learn, compared, overlap = data, None, np.zeros(0, dtype=bool), None
    if data is not None:
        random = np.random.default_rng(request.seed)
        rows = random.permutation(_of_use(model, data))
        if request.baselines and train is None:
            half = len(rows) // 2
            learn, rows = data[np.sort(rows[:half])], rows[half:]
        elif request.baselines:
            learn = train
        scored = data[np.sort(rows[:MOST_ROWS])]
        overlap = model._seen(scored)
        compared = np.ones(len(scored), dtype=bool)
        if not overlap.is_chance:
            compared &= overlap.seen == 0
        if learn is not None and (len(learn) < FEWEST_LEARNED or compared.sum() < FEWEST_LEARNED):
            learn = None
    if learn is not None and len(learn) > MOST_LEARNED:
        drawn = np.random.default_rng(request.seed).permutation(len(learn))[:MOST_LEARNED]
        learn = learn[np.sort(drawn)]
    return TableMaterial(model, data, scored, learn, compared, train, overlap, request.seed)


def _read(model: Any, given: Any, name: str) -> Cells | None:
    if given is None:
        return None
    becomes = None if model.response_ is None else {model.response_: "are left out"}
    cells: Cells = model._cells(given, becomes=becomes)
    if not len(_of_use(model, cells)):
        what = "a cell" if model.response_ is None else f"the response {model.response_!r}"
        raise ExfamError(f"`{name}` must hold {what} in some row to predict, got none.")
    return cells


def _of_use(model: Any, cells: Cells) -> np.ndarray:
    """Rows with something to predict."""
    present = cells.present
    if model.response_ is not None:
        return np.flatnonzero(present[:, model.schema_.index(model.response_)])
    return np.flatnonzero(present.any(1))
