"""The base of values: working scale, factor model and head, fitted to training groups."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float64, Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.cross_fit import Fold, RankChoice, choose_rank, folds_of
from exfam.efa.values.factor_em import FactorModel, fit_factors
from exfam.efa.values.features import ValueFeatures, factor_features, joined
from exfam.efa.values.heads import (
    Head,
    HeadOptions,
    Prediction,
    Table,
    fit_head,
    predict_head,
    scale_of,
    table_of,
    with_counts,
)
from exfam.efa.values.working_scale import WorkingScale

# As many cells a head is fitted to, at most.
MOST_FOR_HEAD = 40_000
# Cells that are predicted at a time.
BLOCK_CELLS = 500_000


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """What is fitted: a head, given all others or the earlier ones, of what rank.

    Neighbors count where cells are `ordered`. With `rank` None it is chosen.
    """

    head: HeadOptions = HeadOptions()
    causal: bool = False
    ordered: bool = False
    rank: int | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ValuesBase:
    """A fitted base."""

    options: ValueOptions
    working: WorkingScale
    model: FactorModel
    table: Table
    head: Head
    rank_scores: dict[int, float]

    @property
    def rank(self) -> int:
        return self.model.rank


def fit_values(cells: ValueCells, n_items: int, options: ValueOptions) -> ValuesBase:
    """Fit to training groups, all numbers of the head on features that are cross-fitted.

    Raises DataError if a value is not in the head's support.

    >>> offset, item = np.arange(0, 41, 2), np.tile([0, 1], 20)
    >>> cells = ValueCells(offset, item, np.tile([1.0, 2.0, 3.0, 3.0], 10))
    >>> options = ValueOptions(head=HeadOptions(kind="classes", classes=(1.0, 3)), rank=0)
    >>> base = fit_values(cells, 2, options)
    >>> predict_values(base, cells).probability.sum(1)[:2].round(6)
    array([1., 1.])
    """
    cells = cells.only_observed()
    options = replace(options, head=options.head.settled(cells.value))
    working = scale_of(options.head, cells.value)
    standard = working.cells(cells)
    folds = folds_of(cells, seed=options.seed)
    choice = _rank_of(standard, n_items, folds, options)
    features, rows = cross_fitted(cells, standard, n_items, folds, working, choice, options)
    model = fit_factors(standard, n_items, rank=choice.rank, seed=options.seed).model
    table = table_of(options.head, cells, n_items)
    head = fit_head(options.head, features, cells.value[rows], working, table)
    return ValuesBase(options, working, model, table, head, choice.scores)


def _rank_of(
    standard: ValueCells, n_items: int, folds: list[Fold], options: ValueOptions
) -> RankChoice:
    if options.rank is not None:
        return RankChoice(options.rank, {}, {})
    return choose_rank(standard, n_items, folds, causal=options.causal, seed=options.seed)


def cross_fitted(
    cells: ValueCells,
    standard: ValueCells,
    n_items: int,
    folds: list[Fold],
    working: WorkingScale,
    choice: RankChoice,
    options: ValueOptions,
    *,
    most: int = MOST_FOR_HEAD,
) -> tuple[ValueFeatures, Int64[np.ndarray, "rows"]]:
    """Features of `most` cells that are held out in some fold, and which cells they are."""
    parts = []
    for number, fold in enumerate(folds):
        model = choice.models.get(number)
        if model is None:
            rest = standard.take(fold.rest)
            model = fit_factors(rest, n_items, rank=choice.rank, seed=options.seed).model
        table = table_of(options.head, cells.take(fold.rest), n_items)
        held_out = cells.take(fold.held_out)
        parts.append(_features(model, table, working, held_out, options))
    rows = np.concatenate([cells.rows_of(fold.held_out) for fold in folds])
    # A head has few numbers: some of the cells are enough.
    some = np.random.default_rng(options.seed).permutation(len(rows))[:most]
    return joined(parts).take(some), rows[some]


def features_of_values(base: ValuesBase, cells: ValueCells) -> ValueFeatures:
    """Features of new groups by the base that was fitted to all training groups."""
    return _features(base.model, base.table, base.working, cells, base.options)


def predict_values(base: ValuesBase, cells: ValueCells) -> Prediction:
    """The distribution of every cell given the others of its group, or the earlier ones."""
    return predict_head(
        base.head,
        base.options.head,
        features_of_values(base, cells),
        base.working,
        base.table,
        cells,
        causal=base.options.causal,
    )


def log_prob_of_values(
    base: ValuesBase, cells: ValueCells, *, block: int = BLOCK_CELLS
) -> Float64[np.ndarray, "cells"]:
    """The log-probability, or log-density, of every cell; NaN where there is no value.

    Groups are taken in blocks of about `block` cells: memory beyond the cells is that of a block.
    """
    ends = np.searchsorted(cells.offset, np.arange(block, cells.n_cells + block, block))
    bounds = np.unique(np.concatenate([[0], ends.clip(max=cells.n_groups)]))
    found = [np.zeros(0)]
    for low, high in pairwise(bounds):
        part = cells.take(np.arange(low, high))
        found.append(predict_values(base, part).log_prob(part.value))
    return np.concatenate(found)


def _features(
    model: FactorModel,
    table: Table,
    working: WorkingScale,
    cells: ValueCells,
    options: ValueOptions,
) -> ValueFeatures:
    found = factor_features(
        model, working.cells(cells), causal=options.causal, ordered=options.ordered
    )
    return with_counts(found, table, cells, options.head, causal=options.causal)
