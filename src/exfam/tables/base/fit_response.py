"""Fit of one column's model: folds, members, and how they are pooled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64

from exfam.estimator.gain import Gain
from exfam.tables.base.added import NumberOutputs, added_to_labels, added_to_numbers
from exfam.tables.base.encode import TableCode
from exfam.tables.base.fill import GaussianFill
from exfam.tables.base.fit_forest import ForestRows, ForestSettings, choose_forest, fit_forest
from exfam.tables.base.forest import Forest
from exfam.tables.base.linear_heads import (
    Head,
    HeadRows,
    LinearHead,
    OrderedHead,
    SoftmaxHead,
    StudentHead,
    fit_head,
    fit_products,
)
from exfam.tables.base.pool import Pool, pool_labels, pool_numbers
from exfam.tables.base.products import LEAST_SPREAD, Candidates
from exfam.tables.base.residual_network import Course, Loss, as_views, fit_network
from exfam.tables.base.response import (
    FoldMembers,
    ResponseModel,
    Unit,
    label_log_probs,
    members_of,
    number_outputs,
)
from exfam.tables.base.target_statistics import FoldStatistics, StatisticRows, many_labels
from exfam.tables.base.views import PartView, View, held_views, training_views
from exfam.tables.data import Cells

_DF_OF_BASE = 5.0
# Views of training that linear predictors, and the second forest, are fitted to.
_LINEAR_VIEWS, _TREE_VIEWS, _MASKED_VIEWS = 2, 3, 3
_FEWEST_ROWS, _FEWEST_ROWS_OF_TREES = 4, 50
_SPREADS_BETWEEN = 2.56
# Nats by which logarithms have to be better: of their Student's t there is no mean.
_WORTH_A_SCALE = 0.02
# The standard deviation of a number that is rounded, in units of the gap between two.
_OF_GAP = 12**-0.5


@dataclass(frozen=True)
class Members:
    """Which members a model has beside its linear predictors."""

    network: bool = True
    trees: bool = True


@dataclass(frozen=True, eq=False)
class ResponseTask:
    """What one column's model is fitted to: rows that have a response.

    `n_labels`: of labels; `ordered`: whether they have an order
    `held`: which rows each fold holds out; a fold that holds all is fitted to all
    `later`: of rows in the order of time the last ones, by which members fitted to those before are
        pooled; None pools by the rows that folds hold out
    `scales`: on which of `response.SCALES` numbers may be known
    """

    code: TableCode
    fill: GaussianFill
    cells: Cells
    y: Float64[np.ndarray, "rows"]
    weight: Float64[np.ndarray, "rows"]
    n_labels: int | None
    held: Bool[np.ndarray, "folds rows"]
    later: Bool[np.ndarray, "rows"] | None = None
    ordered: bool = False
    scales: tuple[str, ...] = ("identity",)


def held_by_fold(
    n_rows: int, *, random: np.random.Generator, in_order: bool = False
) -> Bool[np.ndarray, "folds rows"]:
    """Which rows each fold holds out: of few rows each once, of many two fifths or one.

    `in_order`: whole stretches of rows, for rows in the order of time
    """
    if n_rows < _FEWEST_ROWS:
        return np.ones((1, n_rows), dtype=bool)
    n_parts = min(n_rows, 4 if 1500 <= n_rows < 3000 else 5)
    part = np.arange(n_rows) * n_parts // n_rows
    if not in_order:
        part = random.permutation(part)
    n_folds = n_parts if n_rows < 3000 else (2 if n_rows < 15_000 else 1)
    return np.stack([part == n_parts - 1 - k for k in range(n_folds)])


def later_rows(n_rows: int) -> Bool[np.ndarray, "rows"] | None:
    """The last third of rows in the order of time; None of too few."""
    return np.arange(n_rows) >= n_rows * 2 // 3 if n_rows >= _FEWEST_ROWS else None


@dataclass(frozen=True, eq=False)
class _Rows:
    """All views of the rows, those of training first complete, and of held rows by share."""

    train: list[View]
    held: list[PartView]


def _rows_of(task: ResponseTask, members: Members, random: np.random.Generator) -> _Rows:
    """The views that the members are fitted to and judged by."""
    n_masked = _MASKED_VIEWS if members.network else _TREE_VIEWS - 1
    n_masked = n_masked if members.network or members.trees else _LINEAR_VIEWS - 1
    is_held = np.any(task.held if task.later is None else [*task.held, task.later], axis=0)
    given = task.code, task.fill, task.cells
    train = training_views(*given, random=random, n_masked=n_masked)
    return _Rows(train, held_views(*given, random=random, held=is_held))


def fit_response(task: ResponseTask, members: Members, *, seed: int) -> ResponseModel:
    """The model of one column."""
    random = np.random.default_rng(seed)
    rows = _rows_of(task, members, random)
    unit, y = Unit(), task.y
    if task.n_labels is None:
        unit = _chosen_unit(task, rows)
        y = unit.to_unit(task.y)
    held_by = [*task.held] if task.later is None else [*task.held, task.later]
    seeds = [*range(seed, seed + len(task.held)), seed]
    settings = None
    if members.trees and len(y) >= _FEWEST_ROWS_OF_TREES:
        settings = _chosen_trees(task, y, rows, held_by[0], seed=seed)
    fits = [
        _fit_fold(task, y, rows, is_held, members=members, settings=settings, seed=own)
        for is_held, own in zip(held_by, seeds, strict=False)
    ]
    if all(fit.products is fit.linear for fit in fits):
        fits = [replace(fit, products=None) for fit in fits]
    folds = fits[: len(task.held)]
    judged = list(zip(fits, held_by, strict=True))
    if task.later is not None:
        judged = judged[-1:]
    pool, gain = _pooled(task, unit, judged, rows)
    return ResponseModel(task.code, task.fill, tuple(folds), pool, task.n_labels, unit, gain)


def _chosen_unit(task: ResponseTask, rows: _Rows) -> Unit:
    """The scale of numbers that the first fold's held rows prefer, clearly if not the first."""
    units = [_unit_of(task.y, scale=scale) for scale in task.scales]
    if len(units) == 1:
        return units[0]
    is_held = task.held[0]
    nats: list[float] = []
    for unit in units:
        y = unit.to_unit(task.y)
        head = _fit_linear(StudentHead(), y, task.weight, rows, is_held)
        slope = np.average(unit.log_slope(task.y)[is_held], weights=task.weight[is_held])
        nats.append(head.validation - slope + (_WORTH_A_SCALE if len(nats) else 0.0))
    return units[int(np.argmin(nats))]


def _unit_of(y: Float64[np.ndarray, "rows"], *, scale: str) -> Unit:
    value = Unit(scale=scale).on_scale(y)
    low, center, high = np.quantile(value, [0.1, 0.5, 0.9])
    spread = (high - low) / _SPREADS_BETWEEN
    if not spread > 0:
        spread = float(np.std(value)) or 1.0
    distinct = np.unique(value)
    gap = float(np.median(np.diff(distinct))) if len(distinct) > 1 else spread
    return Unit(float(center), float(spread), scale, _OF_GAP * gap / spread)


def _fit_linear(
    head: Head,
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
) -> LinearHead:
    train = _stacked(rows.train[:_LINEAR_VIEWS], y, weight, _trained(is_held))
    return fit_head(head, train, _stacked(rows.held[:1], y, weight, is_held))


def _fit_products(
    head: Head,
    linear: LinearHead,
    task: ResponseTask,
    y: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
) -> LinearHead:
    """The predictor with products of numbers and of indicators of labels that are not rare."""
    feature = task.code.main_features
    spread = rows.train[0].features[:, feature].std(0)
    candidates = Candidates(feature, task.code.column_of_number).where(spread >= LEAST_SPREAD)
    train = _stacked(rows.train[:_LINEAR_VIEWS], y, task.weight, _trained(is_held))
    held = _stacked(rows.held[:1], y, task.weight, is_held)
    return fit_products(head, linear, train, held, candidates=candidates)


def _with_statistics(
    task: ResponseTask,
    y: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
) -> tuple[_Rows, FoldStatistics | None]:
    """The rows with statistics of columns with many labels, where a fold has any."""
    many = many_labels(rows.train[0], task.code.is_label)
    if not len(many) or is_held.all():
        return rows, None
    learned = StatisticRows(y, task.weight, task.n_labels, many)
    statistics = learned.learn(rows.train[0], ~is_held)
    train = learned.cross_fitted(rows.train, ~is_held)
    held = [replace(part, view=statistics.widened(part.view)) for part in rows.held]
    return _Rows(train, held), statistics


def _by_label(task: ResponseTask, view: View) -> Bool[np.ndarray, "numbers"]:
    """Which numbers for trees are codes of labels."""
    own = task.code.is_label
    return np.append(own, np.zeros(view.for_trees.shape[1] - len(own), dtype=bool))


def _trained(is_held: Bool[np.ndarray, "rows"]) -> Bool[np.ndarray, "rows"]:
    """The rows that a fold is fitted to: all that are not held out, or all."""
    return is_held if is_held.all() else ~is_held


def _stacked(
    views: Sequence[View | PartView],
    y: np.ndarray,
    weight: np.ndarray,
    rows: Bool[np.ndarray, "rows"],
) -> HeadRows:
    features = np.concatenate([view[rows].features for view in views])
    return HeadRows(features, np.tile(y[rows], len(views)), np.tile(weight[rows], len(views)))


def _fit_fold(
    task: ResponseTask,
    y: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
    *,
    members: Members,
    settings: ForestSettings | None,
    seed: int,
) -> FoldMembers:
    rows, statistics = _with_statistics(task, y, rows, is_held)
    head: Head = StudentHead() if task.n_labels is None else SoftmaxHead(task.n_labels)
    linear = _fit_linear(head, y, task.weight, rows, is_held)
    # A network finds products by itself.
    products = linear if members.network else _fit_products(head, linear, task, y, rows, is_held)
    ordered = network = trees = trees_masked = None
    if task.n_labels is not None and task.ordered and task.n_labels > 2:
        ordered = _fit_linear(OrderedHead(task.n_labels), y, task.weight, rows, is_held)
    if members.network:
        network = fit_network(_course(task, y, rows, is_held, linear), seed=seed)
    if settings is not None:
        trees, trees_masked = _fit_trees(task, y, rows, is_held, settings=settings, seed=seed)
    trained = _trained(is_held)
    constant, _ = head.start(y[trained], task.weight[trained])
    return FoldMembers(
        constant, linear, products, ordered, network, trees, trees_masked, statistics
    )


def _chosen_trees(
    task: ResponseTask,
    y: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
    *,
    seed: int,
) -> ForestSettings:
    """How trees are grown: as the held rows of one fold prefer."""
    rows, _ = _with_statistics(task, y, rows, is_held)
    given = _for_trees(task, y, rows, is_held, n_views=1)
    return choose_forest(*given, **_kind_of_trees(task, rows), seed=seed)


def _fit_trees(
    task: ResponseTask,
    y: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
    *,
    settings: ForestSettings,
    seed: int,
) -> tuple[Forest, Forest]:
    """Trees of complete rows, and of these and of rows with cells hidden, held rows alike."""
    trees, trees_masked = (
        fit_forest(
            *_for_trees(task, y, rows, is_held, n_views=n_views),
            **_kind_of_trees(task, rows),
            settings=settings,
            seed=seed,
        )
        for n_views in (1, _TREE_VIEWS)
    )
    return trees, trees_masked


def _kind_of_trees(task: ResponseTask, rows: _Rows) -> dict[str, Any]:
    kind = "numbers" if task.n_labels is None else "labels"
    return {"kind": kind, "by_label": _by_label(task, rows.train[0])}


def _for_trees(
    task: ResponseTask,
    y: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
    *,
    n_views: int,
) -> tuple[ForestRows, ForestRows]:
    """Rows of the first views to fit to, and held ones."""
    held = [rows.held[0]] if n_views == 1 else [rows.held[0], rows.held[2]]

    def stacked(views: Sequence[View | PartView], own: Bool[np.ndarray, "rows"]) -> ForestRows:
        x = np.concatenate([view[own].for_trees for view in views])
        n = len(views)
        return ForestRows(x, np.tile(y[own], n), np.tile(task.weight[own], n))

    return stacked(rows.train[:n_views], _trained(is_held)), stacked(held, is_held)


def _course(
    task: ResponseTask,
    y: Float64[np.ndarray, "rows"],
    rows: _Rows,
    is_held: Bool[np.ndarray, "rows"],
    linear: LinearHead,
) -> Course:
    def offset(view: View) -> np.ndarray:
        outputs = linear.outputs(view.features)
        if task.n_labels is not None:
            return outputs
        return np.column_stack([outputs, np.full(len(outputs), linear.shared[0])])

    standardized = [linear.standardized(view.features) for view in rows.train]
    held = [rows.held[0][is_held], rows.held[2][is_held]]
    return Course(
        as_views(standardized, [offset(view) for view in rows.train]),
        Loss(y, n_labels=task.n_labels, df=_DF_OF_BASE),
        torch.from_numpy(task.weight.astype(np.float32)),
        torch.from_numpy(is_held),
        as_views([linear.standardized(v.features) for v in held], [offset(v) for v in held]),
    )


def _pooled(
    task: ResponseTask,
    unit: Unit,
    judged: Sequence[tuple[FoldMembers, Bool[np.ndarray, "rows"]]],
    rows: _Rows,
) -> tuple[Pool, Gain | None]:
    """The pool by rows that members were not fitted to, at each share of missing cells.

    And what network and trees add to it there, if all rows have their cells.
    """
    folds, own = [fold for fold, _ in judged], [np.flatnonzero(is_held) for _, is_held in judged]
    index = np.concatenate(own)
    y, weight, members = task.y[index], task.weight[index], members_of(folds[0])
    if task.n_labels is not None:
        n_labels = task.n_labels
        log_probs = [
            np.concatenate(
                [label_log_probs(f, v[r], n_labels) for f, r in zip(folds, own, strict=True)], 1
            )
            for v in rows.held
        ]
        pool = pool_labels(log_probs, y, weight)
        return pool, added_to_labels(pool, log_probs[0], y, weight, members=members)
    pairs = [[number_outputs(f, v[r]) for f, r in zip(folds, own, strict=True)] for v in rows.held]
    locations = [np.concatenate([own for own, _ in pair], axis=1) for pair in pairs]
    log_scales = [np.concatenate([own for _, own in pair]) for pair in pairs]
    pool = pool_numbers(locations, log_scales, unit.to_unit(y), weight)
    alone = np.repeat([fold.linear.shared[0] for fold in folds], [len(r) for r in own])
    outputs = NumberOutputs(unit, locations[0], log_scales[0], alone)
    return pool, added_to_numbers(pool, outputs, y, weight, members=members)
