"""Absent cells filled with one value each, and how sure the model is of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from exfam.checks import check_choice, check_inside
from exfam.families.mixtures import Mixture
from exfam.tables.answers.decisions import decide, usual_rule
from exfam.tables.answers.distributions import distribution_blocks, put_values
from exfam.tables.data import (
    LABEL_KINDS,
    Cells,
    RawColumn,
    RawTable,
    TableSchema,
    as_frame_like,
    decode,
)
from exfam.tables.networks.table_network import TableModel

NUMBER_RULES = ("mean", "median")


@dataclass(frozen=True, eq=False)
class Imputed:
    """Rows without absent cells, and what was filled; NaN for cells that were there.

    `filled`: which cells were absent
    `probability`: of labels, the probability of the one filled in
    `low`, `high`: of ordinal labels, numbers and counts, the central interval that holds the
        value with probability `level`; codes of labels, or numbers in their own unit
    """

    cells: Cells
    filled: Bool[np.ndarray, "rows columns"]
    probability: Float64[np.ndarray, "rows columns"]
    low: Float64[np.ndarray, "rows columns"]
    high: Float64[np.ndarray, "rows columns"]
    level: float


@dataclass(frozen=True, eq=False)
class TableImputation:
    """A table whose missing cells are filled in, and how sure the model is of each.

    `frame`: the table, of the kind that was given
    `filled`, `probability`, `low`, `high`: by column, one entry per row: whether the cell was
        missing; of labels, the probability of the one filled in; of ordered labels, numbers and
        counts, the central interval of probability `level`, as labels or in their unit. NaN (None
        among texts and booleans) where nothing was filled in or the kind has none
    """

    frame: Any
    filled: Mapping[str, Bool[np.ndarray, "rows"]]
    probability: Mapping[str, Float64[np.ndarray, "rows"]]
    low: Mapping[str, Shaped[np.ndarray, "rows"]]
    high: Mapping[str, Shaped[np.ndarray, "rows"]]
    level: float


def impute(model: TableModel, cells: Cells, *, rule: str, level: float = 0.9) -> Imputed:
    """Each absent cell filled from its distribution given the present cells of the row.

    `rule`: of numbers and counts, "mean" or "median"; a mean count is rounded to a whole one.
        Labels without order are the most probable ones, ordered labels the medians
    `level`: of the intervals, in (0, 1) (default 0.9)

    Dates stay absent. Every other absent cell is filled by itself: no filled cell is seen by the
    next, so that the filled cells of a row are not a draw from their joint distribution (see
    `sample_rows`). Raises ExfamError for another rule or level.
    """
    check_choice("rule", rule, NUMBER_RULES)
    check_inside("level", level)
    schema = model.schema
    absent = ~cells.present & ~np.array([column.input_only for column in schema.columns], bool)
    probability, low, high = (np.full(absent.shape, np.nan) for _ in range(3))
    filled = cells
    for k, column in enumerate(schema.columns):
        rows = np.flatnonzero(absent[:, k])
        values = np.empty(len(rows))
        for block, _, distributions in distribution_blocks(model, cells[rows], [column.name]):
            some, distribution = rows[block], distributions[column.name]
            best = decide(distribution, column, rule=usual_rule(column, numbers=rule))
            values[block] = np.rint(best) if column.kind == "count" else best
            if column.kind in LABEL_KINDS:
                probability[some, k] = _probability(distribution, values[block])
            if column.kind not in ("categorical", "boolean"):
                low[some, k] = distribution.quantile((1 - level) / 2).numpy()
                high[some, k] = distribution.quantile((1 + level) / 2).numpy()
        filled = put_values(filled, rows, schema=schema, column=k, values=values)
    return Imputed(filled, absent, probability, low, high, level)


def _probability(
    distribution: Mixture, code: Float64[np.ndarray, "rows"]
) -> Float64[np.ndarray, "rows"]:
    probs = distribution.probs().double().numpy()
    return np.take_along_axis(probs, code.astype(np.int64)[:, None], axis=1)[:, 0]


def imputed_table(
    frame: Any,
    table: RawTable,
    names: Mapping[str, str],
    schema: TableSchema,
    imputed: Imputed,
) -> TableImputation:
    """The table with what was filled in.

    `table`: the frame as it was read
    `names`: what the model calls each of its columns
    """
    index = {own: schema.index(name) for own, name in names.items()}
    missing = np.zeros_like(imputed.filled)
    for own, k in index.items():
        missing[:, k] = table.columns[own].missing
    filled = imputed.filled & missing

    def by_column(numbers: Float64[np.ndarray, "rows columns"]) -> dict[str, np.ndarray]:
        shown = np.where(filled, numbers, np.nan)
        return {own: decode(schema, names[own], shown[:, k]) for own, k in index.items()}

    changed = {}
    for own, k in index.items():
        if filled[:, k].any():
            column = table.columns[own]
            values = decode(schema, names[own], imputed.cells.value[:, k])
            values = _with_new_labels(values, column, imputed.filled[:, k] & ~filled[:, k])
            narrow = column.values.dtype.kind == "f" and values.dtype.kind == "f"
            changed[own] = values.astype(column.values.dtype) if narrow else values
    probability = np.where(filled, imputed.probability, np.nan)
    return TableImputation(
        as_frame_like(frame, changed),
        filled={own: filled[:, k] for own, k in index.items()},
        probability={own: probability[:, k] for own, k in index.items()},
        low=by_column(imputed.low),
        high=by_column(imputed.high),
        level=imputed.level,
    )


def _with_new_labels(
    values: Shaped[np.ndarray, "rows"], column: RawColumn, new: Bool[np.ndarray, "rows"]
) -> Shaped[np.ndarray, "rows"]:
    """A filled column in which labels that training did not have are what they were."""
    if not new.any():
        return values
    values = values.astype(np.float64 if values.dtype.kind in "if" else object)
    for row in np.flatnonzero(new):
        values[row] = column.at(int(row))
    return values
