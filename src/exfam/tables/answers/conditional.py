"""The distribution of any columns given any others: marginal, joint, and draws from it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int, Shaped

from exfam.checks import DataError, check_seed, check_whole
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.distributions import (
    TableModel,
    chain_log_prob,
    checked_columns,
    column_distributions,
    table_blocks,
)
from exfam.tables.data import Cells, TableSchema, decode_all, encode_given, encode_values

RowIndex = Int[np.ndarray, "some"]
Values = Float64[np.ndarray, "some"]


def sample_rows(model: TableModel, cells: Cells, *, n: Any, seed: Any, order: Any = None) -> Cells:
    """`n` draws of the absent cells of every row given its present ones, the first draw's first."""
    check_whole("n", n)
    check_seed("seed", seed)
    names = checked_columns(model.schema, order)
    generator = torch.Generator().manual_seed(int(seed))
    row = np.tile(np.arange(len(cells)), int(n))
    numbers = max((family.n_params for family in model.families), default=1)
    # Without rows there are no blocks.
    filled = [cells[:0]]
    for block in table_blocks(len(row), numbers=numbers):
        part = cells[row[block]]
        for name in names:
            column = model.schema.index(name)
            absent = np.flatnonzero(~part.present[:, column])
            if len(absent):
                drawn = column_distributions(model, part[absent], [name])[name].sample(generator)
                values = drawn.double().numpy()
                part = put_values(part, absent, schema=model.schema, column=column, values=values)
        filled.append(part)
    return Cells.concatenate(filled)


def put_values(
    cells: Cells, rows: RowIndex, *, schema: TableSchema, column: int, values: Values
) -> Cells:
    """The cells with `values` in some rows of the column of this index, encoded as its tokens."""
    code, fraction, value = cells.code.copy(), cells.fraction.copy(), cells.value.copy()
    code[rows, column], fraction[rows, column] = encode_values(schema.columns[column], values)
    value[rows, column] = values
    return Cells(code, fraction, value)


@dataclass(frozen=True, eq=False)
class TableConditional:
    """The distribution of some columns given others, row by row; see `conditional`.

    `given`: the rows, with the columns in question absent
    `distributions`: of each column by itself, in codes of labels or in numbers
    """

    model: TableModel
    given: Cells
    columns: tuple[str, ...]
    distributions: dict[str, Mixture]
    unknown: str

    def __len__(self) -> int:
        return len(self.given)

    def labels(self, name: str) -> Shaped[np.ndarray, "labels"]:
        """The labels of a column. Raises DataError for a column of numbers or not in question."""
        labels = self.model.schema.column(self._checked(name)).labels
        if labels is None:
            raise DataError(
                f"`name` must be a column of labels, got {name!r}, a column of numbers. Use "
                "predict_dist."
            )
        return labels.copy()

    def probs(self, name: str) -> Float64[np.ndarray, "rows labels"]:
        """Probabilities of a column's `labels`. Raises DataError as `labels` does."""
        self.labels(name)
        return self.distributions[name].probs().double().numpy()

    def predict_dist(self, name: str) -> Prediction:
        """The distribution of one column, of codes of its labels or of its numbers."""
        return Prediction(self.distributions[self._checked(name)], np.arange(len(self)), len(self))

    def log_prob(self, values: Any) -> Float64[np.ndarray, "rows"]:
        """Joint log-probability of `values`, in nats, by the chain rule in the order of `columns`.

        `values`: a mapping to one value each, a table, or `Cells`, of as many rows as were given
            (any number if one row was given); a missing cell is no term
        """
        schema, given = self.model.schema, self.given
        if not isinstance(values, Cells):
            values = encode_given(schema, values, unknown=self.unknown)
        if len(given) not in (1, len(values)):
            raise DataError(
                f"`values` must have the {len(given)} rows of `given`, got {len(values)} rows."
            )
        own = np.isin(schema.names, self.columns)
        others = [name for name in schema.names if name not in self.columns]
        joined = given.replaced(np.broadcast_to(own, values.code.shape), values)
        return chain_log_prob(self.model, joined, order=self.columns, given=others)

    def sample(self, n: int = 1, *, seed: int = 0) -> dict[str, np.ndarray]:
        """`n` joint draws for every row: by column, all rows of the first draw first."""
        draws = sample_rows(self.model, self.given, n=n, seed=seed, order=self.columns)
        values = decode_all(self.model.schema, draws)
        return {name: values[name] for name in self.columns}

    def _checked(self, name: str) -> str:
        if not isinstance(name, str) or name not in self.columns:
            raise DataError(
                f"`name` must be one of the columns {', '.join(self.columns)}, got {name!r}."
            )
        return name


def conditional(
    model: TableModel, given: Cells, *, of: Any, order: Any = None, unknown: str
) -> TableConditional:
    """The distribution of the columns `of` given the present cells of the other columns."""
    schema = model.schema
    names = checked_columns(schema, of)
    chain = names if order is None else checked_columns(schema, order)
    if set(chain) != set(names):
        listed = ", ".join(names)
        raise DataError(
            f"`order` must name the columns {listed} and no others, got {', '.join(chain)}."
        )
    hidden = given.hide([schema.index(name) for name in names])
    distributions = column_distributions(model, hidden, names)
    return TableConditional(model, hidden, chain, distributions, unknown)
