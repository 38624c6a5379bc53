"""The distribution of each cell given the others of its row."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int

from exfam.checks import DataError, check_whole
from exfam.families.mixtures import Mixture
from exfam.tables.data import Cells, TableSchema, encode_values
from exfam.tables.networks.table_network import TableModel

_ROWS_AT_ONCE = 16_384
_NUMBERS_AT_ONCE = 4_000_000


def table_blocks(n_rows: int, *, numbers: int = 1) -> Iterator[slice]:
    """Slices of rows, one after another, few enough for what is computed of them.

    `numbers`: how many there are per row, in one member of an ensemble (default 1)
    """
    size = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // max(1, numbers)))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def checked_columns(schema: TableSchema, names: Any) -> tuple[str, ...]:
    """The names of columns, one or several, or for None all that can be predicted.

    Raises DataError for what is no list of names, for a name that is unknown or given twice, and
    for a date.
    """
    if names is None:
        return schema.targets
    names = names.tolist() if isinstance(names, np.ndarray) else names
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DataError(f"`order` must be a list of names of columns, got {names!r}.")
    for k, name in enumerate(names):
        if name not in schema.names:
            raise DataError(
                f"`order` must name columns of the table, got {name!r}. "
                f"Its columns are {', '.join(schema.targets)}."
            )
        if schema.column(name).input_only:
            raise DataError(
                f"`order` must name columns that can be predicted, got {name!r}, which is a date "
                "or part of one: dates are inputs alone. Give days since a date as a number to "
                "predict them."
            )
        if name in names[:k]:
            raise DataError(f"`order` must name each column once, got {name!r} twice.")
    return tuple(names)


def column_distributions(
    model: TableModel, cells: Cells, targets: Sequence[str]
) -> dict[str, Mixture]:
    """The distribution of each target column given all other cells of the row that are present.

    All rows at once: `distribution_blocks` has them part by part. Raises DataError for an unknown
    name.
    """
    names = checked_columns(model.schema, targets)
    columns = [model.schema.index(name) for name in names]
    etas = model.eta(cells, columns)
    families = [model.families[column] for column in columns]
    return dict(zip(names, map(Mixture, families, etas), strict=True))


def distribution_blocks(
    model: TableModel, cells: Cells, targets: Sequence[str]
) -> Iterator[tuple[slice, Cells, dict[str, Mixture]]]:
    """As many rows at a time as fit in memory: which, their cells, and their distributions."""
    numbers = sum(model.families[model.schema.index(name)].n_params for name in targets)
    for block in table_blocks(len(cells), numbers=numbers):
        part = cells[block]
        yield block, part, column_distributions(model, part, targets)


def value_log_prob(
    distribution: Mixture, value: Float64[np.ndarray, "rows"]
) -> Float64[np.ndarray, "rows"]:
    """Log-probability of each row's value, in nats; NaN where the value is."""
    values = torch.from_numpy(value.copy())
    return torch.where(values.isnan(), torch.nan, distribution.log_prob(values)).numpy()


def cell_log_prob(
    model: TableModel, cells: Cells, targets: Sequence[str]
) -> Float64[np.ndarray, "rows targets"]:
    """log p(cell | all other present cells of its row), in nats; NaN where the cell is absent.

    Raises DataError for an unknown name.
    """
    out = np.full((len(cells), len(targets)), np.nan)
    for block, part, distributions in distribution_blocks(model, cells, targets):
        for k, (name, distribution) in enumerate(distributions.items()):
            out[block, k] = value_log_prob(distribution, part.value[:, model.schema.index(name)])
    return out


def sample_rows(
    model: TableModel, cells: Cells, *, n: int, seed: int, order: Any = None
) -> tuple[Cells, ...]:
    """`n` draws of the absent cells of every row given its present ones, each as `Cells`.

    `order`: names of the columns to fill, each drawn given the present cells and those drawn
        before it; others stay absent; None is all, in the table's order (default None)

    One pass of the model serves the rows and draws in which a column is absent, whatever else they
    lack. Each cell is drawn from the average of the members of an ensemble. Raises ExfamError
    unless `n` is an integer >= 1; DataError for a name unknown or given twice.
    """
    check_whole("n", n)
    names = checked_columns(model.schema, order)
    generator = torch.Generator().manual_seed(seed)
    row = np.tile(np.arange(len(cells)), n)
    numbers = max((family.n_params for family in model.families), default=1)
    # Without rows there are no blocks.
    filled = [cells[:0]]
    for block in table_blocks(len(row), numbers=numbers):
        part = cells[row[block]]
        for name in names:
            part = _draw(model, part, name, generator)
        filled.append(part)
    drawn = Cells.concatenate(filled)
    return tuple(drawn[k * len(cells) : (k + 1) * len(cells)] for k in range(n))


def put_values(
    cells: Cells,
    rows: Int[np.ndarray, "some"],
    *,
    schema: TableSchema,
    column: int,
    values: Float64[np.ndarray, "some"],
) -> Cells:
    """The cells with `values` in some rows of the column of this index, encoded as its tokens."""
    code, fraction, value = cells.code.copy(), cells.fraction.copy(), cells.value.copy()
    code[rows, column], fraction[rows, column] = encode_values(schema.columns[column], values)
    value[rows, column] = values
    return Cells(code, fraction, value)


def _draw(model: TableModel, cells: Cells, name: str, generator: torch.Generator) -> Cells:
    """One column drawn where it is absent, given all cells there are now."""
    column = model.schema.index(name)
    rows = np.flatnonzero(~cells.present[:, column])
    if not len(rows):
        return cells
    drawn = column_distributions(model, cells[rows], [name])[name].sample(generator)
    values = drawn.double().numpy()
    return put_values(cells, rows, schema=model.schema, column=column, values=values)


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
