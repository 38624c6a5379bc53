"""Fit of one column's model: folds, members, and how they are pooled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64

from exfam.estimator.gain import Gain
from exfam.tables.base.added import NumberOutputs, added_to_labels, added_to_numbers
from exfam.tables.base.fit_forest import (
    ForestRows,
    ForestSettings,
    choose_forest,
    fit_forest,
    forest_settings,
)
from exfam.tables.base.forest import Forest
from exfam.tables.base.gaps import fit_gap_effects
from exfam.tables.base.heads import Head, LatentRootHead, OrderedHead, SoftmaxHead, StudentHead
from exfam.tables.base.later import LaterPool
from exfam.tables.base.linear_heads import HeadRows, LinearHead, fit_head, fit_products, log_masses
from exfam.tables.base.pool import Pool, pool_labels, pool_numbers
from exfam.tables.base.products import LEAST_SPREAD, Candidates
from exfam.tables.base.residual_network import (
    Course,
    Loss,
    ResidualNetwork,
    Views,
    as_views,
    fit_network,
)
from exfam.tables.base.response import (
    FoldMembers,
    ResponseModel,
    label_log_probs,
    members_of,
    n_apart,
    number_outputs,
)
from exfam.tables.base.response_task import FEWEST_ROWS, Members, ResponseTask
from exfam.tables.base.ridge import fit_plain_ridge
from exfam.tables.base.target_statistics import FoldStatistics, StatisticRows, many_labels
from exfam.tables.base.unit import Unit, units_of
from exfam.tables.base.views import (
    PartView,
    View,
    held_views,
    training_views,
    without_new_labels,
)

_DF_OF_BASE = 5.0
# Views of training that linear predictors, and the second forest, are fitted to.
_LINEAR_VIEWS, _TREE_VIEWS, _MASKED_VIEWS = 2, 3, 3
# Steps of trees whose size nothing chooses, in units of the usual ones.
_LARGER_STEPS = 3.0
_FEWEST_ROWS_OF_TREES = 50
# Nats by which logarithms have to be better, and as much of all rows as chance gives a choice: of
# their Student's t there is no mean, and a number that is not above 0 has no density.
_WORTH_A_SCALE = 0.02


# What a fold has, and which rows it was not fitted to.
Judged = tuple[FoldMembers, Bool[np.ndarray, "rows"]]


@dataclass(frozen=True, eq=False)
class _Rows:
    """All views of the rows, those of training first complete, and of held rows by share."""

    train: list[View]
    held: list[PartView]


def _rows_of(task: ResponseTask, members: Members, random: np.random.Generator) -> _Rows:
    """The views that the members are fitted to and judged by."""
    n_masked = _MASKED_VIEWS if members.network else _TREE_VIEWS - 1
    n_masked = n_masked if members.network or members.trees else _LINEAR_VIEWS - 1
    train = training_views(task.code, task.fill, task.cells, random=random, n_masked=n_masked)
    is_held = np.any(task.held_by, axis=0)
    cells = without_new_labels(task.code, task.cells, task.held_by)
    return _Rows(train, held_views(task.code, task.fill, cells, random=random, held=is_held))


@dataclass(frozen=True, eq=False)
class _Fold:
    """What the members of one fold are fitted to, and by which rows they are judged.

    `y`: numbers in their unit, or codes of labels; `held`: the rows that are held out
    """

    task: ResponseTask
    rows: _Rows
    y: Float64[np.ndarray, "rows"]
    held: Bool[np.ndarray, "rows"]

    @property
    def trained(self) -> Bool[np.ndarray, "rows"]:
        """The rows that the fold is fitted to: all that are not held out, or all."""
        return self.held if self.held.all() else ~self.held

    def stacked(
        self, name: str, views: Sequence[View | PartView], own: Bool[np.ndarray, "rows"]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of some rows of several views one after the other, responses and weights."""
        n, numbers = len(views), np.concatenate([getattr(view[own], name) for view in views])
        return numbers, np.tile(self.y[own], n), np.tile(self.task.weight[own], n)

    def linear(self, head: Head) -> LinearHead:
        """A linear predictor."""
        return fit_head(head, *self._head_rows)

    def products(self, head: Head, linear: LinearHead) -> LinearHead:
        """The predictor with products of numbers and of indicators of labels that are not rare."""
        code = self.task.code
        feature = code.main_features
        spread = self.rows.train[0].features[:, feature].std(0)
        candidates = Candidates(feature, code.column_of_number).where(spread >= LEAST_SPREAD)
        return fit_products(head, linear, *self._head_rows, candidates=candidates)

    def ridge(self, head: Head) -> LinearHead:
        """Ridge regression, logistic of labels, on numbers as they are, of complete rows."""
        train = HeadRows(*self.stacked("plain", self.rows.train[:1], self.trained))
        if self.task.n_labels is None:
            return fit_plain_ridge(train)
        return fit_head(
            head, train, HeadRows(*self.stacked("plain", self.rows.held[:1], self.held))
        )

    @property
    def _head_rows(self) -> tuple[HeadRows, HeadRows]:
        """Of training and held out."""
        train = self.stacked("features", self.rows.train[:_LINEAR_VIEWS], self.trained)
        return HeadRows(*train), HeadRows(*self.stacked("features", self.rows.held[:1], self.held))

    def trees(self, settings: ForestSettings, *, n_views: int, seed: int) -> Forest:
        """Trees of complete rows, or of these and of rows with cells hidden, held rows alike."""
        rows = self._forest_rows(n_views)
        return fit_forest(*rows, **self._of_trees, settings=settings, seed=seed)

    def chosen_trees(self, *, seed: int) -> ForestSettings:
        """How trees are grown: as the held rows prefer."""
        fold, _ = self.with_statistics()
        return choose_forest(*fold._forest_rows(1), **fold._of_trees, seed=seed)

    @property
    def usual_trees(self) -> ForestSettings:
        """How trees are grown by the number of rows alone, in fewer and larger steps."""
        usual = forest_settings(self._of_trees["kind"], int(self.trained.sum()))
        return replace(usual, learning_rate=usual.learning_rate * _LARGER_STEPS)

    @property
    def _of_trees(self) -> dict[str, Any]:
        """What trees are of, and which of their numbers are codes of labels."""
        is_label = self.task.code.is_label
        n_more = self.rows.train[0].for_trees.shape[1] - len(is_label)
        kind = "numbers" if self.task.n_labels is None else "labels"
        return {"kind": kind, "by_label": np.append(is_label, np.zeros(n_more, dtype=bool))}

    def _forest_rows(self, n_views: int) -> tuple[ForestRows, ForestRows]:
        """Of the first views of training, and held out."""
        held = self.rows.held
        of_held = [held[0]] if n_views == 1 else [held[0], held[2]]
        train = self.stacked("for_trees", self.rows.train[:n_views], self.trained)
        return ForestRows(*train), ForestRows(*self.stacked("for_trees", of_held, self.held))

    def completed(self, head: LatentRootHead, linear: LinearHead) -> "_Fold":
        """The fold with latent numbers in place of counts, expected by the linear predictor."""
        seen = linear.outputs(self.rows.train[0].features)[:, 0]
        return replace(self, y=head.completed(seen, linear.shared, self.y))

    def network(self, linear: LinearHead, *, seed: int) -> ResidualNetwork:
        """A network that corrects the linear predictor."""

        def seen(views: Sequence[View]) -> Views:
            inputs = [linear.standardized(view.features) for view in views]
            outputs = [linear.outputs(view.features) for view in views]
            if self.task.n_labels is None:
                scale = linear.shared[0]
                outputs = [np.column_stack([own, np.full(len(own), scale)]) for own in outputs]
            return as_views(inputs, outputs)

        course = Course(
            seen(self.rows.train),
            Loss(self.y, n_labels=self.task.n_labels, df=_DF_OF_BASE),
            torch.from_numpy(self.task.weight.astype(np.float32)),
            torch.from_numpy(self.held),
            seen([self.rows.held[0][self.held], self.rows.held[2][self.held]]),
        )
        return fit_network(course, seed=seed)

    def with_statistics(self) -> tuple["_Fold", FoldStatistics | None]:
        """The fold with statistics of columns with many labels, where it has any."""
        task, rows, known = self.task, self.rows, ~self.held
        many = many_labels(rows.train[0], task.code.is_label)
        if not len(many) or self.held.all():
            return self, None
        learned = StatisticRows(self.y, task.weight, task.n_labels, many)
        statistics = learned.learn(rows.train[0], known)
        held = [replace(part, view=statistics.widened(part.view)) for part in rows.held]
        return replace(self, rows=_Rows(learned.cross_fitted(rows.train, known), held)), statistics


def fit_response(task: ResponseTask, members: Members, *, seed: int) -> ResponseModel:
    """The model of one column."""
    random = np.random.default_rng(seed)
    rows = _rows_of(task, members, random)
    unit, y = Unit(), task.y
    if task.n_labels is None:
        unit = _chosen_unit(task, rows)
        y = unit.to_unit(task.y)
    held_by = task.held_by
    seeds = [*range(seed, seed + len(task.held)), seed]
    settings = None
    if members.trees and len(y) >= _FEWEST_ROWS_OF_TREES:
        first = _Fold(task, rows, y, held_by[0])
        settings = first.chosen_trees(seed=seed) if members.sized else first.usual_trees
    fits = [
        _fit_fold(_Fold(task, rows, y, is_held), unit, members, settings, seed=own)
        for is_held, own in zip(held_by, seeds, strict=False)
    ]
    if all(fit.products is fit.linear for fit in fits):
        fits = [replace(fit, products=None) for fit in fits]
    folds = tuple(fits[: len(task.held)])
    pools = _pools(task, unit, list(zip(fits, held_by, strict=True)), rows)
    return ResponseModel(
        task.code, task.fill, folds, pools.pool, task.n_labels, unit, pools.gain, pools.later
    )


class _Pools(NamedTuple):
    """Of all rows, and of later ones where it is known which these are; what is gained there."""

    pool: Pool
    gain: Gain | None
    later: LaterPool | None


def _pools(task: ResponseTask, unit: Unit, judged: Sequence[Judged], rows: _Rows) -> _Pools:
    """The pools by what was fitted without each fold's rows, and without the last rows."""
    by_folds, by_last = judged[: len(task.held)], judged[len(task.held) :]
    if task.time not in task.code.columns:
        return _Pools(*_pooled(task, unit, by_last or by_folds, rows, widens=not by_last), None)
    pool, gain = _pooled(task, unit, by_folds, rows, widens=True)
    if not by_last:
        return _Pools(pool, gain, None)
    column = task.code.columns.index(task.time)
    last = float(rows.train[0].for_trees[:, column].max())
    of_later, _ = _pooled(task, unit, by_last, rows, widens=False)
    return _Pools(pool, gain, LaterPool(of_later, column, last))


def _chosen_unit(task: ResponseTask, rows: _Rows) -> Unit:
    """The scale of numbers that the first fold's held rows prefer, clearly if not the first."""
    units = units_of(task.y, task.scales)
    if len(units) == 1 or len(task.y) < FEWEST_ROWS:
        return units[0]
    held, nats = task.held[0], list[float]()
    worth = _WORTH_A_SCALE + 1 / len(task.y)
    y, weight, features = task.y[held], task.weight[held], rows.held[0][held].features
    for unit in units:
        fold = _Fold(task, rows, unit.to_unit(task.y), held)
        head = fold.linear(_head_of(task, unit))
        if units[-1].of_counts:
            own = -np.average(log_masses(head, features, y, unit=unit), weights=weight)
        else:
            own = min(head.validation, _nats_of_ridge(fold, least=unit.least))
            own -= np.average(unit.log_slope(y), weights=weight)
        nats.append(own + (worth if nats else 0.0))
    return units[int(np.argmin(nats))]


def _nats_of_ridge(fold: _Fold, *, least: float) -> float:
    """Of held rows, by plain ridge regression with the spread of rows left out of it."""
    head, held = StudentHead(), fold.held
    ridge = fold.ridge(head)
    spread = max(np.sqrt(ridge.validation / head.variance), least)
    outputs = ridge.outputs(fold.rows.held[0][held].plain)
    nats, _, _ = head.nats(outputs, np.log(np.full(1, spread)), fold.y[held])
    return float(np.average(nats, weights=fold.task.weight[held]))


def _head_of(task: ResponseTask, unit: Unit) -> Head:
    if task.n_labels is not None:
        return SoftmaxHead(task.n_labels)
    return LatentRootHead(unit) if unit.of_counts else StudentHead()


def _fit_fold(
    fold: _Fold, unit: Unit, members: Members, settings: ForestSettings | None, *, seed: int
) -> FoldMembers:
    fold, statistics = fold.with_statistics()
    task, trained = fold.task, fold.trained
    head = _head_of(task, unit)
    linear, ridge = fold.linear(head), fold.ridge(head)
    # A network finds products by itself.
    products = linear if members.network else fold.products(head, linear)
    if isinstance(head, LatentRootHead):
        fold = fold.completed(head, linear)
    ordered = network = trees = trees_masked = None
    if task.n_labels is not None and task.ordered and task.n_labels > 2:
        ordered = fold.linear(OrderedHead(task.n_labels))
    if members.network:
        network = fold.network(linear, seed=seed)
    if settings is not None:
        trees, trees_masked = (fold.trees(settings, n_views=n, seed=seed) for n in (1, _TREE_VIEWS))
    constant, _ = head.start(fold.y[trained], task.weight[trained])
    return FoldMembers(
        constant, ridge, linear, products, ordered, network, trees, trees_masked, statistics
    )


def _pooled(
    task: ResponseTask, unit: Unit, judged: Sequence[Judged], rows: _Rows, *, widens: bool
) -> tuple[Pool, Gain | None]:
    """The pool by rows that members were not fitted to, at each share of missing cells.

    And what network and trees add to it there, if all rows have their cells. `widens`: False for
    later rows, of whose members less is known
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
        pool = pool_labels(log_probs, y, weight, sharpens=widens)
        return pool, added_to_labels(pool, log_probs[0], y, weight, members=members)
    pairs = [[number_outputs(f, v[r]) for f, r in zip(folds, own, strict=True)] for v in rows.held]
    locations = [np.concatenate([own for own, _ in pair], axis=1) for pair in pairs]
    log_scales = [np.concatenate([own for _, own in pair]) for pair in pairs]
    given = locations, log_scales, unit.to_unit(y), weight
    apart = n_apart(members)
    rules: dict[str, Any] = {
        "least": unit.least,
        "n_apart": apart,
        "bins": unit.bins_of(y) if unit.of_counts else None,
    }
    pool = pool_numbers(*given, widens=widens, **rules)
    alone = np.repeat([fold.linear.shared[0] for fold in folds], [len(r) for r in own])
    outputs = NumberOutputs(unit, locations[0], log_scales[0], alone)
    gain = added_to_numbers(pool, outputs, y, weight, members=members)
    return replace(pool, by_gap=_gap_effects(task, unit, pool, judged, rows)), gain


def _gap_effects(
    task: ResponseTask, unit: Unit, pool: Pool, judged: Sequence[Judged], rows: _Rows
) -> Float64[np.ndarray, "shares_between columns"]:
    """How much less sure the pool is where each column is missing, by rows that are held out."""
    y, weight = unit.to_unit(task.y), task.weight
    held = [
        (
            ResponseModel(task.code, task.fill, (fold,), pool, None, unit),
            np.flatnonzero(is_held),
        )
        for fold, is_held in judged
    ]
    index, effects = np.concatenate([own for _, own in held]), []
    # Of rows with all cells or none it does not matter which are missing.
    for part in rows.held[1:-1]:
        location, log_scale = np.hstack([one.numbers_of(part[own]) for one, own in held])
        error = (y[index] - location) * np.exp(-log_scale)
        missing = np.concatenate([part[own].missing for _, own in held])
        effects.append(fit_gap_effects(error, missing, weight[index], df=pool.df))
    return np.stack(effects)
