"""The law of any columns given any others: marginal, joint, and draws from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import DataError
from exfam.families.mixtures import Mixture
from exfam.tables.answers.chain import chain_parts
from exfam.tables.answers.distributions import checked_order, column_laws, table_schema
from exfam.tables.answers.sampling import sample_rows
from exfam.tables.data.cells import Cells
from exfam.tables.networks.table_model import TableModel

__all__ = ["Conditional", "conditional"]


@dataclass(frozen=True, eq=False)
class Conditional:
    """What a model says of some columns given the others of each row; see `conditional`.

    `given`: the rows, with the columns in question absent
    `order`: in which the joint law tells the columns one after another
    `laws`: the marginal law of each column, given `given` alone
    """

    model: TableModel
    given: Cells
    order: tuple[str, ...]
    laws: dict[str, Mixture]

    def log_prob(self, values: Cells) -> Float64[np.ndarray, "rows"]:
        """Log of the joint law of the columns, in nats, by the chain rule in `order`.

        `values`: rows whose cells of these columns count and no others, as many as `given`, or any
            number where `given` is one row; an absent cell is no term

        Raises DataError for another number of rows.
        """
        given = self.given
        if len(given) == 1:
            given = given[np.zeros(len(values), dtype=np.int64)]
        if len(given) != len(values):
            raise DataError(
                f"`values` must have the {len(given)} rows of `given`, got {len(values)} rows."
            )
        schema = table_schema(self.model)
        joined = _with_columns(given, values, [schema.place(name) for name in self.order])
        others = [name for name in schema.names if name not in self.order]
        return np.nansum(chain_parts(self.model, joined, order=self.order, given=others), axis=1)

    def sample(self, n: int, *, seed: int) -> tuple[Cells, ...]:
        """`n` draws of the columns in every row of `given`, by the chain rule in `order`."""
        return sample_rows(self.model, self.given, n=n, seed=seed, order=self.order)


def conditional(model: TableModel, given: Cells, *, of: Any, order: Any = None) -> Conditional:
    """The law of the columns `of` given the present cells of the other columns, row by row.

    `given`: one row or many; cells of the columns `of` are not looked at; a row without cells
        gives the model's own marginal law
    `order`: the columns `of` in the order in which the joint law tells them (default None: as they
        are listed in `of`)

    The marginal laws take one pass of the model. Raises DataError for a name that is unknown or
    given twice, and if `order` does not name just the columns `of`.

    >>> from exfam.tables.data.columns import Column
    >>> from exfam.tables.data.schema import TableSchema
    >>> from exfam.families import Categorical
    >>> from exfam.tables.networks.independent import independent_columns
    >>> code = np.array([[0], [1]], np.int32)
    >>> cells = Cells(code, np.zeros((2, 1), np.float32), code.astype(float))
    >>> schema = TableSchema((Column("a", "boolean", labels=np.array([False, True])),))
    >>> model = independent_columns(cells, schema=schema, families=[Categorical(2)])
    >>> told = conditional(model, cells[:1], of=["a"])
    >>> told.laws["a"].probs().tolist(), np.exp(told.log_prob(cells)).tolist()
    ([[0.5, 0.5]], [0.5, 0.5])
    """
    schema = table_schema(model)
    names = checked_order(schema, of)
    chain = names if order is None else checked_order(schema, order)
    if set(chain) != set(names):
        raise DataError(
            f"`order` must name the columns {', '.join(names)} and no others, "
            f"got {', '.join(chain)}."
        )
    hidden = given.hide([schema.place(name) for name in names])
    return Conditional(model, hidden, chain, column_laws(model, hidden, names))


def _with_columns(cells: Cells, other: Cells, places: Sequence[int]) -> Cells:
    """The cells with the columns at `places` taken from other rows."""
    taken = np.isin(np.arange(cells.code.shape[1]), places)
    return Cells(
        np.where(taken, other.code, cells.code),
        np.where(taken, other.fraction, cells.fraction),
        np.where(taken, other.value, cells.value),
    )
