"""The law of each cell given the others of its row, averaged over an ensemble's members."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float64

from exfam.checks import DataError
from exfam.families.mixtures import Mixture
from exfam.tables.data.cells import Cells
from exfam.tables.data.schema import TableSchema
from exfam.tables.networks.table_model import TableModel

__all__ = [
    "cell_log_prob",
    "checked_order",
    "column_laws",
    "keep_columns",
    "row_blocks",
    "table_schema",
]

_ROWS_AT_ONCE = 16_384
_NUMBERS_AT_ONCE = 4_000_000


def table_schema(model: TableModel) -> TableSchema:
    """The schema of a model, with all that is known of its columns.

    >>> from exfam.tables.networks.independent import IndependentColumns
    >>> table_schema(IndependentColumns(TableSchema(()), families=(), marginals=())).columns
    ()
    """
    # Models name only what they read of a schema: they live on the floor of the data.
    return cast(TableSchema, model.schema)


def row_blocks(n_rows: int, *, numbers: int = 1) -> Iterator[slice]:
    """Slices of rows, one after another, few enough for the laws of their cells to fit in memory.

    `numbers`: how many there are of each row, in one member of an ensemble (default 1)

    >>> list(row_blocks(3, numbers=2_000_000))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    size = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // max(1, numbers)))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def checked_order(schema: TableSchema, order: Any) -> tuple[str, ...]:
    """The names in `order`, one or several, or for None all of the schema's that can be predicted.

    Raises DataError for what is no list of names, for a name that is unknown or given twice, and
    for a date.

    >>> checked_order(TableSchema(()), None)
    ()
    """
    if order is None:
        return schema.targets
    order = [order] if isinstance(order, str) else order
    if not isinstance(order, Sequence | np.ndarray) or not all(isinstance(n, str) for n in order):
        raise DataError(f"`order` must be a list of names of columns, got {order!r}.")
    for place, name in enumerate(order):
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
        if name in order[:place]:
            raise DataError(f"`order` must name each column once, got {name!r} twice.")
    return tuple(order)


def keep_columns(cells: Cells, places: Sequence[int]) -> Cells:
    """The rows with all cells absent but those of the columns at `places`.

    >>> code = np.array([[0, 1]], np.int32)
    >>> cells = Cells(code, np.zeros((1, 2), np.float32), code.astype(float))
    >>> keep_columns(cells, [1]).code
    array([[-1,  1]], dtype=int32)
    """
    kept = set(places)
    return cells.hide([place for place in range(cells.code.shape[1]) if place not in kept])


def column_laws(model: TableModel, cells: Cells, targets: Sequence[str]) -> dict[str, Mixture]:
    """The law of each target column given all other cells of the row that are present.

    The laws are of `Cells.value`: codes of labels, or numbers in their own unit. All rows at once:
    go by `row_blocks` where they are many. Raises DataError for an unknown name.

    >>> from exfam.families import Categorical
    >>> from exfam.tables.data.columns import Column
    >>> from exfam.tables.networks.independent import independent_columns
    >>> code = np.array([[0], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), code.astype(float))
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> model = independent_columns(cells, schema=schema, families=[Categorical(2)])
    >>> column_laws(model, cells[:1], ["a"])["a"].probs().tolist()
    [[0.5, 0.5]]
    """
    schema = table_schema(model)
    names = checked_order(schema, targets)
    places = [schema.place(name) for name in names]
    etas = model.eta(cells, places)
    return {
        name: Mixture(model.families[place], eta)
        for name, place, eta in zip(names, places, etas, strict=True)
    }


def cell_log_prob(
    model: TableModel, cells: Cells, targets: Sequence[str]
) -> Float64[np.ndarray, "rows targets"]:
    """log p(cell | all other present cells of its row), in nats; NaN where the cell is absent.

    Raises DataError for an unknown name.

    >>> from exfam.families import Categorical
    >>> from exfam.tables.data.columns import Column
    >>> from exfam.tables.networks.independent import independent_columns
    >>> code = np.array([[0], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), code.astype(float))
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> model = independent_columns(cells, schema=schema, families=[Categorical(2)])
    >>> np.exp(cell_log_prob(model, cells, ["a"])).tolist()
    [[0.5], [0.5]]
    """
    schema = table_schema(model)
    numbers = sum(model.families[schema.place(name)].n_params for name in targets)
    out = np.full((len(cells), len(targets)), np.nan)
    for block in row_blocks(len(cells), numbers=numbers):
        part = cells[block]
        for k, (name, law) in enumerate(column_laws(model, part, targets).items()):
            value = torch.from_numpy(part.value[:, schema.place(name)].copy())
            log_prob = law.log_prob(value)
            out[block, k] = torch.where(value.isnan(), torch.nan, log_prob).numpy()
    return out
