"""One value for each predictive distribution: absent cells filled by it, and how good it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from exfam.checks import ExfamError, check_choice, check_inside
from exfam.columns.frames import open_frame
from exfam.columns.results import TabularResult
from exfam.families.mixtures import Mixture
from exfam.tables.answers.distributions import TableModel, distribution_blocks, value_log_prob
from exfam.tables.data import (
    LABEL_KINDS,
    Cells,
    Column,
    RawTable,
    TableSchema,
    as_frame_like,
    decode,
    put_values,
)

DECISIONS = ("argmax", "mean", "median")
_OF_LABELS = {"categorical": "argmax", "boolean": "argmax", "ordinal": "median"}


def usual_rule(column: Column, *, numbers: str = "mean") -> str:
    """The most probable label, of ordered ones the median; `numbers` names that of numbers."""
    return _OF_LABELS.get(column.kind, numbers)


def decide(distribution: Mixture, column: Column, *, rule: str) -> Float64[np.ndarray, "rows"]:
    """One value per row of a column: a label's code, or a number in its own unit.

    `rule`: "argmax", the first of equals; "median", the smallest value that at least half of the
        probability does not exceed; "mean", of an ordinal column rounded to the nearest label (the
        earlier one halfway), or to the nearest index where the labels are no numbers, and the
        median of families without a mean
    """
    check_choice("rule", rule, DECISIONS)
    what = f"{column.kind} column {column.name!r}"
    if column.kind in ("categorical", "boolean") and rule != "argmax":
        raise ExfamError(
            f"`rule` must be 'argmax' for the {what}, whose labels have no order, got {rule!r}. "
            "Declare the column ordinal if they have one."
        )
    if column.kind not in LABEL_KINDS and rule == "argmax":
        raise ExfamError(f"`rule` must be 'mean' or 'median' for the {what}, got 'argmax'.")
    if rule == "argmax":
        return distribution.probs().argmax(-1).double().numpy()
    if rule == "median":
        return distribution.quantile(0.5).double().numpy()
    if column.labels is None:
        return distribution.center().double().numpy()
    numbers = column.labels.dtype.kind in "iuf"
    labels = column.labels.astype(np.float64) if numbers else np.arange(float(len(column.labels)))
    expected = distribution.probs().double().numpy() @ labels
    # Labels may be declared in falling order, so no search in a sorted list would do.
    return np.abs(labels - expected[:, None]).argmin(axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Imputed:
    """Rows without absent cells, and of those filled what `TableImputation` holds."""

    cells: Cells
    filled: Bool[np.ndarray, "rows columns"]
    probability: Float64[np.ndarray, "rows columns"]
    low: Float64[np.ndarray, "rows columns"]
    high: Float64[np.ndarray, "rows columns"]
    level: float


@dataclass(frozen=True, eq=False, repr=False)
class TableImputation(TabularResult):
    """A table whose missing cells are filled in, and how sure the model is of each.

    `filled`, `probability`, `low`, `high`: by column, one entry per row: whether the cell was
        missing; of labels, the probability of the one filled in; of ordered labels, numbers and
        counts, the central interval of probability `level`. NaN (None among texts and booleans)
        where nothing was filled in or the kind has none
    """

    frame: Any
    filled: Mapping[str, Bool[np.ndarray, "rows"]]
    probability: Mapping[str, Float64[np.ndarray, "rows"]]
    low: Mapping[str, Shaped[np.ndarray, "rows"]]
    high: Mapping[str, Shaped[np.ndarray, "rows"]]
    level: float

    def to_dict(self) -> dict[str, np.ndarray]:
        """Of the cells filled in: `row`, `column`, `value`, `probability`, `low`, `high`."""
        table = open_frame(self.frame)
        pieces: dict[str, list[Any]] = {}
        for name, filled in self.filled.items():
            rows = np.flatnonzero(filled)
            columns = {
                "row": rows,
                "column": np.full(len(rows), name, object),
                "value": np.asarray(table[name], dtype=object)[rows],
                "probability": self.probability[name][rows],
                "low": self.low[name][rows],
                "high": self.high[name][rows],
            }
            for key, column in columns.items():
                pieces.setdefault(key, []).extend(column.tolist())
        return {key: _as_column(column) for key, column in pieces.items()}


def _as_column(values: list[Any]) -> np.ndarray:
    """Numbers as numbers, and labels or a mixture as objects."""
    column = np.array(values)
    return column if column.dtype.kind in "biuf" else np.array(values, dtype=object)


def impute(model: TableModel, cells: Cells, *, rule: str, level: float) -> Imputed:
    """Each absent cell but dates, filled from its distribution given the row's present cells."""
    check_choice("rule", rule, ("mean", "median"))
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
                probs = distribution.probs().double().numpy()
                probability[some, k] = probs[np.arange(len(probs)), best.astype(np.int64)]
            if column.kind not in ("categorical", "boolean"):
                low[some, k] = distribution.quantile((1 - level) / 2).numpy()
                high[some, k] = distribution.quantile((1 + level) / 2).numpy()
        filled = put_values(filled, rows, schema=schema, column=k, values=values)
    return Imputed(filled, absent, probability, low, high, level)


def imputed_table(
    frame: Any, table: RawTable, names: Mapping[str, str], schema: TableSchema, imputed: Imputed
) -> TableImputation:
    """The table with what was filled in; `names`: what the model calls each of its columns."""
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
            new = np.flatnonzero(imputed.filled[:, k] & ~filled[:, k])
            if len(new):  # labels that training did not have are what they were
                values = values.astype(np.float64 if values.dtype.kind in "if" else object)
                values[new] = [column.at(int(row)) for row in new]
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
