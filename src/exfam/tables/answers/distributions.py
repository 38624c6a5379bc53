"""The distribution of each cell given the others of its row, and log-probabilities of rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import DataError
from exfam.families import Family
from exfam.families.mixtures import Mixture
from exfam.tables.data import Cells, TableSchema


@runtime_checkable
class TableModel(Protocol):
    """The distribution of each cell of a row given those of its other cells that are present."""

    @property
    def schema(self) -> TableSchema:
        """The columns that it knows."""

    @property
    def families(self) -> tuple[Family, ...]:
        """One per column: the family of the column's `Cells.value`."""

    def eta(
        self, cells: Cells, targets: Sequence[int]
    ) -> list[Float[Tensor, "members rows _params"]]:
        """Per target, float64 parameters by member and row, given the row's other present cells."""


@dataclass(frozen=True, eq=False)
class IndependentColumns:
    """A table model whose distribution of a column is the same in every row."""

    schema: TableSchema
    families: tuple[Family, ...]
    marginals: tuple[Float[Tensor, " _params"], ...]

    def eta(self, cells: Cells, targets: Sequence[int]) -> list[Float[Tensor, "1 rows _params"]]:
        return [self.marginals[target].expand(1, len(cells), -1) for target in targets]


def independent_columns(
    cells: Cells, *, schema: TableSchema, families: Sequence[Family]
) -> IndependentColumns:
    """The distributions that fit each column's present cells as one sample."""
    marginals = []
    for column, family in enumerate(families):
        value = torch.from_numpy(cells.value[:, column].copy())
        marginals.append(family.initial_eta(value[~value.isnan()]).double())
    return IndependentColumns(schema, tuple(families), tuple(marginals))


Rows = Float64[np.ndarray, "rows"]

_ROWS_AT_ONCE = 16_384
_NUMBERS_AT_ONCE = 4_000_000


def table_blocks(n_rows: int, *, numbers: int = 1) -> Iterator[slice]:
    """Slices of rows, one after another, few enough for `numbers` per row and member."""
    size = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // max(1, numbers)))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def checked_columns(schema: TableSchema, names: Any, *, argument: str = "order") -> tuple[str, ...]:
    """The names of columns, one or several, or for None all that can be predicted."""
    if names is None:
        return schema.targets
    names = names.tolist() if isinstance(names, np.ndarray) else names
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DataError(f"`{argument}` must be a list of names of columns, got {names!r}.")
    for k, name in enumerate(names):
        if name not in schema.names:
            listed = ", ".join(schema.targets)
            raise DataError(
                f"`{argument}` must name columns of the table, got {name!r}. Its columns are "
                f"{listed}."
            )
        if schema.column(name).input_only:
            raise DataError(
                f"`{argument}` must name columns that can be predicted, got {name!r}, which is a "
                "date or part of one: dates are inputs alone. Give days since a date as a number "
                "to predict them."
            )
        if name in names[:k]:
            raise DataError(f"`{argument}` must name each column once, got {name!r} twice.")
    return tuple(names)


def column_distributions(
    model: TableModel, cells: Cells, targets: Sequence[str]
) -> dict[str, Mixture]:
    """The distribution of each target column given all other cells of the row that are present."""
    names = checked_columns(model.schema, targets, argument="targets")
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


def value_log_prob(distribution: Mixture, value: Rows) -> Rows:
    """Log-probability of each row's value, in nats; NaN where the value is."""
    values = torch.from_numpy(value.copy())
    return torch.where(values.isnan(), torch.nan, distribution.log_prob(values)).numpy()


def cell_log_prob(
    model: TableModel, cells: Cells, targets: Sequence[str]
) -> Float64[np.ndarray, "rows targets"]:
    """log p(cell | all other present cells of its row), in nats; NaN where the cell is absent."""
    out = np.full((len(cells), len(targets)), np.nan)
    for block, part, distributions in distribution_blocks(model, cells, targets):
        for k, (name, distribution) in enumerate(distributions.items()):
            out[block, k] = value_log_prob(distribution, part.value[:, model.schema.index(name)])
    return out


def chain_log_prob(
    model: TableModel, cells: Cells, *, order: Any = None, given: Sequence[str] = ()
) -> Rows:
    """log p(present cells | `given`), in nats, by the chain rule in the order of these columns.

    `order`: names of columns, for None all that can be predicted; others are hidden
    """
    schema = model.schema
    names = checked_columns(schema, order)
    checked_columns(schema, [*(name for name in given if name in schema.targets), *names])
    visible = ~np.isin(schema.names, schema.targets) | np.isin(schema.names, given)
    terms = np.full((len(cells), len(names)), np.nan)
    for k, name in enumerate(names):
        column = schema.index(name)
        visible[column] = True
        present = np.flatnonzero(cells.present[:, column])
        terms[present, k] = cell_log_prob(model, cells[present].where(visible), [name])[:, 0]
    return np.nansum(terms, axis=1)


def pseudo_terms(model: TableModel, cells: Cells) -> Float64[np.ndarray, "rows columns"]:
    """log p(cell | its row's other present cells), in nats; NaN where absent and for dates."""
    terms = np.full(cells.code.shape, np.nan)
    columns = [model.schema.index(name) for name in model.schema.targets]
    terms[:, columns] = cell_log_prob(model, cells, model.schema.targets)
    return terms
