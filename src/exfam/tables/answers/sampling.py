"""Rows drawn from a table model: absent cells are filled at random, present ones stay."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int

from exfam.checks import ExfamError
from exfam.tables.answers.distributions import checked_order, column_laws, row_blocks, table_schema
from exfam.tables.data.cells import Cells
from exfam.tables.data.columns import Column
from exfam.tables.data.values import encode_values
from exfam.tables.networks.table_model import TableModel

__all__ = ["put_values", "sample_rows"]


def sample_rows(
    model: TableModel,
    cells: Cells,
    *,
    n: int,
    seed: int,
    order: Any = None,
    sweeps: int = 0,
) -> tuple[Cells, ...]:
    """`n` draws of the absent cells of every row given its present ones; one Cells a draw.

    `order`: names of the columns to fill, each drawn given the present cells and those drawn
        before it; others stay absent; None is all, in the table's order (default None)
    `sweeps`: how many times all drawn cells are then drawn again, each given all others (Gibbs
        sampling), which forgets the order where no one joint law is behind the model (default 0)

    One pass of the model serves the rows and draws in which a column is absent, whatever else they
    lack. Each cell is drawn from the average law of the members of an ensemble. Raises ExfamError
    unless `n` >= 1 and `sweeps` >= 0 are integers; DataError for a name unknown or given twice.

    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.families import Categorical
    >>> from exfam.tables.networks.independent import IndependentColumns
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> eta = torch.tensor([0.0, -1000.0], dtype=torch.float64)
    >>> model = IndependentColumns(schema, (Categorical(2),), (eta,))
    >>> code = np.array([[-1], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), np.array([[np.nan], [1.0]]))
    >>> [draw.code.tolist() for draw in sample_rows(model, cells, n=2, seed=0)]
    [[[0], [1]], [[0], [1]]]
    """
    _check_whole("n", n, at_least=1)
    _check_whole("sweeps", sweeps, at_least=0)
    names = checked_order(table_schema(model), order)
    generator = torch.Generator().manual_seed(seed)
    row = np.tile(np.arange(len(cells)), n)
    numbers = max((family.n_params for family in model.families), default=1)
    filled = [
        _fill(model, cells[row[block]], names, sweeps, generator)
        for block in row_blocks(len(row), numbers=numbers)
    ]
    # Without rows there are no blocks.
    drawn = Cells.concatenate([cells[:0], *filled])
    return tuple(drawn[k * len(cells) : (k + 1) * len(cells)] for k in range(n))


def put_values(
    cells: Cells,
    rows: Int[np.ndarray, "some"],
    *,
    place: int,
    column: Column,
    values: Float64[np.ndarray, "some"],
) -> Cells:
    """The cells with `values` in some rows of the column at `place`, encoded as its tokens.

    >>> code = np.array([[-1], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), np.array([[np.nan], [1.0]]))
    >>> column = Column("a", "boolean", labels=np.array([False, True]))
    >>> put_values(cells, np.array([0]), place=0, column=column, values=np.array([1.0])).value
    array([[1.], [1.]])
    """
    code, fraction, value = cells.code.copy(), cells.fraction.copy(), cells.value.copy()
    code[rows, place], fraction[rows, place] = encode_values(column, values)
    value[rows, place] = values
    return Cells(code, fraction, value)


def _fill(
    model: TableModel, cells: Cells, names: Sequence[str], sweeps: int, generator: torch.Generator
) -> Cells:
    absent = ~cells.present
    for _ in range(1 + sweeps):
        for name in names:
            cells = _redraw(model, cells, name, absent, generator)
    return cells


def _redraw(
    model: TableModel,
    cells: Cells,
    name: str,
    absent: Bool[np.ndarray, "rows columns"],
    generator: torch.Generator,
) -> Cells:
    """One column drawn where it was absent at first, given all cells there are now."""
    schema = table_schema(model)
    place = schema.place(name)
    rows = np.flatnonzero(absent[:, place])
    if not len(rows):
        return cells
    drawn = column_laws(model, cells[rows], [name])[name].sample(generator)
    column = schema.columns[place]
    return put_values(cells, rows, place=place, column=column, values=drawn.double().numpy())


def _check_whole(name: str, value: int, *, at_least: int) -> None:
    if isinstance(value, bool) or value < at_least:
        raise ExfamError(f"`{name}` must be an integer >= {at_least}, got {value!r}.")
