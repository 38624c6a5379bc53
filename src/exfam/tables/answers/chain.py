"""Whole rows: log p(row) by the chain rule, and the pseudo-log-likelihood, which is not it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.tables.answers.distributions import cell_log_prob, checked_columns
from exfam.tables.data import Cells
from exfam.tables.networks.table_model import TableModel


def chain_log_prob(
    model: TableModel, cells: Cells, *, order: Any = None, given: Sequence[str] = ()
) -> Float64[np.ndarray, "rows"]:
    """log p(present cells | `given`), in nats, by the chain rule in the stated order of columns.

    `order`: names of columns, for None all that can be predicted, in the table's order; the columns
        not named are hidden, which leaves the distribution of those named (default None)
    `given`: names of columns that every term sees and none is a term of, besides dates, which
        always are (default ())

    An absent cell is no term and no context of a later one; a row without cells has 0. A proper
    log-probability for every order; another order gives another number as far as the model's
    conditionals do not come from one joint distribution (see `order_disagreement`). Raises
    DataError for a name that is unknown or given twice.
    """
    schema = model.schema
    names = checked_columns(schema, order)
    checked_columns(schema, [*(name for name in given if name not in schema.inputs), *names])
    visible = np.isin(schema.names, [*schema.inputs, *given])
    terms = np.full((len(cells), len(names)), np.nan)
    for k, name in enumerate(names):
        column = schema.index(name)
        visible[column] = True
        present = np.flatnonzero(cells.present[:, column])
        terms[present, k] = cell_log_prob(model, cells[present].where(visible), [name])[:, 0]
    return np.nansum(terms, axis=1)


def pseudo_terms(model: TableModel, cells: Cells) -> Float64[np.ndarray, "rows columns"]:
    """log p(cell | all other present cells of its row) of every cell, in nats; NaN where absent.

    NaN for dates, which are inputs alone.
    """
    terms = np.full(cells.code.shape, np.nan)
    columns = [model.schema.index(name) for name in model.schema.targets]
    terms[:, columns] = cell_log_prob(model, cells, model.schema.targets)
    return terms


def pseudo_log_likelihood(model: TableModel, cells: Cells) -> Float64[np.ndarray, "rows"]:
    """Sum over the present cells of log p(cell | all other present cells), in nats.

    Not the log-probability of the row: every cell is both predicted and seen by the others.
    """
    return np.nansum(pseudo_terms(model, cells), axis=1)
