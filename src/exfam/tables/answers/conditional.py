"""The distribution of any columns given any others: marginal, joint, and draws from it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from exfam.checks import DataError, check_seed, check_whole
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.distributions import (
    chain_log_prob,
    checked_columns,
    column_distributions,
    sample_rows,
)
from exfam.tables.data import Cells, decode_all, encode_given
from exfam.tables.networks.table_network import TableModel


@dataclass(frozen=True, eq=False)
class TableConditional:
    """The distribution of some columns given others, row by row; see `conditional`.

    `given`: the rows, with the columns in question absent
    `columns`: those in question, in the order of the chain rule
    `distributions`: of each column by itself, in codes of labels or in numbers
    `unknown`: what a label is that training did not have, "unk" or "error"
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
        """The distribution of one column, of codes of its labels or of its numbers.

        Raises DataError for a column that is not in question.
        """
        return Prediction(self.distributions[self._checked(name)], np.arange(len(self)), len(self))

    def log_prob(self, values: Any) -> Float64[np.ndarray, "rows"]:
        """Joint log-probability of `values`, in nats, by the chain rule in the order of `columns`.

        `values`: a mapping to one value each, a table, or `Cells`, of as many rows as were given
            (any number if one row was given); a missing cell is no term, other columns are ignored

        Raises DataError for unknown columns or another number of rows.
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
        """`n` joint draws for every row (default 1): by column, all rows of the first draw first.

        `seed`: of the draws; the same gives the same (default 0)
        """
        check_whole("n", n)
        check_seed("seed", seed)
        draws = sample_rows(self.model, self.given, n=int(n), seed=int(seed), order=self.columns)
        values = decode_all(self.model.schema, Cells.concatenate(draws))
        return {name: values[name] for name in self.columns}

    def _checked(self, name: str) -> str:
        if not isinstance(name, str) or name not in self.columns:
            raise DataError(
                f"`name` must be one of the columns {', '.join(self.columns)}, got {name!r}."
            )
        return name


def conditional(
    model: TableModel, given: Cells, *, of: Any, order: Any = None, unknown: str = "unk"
) -> TableConditional:
    """The distribution of the columns `of` given the present cells of the other columns.

    `given`: one row or many; cells of the columns `of` are ignored; a row without cells gives the
        model's own marginal distribution
    `order`: the columns `of` in the order of the chain rule; None is as in `of` (default None)
    `unknown`: what a label is that training did not have, in values (default "unk")

    The marginal distributions take one pass of the model. Raises DataError for a name that is
    unknown or given twice, and if `order` does not name just the columns `of`.
    """
    schema = model.schema
    names = checked_columns(schema, of)
    chain = names if order is None else checked_columns(schema, order)
    if set(chain) != set(names):
        raise DataError(
            f"`order` must name the columns {', '.join(names)} and no others, "
            f"got {', '.join(chain)}."
        )
    hidden = given.hide([schema.index(name) for name in names])
    distributions = column_distributions(model, hidden, names)
    return TableConditional(model, hidden, chain, distributions, unknown)
