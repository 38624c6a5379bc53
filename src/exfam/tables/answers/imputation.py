"""Absent cells filled with one value each, and how sure the model is of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from exfam.checks import check_choice, check_inside
from exfam.families.mixtures import Mixture
from exfam.tables.answers.decisions import decide
from exfam.tables.answers.distributions import column_laws, row_blocks, table_schema
from exfam.tables.answers.sampling import put_values
from exfam.tables.data.cells import Cells
from exfam.tables.data.columns import FINITE, Column
from exfam.tables.networks.table_model import TableModel

__all__ = ["NUMBER_RULES", "Imputed", "impute"]

NUMBER_RULES = ("mean", "median")
_RULE_OF: Mapping[str, str] = {"categorical": "argmax", "boolean": "argmax", "ordinal": "median"}


@dataclass(frozen=True, eq=False)
class Imputed:
    """Rows without absent cells, and what was filled; NaN for cells that were there.

    `filled`: which cells were absent
    `probability`: of labels, the probability of the one filled in
    `low`, `high`: of ordinal labels, numbers and counts, the central interval that holds the
        value with probability `level`; codes of labels, or numbers in their own unit

    >>> told = np.full((1, 1), np.nan)
    >>> cells = Cells(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32), np.zeros((1, 1)))
    >>> bool(Imputed(cells, np.array([[False]]), told, told, told, level=0.9).filled.any())
    False
    """

    cells: Cells
    filled: Bool[np.ndarray, "rows columns"]
    probability: Float64[np.ndarray, "rows columns"]
    low: Float64[np.ndarray, "rows columns"]
    high: Float64[np.ndarray, "rows columns"]
    level: float


def impute(model: TableModel, cells: Cells, *, rule: str, level: float = 0.9) -> Imputed:
    """Each absent cell filled from its law given the present cells of the row.

    `rule`: of numbers and counts, "mean" or "median"; a mean count is rounded to a whole one.
        Labels without order are the most probable ones, ordered labels the medians
    `level`: of the intervals, in (0, 1) (default 0.9)

    Dates stay absent. Every other absent cell is filled by itself: what is filled in is never told
    to the next, so that the filled cells of a row are not a draw from their joint law (see
    `sample_rows`). Raises
    ExfamError for another rule or level.

    >>> import torch
    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.families import Categorical
    >>> from exfam.tables.networks.independent import IndependentColumns
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> eta = torch.tensor([0.2, 0.8], dtype=torch.float64).log()
    >>> model = IndependentColumns(schema, (Categorical(2),), (eta,))
    >>> code = np.array([[-1], [0]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), np.array([[np.nan], [0.0]]))
    >>> told = impute(model, cells, rule="mean")
    >>> told.cells.code.tolist(), told.probability.round(6).tolist()
    ([[1], [0]], [[0.8], [nan]])
    """
    check_choice("rule", rule, NUMBER_RULES)
    check_inside("level", level)
    schema = table_schema(model)
    predicted = np.array([not column.input_only for column in schema.columns], dtype=bool)
    absent = ~cells.present & predicted
    probability, low, high = (np.full(absent.shape, np.nan) for _ in range(3))
    value = cells.value.copy()
    for place, column in enumerate(schema.columns):
        rows = np.flatnonzero(absent[:, place])
        for block in row_blocks(len(rows), numbers=model.families[place].n_params):
            some = rows[block]
            law = column_laws(model, cells[some], [column.name])[column.name]
            value[some, place] = _best(law, column, rule)
            if column.kind in FINITE:
                probability[some, place] = _probability(law, value[some, place])
            if column.kind not in ("categorical", "boolean"):
                low[some, place] = law.quantile((1 - level) / 2).numpy()
                high[some, place] = law.quantile((1 + level) / 2).numpy()
    return Imputed(_filled(model, cells, value, absent), absent, probability, low, high, level)


def _best(law: Mixture, column: Column, rule: str) -> Float64[np.ndarray, "rows"]:
    best = decide(law, column, rule=_RULE_OF.get(column.kind, rule))
    return np.rint(best) if column.kind == "count" else best


def _probability(law: Mixture, code: Float64[np.ndarray, "rows"]) -> Float64[np.ndarray, "rows"]:
    place = code.astype(np.int64)[:, None]
    return np.take_along_axis(law.probs().double().numpy(), place, axis=1)[:, 0]


def _filled(
    model: TableModel,
    cells: Cells,
    value: Float64[np.ndarray, "rows columns"],
    absent: Bool[np.ndarray, "rows columns"],
) -> Cells:
    for place, column in enumerate(table_schema(model).columns):
        rows = np.flatnonzero(absent[:, place])
        cells = put_values(cells, rows, place=place, column=column, values=value[rows, place])
    return cells
