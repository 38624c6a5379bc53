"""Rows drawn from a table model: absent cells are filled at random, present ones stay."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int

from exfam.checks import check_whole
from exfam.tables.answers.distributions import checked_columns, column_distributions, table_blocks
from exfam.tables.data import Cells, TableSchema, encode_values
from exfam.tables.networks.table_model import TableModel


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
