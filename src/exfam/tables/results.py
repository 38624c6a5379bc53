"""What estimators of tables tell beside predictions: filled tables, laws of any columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from exfam.checks import DataError, check_seed, check_whole
from exfam.scores.prediction import Prediction
from exfam.tables.answers.conditional import Conditional
from exfam.tables.answers.distributions import table_schema
from exfam.tables.answers.imputation import Imputed
from exfam.tables.data import Cells, RawColumn, RawTable, TableSchema, as_frame_like, decode
from exfam.tables.inputs import as_cells

__all__ = ["TableConditional", "TableImputation", "columns_of", "filled_frame"]


@dataclass(frozen=True, eq=False)
class TableImputation:
    """A table whose missing cells are filled in, and how sure the model is of each.

    `frame`: the table, of the kind that was given
    `filled`, `probability`, `low`, `high`: by column, one entry a row: whether the cell was
        missing; of labels, the probability of the one filled in; of ordered labels, numbers and
        counts, the central interval of probability `level`, as labels or in their unit. NaN (None
        among texts and booleans) where nothing was filled in or the kind has none

    >>> told = {"a": np.array([True])}
    >>> TableImputation({"a": [1.0]}, told, {}, {}, {}, level=0.9).frame
    {'a': [1.0]}
    """

    frame: Any
    filled: Mapping[str, Bool[np.ndarray, "rows"]]
    probability: Mapping[str, Float64[np.ndarray, "rows"]]
    low: Mapping[str, Shaped[np.ndarray, "rows"]]
    high: Mapping[str, Shaped[np.ndarray, "rows"]]
    level: float


@dataclass(frozen=True, eq=False)
class TableConditional:
    """The law of some columns given others, row by row, in the labels and units of the table.

    `law`: of each column by itself, and of all together by the chain rule in `law.order`; in codes
    `unknown`: what a label is that training did not have, "unk" or "error"

    Made by `MaskedTable.conditional` and its like on the other estimators.
    """

    law: Conditional
    unknown: str

    def __len__(self) -> int:
        return len(self.law.given)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in question, in the order of the chain rule."""
        return self.law.order

    def labels(self, name: str) -> Shaped[np.ndarray, "labels"]:
        """The labels of a column. Raises DataError for a column of numbers or not in question."""
        labels = self._schema.column(self._known(name)).labels
        if labels is None:
            raise DataError(
                f"`name` must be a column of labels, got {name!r}, a column of numbers. Use "
                "predict_dist."
            )
        return labels.copy()

    def probs(self, name: str) -> Float64[np.ndarray, "rows labels"]:
        """Probabilities of a column's `labels`. Raises DataError as `labels` does."""
        self.labels(name)
        return self.law.laws[name].probs().double().numpy()

    def predict_dist(self, name: str) -> Prediction:
        """The law of one column, of codes of its labels or of its numbers.

        Raises DataError for a column that is not in question.
        """
        rows = np.arange(len(self))
        return Prediction(self.law.laws[self._known(name)], rows, len(self))

    def log_prob(self, values: Any) -> Float64[np.ndarray, "rows"]:
        """Log of the joint law at `values`, in nats, by the chain rule in the order of `columns`.

        `values`: a mapping of one value each, or a table of as many rows as were given (any number
            if one row was given); a missing cell is no term

        Raises DataError for unknown columns or another number of rows.
        """
        cells = as_cells(values, self._schema, unknown=self.unknown)
        return self.law.log_prob(cells)

    def sample(self, n: int = 1, *, seed: int = 0) -> dict[str, np.ndarray]:
        """`n` joint draws for every row (default 1): by column, all rows of the first draw first.

        `seed`: of the draws; the same gives the same (default 0)
        """
        check_whole("n", n)
        check_seed("seed", seed)
        draws = Cells.concatenate(self.law.sample(int(n), seed=int(seed)))
        told = columns_of(self._schema, draws)
        return {name: told[name] for name in self.columns}

    @property
    def _schema(self) -> TableSchema:
        return table_schema(self.law.model)

    def _known(self, name: str) -> str:
        if not isinstance(name, str) or name not in self.columns:
            raise DataError(
                f"`name` must be one of the columns {', '.join(self.columns)}, got {name!r}."
            )
        return name


def columns_of(schema: TableSchema, cells: Cells) -> dict[str, np.ndarray]:
    """All cells as labels and numbers, by column.

    >>> columns_of(TableSchema(()), Cells(*[np.empty((1, 0), kind) for kind in ("i4", "f4", "f8")]))
    {}
    """
    return {
        column.name: decode(schema, column.name, cells.value[:, place])
        for place, column in enumerate(schema.columns)
        if column.part_of is None
    }


def filled_frame(
    frame: Any,
    table: RawTable,
    names: Mapping[str, str],
    schema: TableSchema,
    told: Imputed,
) -> TableImputation:
    """The table with what was filled in.

    `table`: the frame as it was read
    `names`: what the model calls each of its columns
    """
    asked = {own: schema.place(name) for own, name in names.items()}
    missing = np.zeros_like(told.filled)
    for own, place in asked.items():
        missing[:, place] = table.columns[own].missing
    filled = told.filled & missing

    def decoded(numbers: Float64[np.ndarray, "rows columns"], own: str) -> np.ndarray:
        return decode(schema, names[own], numbers[:, asked[own]])

    def of(numbers: Float64[np.ndarray, "rows columns"], own: str) -> np.ndarray:
        return decoded(np.where(filled, numbers, np.nan), own)

    changed = {}
    for own, place in asked.items():
        if filled[:, place].any():
            column, values = table.columns[own], decoded(told.cells.value, own)
            values = _with_new_labels(values, column, told.filled[:, place] & ~filled[:, place])
            narrow = column.values.dtype.kind == "f" and values.dtype.kind == "f"
            changed[own] = values.astype(column.values.dtype) if narrow else values
    return TableImputation(
        as_frame_like(frame, changed),
        filled={own: filled[:, place] for own, place in asked.items()},
        probability={
            own: np.where(filled[:, place], told.probability[:, place], np.nan)
            for own, place in asked.items()
        },
        low={own: of(told.low, own) for own in asked},
        high={own: of(told.high, own) for own in asked},
        level=told.level,
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
