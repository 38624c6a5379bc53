"""Whole rows: log p(row) by the chain rule, and the pseudo-log-likelihood, which is not it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.tables.answers.distributions import (
    cell_log_prob,
    checked_order,
    keep_columns,
    table_schema,
)
from exfam.tables.data.cells import Cells
from exfam.tables.networks.table_model import TableModel

__all__ = ["chain_log_prob", "chain_parts", "pseudo_log_likelihood", "pseudo_parts"]


def chain_parts(
    model: TableModel,
    cells: Cells,
    *,
    order: Any = None,
    given: Sequence[str] = (),
) -> Float64[np.ndarray, "rows order"]:
    """log p(cell | `given`, the cells before it in `order`), in nats; NaN where it is absent.

    `order`: names of columns, of the table's all in its own order for None; the columns not named
        are hidden, so that what remains is the law of those named (default None)
    `given`: names of columns that every term sees and none is a term of, besides dates, which
        always are (default ())

    An absent cell is no term and no context of a later one. Each term's law is the average over
    the members of an ensemble. Raises DataError for a name that is unknown or given twice.

    >>> from exfam.tables.data.columns import Column
    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.families import Categorical
    >>> from exfam.tables.networks.independent import independent_columns
    >>> code = np.array([[0], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), code.astype(float))
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> model = independent_columns(cells, schema=schema, families=[Categorical(2)])
    >>> np.exp(chain_parts(model, cells, order=["a"])).ravel().tolist()
    [0.5, 0.5]
    """
    schema = table_schema(model)
    names = checked_order(schema, order)
    checked_order(schema, [*(name for name in given if name not in schema.inputs), *names])
    shown = [schema.place(name) for name in dict.fromkeys([*schema.inputs, *given])]
    parts = np.full((len(cells), len(names)), np.nan)
    for k, name in enumerate(names):
        shown.append(schema.place(name))
        present = np.flatnonzero(cells.code[:, shown[-1]] >= 0)
        visible = keep_columns(cells[present], shown)
        parts[present, k] = cell_log_prob(model, visible, [name])[:, 0]
    return parts


def chain_log_prob(
    model: TableModel,
    cells: Cells,
    *,
    order: Any = None,
) -> Float64[np.ndarray, "rows"]:
    """log p(present cells of the row), in nats, by the chain rule in the stated order of columns.

    `order`: as in `chain_parts`, whose terms are summed (default None)

    A proper log-probability for every order; another order gives another number as far as the
    model's conditionals do not come from one joint law (see `order_disagreement`). A row
    without cells has 0. Raises DataError for a name that is unknown or given twice.

    >>> from exfam.tables.data.columns import Column
    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.families import Categorical
    >>> from exfam.tables.networks.independent import independent_columns
    >>> code = np.array([[0], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), code.astype(float))
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> model = independent_columns(cells, schema=schema, families=[Categorical(2)])
    >>> np.exp(chain_log_prob(model, cells)).tolist()
    [0.5, 0.5]
    """
    return np.nansum(chain_parts(model, cells, order=order), axis=1)


def pseudo_parts(model: TableModel, cells: Cells) -> Float64[np.ndarray, "rows columns"]:
    """log p(cell | all other present cells of its row) of every cell, in nats; NaN where absent.

    NaN for dates, which are inputs alone.

    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.tables.networks.independent import IndependentColumns
    >>> model = IndependentColumns(TableSchema(()), families=(), marginals=())
    >>> none = np.empty((2, 0))
    >>> cells = Cells(none.astype(np.int32), none.astype(np.float32), none)
    >>> pseudo_parts(model, cells).shape
    (2, 0)
    """
    schema = table_schema(model)
    places = [schema.place(name) for name in schema.targets]
    parts = np.full(cells.code.shape, np.nan)
    parts[:, places] = cell_log_prob(model, cells, schema.targets)
    return parts


def pseudo_log_likelihood(model: TableModel, cells: Cells) -> Float64[np.ndarray, "rows"]:
    """Sum over the present cells of log p(cell | all other present cells), in nats.

    Not the log-probability of the row: every cell is both predicted and told.

    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.tables.networks.independent import IndependentColumns
    >>> model = IndependentColumns(TableSchema(()), families=(), marginals=())
    >>> none = np.empty((2, 0))
    >>> cells = Cells(none.astype(np.int32), none.astype(np.float32), none)
    >>> pseudo_log_likelihood(model, cells)
    array([0., 0.])
    """
    return np.nansum(pseudo_parts(model, cells), axis=1)
