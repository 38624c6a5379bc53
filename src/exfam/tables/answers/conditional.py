"""The distribution of any columns given any others: marginal, joint, and draws from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped
from scipy.special import logsumexp

from exfam.checks import DataError, check_seed, check_whole
from exfam.columns.results import PlottedResult
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.conditions import LabelSet, Span, read_conditions, split_conditions
from exfam.tables.answers.distributions import (
    TableModel,
    checked_columns,
    column_distributions,
    table_blocks,
)
from exfam.tables.answers.orders import chosen_orders, mixed_log_prob
from exfam.tables.answers.particles import Particles, conditioned
from exfam.tables.data import Cells, TableSchema, decode_all, encode_given, put_values


def sample_rows(
    model: TableModel,
    cells: Cells,
    *,
    n: Any,
    seed: Any,
    columns: Any = None,
    order: Any = None,
) -> Cells:
    """`n` draws of the absent cells of every row given its present ones, the first draw's first.

    `columns`: those that are drawn, None for all that can be; every draw has a random order of them
    `order`: one order of the columns for all draws, in place of random ones
    """
    check_whole("n", n)
    check_seed("seed", seed)
    names = checked_columns(model.schema, columns if order is None else order)
    chain = np.array([model.schema.index(name) for name in names], dtype=np.int64)
    row = np.tile(np.arange(len(cells)), int(n))
    chains = np.tile(chain, (len(row), 1))
    if order is None:
        chains = np.random.default_rng(int(seed)).permuted(chains, axis=1)
    generator = torch.Generator().manual_seed(int(seed))
    numbers = max((family.n_params for family in model.families), default=1)
    # Without rows there are no blocks.
    filled = [cells[:0]]
    for block in table_blocks(len(row), numbers=numbers):
        filled.append(_drawn(model, cells[row[block]], chains[block], generator=generator))
    return Cells.concatenate(filled)


def _drawn(
    model: TableModel,
    cells: Cells,
    chains: Int64[np.ndarray, "rows columns"],
    *,
    generator: torch.Generator,
) -> Cells:
    """The cells with absent ones drawn one after another, each row in its own order of columns."""
    for step in chains.T:
        for column in np.unique(step):
            rows = np.flatnonzero((step == column) & ~cells.present[:, column])
            if len(rows):
                name = model.schema.names[column]
                distribution = column_distributions(model, cells[rows], [name])[name]
                values = distribution.sample(generator).double().numpy()
                cells = put_values(
                    cells, rows, schema=model.schema, column=int(column), values=values
                )
    return cells


@dataclass(frozen=True, eq=False, repr=False)
class TableConditional(PlottedResult):
    """The distribution of some columns given others, row by row; see `conditional`.

    `given`: the rows, with the columns in question absent; in copies where conditions are
    `order`: of the columns in the chain rule of their joint distribution, None for several
    `distributions`: of each column by itself, in codes of labels or in numbers
    """

    model: TableModel
    given: Particles
    columns: tuple[str, ...]
    order: tuple[str, ...] | None
    distributions: dict[str, Mixture]
    unknown: str

    picture = "conditional_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `row`, `column`, then `label` and `probability`, or `center`, `low` and `high`.

        The first two are of labels, the others of numbers: the ends of 90 % intervals.
        """
        pieces = [self._columns_of(name) for name in self.columns]
        return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}

    def _columns_of(self, name: str) -> dict[str, np.ndarray]:
        rows, labels = np.arange(len(self)), self.model.schema.column(name).labels
        if labels is None:
            dist = self.predict_dist(name)
            low, high = dist.interval()
            numbers = {"center": dist.center, "low": low, "high": high}
            label, probability = np.full(len(rows), None, object), np.full(len(rows), np.nan)
        else:
            probability = self.probs(name).ravel()
            label = np.tile(labels.astype(object), len(rows))
            rows = np.repeat(rows, len(labels))
            numbers = dict.fromkeys(("center", "low", "high"), np.full(len(rows), np.nan))
        column = np.full(len(rows), name, object)
        return {"row": rows, "column": column, "label": label, "probability": probability} | numbers

    def __len__(self) -> int:
        return len(self.given.weight)

    @property
    def condition_log_prob(self) -> Float64[np.ndarray, "rows"]:
        """Log-probability of the conditions given the other known cells, in nats; 0 without any."""
        return self.given.log_prob

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

    def log_prob(
        self, values: Any, *, n_orders: int | None = None, seed: int = 0
    ) -> Float64[np.ndarray, "rows"]:
        """Joint log-probability of `values`, in nats, by the chain rule.

        `values`: a mapping to one value each, a table, or `Cells`, of as many rows as were given
            (any number if one row was given); a missing cell is no term
        `n_orders`, `seed`: the mean over so many random orders of the columns, None for 8; 1 is
            their own order. Left out where `conditional` was given an `order`
        """
        schema, rows = self.model.schema, len(self)
        if not isinstance(values, Cells):
            values = encode_given(schema, values, unknown=self.unknown)
        if rows not in (1, len(values)):
            raise DataError(
                f"`values` must have the {rows} rows of `given`, got {len(values)} rows."
            )
        orders = chosen_orders(self.columns, order=self.order, n_orders=n_orders, seed=seed)
        own = np.isin(schema.names, self.columns)
        others = [name for name in schema.names if name not in self.columns]
        copies, out = np.arange(self.given.n_copies), np.empty(len(values))
        row = np.arange(len(values)) if rows > 1 else np.zeros(len(values), np.int64)
        for block in table_blocks(len(values), numbers=len(copies) * len(schema)):
            index = (row[block, None] * len(copies) + copies).ravel()
            part = values[block]
            part = part[np.repeat(np.arange(len(part)), len(copies))]
            joined = self.given.cells[index]
            joined = joined.replaced(np.broadcast_to(own, part.code.shape), part)
            logs = mixed_log_prob(self.model, joined, orders=orders, given=others)
            weight = self.given.weight[row[block]]
            out[block] = logsumexp(logs.reshape(weight.shape), axis=1, b=weight)
        return out

    def sample(self, n: int = 1, *, seed: int = 0) -> dict[str, np.ndarray]:
        """`n` joint draws for every row: by column, all rows of the first draw first."""
        check_whole("n", n)
        check_seed("seed", seed)
        rows = self.given.drawn(int(n), seed=int(seed))
        draws = sample_rows(
            self.model, rows, n=1, seed=seed, columns=self.columns, order=self.order
        )
        values = decode_all(self.model.schema, draws)
        return {name: values[name] for name in self.columns}

    def _checked(self, name: str) -> str:
        if not isinstance(name, str) or name not in self.columns:
            raise DataError(
                f"`name` must be one of the columns {', '.join(self.columns)}, got {name!r}."
            )
        return name


@dataclass(frozen=True, eq=False)
class GivenCells:
    """What is known of rows: cells, and conditions by the index of their column."""

    cells: Cells
    conditions: Mapping[int, LabelSet | Span] = field(default_factory=dict)

    def particles(self, model: TableModel, *, seed: Any, drawn: bool = False) -> Particles:
        """The rows in copies in which the conditions hold, as `conditioned` makes them."""
        check_seed("seed", seed)
        return conditioned(
            model, self.cells, conditions=self.conditions, seed=int(seed), drawn=drawn
        )


def given_cells(schema: TableSchema, given: Any, *, unknown: str) -> GivenCells:
    """Known cells by column, of which some may be conditions; see `encode_given`."""
    plain, conditions = split_conditions(given)
    cells = encode_given(schema, plain, unknown=unknown)
    return GivenCells(cells, read_conditions(schema, conditions))


def conditional(
    model: TableModel, given: GivenCells, *, of: Any, order: Any = None, unknown: str, seed: Any = 0
) -> TableConditional:
    """The distribution of the columns `of` given the present cells of the other columns."""
    schema = model.schema
    names = checked_columns(schema, of, argument="of")
    chain = None if order is None else checked_columns(schema, order)
    if chain is not None and set(chain) != set(names):
        listed = ", ".join(names)
        raise DataError(
            f"`order` must name the columns {listed} and no others, got {', '.join(chain)}."
        )
    index = [schema.index(name) for name in names]
    for column in given.conditions:
        if column in index:
            raise DataError(
                f"`given` must hold conditions on columns that are not in `of`, got one on "
                f"{schema.names[column]!r}. Leave it out of either."
            )
    hidden = replace(given, cells=given.cells.hide(index))
    particles = hidden.particles(model, seed=seed)
    parts = [
        column_distributions(model, particles.cells[block], names)
        for block in table_blocks(len(particles.cells))
    ] or [column_distributions(model, particles.cells, names)]
    distributions = {
        name: particles.mixture(_joined([part[name] for part in parts])) for name in names
    }
    return TableConditional(model, particles, names, chain, distributions, unknown)


def _joined(parts: Sequence[Mixture]) -> Mixture:
    return Mixture(parts[0].family, torch.cat([part.eta for part in parts], dim=1))
